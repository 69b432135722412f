#include "bridge/node_condition.hpp"

#include <gtest/gtest.h>

#include "bridge/node_facts.hpp"

namespace bascule::bridge {
namespace {

slurm::Node slurm_node(slurm::NodeState base, std::initializer_list<slurm::NodeFlag> flags, std::string reason = {}) {
  slurm::Node node;
  node.states.base = base;
  for (const slurm::NodeFlag flag : flags) node.states.flags |= static_cast<std::uint32_t>(flag);
  node.reason = std::move(reason);
  node.reason_set_by = node.reason.empty() ? "" : "ada";
  return node;
}
kube::Node with(const std::optional<NodeCondition>& condition) {
  static json::Interner interner;
  kube::Node node;
  if (condition) {
    node.conditions.emplace_back(
        interner(kSlurmReady),
        kube::Condition{true, interner(condition->status), interner(condition->reason), interner(condition->message)});
  }
  return node;
}

std::optional<NodeCondition> changed(const kube::Node& node, const slurm::Node& slurm) {
  return changed_condition(node, &slurm);
}

TEST(SlurmReady, ANodeInServiceIsNeverWrittenTo) {
  using slurm::NodeState;
  for (const NodeState base : {NodeState::kIdle, NodeState::kMixed, NodeState::kAllocated, NodeState::kUnknown}) {
    EXPECT_FALSE(changed({}, slurm_node(base, {})));
  }
}

TEST(SlurmReady, SaysWhyAndWhoAndOnce) {
  using slurm::NodeFlag;
  using slurm::NodeState;
  const auto drained = slurm_node(NodeState::kIdle, {NodeFlag::kDrain}, "bad DIMM");
  const auto said = changed({}, drained);
  ASSERT_TRUE(said);
  EXPECT_EQ(said->status, "False");
  EXPECT_EQ(said->reason, "Drained");
  EXPECT_EQ(said->message, "bad DIMM (ada)");
  EXPECT_FALSE(changed(with(said), drained));
  const auto back = changed(with(said), slurm_node(NodeState::kIdle, {}));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->status, "True");
  EXPECT_FALSE(changed(with(back), slurm_node(NodeState::kAllocated, {})));
}

TEST(SlurmReady, ANodeThatHasLeftSlurmIsNotSaidToBeDrainedThere) {
  const auto drained = slurm_node(slurm::NodeState::kIdle, {slurm::NodeFlag::kDrain}, "going");
  const auto gone = changed_condition(with(changed({}, drained)), nullptr);
  ASSERT_TRUE(gone);
  EXPECT_TRUE(gone->status.empty());
  EXPECT_FALSE(changed_condition({}, nullptr));
}

TEST(SlurmReady, TheWorstIsNamed) {
  using slurm::NodeFlag;
  using slurm::NodeState;
  const auto reason = [](slurm::Node node) { return changed({}, node)->reason; };
  EXPECT_EQ(reason(slurm_node(NodeState::kDown, {NodeFlag::kDrain})), "Down");
  EXPECT_EQ(reason(slurm_node(NodeState::kAllocated, {NodeFlag::kDrain})), "Draining");
  const std::string cordoned = cordon_reason("n1");
  EXPECT_EQ(reason(slurm_node(NodeState::kDown, {NodeFlag::kDrain, NodeFlag::kExternal}, cordoned)), "Drained")
      << "put down by the bridge, empty";
  EXPECT_EQ(reason(slurm_node(NodeState::kDown, {NodeFlag::kDrain, NodeFlag::kExternal}, "bad disk")), "Down");
  EXPECT_EQ(reason(slurm_node(NodeState::kDown, {NodeFlag::kDrain}, cordoned)), "Down") << "its slurmd";
  EXPECT_EQ(reason(slurm_node(NodeState::kIdle, {NodeFlag::kDrain, NodeFlag::kCompleting})), "Draining");
  EXPECT_EQ(reason(slurm_node(NodeState::kIdle, {NodeFlag::kNotResponding})), "NotResponding");
  EXPECT_FALSE(changed({}, slurm_node(NodeState::kIdle, {NodeFlag::kDrain, NodeFlag::kUndrain})));
}

}  // namespace
}  // namespace bascule::bridge
