#include "bridge/explain_node.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <ranges>

#include "bridge/names.hpp"
#include "bridge/node_condition.hpp"
#include "bridge/node_facts.hpp"
#include "json/text.hpp"
#include "kube/condition.hpp"

namespace bascule::bridge {

namespace {

constexpr std::size_t kMaxEvents = 10;
constexpr std::size_t kMostSearched = 1'000;

using json::text_at;

// Events that are told of nodes in Slurm alone, and of others alone; the rest of either.
constexpr std::string_view kOfThere[] = {"SlurmRegistering", "SlurmNodeUnmarked", "SlurmTaintWaits"};
constexpr std::string_view kOfAbsent[] = {"SlurmRegistrationWaits", "SlurmNameInvalid"};

// What is to be done about an event of a node that is not in Slurm, or not as it should be.
const std::map<std::string_view, std::string_view> kRemedies{
    {"SlurmRegistering", "A matter of seconds."},
    {"SlurmRegistrationWaits", "See to what the sentence names; the bridge registers the node by itself then."},
    {"SlurmPartitionInvalid",
     "Correct the annotation scheduler.slinky.slurm.net/external-node-partitions of the node."},
    {"SlurmPartitionUnknown",
     "Create the partition in slurm.conf, or correct the annotation "
     "scheduler.slinky.slurm.net/external-node-partitions of the node."},
    {"SlurmTopologyInvalid", "Correct the annotation topology.slinky.slurm.net/spec of the node."},
    {"SlurmNameInvalid", "Give the node a name for Slurm by the label slinky.slurm.net/slurm-nodename."},
    {"SlurmNameClash", "Give each of these nodes its own name by the label slinky.slurm.net/slurm-nodename."},
    {"SlurmNodeForeign",
     "Two clusters share one Slurm: give the node another name there by the label slinky.slurm.net/slurm-nodename."},
    {"SlurmNodeUnmarked", "`scontrol delete nodename=NAME` when that Slurm node should go."},
    {"SlurmTaintWaits",
     "Give the NodeSet the toleration that is named; the taint follows when the pod has been replaced."},
    {"SlurmRefused",
     "Slurm's words name it: MaxNodeCount too small, a partition or a topology that it does not know."}};

struct Stand {
  std::string name, slurm_name;
  bool wanted = false;  // labelled to become an external node
  bool tainted = false, cordoned = false, ready = false;
  std::string status, reason, message;  // of SlurmReady; empty: it has none
  std::optional<kube::PastEvent> last;  // of those above
};

bool has_taint(const json::Value& node) {
  const json::Array* taints = json::array_at(node, {"spec", "taints"});
  return taints != nullptr && std::ranges::any_of(*taints, [](const json::Value& taint) {
           return json::string_at(taint, {"key"}) == names::kManagedNodeTaint;
         });
}

std::optional<kube::PastEvent> last_of(const json::Value& events) {
  const auto all = kube::newest_events(events, kMostSearched);
  for (const kube::PastEvent& event : std::views::reverse(all)) {
    if (kRemedies.contains(event.reason)) return event;
  }
  return std::nullopt;
}

Stand stand_of(const json::Value& node, const json::Value& events) {
  Stand s;
  s.name = text_at(node, {"metadata", "name"});
  s.slurm_name = text_at(node, {"metadata", "labels", names::kSlurmNodeName});
  if (s.slurm_name.empty()) s.slurm_name = s.name;
  s.wanted = json::find(node, {"metadata", "labels", names::kExternalNode}) != nullptr;
  s.tainted = has_taint(node);
  s.cordoned = json::bool_at(node, {"spec", "unschedulable"});
  const json::Array* conditions = json::array_at(node, {"status", "conditions"});
  s.ready = kube::holds(kube::find_condition(conditions, "Ready"));
  if (const json::Value* condition = kube::find_condition(conditions, kSlurmReady)) {
    s.status = text_at(*condition, {"status"});
    s.reason = text_at(*condition, {"reason"});
    s.message = text_at(*condition, {"message"});
  }
  s.last = last_of(events);
  return s;
}

// Of a node that Slurm has taken out.
std::string way_back(const Stand& s) {
  if (s.reason == "Maintenance") return "It comes back when the reservation ends: `scontrol show reservation`.";
  if (s.reason != "Drained" && s.reason != "Draining") {
    return fmt::format("Slurm has given it up: `scontrol show node {}` tells what it knows, then slurmd's log.",
                       s.slurm_name);
  }
  if (is_schedulable_reason(s.message)) {
    return fmt::format(
        "Slurm itself drained it, and the text of the bridge's last word hides why: slurmctld's log has it. Then "
        "`scontrol update nodename={} state=resume`.",
        s.slurm_name);
  }
  if (!s.message.starts_with(names::kReasonMark)) {
    return fmt::format(
        "Whoever drained it resumes it: `scontrol update nodename={} state=resume`. The bridge never does.",
        s.slurm_name);
  }
  if (s.cordoned) return fmt::format("The bridge resumes it after `kubectl uncordon {}`.", s.name);
  if (!s.ready) return "The bridge resumes it when the node is ready again: see to its kubelet.";
  return "The bridge resumes it by itself when what the sentence names is over.";
}

// Of a node without the taint.
void judge_unshared(const Stand& s, Explanation& out) {
  const bool waits = s.last && s.last->reason == "SlurmTaintWaits";
  if (!s.wanted && !waits) {
    out.verdict = "The node is not shared with Slurm.";
    out.next = fmt::format(
        "A node without slurmd is shared by the label {}=true, one with slurmd by being in the bridge's partition.",
        names::kExternalNode);
    return;
  }
  out.verdict = waits ? "Slurm has the node, but it goes without the taint that keeps other pods away"
                      : "The node is to be an external node of Slurm and is none yet";
  out.verdict += s.last ? ": " + s.last->note + "." : ".";
  out.next = s.last ? std::string(kRemedies.at(s.last->reason))
                    : "If this lasts, look at the log of the bridge's controllers.";
}

// Of a node with the taint but without the condition: one that was never out of service has none, nor has one that
// Slurm has lost.
void judge_untold(const Stand& s, Explanation& out) {
  const bool absent = std::ranges::find(kOfAbsent, s.last->reason) != std::end(kOfAbsent);
  out.verdict = absent ? "Slurm does not have the node" : "Slurm does not have the node, or not as it is wanted";
  out.verdict += ", by its last event: " + s.last->note + ".";
  out.next = kRemedies.at(s.last->reason);
  if (!absent) out.next += fmt::format(" `scontrol show node {}` tells how it is now.", s.slurm_name);
}

void judge(const Stand& s, Explanation& out) {
  if (s.status == "False") {
    out.verdict = fmt::format("Slurm starts nothing on the node: {} ({}).", s.message, s.reason);
    out.next = way_back(s);
  } else if (!s.tainted) {
    judge_unshared(s, out);
  } else if (s.cordoned || !s.ready) {
    out.verdict = s.cordoned ? "The node is cordoned" : "The node is not ready";
    out.verdict += ": no pod is bound to it, and the bridge drains it in Slurm.";
    out.next = s.cordoned ? fmt::format("`kubectl uncordon {}` gives it back to Slurm.", s.name)
                          : "It comes back when it is ready again: see to its kubelet.";
  } else if (s.status.empty() && s.last && std::ranges::find(kOfThere, s.last->reason) == std::end(kOfThere)) {
    judge_untold(s, out);
  } else {
    out.verdict = "Slurm may start jobs on the node.";
    out.next = "Nothing to do.";
  }
}

}  // namespace

Explanation explain_node(const json::Value& node, const kube::ReadEvents& events) {
  const Stand s = stand_of(node, events.list);
  Explanation out;
  out.kind = "node";
  out.name = s.name;
  judge(s, out);
  const auto fact = [&out](std::string name, std::string value) {
    if (!value.empty()) out.facts.emplace_back(std::move(name), std::move(value));
  };
  fact("in Slurm", s.slurm_name == s.name ? "" : s.slurm_name);
  fact("label", s.wanted ? std::string(names::kExternalNode) : "");
  fact("taint", s.tainted ? std::string(names::kManagedNodeTaint) : "");
  fact("SlurmReady", s.reason);
  fact("Kubernetes", std::string(s.ready ? "ready" : "not ready") + (s.cordoned ? ", cordoned" : ""));
  fact("partitions", text_at(node, {"metadata", "annotations", names::kExternalNodePartitions}));
  fact("topology", text_at(node, {"metadata", "annotations", names::kTopologySpec}));
  fact("events", events.problem);
  out.events = kube::newest_events(events.list, kMaxEvents);
  return out;
}

}  // namespace bascule::bridge
