// Nodes that a killed slurmctld came back with as allocated, without a job that has them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bridge/node_world_test.hpp"

namespace bascule::bridge {
namespace {

using namespace std::chrono_literals;
using namespace node_world;
using testing::HasSubstr;

slurm::Node stranded(slurm::Node node = registered()) {
  node.states.base = slurm::NodeState::kAllocated;
  node.alloc_cpus = 0;
  return node;
}
slurm::Node down(slurm::Node node) {
  node.states.base = slurm::NodeState::kDown;
  return node;
}

// Slurm gives it to nobody else and deletes it never, and takes no other way to idle than by down.
TEST(NodePlan, AStrandedNodeIsDrainedThenPutDownThenResumed) {
  World w;
  NodePlan plan = w.plan({tainted()}, stranded());
  EXPECT_TRUE(plan.idle()) << "a job may be starting or ending there";
  ASSERT_TRUE(plan.wake);
  EXPECT_EQ(*plan.wake, w.now + kStrandedSettles);
  w.now = *plan.wake;
  plan = w.plan({tainted()}, stranded());
  ASSERT_TRUE(plan.state);
  EXPECT_EQ(plan.state->state, "DRAIN");
  EXPECT_EQ(plan.state->reason, "slurm-bridge: corresponding Kubernetes node (n1) is allocated to no job");
  EXPECT_THAT(plan.say, says("SlurmNodeStranded"));
  slurm::Node node = drained(stranded(), *plan.state->reason);
  w.drain_listed = false;
  EXPECT_TRUE(w.plan({tainted()}, node).idle()) << "what it is allocated to was read before the drain";
  w.drain_listed = true;
  plan = w.plan({tainted()}, node);
  ASSERT_TRUE(plan.state);
  EXPECT_EQ(plan.state->state, "DOWN");
  EXPECT_EQ(plan.state->reason, node.reason);
  plan = w.plan({tainted()}, down(node));
  ASSERT_TRUE(plan.state);
  EXPECT_EQ(plan.state->state, "RESUME");
  EXPECT_TRUE(w.plan({tainted()}, registered()).idle());
}

// What puts it down would end a job.
TEST(NodePlan, ANodeWithAJobIsNotStranded) {
  World w;
  const auto waits = [&w](const slurm::Node& node) {
    for (int i = 0; i < 10; ++i) {
      w.now += 20s;
      if (!w.plan({tainted()}, node).idle()) return false;
    }
    return true;
  };
  slurm::Node node = stranded();
  node.alloc_cpus = 1;
  EXPECT_TRUE(waits(node));
  node = stranded();
  set(node, slurm::NodeFlag::kCompleting, true);
  EXPECT_TRUE(waits(node));
  w.allocated_to = JobId{7};  // suspended
  EXPECT_TRUE(waits(stranded()));
  w.allocated_to.reset();
  w.jobs_known = false;
  EXPECT_TRUE(waits(stranded()));
  w.jobs_known = true;
  node = stranded();
  node.extra = "theirs";
  EXPECT_TRUE(waits(node)) << "not ours";
  w.memory = {};
  EXPECT_TRUE(w.plan({tainted()}, stranded()).idle());
  w.slurm_known = false;
  w.plan({tainted()}, stranded());
  w.now += kStrandedSettles;
  w.slurm_known = true;
  EXPECT_TRUE(w.plan({tainted()}, stranded()).idle()) << "slurmctld has been away: counted anew";
}

TEST(NodePlan, ANodeOfSlurmdIsFreedBySlurmdsNextWord) {
  World w;
  Kube kube = tainted();
  kube.external = false;
  w.plan({kube}, stranded(hybrid()));
  w.now += kStrandedSettles;
  EXPECT_TRUE(w.plan({kube}, stranded(hybrid())).idle());
}

// A job has started there between the look and the drain, or the drain was all that a killed process came to.
TEST(NodePlan, AJobOnTheDrainedNodeGivesItBack) {
  slurm::Node node = drained(stranded(), stranded_reason("n1"));
  node.alloc_cpus = 2;
  const NodePlan plan = World().plan({tainted()}, node);
  ASSERT_TRUE(plan.state);
  EXPECT_EQ(plan.state->state, "UNDRAIN");
}

TEST(NodePlan, AKilledProcessGoesOnWhereItWas) {
  const slurm::Node node = drained(stranded(), stranded_reason("n1"));
  World w;
  NodePlan plan = w.plan({tainted()}, node);
  EXPECT_TRUE(plan.idle()) << "neither put down nor given back before it has lasted";
  w.now = *plan.wake;
  EXPECT_EQ(w.plan({tainted()}, node).state->state, "DOWN");
  EXPECT_EQ(World().plan({tainted()}, down(node)).state->state, "RESUME");
}

// Nobody sees it drained, or it could not be removed, until it is put down.
TEST(NodePlan, AStrandedNodeThatIsOutOfServiceIsPutDownAndStaysOut) {
  World w;
  Kube kube = tainted();
  kube.cordoned = true;
  const slurm::Node node = drained(stranded(), cordon_reason("n1"));
  w.plan({kube}, node);
  w.now += kStrandedSettles;
  NodePlan plan = w.plan({kube}, node);
  ASSERT_TRUE(plan.state);
  EXPECT_EQ(plan.state->state, "DOWN");
  EXPECT_EQ(plan.state->reason, cordon_reason("n1"));
  plan = w.plan({kube}, down(node));
  EXPECT_TRUE(plan.idle());
  EXPECT_THAT(plan.say, testing::Not(says("SlurmNodeDown")));
  kube.cordoned = false;
  EXPECT_EQ(w.plan({kube}, down(node)).state->state, "RESUME");
}

TEST(NodePlan, AStrandedNodeThatLeavesIsPutDownAndRemoved) {
  for (const char* reason : {"slurm-bridge: removing external node n1", "bad disk"}) {
    World w;
    Kube kube = tainted();
    kube.external = false;
    const slurm::Node node = drained(stranded(), reason);
    w.plan({kube}, node);
    w.now += kStrandedSettles;
    const NodePlan plan = w.plan({kube}, node);
    ASSERT_TRUE(plan.state);
    EXPECT_EQ(plan.state->state, "DOWN");
    EXPECT_EQ(plan.state->reason, reason);
    EXPECT_TRUE(w.plan({kube}, down(node)).remove);
  }
}

TEST(NodePlan, AStrandedNodeIsMadeAnewWithAnotherSize) {
  World w;
  Kube kube = tainted();
  kube.cpus = 4;
  slurm::Node node = drained(stranded(), reshape_reason("n1", shape_of(*make(kube)), "10.0.0.1"));
  w.plan({kube}, node);
  w.now += kStrandedSettles;
  EXPECT_EQ(w.plan({kube}, node).state->state, "DOWN");
  const NodePlan plan = w.plan({kube}, down(node));
  EXPECT_TRUE(plan.remove && plan.anew);
}

TEST(NodePlan, AStrandedNodeThatAnAdministratorDrainedIsTheirs) {
  World w;
  const slurm::Node node = drained(stranded(), "bad disk");
  w.plan({tainted()}, node);
  w.now += kStrandedSettles;
  const NodePlan plan = w.plan({tainted()}, node);
  EXPECT_TRUE(plan.idle());
  EXPECT_THAT(plan.say, says("SlurmNodeStranded"));
  EXPECT_THAT(plan.say.back().note, HasSubstr("scontrol update nodename=n1 state=down"));
  EXPECT_TRUE(w.plan({tainted()}, down(node)).idle()) << "nor is what they put down resumed";
}

}  // namespace
}  // namespace bascule::bridge
