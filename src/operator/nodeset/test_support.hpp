// Small NodeSets for tests: everything registered, idle and ready unless a test says otherwise.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "operator/api/names.hpp"
#include "operator/nodeset/identity.hpp"
#include "operator/nodeset/plan.hpp"
#include "operator/nodeset/records.hpp"
#include "operator/nodeset/revisions.hpp"
#include "operator/nodeset/slurm_node.hpp"
#include "slurm/types.hpp"

namespace bascule::op::nodeset {

using namespace std::chrono_literals;

inline const WallTime kNow = std::chrono::sys_days(std::chrono::year(2026) / 11 / 28);

// "IDLE+DRAIN"
inline SlurmNodeView slurm_node(std::string name, std::string_view states, std::string reason = {}) {
  std::vector<std::string_view> words;
  for (std::size_t from = 0; from <= states.size();) {
    const std::size_t to = std::min(states.find('+', from), states.size());
    words.push_back(states.substr(from, to - from));
    from = to + 1;
  }
  SlurmNodeView node;
  node.name = std::move(name);
  node.states = slurm::parse_node_states(words);
  node.reason = std::move(reason);
  return node;
}

inline std::string ours(std::string_view text) {
  return fmt::format("{}{}", names::kReasonPrefix, text);
}

// A NodeSet foo that stands as it should, after plans have been performed until none is left.
struct Fixture {
  State state;
  Memory memory;
  WallTime now = kNow;
  std::string hash = revision_hash("template", 0);

  explicit Fixture(int pods = 3) {
    Spec& spec = state.spec;
    spec.ns = "slurm";
    spec.name = "foo";
    spec.uid = Uid("u");
    spec.replicas = pods;
    spec.has_drain_finalizer = true;
    state.controller = Presence::kPresent;
    state.template_data = "template";
    state.revisions.push_back(
        {.name = revision_name("foo", hash), .hash_label = hash, .revision = 1, .data = "template", .created = kNow});
    state.nodes_known = true;
    state.slurm.known = true;
    state.slurm.as_of = kNow;
    for (int i = 0; i < pods; ++i) add(i);
    rest();
  }

  PodView& add(int ordinal, std::string_view states = "IDLE") {
    PodView pod;
    pod.name = fmt::format("foo-{}", ordinal);
    pod.uid = Uid(fmt::format("uid-{}", ordinal));
    pod.created = pod.ready_since = kNow - 1h;
    pod.hostname = pod.name;
    pod.node = fmt::format("k{}", ordinal);
    pod.phase = PodPhase::kRunning;
    pod.ready = true;
    pod.mode_label = "StatefulSet";
    pod.hash_label = hash;
    pod.name_label = pod.hostname_label = pod.name;
    pod.index_label = std::to_string(ordinal);
    state.nodes[pod.node].name = pod.node;
    state.slurm.nodes[pod.name] = slurm_node(pod.name, states);
    state.slurm.nodes[pod.name].comment = print_record(record_of(state.spec, pod));
    state.pods.push_back(std::move(pod));
    return state.pods.back();
  }
  // DaemonSet mode: a pod on the node.
  PodView& add_daemon(const std::string& node, std::string_view states = "IDLE") {
    state.nodes[node].name = node;
    const CreatePod made = make_daemon(state.spec, state.nodes[node], hash);
    PodView& pod = add(static_cast<int>(state.pods.size()) + 100, states);
    state.slurm.nodes.erase(pod.name);
    state.nodes.erase(pod.node);
    pod.name = made.name;
    pod.generate_name = made.generate_name;
    pod.hostname = made.hostname;
    pod.node = pod.target_node = node;
    pod.mode_label = "DaemonSet";
    pod.name_label = made.name;
    pod.hostname_label = made.hostname;
    pod.index_label.reset();
    SlurmNodeView& slurm = state.slurm.nodes[made.hostname] = slurm_node(made.hostname, states);
    slurm.comment = print_record(record_of(state.spec, pod));
    return pod;
  }

  PodView& pod(std::size_t i) { return state.pods.at(i); }
  SlurmNodeView& node(std::size_t i) { return state.slurm.nodes.at(slurm_name_of(pod(i))); }
  SlurmNodeView& set(std::size_t i, std::string_view states, std::string reason = {}) {
    const std::string comment = node(i).comment;
    SlurmNodeView changed = slurm_node(node(i).name, states, std::move(reason));
    changed.comment = comment;
    return node(i) = changed;
  }
  void set_all_down() {
    for (auto& [name, node] : state.slurm.nodes) {
      const std::string comment = node.comment;
      node = slurm_node(name, "DOWN+DRAIN", ours("pod is terminating"));
      node.comment = comment;
    }
  }
  void outage() {
    state.slurm = {};
    state.slurm.why = "connection refused";
  }
  void template_changes(std::string text = "template 2") { state.template_data = std::move(text); }

  Plan plan() { return plan_nodeset(state, memory, now); }
  // Takes over what the plan writes about pods and the status, so that only the test's matter is left.
  void rest() {
    for (int i = 0; i < 3; ++i) {
      for (const Action& action : plan().actions) {
        if (const auto* status = std::get_if<WriteStatus>(&action.what)) state.status = status->status;
        const auto* conditions = std::get_if<SetPodConditions>(&action.what);
        for (PodView& pod : state.pods) {
          if (conditions != nullptr && conditions->uid == pod.uid) pod.slurm_conditions = conditions->conditions;
        }
      }
    }
  }
};

template <class T>
std::vector<T> all_of(const Plan& plan) {
  std::vector<T> found;
  for (const Action& action : plan.actions) {
    if (const auto* what = std::get_if<T>(&action.what)) found.push_back(*what);
  }
  return found;
}
inline std::vector<std::string> deleted(const Plan& plan) {
  std::vector<std::string> names;
  for (const DeletePod& what : all_of<DeletePod>(plan)) names.push_back(what.name);
  return names;
}
inline std::vector<std::string> created(const Plan& plan) {
  std::vector<std::string> names;
  for (const CreatePod& what : all_of<CreatePod>(plan)) names.push_back(what.name);
  return names;
}
// "foo-1 DRAIN slurm-operator: ..."
inline std::vector<std::string> states_written(const Plan& plan) {
  std::vector<std::string> lines;
  for (const WriteSlurmNode& what : all_of<WriteSlurmNode>(plan)) {
    if (what.state) lines.push_back(fmt::format("{} {} {}", what.node, *what.state, what.reason.value_or("-")));
  }
  return lines;
}
inline std::vector<std::string> drained(const Plan& plan) {
  std::vector<std::string> names;
  for (const WriteSlurmNode& what : all_of<WriteSlurmNode>(plan)) {
    if (what.state == "DRAIN") names.push_back(what.node);
  }
  return names;
}
inline std::vector<std::string> event_reasons(const Plan& plan) {
  std::vector<std::string> reasons;
  for (const Event& event : plan.events) reasons.push_back(event.reason);
  return reasons;
}
// The change of one annotation or label: the value, "-" when taken away, "" when not touched.
inline std::string patched(const Plan& plan, const std::string& pod, std::string_view key) {
  for (const PatchPod& what : all_of<PatchPod>(plan)) {
    if (what.name != pod) continue;
    for (const auto* changes : {&what.labels, &what.annotations}) {
      const auto it = changes->find(std::string(key));
      if (it != changes->end()) return it->second.value_or("-");
    }
  }
  return "";
}
inline std::string text_of(const Plan& plan) {
  std::string text;
  for (const Action& action : plan.actions) text += describe(action) + "\n";
  for (const std::string& wait : plan.waits) text += "waits: " + wait + "\n";
  return text;
}

}  // namespace bascule::op::nodeset
