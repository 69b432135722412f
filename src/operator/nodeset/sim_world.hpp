// A small Kubernetes and a small Slurm around one NodeSet, in simulated time, for randomised tests: pods are scheduled,
// start, register, end and are stopped; jobs come and go; the truth is here, what the operator sees of it is not.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "operator/api/names.hpp"
#include "operator/nodeset/identity.hpp"
#include "operator/nodeset/slurm_node.hpp"

namespace bascule::op::nodeset::sim {

using namespace std::chrono_literals;
using slurm::NodeFlag;
using slurm::NodeState;

inline void flag(SlurmNodeView& node, NodeFlag what, bool on) {
  const auto bit = static_cast<std::uint32_t>(what);
  node.states.flags = on ? node.states.flags | bit : node.states.flags & ~bit;
}

struct Job {
  std::string node;
  Uid pod;  // that it really runs in
  WallTime end{};
  std::optional<WallTime> completing;  // ended, until then
};

struct Pod {
  PodView view;
  std::optional<std::string> only_node;
  bool registered = false;          // its slurmd has
  std::optional<WallTime> stopped;  // processes end
  bool by_operator = false;         // who deleted it
  bool deaf = false;                // its slurmd will not register any more
};

class World final {
 public:
  explicit World(std::uint64_t seed) : random(seed) {
    spec.ns = "slurm";
    spec.name = "foo";
    spec.uid = Uid("nodeset-uid");
    spec.claim_templates = {"data"};
    for (int i = 0; i < 9; ++i) {
      const std::string name = fmt::format("k{}", i);
      nodes[name].name = name;
    }
  }

  bool chance(double p) { return std::uniform_real_distribution<>(0, 1)(random) < p; }
  int pick(int from, int to) { return std::uniform_int_distribution<>(from, to)(random); }
  template <class Map>
  auto any_of(Map& map) {
    auto it = map.begin();
    if (!map.empty()) std::advance(it, pick(0, static_cast<int>(map.size()) - 1));
    return it;
  }

  std::mt19937_64 random;
  WallTime now = std::chrono::sys_days(std::chrono::year(2026) / 11 / 28);
  Spec spec;
  Status status;
  int template_version = 1;
  int own_version = 1;  // of the NodeSet's own labels
  bool nodeset_gone = false;
  bool return_to_service = true;
  bool jobs_flow = true;
  bool refuses = false;  // some registrations
  std::map<std::string, Pod> pods;
  std::map<std::string, NodeView> nodes;
  std::map<std::string, ClaimView> claims;
  std::map<std::string, RevisionView> revisions;
  bool slurm_up = true;
  std::map<std::string, SlurmNodeView> slurm_nodes;
  std::optional<ReservationView> reservation;
  std::vector<Job> jobs;
  std::map<std::string, WallTime> silent_since;  // Slurm nodes without slurmd
  std::map<std::string, std::string> given_up;   // Slurm nodes that Slurm itself put DOWN: their comment then
  std::vector<std::string> violations;
  int killed_by_users = 0, finished = 0, uids = 0;

  std::string template_data() const {
    return fmt::format("{{\"version\":{},\"padding\":{},\"own\":{}}}", template_version, spec.padding, own_version);
  }
  std::string template_hash() const { return fmt::format("{}.{}", template_version, spec.padding); }

  // --- what anybody may do ----------------------------------------------------------------------------------------

  bool create(const CreatePod& what) {
    if (pods.contains(what.name)) return false;
    Pod pod;
    PodView& view = pod.view;
    view.name = what.name;
    view.generate_name = what.generate_name;
    view.uid = Uid(fmt::format("pod-{}", ++uids));
    view.created = now;
    view.hostname = what.hostname;
    view.target_node = what.only_node.value_or("");
    view.claims = what.claims;
    view.phase = PodPhase::kPending;
    const auto label = [&](std::string_view key) -> std::optional<std::string> {
      const auto it = what.labels.find(std::string(key));
      return it == what.labels.end() ? std::nullopt : std::optional(it->second);
    };
    view.mode_label = label(names::kScalingMode);
    view.hash_label = label(names::kRevisionHash);
    view.name_label = label(names::kPodName);
    view.index_label = label(names::kPodIndex);
    view.hostname_label = label(names::kPodHostname);
    pod.only_node = what.only_node;
    pods[what.name] = std::move(pod);
    return true;
  }

  void remove(Pod& pod, bool by_operator) {
    if (pod.view.terminating) return;
    pod.view.terminating = true;
    pod.by_operator = by_operator;
    const bool dead = pod.view.node.empty() || pod.view.terminal();
    pod.stopped = dead ? now : now + std::chrono::seconds(pick(1, 30));
    if (!dead && slurm_up) pre_stop(pod);
  }

  bool runs_job(const Uid& pod) const {
    return std::ranges::any_of(jobs, [&](const Job& job) { return job.pod == pod && !job.completing; });
  }

  // The mirror's view of a node.
  SlurmNodeView look(const SlurmNodeView& truth) const {
    SlurmNodeView view = truth;
    for (const Job& job : jobs) {
      if (job.node != truth.name) continue;
      view.has_jobs = true;
      if (!job.completing) view.deadline = std::max(view.deadline.value_or(WallTime{}), job.end + 60s);
    }
    return view;
  }

  // --- time passes ------------------------------------------------------------------------------------------------

  void pass(Duration time) {
    now += time;
    run_jobs();
    run_pods();
    run_slurm();
    collect_claims();
  }

 private:
  // As the hook in the image does: DOWN, and a reason only where there is none.
  void pre_stop(const Pod& pod) {
    const auto node = slurm_nodes.find(slurm_name_of(pod.view));
    if (node == slurm_nodes.end() || !pod.registered) return;
    node->second.states.base = NodeState::kDown;
    if (node->second.reason.empty()) node->second.reason = fmt::format("{}pod is terminating", names::kReasonPrefix);
    node->second.reason_since = now;
  }

  Pod* pod_of(const std::string& slurm_node) {
    for (auto& [name, pod] : pods) {
      if (pod.registered && slurm_name_of(pod.view) == slurm_node) return &pod;
    }
    return nullptr;
  }

  void run_jobs() {
    std::erase_if(jobs, [&](Job& job) {
      if (!job.completing && now >= job.end) {
        job.completing = now + std::chrono::seconds(pick(0, 5));
        ++finished;
      }
      return job.completing && now >= *job.completing;
    });
    if (!slurm_up || !jobs_flow) return;
    for (auto& [name, node] : slurm_nodes) {
      const bool free = node.states.base == NodeState::kIdle && !node.states.has(NodeFlag::kDrain) &&
                        !node.states.has(NodeFlag::kMaintenance);
      if (!free || !chance(0.15)) continue;
      Pod* pod = pod_of(name);
      if (pod == nullptr || pod->view.phase != PodPhase::kRunning) continue;  // the launch fails
      jobs.push_back({name, pod->view.uid, now + std::chrono::seconds(pick(5, 200)), {}});
    }
  }

  void run_pods() {
    for (auto it = pods.begin(); it != pods.end();) {
      Pod& pod = it->second;
      if (pod.stopped && now >= *pod.stopped) {
        kill_jobs(pod);
        it = pods.erase(it);
        continue;
      }
      if (!pod.view.terminating) advance(pod);
      ++it;
    }
  }

  void kill_jobs(const Pod& pod) {
    std::erase_if(jobs, [&](const Job& job) {
      if (job.pod != pod.view.uid) return false;
      if (!job.completing) ++killed_by_users;
      return true;
    });
  }

  void advance(Pod& pod) {
    PodView& view = pod.view;
    if (view.terminal()) {
      kill_jobs(pod);
      pod.registered = false;
      return;
    }
    if (view.node.empty()) {
      if (chance(0.5)) schedule(pod);
    } else if (view.phase == PodPhase::kPending) {
      if (chance(0.5)) view.phase = PodPhase::kRunning;
    } else if (!pod.registered && !pod.deaf) {
      if (slurm_up && chance(0.6)) enroll(pod);
    } else if (!view.ready && chance(0.6)) {
      view.ready = true;
      view.ready_since = now;
    }
  }

  void schedule(Pod& pod) {
    for (const auto& [name, node] : nodes) {
      if (pod.only_node && *pod.only_node != name) continue;
      if (node.unschedulable || !node.matches || node.untolerated_no_schedule || node.untolerated_no_execute) continue;
      const bool taken = std::ranges::any_of(pods, [&](const auto& other) { return other.second.view.node == name; });
      if (taken) continue;
      for (const auto& [claim_template, claim] : pod.view.claims) {
        const auto has = claims.find(claim);
        if (has == claims.end() || has->second.deleting) return;
      }
      pod.view.node = name;
      return;
    }
  }

  void enroll(Pod& pod) {
    const std::string name = slurm_name_of(pod.view);
    const bool is_new = !slurm_nodes.contains(name);
    SlurmNodeView& node = slurm_nodes[name];
    node.name = name;
    if (is_new) {
      node.states = {};
      node.states.base = NodeState::kIdle;
      node.features = node.active_features = {spec.name};
    }
    flag(node, NodeFlag::kNotResponding, false);
    flag(node, NodeFlag::kInvalidReg, refuses && chance(0.2));
    if (node.states.has(NodeFlag::kInvalidReg)) {
      if (node.states.base != NodeState::kDown) flag(node, NodeFlag::kDrain, true);
      node.reason = "Low RealMemory (reported:1 < 100.00% of configured:2)";
      node.reason_since = now;
      pod.registered = true;
      return;
    }
    if (node.states.base == NodeState::kDown && return_to_service) {
      node.states.base = NodeState::kIdle;
      if (!is_drain(node)) node.reason.clear();
    }
    // As one that was booted after the last word of the slurmd before it.
    if (!is_new && !return_to_service && chance(0.2)) give_up(node, "Node unexpectedly rebooted");
    pod.registered = true;
  }

  void give_up(SlurmNodeView& node, const char* why) {
    node.states.base = NodeState::kDown;
    if (!node.reason.empty() && node.reason != "Not responding") return;
    given_up.insert_or_assign(node.name, node.comment);
    node.reason = why;
    node.reason_since = now;
  }

  void run_reservation() {
    if (reservation && now >= reservation->end) reservation.reset();
    const bool active = reservation && now > reservation->start;
    for (auto& [name, node] : slurm_nodes) {
      const bool held = active && std::ranges::find(reservation->nodes, name) != reservation->nodes.end();
      flag(node, NodeFlag::kMaintenance, held);
      node.reservation = held ? fmt::format("{}{}", names::kReservationPrefix, spec.name) : "";
    }
  }

  void run_slurm() {
    if (!slurm_up) return;
    run_reservation();
    for (auto& [name, node] : slurm_nodes) {
      const bool runs = std::ranges::any_of(jobs, [&](const Job& j) { return j.node == name && !j.completing; });
      const bool completes = std::ranges::any_of(jobs, [&](const Job& j) { return j.node == name && j.completing; });
      flag(node, NodeFlag::kCompleting, completes);
      if (node.states.base != NodeState::kDown) {
        given_up.erase(name);
        node.states.base = runs ? NodeState::kAllocated : NodeState::kIdle;
      }
      if (pod_of(name) != nullptr) {
        silent_since.erase(name);
        continue;
      }
      const WallTime since = silent_since.try_emplace(name, now).first->second;
      if (now - since < 60s) continue;
      flag(node, NodeFlag::kNotResponding, true);
      if (node.states.base != NodeState::kDown) give_up(node, "Not responding");
    }
  }

  void collect_claims() {
    std::erase_if(claims, [&](const auto& entry) {
      const ClaimView& claim = entry.second;
      return !claim.owners.empty() && std::ranges::all_of(claim.owners, [&](const OwnerView& owner) {
        if (owner.kind == OwnerView::Kind::kNodeSet) return nodeset_gone;
        return std::ranges::none_of(pods, [&](const auto& pod) { return pod.second.view.uid == owner.uid; });
      });
    });
  }
};

}  // namespace bascule::op::nodeset::sim
