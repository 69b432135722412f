#include "operator/reconcile/nodes_stand.hpp"

#include "operator/nodeset/slurm_node.hpp"

namespace bascule::op::reconcile {

namespace {

// No job runs there, and none can start.
bool is_free(const nodeset::SlurmNodeView& node) {
  if (nodeset::is_busy(node)) return false;
  const bool away = node.states.base == slurm::NodeState::kDown || node.states.base == slurm::NodeState::kFuture ||
                    node.states.has(slurm::NodeFlag::kNotResponding);
  return away || nodeset::is_clear(node);
}

}  // namespace

bool is_external(const nodeset::SlurmNodeView& node) {
  return node.states.has(slurm::NodeFlag::kExternal);
}

ClusterStand stand_of(const std::optional<NodesNow>& now) {
  ClusterStand stand{.rest = NodesStand::kUnknown};
  if (!now) return stand;
  if (now->whole) stand.rest = NodesStand::kClear;
  for (const nodeset::SlurmNodeView& node : now->nodes) {
    if (is_external(node) || is_free(node)) continue;
    stand.open = true;
    stand.open_features.insert(node.features.begin(), node.features.end());
  }
  stand.busy_partitions = now->partitions;
  return stand;
}

}  // namespace bascule::op::reconcile
