#include "operator/nodeset/status.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "operator/api/names.hpp"
#include "operator/nodeset/identity.hpp"
#include "operator/nodeset/slurm_node.hpp"

namespace bascule::op::nodeset {

namespace {

void count_pods(Pass& pass, Status& status) {
  status.replicas = status.ready = status.available = status.updated = 0;
  for (const PodFacts& facts : pass.pods) {
    const PodView& pod = *facts.pod;
    if (pod.phase == PodPhase::kNone) continue;
    ++status.replicas;
    if (facts.extra) ++pass.plan.extra;
    if (!pod.terminating && pod.hash_label == pass.update_hash) ++status.updated;
    if (!pod.running_and_ready()) continue;
    ++status.ready;
    const WallTime due = pod.ready_since + pass.spec().min_ready;
    if (pass.spec().min_ready == Duration{} || pass.now >= due) {
      ++status.available;
      if (facts.extra) ++pass.plan.extra_available;
    } else {
      pass.plan.wake_at(due);
    }
  }
  status.desired = static_cast<std::int32_t>(pass.desired);
  const bool daemon = pass.spec().mode == ScalingMode::kDaemonSet;
  const std::int32_t wanted = daemon ? status.desired : status.replicas;
  status.unavailable = std::clamp(wanted - status.available, 0, wanted);
}

// A node whose jobs are suspended or completing is IDLE for Slurm; whoever goes by the counts asks for jobs.
void count_slurm(Pass& pass, Status& status) {
  if (!pass.state.slurm.known) return;
  NodeCounts counts;
  std::set<std::string> seen;
  status.slurm_idle = status.slurm_allocated = 0;
  for (const PodFacts& facts : pass.pods) {
    if (facts.node == nullptr || !seen.insert(facts.slurm_name).second) continue;
    count(counts, *facts.node);
    const bool busy = is_busy(*facts.node);
    if (busy) ++status.slurm_allocated;
    if (!busy && facts.node->states.base == slurm::NodeState::kIdle) ++status.slurm_idle;
  }
  status.slurm_down = counts.down;
  status.slurm_drain = counts.drain;
}

// A pinned ordinal stays on its node as long as selector and affinity allow it; taints come and go.
void remember_nodes(Pass& pass, Status& status) {
  if (!pass.spec().pin_to_node || pass.spec().mode != ScalingMode::kStatefulSet) {
    status.ordinal_to_node.clear();
    return;
  }
  if (!pass.state.nodes_known) return;
  const auto fits = [&](const std::string& name) {
    const auto node = pass.state.nodes.find(name);
    return node != pass.state.nodes.end() && node->second.matches;
  };
  std::erase_if(status.ordinal_to_node, [&](const auto& entry) { return !fits(entry.second); });
  for (const PodFacts& facts : pass.pods) {
    const std::int32_t ordinal = ordinal_of(facts.pod->name);
    if (facts.pod->phase != PodPhase::kRunning || ordinal < 0 || !fits(facts.pod->node)) continue;
    status.ordinal_to_node[std::to_string(ordinal)] = facts.pod->node;
  }
}

}  // namespace

Status status_of(Pass& pass, std::optional<std::int32_t> collisions) {
  Status status = pass.state.status;
  count_pods(pass, status);
  count_slurm(pass, status);
  remember_nodes(pass, status);
  status.observed_generation = pass.spec().generation;
  status.hash = pass.update_hash;
  status.collisions = collisions;
  status.selector =
      fmt::format("{}={},{}={}", names::kAppInstance, pass.spec().name, names::kAppName, names::kSlurmd.name);
  return status;
}

std::int32_t asked_for_and_available(const Plan& plan, const Status& status) noexcept {
  return std::max(0, status.available - plan.extra_available);
}

bool is_whole(const Plan& plan, const Status& status) noexcept {
  return status.replicas - plan.extra == status.desired && asked_for_and_available(plan, status) >= status.desired;
}

}  // namespace bascule::op::nodeset
