#include "bridge/node_condition.hpp"

#include <algorithm>

#include "bridge/names.hpp"

namespace bascule::bridge {

namespace {

// Empty: Slurm may start jobs there.
std::string_view why_not(const slurm::Node& node) {
  using slurm::NodeFlag;
  using slurm::NodeState;
  // An external node that the bridge has put down to free it was empty, and is no more than drained.
  const bool freed = node.states.has(NodeFlag::kExternal) && node.states.has(NodeFlag::kDrain) &&
                     node.reason.starts_with(names::kReasonMark);
  if (node.states.base == NodeState::kDown && !freed) return "Down";
  if (node.states.base == NodeState::kError) return "Error";
  if (node.states.has(NodeFlag::kFail)) return "Failing";
  if (node.states.has(NodeFlag::kNotResponding)) return "NotResponding";
  if (node.states.has(NodeFlag::kDrain) && !node.states.has(NodeFlag::kUndrain)) {
    const bool busy = node.states.base == NodeState::kAllocated || node.states.base == NodeState::kMixed ||
                      node.states.has(NodeFlag::kCompleting);
    return busy ? "Draining" : "Drained";
  }
  if (node.states.has(NodeFlag::kMaintenance)) return "Maintenance";
  return {};
}

}  // namespace

std::optional<NodeCondition> changed_condition(const kube::Node& node, const slurm::Node* slurm) {
  const kube::Condition* known = nullptr;
  for (const auto& [type, condition] : node.conditions) {
    if (type == kSlurmReady) known = &condition;
  }
  if (slurm == nullptr) return known == nullptr ? std::nullopt : std::optional<NodeCondition>(std::in_place);
  NodeCondition wanted{"True", "InService", "Slurm starts jobs on this node"};
  if (const std::string_view reason = why_not(*slurm); !reason.empty()) {
    wanted = {"False", std::string(reason), slurm->reason.empty() ? "without a reason" : slurm->reason};
    if (!slurm->reason.empty() && !slurm->reason_set_by.empty()) wanted.message += " (" + slurm->reason_set_by + ")";
  } else if (known == nullptr) {
    return std::nullopt;
  }
  if (known != nullptr && known->status == wanted.status && known->reason == wanted.reason &&
      known->message == wanted.message) {
    return std::nullopt;
  }
  return wanted;
}

}  // namespace bascule::bridge
