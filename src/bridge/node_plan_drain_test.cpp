// node_plan.hpp: drains, ours and others'.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bridge/node_world_test.hpp"

namespace bascule::bridge {
namespace {

using namespace std::chrono_literals;
using namespace node_world;
using testing::IsEmpty;

TEST(NodePlan, CordonDrainsAndUncordonUndrains) {
  Kube kube = tainted();
  kube.cordoned = true;
  const NodePlan drain = World().plan({kube}, registered());
  ASSERT_TRUE(drain.state);
  EXPECT_EQ(drain.state->state, "DRAIN");
  EXPECT_TRUE(World().plan({kube}, drained(registered(), *drain.state->reason)).idle());
  const NodePlan undrain = World().plan({tainted()}, drained(registered(), *drain.state->reason));
  ASSERT_TRUE(undrain.state);
  EXPECT_EQ(undrain.state->state, "UNDRAIN");
}

TEST(NodePlan, HybridNodesAreDrainedAndUndrainedToo) {
  Kube kube = tainted();
  kube.external = false;
  kube.cordoned = true;
  slurm::Node slurmd = hybrid();
  EXPECT_EQ(World().plan({kube}, slurmd).state->state, "DRAIN");
  kube.taint.clear();
  EXPECT_EQ(World().plan({kube}, slurmd).state->state, "DRAIN");
  slurmd.partitions.clear();
  EXPECT_FALSE(World().plan({kube}, slurmd).state) << "not ours to drain";
}

// Slurm has lost the job that holds the node, and slurmd would start another beside the pod, on the same devices.
TEST(NodePlan, AHybridNodeWithAPodOfAnUnknownJobIsDrained) {
  World world;
  Kube kube = tainted();
  kube.external = false;
  world.adrift = NodePod{NodePod::Why::kAdrift, {"ml", "train-0"}, "7"};
  const NodePlan plan = world.plan({kube}, hybrid());
  ASSERT_TRUE(plan.state);
  EXPECT_EQ(plan.state->state, "DRAIN");
  EXPECT_EQ(plan.state->reason,
            "slurm-bridge: corresponding Kubernetes node (n1) has pod ml/train-0 of the unknown job 7 (cluster c1)");
  const slurm::Node held = drained(hybrid(), *plan.state->reason);
  EXPECT_TRUE(world.plan({kube}, held).idle());
  EXPECT_TRUE(world.plan({tainted()}, registered()).idle()) << "an external node takes pods alone";
  Kube cordoned = kube;
  cordoned.cordoned = true;
  EXPECT_EQ(world.plan({cordoned}, hybrid()).state->reason, reason_of_cluster(cordon_reason("n1"), "c1"));
  world.adrift.reset();
  EXPECT_EQ(world.plan({kube}, held).state->state, "UNDRAIN");
}

// Each cluster has a node of that name, and Slurm one: they must not write against each other for ever.
TEST(NodePlan, AHybridNodeThatAnotherClusterDrainsIsTheirs) {
  Kube kube = tainted();
  kube.external = false;
  Kube cordoned = kube;
  cordoned.cordoned = true;
  const NodePlan drain = World().plan({cordoned}, hybrid());
  EXPECT_EQ(drain.state->reason, "slurm-bridge: corresponding Kubernetes node (n1) is unschedulable (cluster c1)");
  EXPECT_TRUE(World().plan({cordoned}, drained(hybrid(), *drain.state->reason)).idle());
  EXPECT_EQ(World().plan({kube}, drained(hybrid(), *drain.state->reason)).state->state, "UNDRAIN");
  const slurm::Node theirs = drained(hybrid(), reason_of_cluster(cordon_reason("n1"), "c2"));
  for (const Kube& side : {kube, cordoned}) {
    const NodePlan plan = World().plan({side}, theirs);
    EXPECT_TRUE(plan.idle());
    EXPECT_THAT(plan.say, says("SlurmNodeDrained"));
  }
  slurm::Node down = theirs;
  down.states.base = slurm::NodeState::kDown;
  EXPECT_TRUE(World().plan({kube}, down).idle());
  // by slurm-bridge, or before the cluster was named
  const slurm::Node old = drained(hybrid(), cordon_reason("n1"));
  EXPECT_EQ(World().plan({kube}, old).state->state, "UNDRAIN");
  EXPECT_EQ(World().plan({cordoned}, old).state->reason, drain.state->reason);
}

// slurmctld writes behind a reason that is there.
TEST(NodePlan, AReasonNamesItsClusterWhateverSlurmWroteBehindIt) {
  const std::string theirs = reason_of_cluster(cordon_reason("n1"), "c2");
  for (const char* more : {"", " : Not responding", " : Epilog error (see log)"}) {
    EXPECT_FALSE(is_our_reason(theirs + more, "c1")) << more;
    EXPECT_TRUE(is_our_reason(theirs + more, "c2")) << more;
    EXPECT_TRUE(is_our_reason(cordon_reason("n1") + more, "c1")) << more;
  }
}

// Slurm may leave the text of the last undrain where it is, and drain the node for its own reasons behind it: an epilog
// that failed, say.
TEST(NodePlan, ADrainWithTheTextOfOurUndrainIsNotOurs) {
  Kube kube = tainted();
  kube.external = false;
  for (const std::string& text : {schedulable_reason("n1"), reason_of_cluster(schedulable_reason("n1"), "c1")}) {
    const NodePlan plan = World().plan({kube}, drained(hybrid(), text));
    EXPECT_TRUE(plan.idle()) << text;
    EXPECT_THAT(plan.say, says("SlurmNodeDrained"));
  }
  EXPECT_TRUE(World().plan({tainted()}, drained(registered(), schedulable_reason("n1"))).idle());
}

// As when the node is given back: cordoned, out of the partition, taint off, uncordoned.
TEST(NodePlan, AHybridNodeThatIsSharedNoMoreIsLeftInService) {
  Kube kube;
  kube.external = false;
  slurm::Node node = drained(hybrid(), reason_of_cluster(cordon_reason("n1"), "c1"));
  node.partitions = {"other"};
  ASSERT_TRUE(World().plan({kube}, node).state);
  EXPECT_EQ(World().plan({kube}, node).state->state, "UNDRAIN");
  Kube cordoned = kube;
  cordoned.cordoned = true;
  EXPECT_TRUE(World().plan({cordoned}, node).idle());
  Kube unready = kube;
  unready.ready = "False";
  EXPECT_TRUE(World().plan({unready}, node).idle());
  World with_pod;
  with_pod.adrift = NodePod{NodePod::Why::kAdrift, {"ml", "train-0"}, "7"};
  EXPECT_TRUE(with_pod.plan({kube}, node).idle());
  slurm::Node down = node;
  down.states.base = slurm::NodeState::kDown;
  EXPECT_EQ(World().plan({kube}, down).state->state, "RESUME");
  // The text of our undrain, left on a busy node: what put it down since is not known.
  down = hybrid();
  down.partitions = {"other"};
  down.states.base = slurm::NodeState::kDown;
  down.reason = reason_of_cluster(schedulable_reason("n1"), "c1");
  EXPECT_TRUE(World().plan({kube}, down).idle());
  // Another bridge of the cluster shares it.
  Kube of_another;
  of_another.external = false;
  of_another.taint = "other-bridge";
  EXPECT_TRUE(World().plan({of_another}, node).idle());
  for (const std::string& theirs : {std::string("bad disk"), cordon_reason("n1"), schedulable_reason("n1"),
                                    reason_of_cluster(cordon_reason("n1"), "c2")}) {
    node.reason = theirs;
    const NodePlan plan = World().plan({kube}, node);
    EXPECT_TRUE(plan.idle()) << theirs;
    EXPECT_THAT(plan.say, IsEmpty()) << theirs;
  }
}

TEST(NodePlan, AnAdministratorsDrainIsTheirs) {
  for (const char* reason : {"bad disk", "", "see slurm-bridge: corresponding Kubernetes node (n1) is schedulable",
                             "slurm-bridge: told me to"}) {
    const NodePlan plan = World().plan({tainted()}, drained(registered(), reason));
    EXPECT_TRUE(plan.idle()) << reason;
    EXPECT_THAT(plan.say, says("SlurmNodeDrained"));
    Kube cordoned = tainted();
    cordoned.cordoned = true;
    EXPECT_TRUE(World().plan({cordoned}, drained(registered(), reason)).idle()) << reason;
  }
}

// A node that somebody else has put down has their reason; a drain of ours would replace it, and starts nothing less.
TEST(NodePlan, ADownNodeIsWhosePutItDown) {
  World world;
  slurm::Node slurm = registered();
  slurm.states.base = slurm::NodeState::kDown;
  slurm.reason = "power supply";
  Kube kube = tainted();
  kube.unreachable = true;
  kube.ready = "Unknown";
  EXPECT_FALSE(world.plan({kube}, slurm).state);
  kube.cordoned = true;
  EXPECT_FALSE(world.plan({kube}, slurm).state);
  slurm.states.base = slurm::NodeState::kIdle;
  EXPECT_TRUE(world.plan({kube}, slurm).state) << "up again: drained for what Kubernetes says";
}

// The reboot of a drained node lasts longer than SlurmdTimeout: Slurm puts it down, keeps our reason, and returns a
// node to service by itself only where nobody gave one. Nobody else would resume it.
TEST(NodePlan, AHybridNodeThatWentDownWhileWeDrainedItIsResumed) {
  World world;
  Kube kube = tainted();
  kube.external = false;
  kube.cordoned = true;
  slurm::Node down = drained(hybrid(), *world.plan({kube}, hybrid()).state->reason);
  down.states.base = slurm::NodeState::kDown;
  EXPECT_TRUE(world.plan({kube}, down).idle());
  kube.cordoned = false;
  ASSERT_TRUE(world.plan({kube}, down).state);
  EXPECT_EQ(world.plan({kube}, down).state->state, "RESUME");
  set(down, slurm::NodeFlag::kNotResponding, true);
  const NodePlan early = world.plan({kube}, down);  // uncordoned before slurmd is back
  ASSERT_TRUE(early.state);
  EXPECT_EQ(early.state->state, "UNDRAIN");
  set(down, slurm::NodeFlag::kDrain, false);
  down.reason = *early.state->reason;
  EXPECT_TRUE(world.plan({kube}, down).idle());
  set(down, slurm::NodeFlag::kNotResponding, false);
  EXPECT_EQ(world.plan({kube}, down).state->state, "RESUME");
  kube.ready = "False";
  EXPECT_FALSE(world.plan({kube}, down).state);
  kube.ready = "True";
  for (const char* theirs : {"bad disk", "Not responding", "slurm-operator: pod is terminating", ""}) {
    down.reason = theirs;
    EXPECT_TRUE(world.plan({kube}, down).idle()) << theirs;
  }
  down.reason = *early.state->reason + " : Not responding";
  EXPECT_EQ(world.plan({kube}, down).state->state, "RESUME");
  down.reason = *early.state->reason + " : Node unexpectedly rebooted";
  EXPECT_TRUE(world.plan({kube}, down).idle()) << "Slurm put it down, long after we gave it back";
  slurm::Node external = registered();
  external.states.base = slurm::NodeState::kDown;
  external.reason = schedulable_reason("n1");
  EXPECT_TRUE(World().plan({tainted()}, external).idle());
}

// A dead kubelet's node is drained and never put down: that would end its jobs at once, on their healthy nodes too, and
// give nodes away under pods that run.
TEST(NodePlan, ADeadNodeIsDrainedNotDown) {
  World world;
  Kube kube = tainted();
  kube.unreachable = true;
  kube.ready = "Unknown";
  slurm::Node slurm = registered();
  slurm.states.base = slurm::NodeState::kAllocated;
  slurm.alloc_cpus = 8;
  const NodePlan plan = world.plan({kube}, slurm);
  ASSERT_TRUE(plan.state);
  EXPECT_EQ(plan.state->state, "DRAIN");
  EXPECT_TRUE(world.plan({kube}, drained(slurm, *plan.state->reason)).idle());
  kube = tainted();
  EXPECT_EQ(world.plan({kube}, drained(slurm, *plan.state->reason)).state->state, "UNDRAIN");
}

TEST(NodePlan, NotReadyNodesAreDrainedAfterAWhile) {
  World world;
  Kube kube = tainted();
  kube.ready = "False";
  NodePlan plan = world.plan({kube}, registered());
  EXPECT_FALSE(plan.state);
  ASSERT_TRUE(plan.wake);
  world.now = *plan.wake;
  plan = world.plan({kube}, registered());
  ASSERT_TRUE(plan.state);
  EXPECT_EQ(plan.state->reason, "slurm-bridge: corresponding Kubernetes node (n1) is not ready");
  const slurm::Node down = drained(registered(), *plan.state->reason);
  EXPECT_TRUE(world.plan({kube}, down).idle());
  EXPECT_EQ(world.plan({tainted()}, down).state->state, "UNDRAIN");
  kube.ready = "Unknown";
  kube.unreachable = true;
  EXPECT_TRUE(World().plan({kube}, registered()).state) << "already given up by Kubernetes";
}

// A new process does not know for how long the node has not been ready.
TEST(NodePlan, NoNodeIsPutBackIntoServiceBeforeItIsReady) {
  Kube kube = tainted();
  kube.ready = "False";
  EXPECT_TRUE(World().plan({kube}, drained(registered(), lost_reason("n1"))).idle());
  for (const std::string& reason :
       {cordon_reason("n1"), reshape_reason("n1", shape_of(*make(kube)), "10.0.0.2"), removal_reason("n1")}) {
    const NodePlan plan = World().plan({kube}, drained(registered(), reason));
    EXPECT_FALSE(plan.state && plan.state->state == "UNDRAIN") << reason;
  }
  kube.ready = "True";
  EXPECT_EQ(World().plan({kube}, drained(registered(), lost_reason("n1"))).state->state, "UNDRAIN");
}

}  // namespace
}  // namespace bascule::bridge
