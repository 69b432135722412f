#include "operator/reconcile/nodes_stand.hpp"

#include <algorithm>

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

NodesStand ClusterStand::of_former(const std::string& name, const std::set<std::string>& wanted) const {
  const auto has = [&](const std::set<std::string>& features) {
    return features.contains(name) &&
           std::ranges::none_of(wanted, [&features](const std::string& other) { return features.contains(other); });
  };
  return std::ranges::any_of(open_features, has) ? NodesStand::kOpen : rest;
}

ClusterStand stand_of(const std::optional<NodesNow>& now) {
  ClusterStand stand{.rest = NodesStand::kUnknown};
  if (!now) return stand;
  if (now->whole) stand.rest = NodesStand::kClear;
  for (const nodeset::SlurmNodeView& node : now->nodes) {
    if (is_external(node) || is_free(node)) continue;
    stand.open = true;
    stand.open_features.emplace(node.features.begin(), node.features.end());
  }
  stand.busy_partitions = now->partitions;
  return stand;
}

}  // namespace bascule::op::reconcile
