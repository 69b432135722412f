// node_plan.hpp: at rest, what is unknown, and how nodes leave.
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

// slurmctld deletes no node of a reservation that is under way.
TEST(NodePlan, AReservedNodeIsRemovedWhenItsReservationIsOver) {
  Kube kube = tainted();
  kube.external = false;
  slurm::Node node = registered();
  set(node, slurm::NodeFlag::kReserved, true);
  EXPECT_EQ(World().plan({kube}, node).state->state, "DRAIN");
  node = drained(node, removal_reason("n1"));
  const NodePlan waits = World().plan({kube}, node);
  EXPECT_TRUE(waits.idle());
  EXPECT_TRUE(waits.wake);
  EXPECT_THAT(waits.say, says("SlurmNodeRemoving"));
  set(node, slurm::NodeFlag::kReserved, false);
  EXPECT_TRUE(World().plan({kube}, node).remove);
}

// slurmctld ends such a job, waiting or running, when it next starts or is reconfigured: one of slurm-bridge requires
// every node there was at its submit.
TEST(NodePlan, ANodeThatAJobRequiresIsRemovedWhenThatIsOver) {
  Kube kube = tainted();
  kube.external = false;
  const slurm::Node node = drained(registered(), removal_reason("n1"));
  World world;
  world.required_by = JobId{7};
  const NodePlan waits = world.plan({kube}, node);
  EXPECT_TRUE(waits.idle());
  EXPECT_TRUE(waits.wake);
  EXPECT_THAT(waits.say, says("SlurmNodeRemoving"));
  EXPECT_TRUE(world.plan({}, node).idle()) << "its Node object is gone";
  world.required_by.reset();
  world.jobs_known = false;
  EXPECT_TRUE(world.plan({kube}, node).idle());
  world.jobs_known = true;
  EXPECT_TRUE(world.plan({kube}, node).remove);
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
