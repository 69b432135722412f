// node_plan.hpp: at rest, what is unknown, drains, and how nodes leave.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bridge/node_world_test.hpp"

namespace bascule::bridge {
namespace {

using namespace std::chrono_literals;
using namespace node_world;
using testing::IsEmpty;

// --- at rest, unknown ------------------------------------------------------------------------------------------------

TEST(NodePlan, AtRestThereIsNothingToDo) {
  const NodePlan plan = World().plan({tainted()}, registered());
  EXPECT_TRUE(plan.idle());
  EXPECT_FALSE(plan.wake);
  EXPECT_THAT(plan.say, IsEmpty());
}

// W49: what is not known changes nothing; the taint stays.
TEST(NodePlan, UnknownCausesNothing) {
  World world;
  world.slurm_known = false;
  EXPECT_TRUE(world.plan({tainted()}, std::nullopt).idle());
  EXPECT_TRUE(world.plan({Kube{}}, std::nullopt).idle());
  world.slurm_known = true;
  world.nodes_known = false;
  EXPECT_TRUE(world.plan({}, registered()).idle());
}

TEST(NodePlan, TaintStaysUntilSlurmHasLackedTheNodeForLong) {
  World world;
  Kube kube = tainted();
  kube.external = false;
  NodePlan plan = world.plan({kube}, std::nullopt);
  EXPECT_FALSE(plan.taint);
  ASSERT_TRUE(plan.wake);
  world.now = *plan.wake - 1s;
  EXPECT_FALSE(world.plan({kube}, std::nullopt).taint);
  world.now += 1s;
  EXPECT_EQ(world.plan({kube}, std::nullopt).taint, false);
  // back in time: the clock starts again
  World other;
  static_cast<void>(other.plan({kube}, std::nullopt));
  static_cast<void>(other.plan({tainted()}, registered()));
  other.now += kAbsentSettles;
  EXPECT_FALSE(other.plan({kube}, std::nullopt).taint);
}

TEST(NodePlan, AnEmptyNodeListFreesNoNode) {
  World world;
  world.has_nodes = false;
  Kube kube = tainted();
  kube.external = false;
  static_cast<void>(world.plan({kube}, std::nullopt));
  world.now += 10min;
  const NodePlan plan = world.plan({kube}, std::nullopt);
  EXPECT_FALSE(plan.taint);
  EXPECT_THAT(plan.say, says("SlurmWithoutNodes"));
  // unless we emptied it
  EXPECT_TRUE(world.plan({kube}, drained(registered(), "x")).remove);
  static_cast<void>(world.plan({kube}, std::nullopt));
  world.now += kAbsentSettles;
  EXPECT_EQ(world.plan({kube}, std::nullopt).taint, false);
}

TEST(NodePlan, TaintOfALabelledNodeStaysWhileItIsNotInSlurm) {
  World world;
  Kube kube = tainted();
  kube.ready = "False";
  static_cast<void>(world.plan({kube}, std::nullopt));
  world.now += 10min;
  EXPECT_FALSE(world.plan({kube}, std::nullopt).taint);
}

TEST(NodePlan, TaintsWhatIsShared) {
  EXPECT_EQ(World().plan({Kube{}}, registered()).taint, true);
  Kube other = tainted();
  other.taint = "old-name";
  EXPECT_EQ(World().plan({other}, registered()).taint, true);
}

// W49: equal names alone do not opt a node in.
TEST(NodePlan, HybridNodesAreSharedThroughThePartition) {
  Kube kube;
  kube.external = false;
  slurm::Node slurmd = hybrid();
  EXPECT_EQ(World().plan({kube}, slurmd).taint, true);
  slurmd.partitions = {"other"};
  EXPECT_TRUE(World().plan({kube}, slurmd).idle());
  World no_partition;
  no_partition.config.partition.clear();
  EXPECT_TRUE(no_partition.plan({kube}, slurmd).idle());
  kube.slurm_name = "n1";
  EXPECT_EQ(no_partition.plan({kube}, slurmd).taint, true);
  EXPECT_EQ(World().plan({kube}, slurmd).taint, true) << "in any partition";
}

TEST(NodePlan, OfSeveralPartitionsAnyCounts) {
  World world;
  world.config.partition = "gpu,bridge";
  Kube kube;
  kube.external = false;
  EXPECT_EQ(world.plan({kube}, hybrid()).taint, true);
  EXPECT_THAT(world.plan({tainted()}, registered()).say, IsEmpty());
  slurm::Node outside = hybrid();
  outside.partitions = {"gpu,bridge", "other"};
  EXPECT_TRUE(world.plan({kube}, outside).idle());
}

// slurm-bridge taints every node that Slurm knows, and pods may name other partitions than the default one.
TEST(NodePlan, ATaintedNodeIsSharedAsLongAsSlurmKnowsIt) {
  World world;
  Kube kube = tainted();
  kube.external = false;
  slurm::Node slurmd = hybrid();
  slurmd.partitions = {"gpu"};
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(world.plan({kube}, slurmd).idle());
    world.now += 2min;
  }
  kube.cordoned = true;
  ASSERT_TRUE(world.plan({kube}, slurmd).state);
  EXPECT_EQ(world.plan({kube}, slurmd).state->state, "DRAIN");
  static_cast<void>(world.plan({kube}, std::nullopt));
  world.now += kAbsentSettles;
  EXPECT_EQ(world.plan({kube}, std::nullopt).taint, false) << "Slurm does not know it any more";
  slurm::Node theirs = registered();
  theirs.extra = print_mark({kSelf.bridge, "c2", ""});
  World other;
  static_cast<void>(other.plan({kube}, theirs));
  other.now += kAbsentSettles;
  EXPECT_EQ(other.plan({kube}, theirs).taint, false) << "another cluster's of that name";
}

// Slurm's own daemons as pods of the same cluster: the taint would evict them, and their jobs would end.
TEST(NodePlan, ATaintNeverEvictsAWorkerOfANodeSet) {
  World world;
  Kube kube;
  kube.external = false;
  world.worker = NodePod{NodePod::Why::kWorker, {"slurm", "gpu-n1"}, "slurm/gpu"};
  NodePlan plan = world.plan({kube}, hybrid());
  EXPECT_TRUE(plan.idle());
  ASSERT_THAT(plan.say, says("SlurmTaintWaits"));
  EXPECT_THAT(plan.say.front().note, testing::HasSubstr("{key: slinky.slurm.net/managed-node, operator: Exists, "));
  Kube other = tainted(kube);
  other.taint = "old-name";
  EXPECT_FALSE(world.plan({other}, hybrid()).taint) << "the pod may tolerate that value";
  EXPECT_TRUE(world.plan({tainted(kube)}, hybrid()).idle()) << "it stands there in spite of it";
  kube.cordoned = true;
  EXPECT_TRUE(world.plan({kube}, hybrid()).state) << "shared all the same";
  EXPECT_EQ(world.plan({Kube{}}, registered()).taint, true) << "an external node needs no slurmd";
  kube.cordoned = false;
  world.worker.reset();
  EXPECT_EQ(world.plan({kube}, hybrid()).taint, true);
}

// A worker has gone and the next one, of the same template, is not there yet.
TEST(NodePlan, AHybridNodeThatIsDownIsNotTaintedBeforeItIsUp) {
  Kube kube;
  kube.external = false;
  slurm::Node down = hybrid();
  down.states.base = slurm::NodeState::kDown;
  EXPECT_TRUE(World().plan({kube}, down).idle());
  EXPECT_TRUE(World().plan({tainted(kube)}, down).idle());
  EXPECT_EQ(World().plan({kube}, hybrid()).taint, true);
}

// --- drain -----------------------------------------------------------------------------------------------------------

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

// --- leaving ---------------------------------------------------------------------------------------------------------

// W39: the removal's drain stands until the node is gone.
TEST(NodePlan, LabelGoneDrainsThenRemoves) {
  Kube kube = tainted();
  kube.external = false;
  slurm::Node busy = registered();
  busy.states.base = slurm::NodeState::kMixed;
  const NodePlan first = World().plan({kube}, busy);
  ASSERT_TRUE(first.state);
  EXPECT_EQ(first.state->reason, "slurm-bridge: removing external node n1");
  EXPECT_FALSE(first.remove);
  busy = drained(busy, *first.state->reason);
  const NodePlan second = World().plan({kube}, busy);
  EXPECT_TRUE(second.idle());
  EXPECT_TRUE(second.wake);
  busy.states.base = slurm::NodeState::kIdle;
  set(busy, slurm::NodeFlag::kCompleting, true);
  EXPECT_FALSE(World().plan({kube}, busy).remove);
  set(busy, slurm::NodeFlag::kCompleting, false);
  EXPECT_TRUE(World().plan({kube}, busy).remove);
  EXPECT_EQ(World().plan({tainted()}, busy).state->state, "UNDRAIN") << "the label came back";
}

TEST(NodePlan, RemovalTakesSlurmBridgesOwnReasonForOurs) {
  Kube kube = tainted();
  kube.external = false;
  slurm::Node busy = drained(registered(), "slurm-bridge: slurm-bridge: removing external node n1");
  busy.states.base = slurm::NodeState::kAllocated;
  EXPECT_TRUE(World().plan({kube}, busy).idle());
}

TEST(NodePlan, NodeGoneFromKubernetesLeavesSlurm) {
  EXPECT_EQ(World().plan({}, registered()).state->state, "DRAIN");
  EXPECT_TRUE(World().plan({}, drained(registered(), "x")).remove);
}

// W40
TEST(NodePlan, NeverRemovesWhatIsNotItsOwn) {
  Kube kube = tainted();
  kube.external = false;
  const auto idle_drained = [](slurm::Node node) { return drained(std::move(node), "x"); };
  slurm::Node slurmd = registered();
  set(slurmd, slurm::NodeFlag::kExternal, false);
  slurm::Node unmarked = registered();
  unmarked.extra.clear();
  slurm::Node foreign = registered();
  foreign.extra = print_mark({kSelf.bridge, "c2", ""});
  for (const slurm::Node& node : {slurmd, unmarked, foreign}) {
    for (const std::vector<Kube>& side : {std::vector<Kube>{}, {kube}}) {
      EXPECT_FALSE(World().plan(side, idle_drained(node)).remove);
    }
  }
  // Sizes that differ make no hybrid node ours to register anew.
  Kube labelled = tainted();
  labelled.cpus = 4;
  const NodePlan plan = World().plan({labelled}, slurmd);
  EXPECT_FALSE(plan.remove || plan.state);
}

// Names repeat between clusters: the other one's node is neither shared nor drained, whatever becomes of ours.
TEST(NodePlan, AnotherClustersNodeOfTheSameNameIsNoneOfOurs) {
  slurm::Node theirs = registered();
  theirs.extra = print_mark({kSelf.bridge, "c2", ""});
  for (const bool labelled : {false, true}) {
    Kube cordoned;
    cordoned.external = labelled;
    cordoned.cordoned = true;
    const NodePlan cordon = World().plan({cordoned}, theirs);
    EXPECT_TRUE(cordon.idle());
    EXPECT_EQ(cordon.say.empty(), !labelled);
    Kube plain;
    plain.external = labelled;
    const NodePlan undrain = World().plan({plain}, drained(theirs, cordon_reason("n1")));
    EXPECT_TRUE(undrain.idle());
    EXPECT_THAT(undrain.say, testing::Not(says("SlurmNodeUnmarked")));
  }
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

// Another name in Slurm is another node there: both at once would give the machine away twice.
TEST(NodePlan, ANodeThatStillLeavesUnderItsOldNameWaits) {
  World world;
  world.leaving = "old";
  const NodePlan waits = world.plan({Kube{}}, std::nullopt);
  EXPECT_TRUE(waits.idle());
  EXPECT_TRUE(waits.wake);
  EXPECT_THAT(waits.say, says("SlurmRegistrationWaits"));
  world.leaving.clear();
  EXPECT_TRUE(world.plan({Kube{}}, std::nullopt).add);
}

TEST(NodePlan, TwoNodesOfOneNameAreLeftAlone) {
  Kube second;
  second.name = "n2";
  second.slurm_name = "n1";
  const NodePlan plan = World().plan({Kube{}, second}, registered());
  EXPECT_TRUE(plan.idle());
  EXPECT_THAT(plan.say, says("SlurmNameClash"));
}

}  // namespace
}  // namespace bascule::bridge
