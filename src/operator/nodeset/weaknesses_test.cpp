// The weaknesses of the original that concern NodeSets, by number; others of them are beside what they are about:
// W1 W2 revisions_test, W13 W14 W15 reservation_test, W20 order_test, W21 W22 identity_test, W38 slurm_node_test,
// W43 records_test.
#include "operator/nodeset/plan.hpp"
#include "operator/nodeset/test_support.hpp"

namespace bascule::op::nodeset {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST(Weaknesses, W3_AUsersCordonSurvivesTheSteadyState) {
  Fixture f(2);
  f.pod(0).cordon = "true";
  f.set(0, "IDLE+DRAIN", ours("pod slurm/foo-0 was cordoned"));
  EXPECT_THAT(states_written(f.plan()), IsEmpty());
  EXPECT_EQ(patched(f.plan(), "foo-0", names::kPodCordon), "");
  f.pod(0).cordon.reset();  // the user takes it back
  EXPECT_THAT(states_written(f.plan()), ElementsAre("foo-0 UNDRAIN "));
}

TEST(Weaknesses, W4_WithoutSlurmNothingIsDeleted) {
  Fixture f(3);
  f.state.spec.replicas = 1;
  f.template_changes();
  f.outage();
  const Plan plan = f.plan();
  EXPECT_THAT(deleted(plan), IsEmpty());
  EXPECT_THAT(plan.waits, Contains(HasSubstr("Slurm is not known: connection refused")));
}

TEST(Weaknesses, W4b_WithoutSlurmTheLastKnownValuesStay) {
  Fixture f(1);
  f.set(0, "ALLOCATED").has_jobs = true;
  f.node(0).deadline = kNow + 1h;
  Plan plan = f.plan();
  EXPECT_EQ(patched(plan, "foo-0", names::kPodProtect), "true");
  EXPECT_EQ(patched(plan, "foo-0", names::kPodDeadline), "2026-11-28T01:00:00Z");
  f.pod(0).protect_label = "true";
  f.pod(0).deadline = "2026-11-28T01:00:00Z";
  f.rest();
  EXPECT_EQ(f.state.status.slurm_allocated, 1);
  f.outage();
  plan = f.plan();
  EXPECT_TRUE(plan.at_rest()) << text_of(plan);
}

struct Daemons : testing::Test {
  Fixture f{0};
  Daemons() {
    f.state.spec.mode = ScalingMode::kDaemonSet;
    for (const char* node : {"k0", "k1", "k2"}) f.add_daemon(node);
    f.rest();
  }
};

TEST_F(Daemons, W5_WithoutTheControllerNoDaemonIsCondemned) {
  for (auto& [name, node] : f.state.nodes) node.matches = false;  // nothing could be worked out
  for (const Presence presence : {Presence::kUnknown, Presence::kGone}) {
    f.state.controller = presence;
    EXPECT_THAT(deleted(f.plan()), IsEmpty());
    EXPECT_THAT(drained(f.plan()), IsEmpty());
  }
}

TEST(Weaknesses, W6_UnregisteredPodsAreReplacedAfterAPauseAndFewAtATime) {
  Fixture f(4);
  f.state.spec.max_unavailable = {1, false};
  f.state.slurm.nodes.clear();  // slurmctld has lost its state
  f.state.slurm.nodes["other"] = slurm_node("other", "IDLE");
  EXPECT_THAT(deleted(f.plan()), IsEmpty());
  f.now += 61s;
  const Plan plan = f.plan();
  EXPECT_THAT(deleted(plan), SizeIs(1));
  EXPECT_THAT(event_reasons(plan), ElementsAre("SlurmNodeNotRegistered"));
  for (const Action& action : plan.actions) remember(f.memory, action, f.now);
  EXPECT_THAT(deleted(f.plan()), IsEmpty()) << "the first one is not back yet";
}

TEST(Weaknesses, W7_DeletingTheNodeSetDoesNotKillJobs) {
  Fixture f(1);
  f.set(0, "ALLOCATED");
  f.state.spec.deleted = kNow;
  EXPECT_THAT(deleted(f.plan()), IsEmpty());
  EXPECT_THAT(drained(f.plan()), ElementsAre("foo-0"));
  EXPECT_THAT(all_of<SetFinalizer>(f.plan()), IsEmpty());
  f.state.controller = Presence::kGone;  // the whole cluster goes
  const auto removed = all_of<SetFinalizer>(f.plan());
  ASSERT_EQ(removed.size(), 1);
  EXPECT_EQ(removed[0].name, names::kDrainFinalizer);
}

TEST(Weaknesses, W8_AFailedDeleteFreezesNothing) {
  Fixture f(4);
  f.state.spec.replicas = 2;
  for (const std::size_t i : {std::size_t{2}, std::size_t{3}}) f.set(i, "IDLE+DRAIN", ours("x"));
  const Plan first = f.plan();
  ASSERT_THAT(deleted(first), SizeIs(2));
  for (const Action& action : first.actions) remember(f.memory, action, f.now);
  EXPECT_THAT(deleted(f.plan()), IsEmpty());
  for (const Action& action : first.actions) forget(f.memory, action);  // refused
  EXPECT_THAT(deleted(f.plan()), SizeIs(2));
}

TEST_F(Daemons, W9_OfTwoOnANodeTheOldestStays) {
  PodView second = f.pod(0);
  second.name = "foo-second";
  second.uid = Uid("second");
  second.name_label = second.name;
  second.created += 1min;
  f.state.pods.push_back(second);
  EXPECT_THAT(drained(f.plan()), ElementsAre("k0")) << "both stand behind one Slurm node";
  f.set(0, "IDLE+DRAIN", ours("pod slurm/foo-second is one too many on its node"));
  const Plan plan = f.plan();
  EXPECT_THAT(states_written(plan), IsEmpty()) << "the one that stays does not take it back meanwhile";
  EXPECT_THAT(deleted(plan), ElementsAre("foo-second"));
}

TEST_F(Daemons, W10_AFailedDaemonIsNotDeletedAgainWithinItsPause) {
  f.pod(0).phase = PodPhase::kFailed;
  ASSERT_THAT(deleted(f.plan()), SizeIs(1));
  f.pod(0).uid = Uid("its successor, failed too");
  EXPECT_THAT(deleted(f.plan()), IsEmpty());
  f.now += 1s;
  EXPECT_THAT(deleted(f.plan()), SizeIs(1));
}

TEST(Weaknesses, W12_TheEarliestWakeCounts) {
  Plan plan;
  plan.wake_at(kNow + 15min);
  plan.wake_at(kNow + 10s);
  plan.wake_at(kNow + 30s);
  EXPECT_EQ(plan.wake, kNow + 10s);
}

TEST(Weaknesses, W16_ScalingDoesNotUndrainWhatAnUpdateDrains) {
  Fixture f(3);
  f.state.spec.max_unavailable = {1, false};
  for (std::size_t i = 0; i < 3; ++i) f.pod(i).hash_label = "old";
  f.set(2, "ALLOCATED+DRAIN", ours("pod slurm/foo-2 waits to be updated")).has_jobs = true;
  f.pod(2).cordon = "true";
  f.pod(2).cordon_cause = "Update";
  f.pod(2).deletion_cost = "-1";
  f.state.spec.replicas = 4;
  const Plan plan = f.plan();
  EXPECT_THAT(created(plan), ElementsAre("foo-3"));
  EXPECT_EQ(patched(plan, "foo-2", names::kPodCordon), "-") << "the missing one uses up the budget";
  f.state.spec.max_unavailable = {2, false};
  EXPECT_THAT(states_written(f.plan()), IsEmpty());
  EXPECT_EQ(patched(f.plan(), "foo-2", names::kPodCordon), "");
}

TEST_F(Daemons, W19_TwoNodesOfOneHostnameAreReported) {
  f.state.nodes["k0.east"].name = "k0.east";
  Plan plan = f.plan();
  EXPECT_THAT(created(plan), IsEmpty());
  EXPECT_THAT(plan.waits, ElementsAre(HasSubstr("nodes k0 and k0.east both have the hostname k0")));
  EXPECT_THAT(deleted(plan), IsEmpty());
  f.state.nodes["k0.east"].hostname_override = "east";
  EXPECT_THAT(created(f.plan()), SizeIs(1));
}

// --- one name, two NodeSets ---

OtherPod other_pod(WallTime created) {
  return {.nodeset = "bar", .pod = "bar-1", .created = created, .uid = Uid("x")};
}

TEST(SharedNames, NoPodIsMadeForANodeOfAnotherNodeSet) {
  Fixture f(3);
  f.state.spec.claim_templates = {"data"};
  f.state.pods.erase(f.state.pods.begin() + 1);
  f.state.others["foo-1"] = other_pod(kNow - 1min);
  const Plan plan = f.plan();
  EXPECT_THAT(created(plan), IsEmpty());
  EXPECT_THAT(all_of<CreateClaim>(plan), IsEmpty());
  EXPECT_THAT(plan.waits, ElementsAre(HasSubstr("pod foo-1 waits: Slurm node foo-1 is pod bar-1 of NodeSet bar")));
  f.state.others.clear();
  EXPECT_THAT(created(f.plan()), ElementsAre("foo-1"));
}

TEST_F(Daemons, NoPodIsMadeForANodeThatAnotherNodeSetHas) {
  f.state.nodes["k3.example.org"].name = "k3.example.org";
  f.state.others["k3"] = other_pod(kNow - 1min);
  EXPECT_THAT(created(f.plan()), IsEmpty());
  EXPECT_THAT(f.plan().waits, ElementsAre(HasSubstr("Slurm node k3 is pod bar-1 of NodeSet bar")));
}

// It holds the name longer: its Slurm node is neither drained nor written to nor taken for this NodeSet's.
TEST(SharedNames, TheNodeOfAnotherNodeSetIsLeftAlone) {
  Fixture f(3);
  f.state.others["foo-1"] = other_pod(f.pod(1).created - 1min);
  f.node(1).comment = "of bar";
  f.node(1).reason = ours("pod slurm/bar-1 waits to be scaled in");
  f.set(1, "MIXED+DRAIN", f.node(1).reason);
  Plan plan = f.plan();
  EXPECT_THAT(plan.waits, Contains(HasSubstr("pod foo-1: Slurm node foo-1 is pod bar-1 of NodeSet bar")));
  EXPECT_THAT(all_of<WriteSlurmNode>(plan), IsEmpty()) << text_of(plan);
  EXPECT_THAT(deleted(plan), IsEmpty());
  f.now += 10min;
  EXPECT_THAT(deleted(f.plan()), IsEmpty()) << "it is not taken for unregistered";

  f.state.spec.replicas = 0;  // its jobs may run here
  plan = f.plan();
  EXPECT_THAT(drained(plan), ElementsAre("foo-0", "foo-2"));
  EXPECT_THAT(deleted(plan), IsEmpty());
  EXPECT_THAT(plan.waits, Contains(HasSubstr("jobs run on Slurm node foo-1")));
  f.set(1, "IDLE");
  plan = f.plan();
  EXPECT_THAT(deleted(plan), ElementsAre("foo-1"));
  EXPECT_THAT(drained(plan), ElementsAre("foo-0", "foo-2"));
}

TEST(SharedNames, ARecordOfOursDoesNotMakeItOurs) {
  Fixture f(1);
  f.state.spec.deleted = kNow;
  f.state.pods.clear();
  EXPECT_THAT(all_of<DeleteSlurmNode>(f.plan()), SizeIs(1));
  f.state.others["foo-0"] = other_pod(kNow);
  EXPECT_THAT(all_of<DeleteSlurmNode>(f.plan()), IsEmpty());
}

TEST(SharedNames, APodThatIsNotBoundGivesWay) {
  Fixture f(2);
  f.state.others["foo-1"] = other_pod(f.pod(1).created - 1min);
  f.pod(1).node.clear();
  f.pod(1).phase = PodPhase::kPending;
  f.pod(1).ready = false;
  EXPECT_THAT(deleted(f.plan()), ElementsAre("foo-1"));
}

TEST(SharedNames, WhoHasItLongerKeepsIt) {
  Fixture f(2);
  f.state.others["foo-1"] = other_pod(f.pod(1).created + 1min);
  EXPECT_TRUE(f.plan().at_rest()) << text_of(f.plan());
  f.state.others["foo-1"] = other_pod(f.pod(1).created);  // uid-1 comes before x
  EXPECT_TRUE(f.plan().at_rest()) << text_of(f.plan());
}

// --- host network ---

TEST_F(Daemons, ANodeWithDotsIsKnownBySlurmByItsFirstLabel) {
  f.state.spec.host_network = true;
  f.add_daemon("node1.example.org").host_network = true;
  f.rest();
  EXPECT_EQ(slurm_name_of(f.state.pods.back()), "node1");
  EXPECT_TRUE(f.plan().at_rest()) << text_of(f.plan());
  f.now += 1h;
  EXPECT_TRUE(f.plan().at_rest()) << text_of(f.plan());
  f.state.spec.prune_records = true;
  EXPECT_THAT(all_of<DeleteSlurmNode>(f.plan()), IsEmpty());
  EXPECT_THAT(deleted(f.plan()), IsEmpty());
}

TEST(Weaknesses, W21_ANewPaddingRollsOut) {
  Fixture f(2);
  f.state.spec.claim_templates = {"data"};
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string claim = fmt::format("data-foo-{}", i);
    f.pod(i).claims["data"] = claim;
    f.state.claims[claim].name = claim;
  }
  f.state.spec.padding = 3;
  f.template_changes("template with padding 3");
  const Plan plan = f.plan();
  EXPECT_THAT(all_of<CreateClaim>(plan), IsEmpty());
  EXPECT_THAT(all_of<PatchClaimOwners>(plan), IsEmpty());
  EXPECT_EQ(patched(plan, "foo-1", names::kPodIndex), "");
  EXPECT_THAT(drained(plan), ElementsAre("foo-1"));
  f.state.pods.pop_back();
  const auto pods = all_of<CreatePod>(f.plan());
  ASSERT_EQ(pods.size(), 1);
  EXPECT_EQ(pods[0].name, "foo-001");
  EXPECT_EQ(pods[0].claims.at("data"), "data-foo-1") << "its data";
}

TEST(Weaknesses, W25_OurOwnOlderReasonIsReplaced) {
  Fixture f(1);
  f.state.nodes["k0"].unschedulable = true;
  f.state.nodes["k0"].cordon_reason = "rack moves";
  f.set(0, "DOWN+DRAIN", ours("pod is terminating"));
  EXPECT_THAT(states_written(f.plan()), ElementsAre("foo-0 DRAIN slurm-operator: rack moves"));
  f.set(0, "IDLE+DRAIN", ours("rack moves"));
  EXPECT_THAT(states_written(f.plan()), IsEmpty());
}

TEST(Weaknesses, W26_NodeCordonIsSaidOnce) {
  Fixture f(1);
  f.state.nodes["k0"].unschedulable = true;
  EXPECT_THAT(event_reasons(f.plan()), ElementsAre("NodeCordon"));
  f.pod(0).cordon = "true";
  f.pod(0).cordon_cause = "Node";
  f.set(0, "IDLE+DRAIN", ours("node k0 of pod slurm/foo-0 was cordoned"));
  f.rest();
  EXPECT_TRUE(f.plan().at_rest()) << text_of(f.plan());
  EXPECT_THAT(f.plan().events, IsEmpty());
}

TEST(Weaknesses, W27_ANewRecordDoesNotMakeANodeIdle) {
  Fixture f(1);
  f.set(0, "DOWN", "bad disk");
  f.node(0).comment = "an older format";
  const Plan plan = f.plan();
  const auto writes = all_of<WriteSlurmNode>(plan);
  ASSERT_EQ(writes.size(), 1);
  EXPECT_TRUE(writes[0].comment && !writes[0].state);
  f.set(0, "DOWN", ours("pod is terminating")).reason_since = f.pod(0).ready_since - 1min;
  EXPECT_THAT(states_written(f.plan()), ElementsAre("foo-0 RESUME "));
}

TEST(Weaknesses, W41_AnOptionalLimitEndsTheWaitForJobs) {
  Fixture f(2);
  f.state.spec.replicas = 1;
  f.pod(1).deletion_cost = "-1";
  f.set(1, "ALLOCATED+DRAIN", ours("pod slurm/foo-1 waits to be scaled in")).reason_since = kNow - 100h;
  EXPECT_THAT(deleted(f.plan()), IsEmpty()) << "nobody asked for a limit";
  f.state.spec.drain_limit = 99h;
  EXPECT_THAT(deleted(f.plan()), ElementsAre("foo-1"));
  f.outage();
  EXPECT_THAT(deleted(f.plan()), IsEmpty());
}

TEST(Weaknesses, W44_ATerminatingPodDoesNotMakeAnotherOneGo) {
  Fixture f(3);
  f.state.spec.replicas = 2;
  f.pod(0).terminating = true;  // sorts later than the others
  const Plan plan = f.plan();
  EXPECT_THAT(drained(plan), IsEmpty());
  EXPECT_THAT(deleted(plan), IsEmpty());
}

TEST(Weaknesses, W45_WhatSlurmRefusesIsAnActionOfItsOwn) {
  Fixture f(2);
  f.template_changes();
  f.state.nodes["k1"].topology = "no such topology";
  const Plan plan = f.plan();
  EXPECT_THAT(drained(plan), ElementsAre("foo-1")) << "the update goes on";
  for (const WriteSlurmNode& write : all_of<WriteSlurmNode>(plan)) EXPECT_FALSE(write.state && write.topology);
}

TEST(Weaknesses, W47_UncordoningANodeUndrainsUnderEveryStrategy) {
  for (const UpdateType update : {UpdateType::kRollingUpdate, UpdateType::kOnDelete, UpdateType::kScheduledUpdate}) {
    Fixture f(1);
    f.state.spec.update = update;
    f.pod(0).cordon = "true";
    f.pod(0).cordon_cause = "Node";
    f.set(0, "IDLE+DRAIN", ours("node k0 of pod slurm/foo-0 was cordoned"));
    const Plan plan = f.plan();
    EXPECT_THAT(states_written(plan), ElementsAre("foo-0 UNDRAIN "));
    EXPECT_EQ(patched(plan, "foo-0", names::kPodCordon), "-");
    EXPECT_EQ(patched(plan, "foo-0", names::kPodCordonCause), "-");
  }
}

// It was cordoned, then deleted, and is switched off next; its pod runs for a minute more.
TEST(Weaknesses, ANodeThatIsGoneUndrainsNothing) {
  Fixture f(1);
  f.pod(0).cordon = "true";
  f.pod(0).cordon_cause = "Node";
  f.set(0, "IDLE+DRAIN", ours("node k0 of pod slurm/foo-0 was cordoned"));
  f.state.nodes.erase("k0");
  const Plan plan = f.plan();
  EXPECT_THAT(states_written(plan), IsEmpty());
  EXPECT_EQ(patched(plan, "foo-0", names::kPodCordon), "");
  EXPECT_THAT(plan.waits, testing::Contains("pod foo-0: its node k0 is gone, or not seen yet"));
}

TEST(Weaknesses, W18_CordonedNodesDoNotLeaveDesiredWhenTheirTaintIsTolerated) {
  Fixture f(0);
  f.state.spec.mode = ScalingMode::kDaemonSet;
  f.add_daemon("k0");
  f.state.nodes["k0"].unschedulable = true;  // the driver leaves out the taints of kDaemonTolerations
  f.pod(0).cordon = "true";
  f.pod(0).cordon_cause = "Node";
  f.set(0, "IDLE+DRAIN", ours(fmt::format("node k0 of pod slurm/{} was cordoned", f.pod(0).name)));
  f.rest();
  EXPECT_EQ(f.state.status.desired, 1);
  EXPECT_TRUE(f.plan().at_rest()) << text_of(f.plan());
}

}  // namespace
}  // namespace bascule::op::nodeset
