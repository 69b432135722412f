// Scaling in and out, ended pods, cordons and the end of a NodeSet, through the whole plan.
#include "operator/nodeset/plan.hpp"

#include "operator/nodeset/pod_plan.hpp"
#include "operator/nodeset/test_support.hpp"

namespace bascule::op::nodeset {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

TEST(Plan, NothingAtRest) {
  Fixture f;
  const Plan plan = f.plan();
  EXPECT_TRUE(plan.at_rest()) << text_of(plan);
  EXPECT_THAT(plan.events, IsEmpty());
  EXPECT_THAT(plan.waits, IsEmpty());
}

// slurmd was started anew and found a GPU less: its job goes on.
TEST(Plan, ABusyWorkerThatSlurmRefusesIsNotScaledInBeforeAnIdleOne) {
  Fixture f;
  f.set(0, "ALLOCATED+DRAIN+INVALID_REG", "gres/gpu count reported lower than configured (7 < 8)");
  f.plan();
  f.state.spec.replicas = 2;
  const std::string text = text_of(f.plan());
  EXPECT_THAT(text, HasSubstr("Slurm node foo-2: state=DRAIN"));
  EXPECT_THAT(text, testing::Not(HasSubstr("pod slurm/foo-0 waits")));
}

// Whoever goes by the counts, as the webhook, must not wait for jobs of a Slurm that is gone.
TEST(Plan, WithoutItsControllerNoJobsAreCounted) {
  Fixture f;
  f.set(0, "ALLOCATED", "");
  f.state.status = all_of<WriteStatus>(f.plan()).at(0).status;
  ASSERT_EQ(f.state.status.slurm_allocated, 1);
  f.state.controller = Presence::kGone;
  f.state.slurm = {};
  EXPECT_EQ(all_of<WriteStatus>(f.plan()).at(0).status.slurm_allocated, 0);
}

// Slurm calls a node whose jobs are suspended IDLE.
TEST(Plan, EveryNodeWithJobsCountsAsAllocated) {
  Fixture f(4);
  f.set(0, "IDLE").has_jobs = true;
  f.set(1, "IDLE+COMPLETING");
  f.set(2, "MIXED");
  const Status status = all_of<WriteStatus>(f.plan()).at(0).status;
  EXPECT_EQ(status.slurm_allocated, 3);
  EXPECT_EQ(status.slurm_idle, 1);
}

TEST(Plan, ScalesOutToTheLowestFreeOrdinals) {
  Fixture f(0);
  f.state.spec.replicas = 2;
  EXPECT_THAT(created(f.plan()), ElementsAre("foo-0", "foo-1"));
  EXPECT_THAT(event_reasons(f.plan()), ElementsAre("ScalingUp"));
  f.add(1);
  EXPECT_THAT(created(f.plan()), ElementsAre("foo-0"));
  f.state.spec.replicas = 600;
  EXPECT_EQ(created(f.plan()).size(), 250);
}

TEST(Plan, ACreateThatWasSentIsNotRepeatedBeforeItIsSeen) {
  Fixture f(0);
  f.state.spec.replicas = 2;
  for (const Action& action : f.plan().actions) remember(f.memory, action, f.now);
  EXPECT_THAT(created(f.plan()), IsEmpty());
  f.now += 31s;  // lost, or refused without a word: the name is fixed, so it may be tried again
  EXPECT_THAT(created(f.plan()), ElementsAre("foo-0", "foo-1"));
}

TEST(Plan, TerminatingPodsHoldTheirOrdinal) {
  Fixture f(3);
  f.pod(1).terminating = true;
  EXPECT_THAT(created(f.plan()), IsEmpty());
  f.state.pods.erase(f.state.pods.begin() + 1);
  EXPECT_THAT(created(f.plan()), ElementsAre("foo-1"));
}

TEST(Plan, MissingClaimsAreMadeFirst) {
  Fixture f(0);
  f.state.spec.replicas = 1;
  f.state.spec.claim_templates = {"data"};
  const Plan plan = f.plan();
  ASSERT_GE(plan.actions.size(), 2);
  EXPECT_EQ(describe(plan.actions[0]), "create claim data-foo-0: pod foo-0 needs it");
  EXPECT_THAT(created(plan), ElementsAre("foo-0"));
  f.state.claims["data-foo-0"] = {.name = "data-foo-0", .deleting = true, .owners = {}};
  EXPECT_THAT(created(f.plan()), IsEmpty());
  EXPECT_THAT(f.plan().waits, Contains(HasSubstr("claim data-foo-0 is being deleted")));
}

TEST(Plan, ThePinIsUsedWhenTheNodeStillFits) {
  Fixture f(0);
  f.state.spec.replicas = 1;
  f.state.spec.pin_to_node = true;
  f.state.status.ordinal_to_node["0"] = "k7";
  f.state.nodes["k7"].name = "k7";
  f.state.nodes["k7"].untolerated_no_schedule = true;  // W11: cordoned, and still its node
  EXPECT_EQ(all_of<CreatePod>(f.plan()).at(0).pin_node, "k7");
  f.state.nodes["k7"].matches = false;
  EXPECT_FALSE(all_of<CreatePod>(f.plan()).at(0).pin_node);
}

// --- scale in -------------------------------------------------------------------------------------------------------

struct CondemnRow {
  std::string_view states;
  std::string_view reason;
  bool has_jobs = false;
  bool deleted = false;
  bool drained = false;
};

TEST(Plan, ScaleInTable) {
  const CondemnRow rows[] = {
      {.states = "IDLE", .reason = "", .drained = true},
      {.states = "IDLE+DRAIN", .reason = "slurm-operator: x", .deleted = true},
      {.states = "IDLE+DRAIN", .reason = "bad disk", .deleted = true},
      {.states = "ALLOCATED", .reason = "", .drained = true},
      {.states = "ALLOCATED+DRAIN", .reason = "bad disk"},
      {.states = "IDLE+DRAIN+COMPLETING", .reason = "bad disk"},
      {.states = "IDLE+DRAIN", .reason = "bad disk", .has_jobs = true},
      {.states = "DOWN", .reason = "Not responding", .drained = true},
      {.states = "UNKNOWN+DRAIN", .reason = "bad disk"},
      // Heard of, and refused: it is asked no more.
      {.states = "UNKNOWN+DRAIN+INVALID_REG", .reason = "gres/gpu count reported lower", .deleted = true},
      {.states = "UNKNOWN+DRAIN+INVALID_REG", .reason = "gres/gpu count reported lower", .has_jobs = true},
  };
  for (const CondemnRow& row : rows) {
    Fixture f(2);
    f.state.spec.replicas = 1;
    f.pod(1).deletion_cost = "-1";
    f.set(1, row.states, std::string(row.reason)).has_jobs = row.has_jobs;
    const Plan plan = f.plan();
    EXPECT_EQ(!deleted(plan).empty(), row.deleted) << row.states << row.reason << "\n" << text_of(plan);
    EXPECT_EQ(!drained(plan).empty(), row.drained) << row.states << row.reason << "\n" << text_of(plan);
    EXPECT_EQ(patched(plan, "foo-1", names::kPodCordonCause), row.deleted ? "" : "ScaleIn") << row.states;
    if (!row.deleted) EXPECT_TRUE(plan.wake && *plan.wake <= kNow + 30s);
  }
}

TEST(Plan, ScaleInTakesFirstWhatSlurmHasDown) {
  Fixture f(3);
  f.state.spec.replicas = 2;
  f.set(0, "DOWN", "Not responding");
  EXPECT_THAT(drained(f.plan()), ElementsAre("foo-0"));
}

TEST(Plan, ScaleInOfWhatSlurmDoesNotKnow) {
  Fixture f(2);
  f.state.spec.replicas = 1;
  f.state.slurm.nodes.erase("foo-1");
  EXPECT_THAT(deleted(f.plan()), IsEmpty()) << "it may be about to register";
  f.now += 61s;
  const Plan plan = f.plan();
  ASSERT_THAT(deleted(plan), ElementsAre("foo-1"));
  EXPECT_EQ(all_of<DeletePod>(plan)[0].before, Before::kSlurmIsClear);
  // A pod that never ran has no slurmd.
  Fixture g(2);
  g.state.spec.replicas = 1;
  g.state.slurm.nodes.erase("foo-1");
  g.pod(1).node.clear();
  g.pod(1).phase = PodPhase::kPending;
  g.pod(1).ready = false;
  ASSERT_THAT(deleted(g.plan()), ElementsAre("foo-1"));
  EXPECT_EQ(all_of<DeletePod>(g.plan())[0].before, Before::kUnbound);
}

TEST(Plan, TheMostDeletableIsChosenAnewAndTheOthersAreGivenBack) {
  Fixture f(3);
  f.state.spec.replicas = 2;
  for (std::size_t i = 0; i < 3; ++i) {
    f.set(i, "ALLOCATED").has_jobs = true;
    f.node(i).deadline = kNow + 1h - std::chrono::minutes(i);
  }
  EXPECT_THAT(drained(f.plan()), ElementsAre("foo-2"));
  f.set(2, "ALLOCATED+DRAIN", ours("pod slurm/foo-2 waits to be scaled in")).has_jobs = true;
  f.node(2).deadline = kNow + 58min;
  f.pod(2).cordon = "true";
  f.pod(2).cordon_cause = "ScaleIn";
  EXPECT_THAT(states_written(f.plan()), IsEmpty());
  f.set(0, "IDLE");  // its job has ended
  const Plan plan = f.plan();
  EXPECT_THAT(
      states_written(plan),
      UnorderedElementsAre("foo-0 DRAIN slurm-operator: pod slurm/foo-0 waits to be scaled in", "foo-2 UNDRAIN "));
  EXPECT_EQ(patched(plan, "foo-2", names::kPodCordon), "-");
}

TEST(Plan, ClaimsChangeOwnersBeforeTheirPodGoes) {
  Fixture f(2);
  f.state.spec.replicas = 1;
  f.state.spec.claim_templates = {"data"};
  f.state.spec.when_scaled = Retention::kDelete;
  for (std::size_t i = 0; i < 2; ++i) {
    f.pod(i).claims["data"] = fmt::format("data-foo-{}", i);
    f.state.claims[f.pod(i).claims["data"]].name = f.pod(i).claims["data"];
  }
  f.set(1, "IDLE+DRAIN", ours("pod slurm/foo-1 waits to be scaled in"));
  const Plan plan = f.plan();
  EXPECT_THAT(deleted(plan), IsEmpty());
  const auto patches = all_of<PatchClaimOwners>(plan);
  ASSERT_EQ(patches.size(), 1);
  EXPECT_EQ(patches[0].pod_owner, Uid("uid-1"));
  f.state.claims["data-foo-1"].owners = {{OwnerView::Kind::kPod, "foo-1", Uid("uid-1"), true}};
  EXPECT_THAT(deleted(f.plan()), ElementsAre("foo-1"));
}

TEST(Plan, TheDrainLimitOfTheUserEndsTheWait) {
  Fixture f(2);
  f.state.spec.replicas = 1;
  f.state.spec.drain_limit = 2h;
  f.pod(1).deletion_cost = "-1";
  f.set(1, "ALLOCATED+DRAIN", ours("pod slurm/foo-1 waits to be scaled in")).reason_since = kNow - 1h;
  EXPECT_THAT(deleted(f.plan()), IsEmpty());
  f.now += 1h;
  f.state.slurm.as_of = f.now;
  const Plan plan = f.plan();
  ASSERT_THAT(deleted(plan), ElementsAre("foo-1"));
  EXPECT_EQ(all_of<DeletePod>(plan)[0].before, Before::kNothing);
  EXPECT_THAT(text_of(plan), HasSubstr("the limit for draining of 2h0m0s is over"));
}

// Somebody else's drain holds no job back either; when it began for this is known here alone.
TEST(Plan, TheDrainLimitCountsWhereSomebodyElseHasDrained) {
  Fixture f(2);
  f.state.spec.replicas = 1;
  f.state.spec.drain_limit = 2h;
  f.pod(1).deletion_cost = "-1";
  f.set(1, "ALLOCATED+DRAIN", "bad disk").reason_since = kNow - 100h;
  EXPECT_THAT(deleted(f.plan()), IsEmpty());
  f.now += 2h - 1s;
  EXPECT_THAT(deleted(f.plan()), IsEmpty());
  EXPECT_LE(f.plan().wake, f.now + 1s);
  f.now += 1s;
  ASSERT_THAT(deleted(f.plan()), ElementsAre("foo-1"));
  EXPECT_EQ(all_of<DeletePod>(f.plan())[0].before, Before::kNothing);
  f.state.spec.replicas = 2;
  f.plan();
  f.state.spec.replicas = 1;
  EXPECT_THAT(deleted(f.plan()), IsEmpty()) << "it was wanted meanwhile";
}

TEST(Plan, APodThatAnotherClusterLeftIsNotAdopted) {
  Fixture f(1);
  f.state.spec.controller = "b";
  f.pod(0).owner = Owner::kNone;
  f.pod(0).cluster = "a";
  const Plan plan = f.plan();
  EXPECT_THAT(all_of<AdoptPod>(plan), IsEmpty());
  EXPECT_THAT(plan.waits, Contains("pod foo-0 belongs to nobody and is Controller a's, not b's: it is left as it is"));
}

// --- pods that have ended -------------------------------------------------------------------------------------------

TEST(Plan, EndedPodsAreReplacedWithPauses) {
  Fixture f(2);
  f.pod(0).phase = PodPhase::kFailed;
  f.pod(0).ready = false;
  ASSERT_THAT(deleted(f.plan()), ElementsAre("foo-0"));
  f.pod(0).uid = Uid("the next one");
  EXPECT_THAT(deleted(f.plan()), IsEmpty());
  EXPECT_EQ(f.plan().wake, kNow + 1s);
  f.now += 1s;
  EXPECT_THAT(deleted(f.plan()), ElementsAre("foo-0"));
  f.pod(0).uid = Uid("and the next");
  f.now += 1s;
  EXPECT_THAT(deleted(f.plan()), IsEmpty()) << "the pause doubles";
  f.pod(0).terminating = true;
  f.now += 1h;
  EXPECT_THAT(deleted(f.plan()), IsEmpty());
}

// --- cordons --------------------------------------------------------------------------------------------------------

TEST(Plan, CordonTable) {
  struct Row {
    const char* name;
    bool node_cordoned, pod_cordoned;
    std::string_view states, reason;
    std::string written;  // state and reason
    std::string cause;
  };
  const Row rows[] = {
      {"node", true, false, "IDLE", "", "DRAIN slurm-operator: node k0 of pod slurm/foo-0 was cordoned", "Node"},
      {"node, busy", true, false, "MIXED", "", "DRAIN slurm-operator: node k0 of pod slurm/foo-0 was cordoned", "Node"},
      {"pod", false, true, "IDLE", "", "DRAIN slurm-operator: pod slurm/foo-0 was cordoned", ""},
      {"neither", false, false, "IDLE+DRAIN", "slurm-operator: x", "UNDRAIN ", ""},
      {"neither, drained without reason", false, false, "IDLE+DRAIN", "", "", ""},
      {"neither, drained by others", false, false, "IDLE+DRAIN", "bad disk", "", ""},
      {"node, drained by others", true, false, "IDLE+DRAIN", "bad disk", "", ""},
      {"node, downed by others", true, false, "DOWN", "bad disk", "", ""},
      {"pod, drained by others", false, true, "IDLE+DRAIN", "bad disk", "", ""},
      {"node, unresponsive", true, false, "DOWN", "Not responding to ping", "", ""},
      {"neither, unresponsive", false, false, "DOWN+DRAIN+NOT_RESPONDING", "slurm-operator: x", "", ""},
  };
  for (const Row& row : rows) {
    Fixture f(1);
    f.state.nodes["k0"].unschedulable = row.node_cordoned;
    if (row.pod_cordoned) f.pod(0).cordon = "true";
    f.set(0, row.states, std::string(row.reason));
    const Plan plan = f.plan();
    const std::vector<std::string> wanted =
        row.written.empty() ? std::vector<std::string>{} : std::vector<std::string>{"foo-0 " + row.written};
    EXPECT_EQ(states_written(plan), wanted) << row.name;
    EXPECT_EQ(patched(plan, "foo-0", names::kPodCordonCause), row.cause) << row.name;
    EXPECT_THAT(deleted(plan), IsEmpty()) << row.name;
  }
}

TEST(Plan, ReasonsOfACordonedNode) {
  Spec spec;
  spec.ns = "slurm";
  spec.propagated_conditions = {"DiskPressure", "PIDPressure"};
  NodeView node;
  node.name = "k0";
  EXPECT_EQ(cordon_reason(spec, node, "foo-0"), "node k0 of pod slurm/foo-0 was cordoned");
  node.conditions = {{"MemoryPressure", "A", "a", true}, {"DiskPressure", "B", "b", false}};
  EXPECT_EQ(cordon_reason(spec, node, "foo-0"), "node k0 of pod slurm/foo-0 was cordoned");
  node.conditions = {{"PIDPressure", "P", "too many", true}, {"DiskPressure", "D", "full", true}};
  EXPECT_EQ(cordon_reason(spec, node, "foo-0"), "(D: full); (P: too many)");
  node.cordon_reason = "rack\nmoves";
  EXPECT_EQ(cordon_reason(spec, node, "foo-0"), "rack moves");
  node.cordon_reason = "";
  EXPECT_EQ(cordon_reason(spec, node, "foo-0"), "unknown");
}

// --- the end --------------------------------------------------------------------------------------------------------

TEST(Plan, ADeletedNodeSetDrainsFirst) {
  Fixture f(2);
  f.set(1, "ALLOCATED");
  f.state.spec.deleted = kNow;
  Plan plan = f.plan();
  EXPECT_THAT(drained(plan), ElementsAre("foo-0", "foo-1"));
  EXPECT_THAT(all_of<SetFinalizer>(plan), IsEmpty());
  f.state.pods.clear();
  f.set_all_down();
  plan = f.plan();
  EXPECT_EQ(all_of<DeleteSlurmNode>(plan).size(), 2);
  EXPECT_THAT(all_of<SetFinalizer>(plan), IsEmpty());
  f.state.slurm.nodes.clear();
  plan = f.plan();
  ASSERT_EQ(all_of<SetFinalizer>(plan).size(), 1);
  EXPECT_FALSE(all_of<SetFinalizer>(plan)[0].present);
}

// To be made anew with another field that cannot be changed, and no job the worse for it.
TEST(Plan, ANodeSetDeletedWithoutItsPodsLeavesThemAlone) {
  Fixture f(2);
  f.state.spec.deleted = f.now;
  f.state.spec.orphans = true;
  f.state.spec.prune_records = true;
  f.state.slurm.nodes["foo-7"] = slurm_node("foo-7", "DOWN+NOT_RESPONDING");
  f.state.slurm.nodes["foo-7"].comment = print_record({"slurm", "foo-7", "k7", "foo", "u"});
  Plan plan = f.plan();
  ASSERT_EQ(plan.actions.size(), 2U) << text_of(plan);
  EXPECT_FALSE(all_of<SetFinalizer>(plan).at(0).present);
  f.state.status = all_of<WriteStatus>(plan).at(0).status;
  // The garbage collector has done its part before the finalizer of ours was taken.
  f.state.spec.orphans = false;
  plan = f.plan();
  EXPECT_EQ(plan.actions.size(), 1U) << text_of(plan);
  // Another of that name.
  f.state.spec.deleted.reset();
  f.plan();
  f.state.spec.deleted = f.now;
  EXPECT_THAT(drained(f.plan()), ElementsAre("foo-0", "foo-1"));
}

TEST(Plan, TheFinalizerComesBeforeThePods) {
  Fixture f(0);
  f.state.spec.replicas = 1;
  f.state.spec.has_drain_finalizer = false;
  const Plan plan = f.plan();
  EXPECT_TRUE(std::holds_alternative<SetFinalizer>(plan.actions.at(0).what));
}

// The kubelet's clock says when a pod became ready, slurmctld's when its hook ran.
TEST(Plan, AWorkerReturnsThoughSlurmctldsClockIsAhead) {
  Fixture f(1);
  f.pod(0).grace = 40s;
  f.set(0, "DOWN", ours("pod is terminating")).reason_since = f.pod(0).ready_since + 30s;
  f.rest();
  Plan plan = f.plan();
  EXPECT_THAT(states_written(plan), IsEmpty()) << "it may be this pod that ends";
  EXPECT_EQ(plan.wake, f.now + 70s);
  EXPECT_THAT(plan.waits, ElementsAre(HasSubstr("foo-0 is DOWN")));
  f.now += 69s;
  EXPECT_THAT(states_written(f.plan()), IsEmpty());
  f.pod(0).ready = false;
  f.plan();
  f.pod(0).ready = true;
  f.now += 1s;
  EXPECT_THAT(states_written(f.plan()), IsEmpty()) << "another container: its hook may have run just now";
  f.now += 70s;
  EXPECT_THAT(states_written(f.plan()), ElementsAre("foo-0 RESUME "));
}

// The hook of the pod before it, or one that ran before it could: not its own, whatever the clocks say.
TEST(Plan, AWorkerWithALongGraceReturnsAtOnceWhenItsHookWasAnothers) {
  for (const bool seen_pending : {true, false}) {
    Fixture f(1);
    f.pod(0).grace = 6h;
    f.set(0, "DOWN", ours("pod is terminating")).reason_since = f.pod(0).ready_since + 30s;
    f.pod(0).ready = false;
    if (seen_pending) {
      f.pod(0).phase = PodPhase::kPending;
    } else {
      f.pod(0).uid = Uid("the one before");
      f.pod(0).terminating = true;
    }
    f.plan();
    f.pod(0).phase = PodPhase::kRunning;
    f.pod(0).uid = Uid("uid-0");
    f.pod(0).terminating = false;
    f.plan();
    f.pod(0).ready = true;
    EXPECT_THAT(states_written(f.plan()), ElementsAre("foo-0 RESUME "));
    f.node(0).reason_since += 1s;  // the hook has run again
    const Plan plan = f.plan();
    EXPECT_THAT(states_written(plan), IsEmpty());
    EXPECT_THAT(plan.waits, ElementsAre(HasSubstr("is resumed at 2026-11-28T06:00:30Z")));
  }
}

// slurmctld refuses a registration, and its reason takes the place of ours: the node is ours to resume all the same.
TEST(Plan, ANodeThatWeDrainedIsResumedWhenSlurmTakesItAgain) {
  constexpr const char* kFewer = "gres/gpu count reported lower than configured (0 < 8)";
  for (const char* states : {"DOWN", "DOWN+DRAIN", "IDLE+DRAIN"}) {
    Fixture f(1);
    f.set(0, states, ours("pod is terminating"));
    f.pod(0).ready = false;
    f.plan();
    f.set(0, fmt::format("{}+INVALID_REG", states), kFewer);
    f.pod(0).ready = true;
    Plan plan = f.plan();
    EXPECT_THAT(states_written(plan), IsEmpty()) << states;
    EXPECT_THAT(plan.waits, ElementsAre(HasSubstr(kFewer))) << states;
    f.state.pods.clear();  // the pod of the last template goes, the next one comes
    f.plan();
    f.add(0);
    f.set(0, states, kFewer);
    EXPECT_THAT(states_written(f.plan()), ElementsAre("foo-0 RESUME ")) << states;
    f.set(0, states, "bad disk");  // an administrator's word
    f.plan();
    f.set(0, states, kFewer);
    EXPECT_THAT(states_written(f.plan()), IsEmpty()) << states;
  }
}

// Whatever slurmctld refuses it for.
TEST(Plan, ADrainOfOursIsGivenBackAfterEveryRefusal) {
  for (const char* words :
       {"Failed to set topology 'nowhere:x'", "RestrictedCoresPerGPU=2 but no gpus on node foo-0",
        "Reported active features (a) are not a superset of currently active changeable features (b)"}) {
    Fixture f(1);
    f.set(0, "IDLE+DRAIN", ours("node k0 of pod slurm/foo-0 was cordoned"));
    f.state.nodes["k0"].unschedulable = true;
    f.plan();
    f.set(0, "IDLE+DRAIN+INVALID_REG", words);
    f.plan();
    f.set(0, "IDLE+DRAIN", words);
    f.plan();
    f.state.nodes["k0"].unschedulable = false;
    EXPECT_THAT(states_written(f.plan()), ElementsAre("foo-0 RESUME ")) << words;
  }
}

// Nobody saw a drain of ours: slurmctld's own stays for ever, and nobody else has heard of it.
TEST(Plan, WhatSlurmItselfHasTakenOutOfServiceIsSaid) {
  constexpr const char* kFewer = "gres/gpu count reported lower than configured (7 < 8)";
  for (const char* reason :
       {kFewer, "Kill task failed", "Epilog error", "Prolog error", "Job env setup error", "Duplicate jobid"}) {
    for (const char* states : {"DOWN", "IDLE+DRAIN", "MIXED+DRAIN"}) {
      Fixture f(1);
      f.set(0, states, reason);
      const Plan plan = f.plan();
      EXPECT_THAT(states_written(plan), IsEmpty()) << states << " " << reason;
      EXPECT_THAT(plan.waits, ElementsAre(HasSubstr("scontrol update nodename=foo-0 state=resume")))
          << states << " " << reason;
    }
  }
  for (const char* reason : {"bad disk", ""}) {
    Fixture f(1);
    f.set(0, "IDLE+DRAIN", reason);
    EXPECT_THAT(f.plan().waits, IsEmpty()) << "whoever drained it knows: " << reason;
  }
}

// With ReturnToService=0, Slurm's default, a node that Slurm itself put DOWN stays so when its pod runs elsewhere.
struct LostHost : testing::Test {
  Fixture f{1};
  SlurmNodeView& lose(std::string_view states, std::string reason, const std::string& node = "k7") {
    SlurmNodeView& lost = f.set(0, states, std::move(reason));
    lost.reason_since = f.pod(0).ready_since - 10min;
    lost.comment = print_record({"slurm", "foo-0", node, "foo", "u"});
    f.rest();
    return lost;
  }
};

TEST_F(LostHost, ItsNodeReturnsWhenThePodRunsElsewhere) {
  for (const char* reason : {"Not responding", "Node unexpectedly rebooted"}) {
    lose("DOWN", reason);
    const Plan plan = f.plan();
    EXPECT_THAT(states_written(plan), ElementsAre("foo-0 RESUME "));
    EXPECT_EQ(all_of<WriteSlurmNode>(plan).size(), 1U) << "the record of the lost host stays until the node is back";
  }
  SlurmNodeView& back = f.node(0);
  back.states = slurm_node("", "IDLE").states;
  back.reason.clear();
  EXPECT_THAT(all_of<WriteSlurmNode>(f.plan()), IsEmpty()) << "slurmctld may give it up at this moment";
  EXPECT_TRUE(f.plan().wake);
  f.now += 10s;
  EXPECT_THAT(all_of<WriteSlurmNode>(f.plan()), IsEmpty()) << "an old table";
  f.state.slurm.as_of = f.now;
  const auto writes = all_of<WriteSlurmNode>(f.plan());
  ASSERT_EQ(writes.size(), 1U);
  EXPECT_EQ(writes[0].comment, print_record(record_of(f.state.spec, f.pod(0))));
}

TEST_F(LostHost, ItsNodeReturnsAlsoWhenClocksDiffer) {
  lose("DOWN", "Node unexpectedly rebooted").reason_since = f.pod(0).ready_since + 1h;
  f.rest();
  EXPECT_THAT(states_written(f.plan()), IsEmpty());
  f.now += 30s;
  EXPECT_THAT(states_written(f.plan()), ElementsAre("foo-0 RESUME "));
}

TEST_F(LostHost, ADrainOfOursMeanwhileChangesNothing) {
  SlurmNodeView& lost = lose("DOWN+DRAIN", ours("x; before: Not responding"));
  EXPECT_THAT(states_written(f.plan()), ElementsAre("foo-0 UNDRAIN Not responding"));
  EXPECT_EQ(all_of<WriteSlurmNode>(f.plan()).size(), 1U) << "no comment";
  lost.states = slurm_node("", "DOWN").states;
  lost.reason = "Not responding";
  EXPECT_THAT(states_written(f.plan()), ElementsAre("foo-0 RESUME "));
}

TEST_F(LostHost, WhatIsNotSurelyOfTheLostHostStaysAndIsSaid) {
  lose("DOWN", "Not responding", "k0");
  EXPECT_THAT(states_written(f.plan()), IsEmpty()) << "this very host was silent";
  EXPECT_THAT(f.plan().waits, ElementsAre(HasSubstr("scontrol update nodename=foo-0 state=resume")));
  EXPECT_FALSE(f.plan().wake);
  lose("DOWN", "Not responding").comment = "of an administrator's";
  EXPECT_THAT(states_written(f.plan()), IsEmpty());
  lose("DOWN+NOT_RESPONDING", "Not responding");
  EXPECT_THAT(states_written(f.plan()), IsEmpty()) << "slurmd has not registered";
  lose("DOWN+DRAIN", "Not responding");
  EXPECT_THAT(states_written(f.plan()), IsEmpty()) << "somebody has drained it";
  for (const char* reason : {"bad disk", "Not responding, bad disk", ""}) {
    lose("DOWN", reason);
    EXPECT_THAT(states_written(f.plan()), IsEmpty()) << reason;
    EXPECT_THAT(f.plan().waits, IsEmpty()) << reason;
  }
  lose("DOWN", "Not responding");
  f.pod(0).cordon = "true";
  EXPECT_THAT(states_written(f.plan()), IsEmpty());
}

TEST(Plan, FreshAnswersAreAskedBeforeAnythingIsTakenAway) {
  const WriteSlurmNode write = *make_undrain(slurm_node("n", "IDLE+DRAIN", ours("x")));
  SlurmNodeView fresh = slurm_node("n", "IDLE+DRAIN", ours("x"));
  EXPECT_TRUE(may_write(write, &fresh));
  fresh.reason = "bad disk";
  EXPECT_FALSE(may_write(write, &fresh)) << "an administrator was faster";
  EXPECT_FALSE(may_write(write, nullptr));
  // All hooks say the same: by the time it is another one, that of the pod that ends.
  SlurmNodeView down = slurm_node("n", "DOWN", ours("pod is terminating"));
  down.reason_since = kNow;
  const WriteSlurmNode resume = make_resume(down);
  EXPECT_TRUE(may_write(resume, &down));
  down.reason_since += 1s;
  EXPECT_FALSE(may_write(resume, &down));
  DeletePod gone{"foo-0", Uid("u"), Before::kSlurmIsClear, "n"};
  fresh = slurm_node("n", "IDLE+DRAIN", "x");
  EXPECT_TRUE(may_delete(gone, &fresh));
  EXPECT_TRUE(may_delete(gone, nullptr));
  fresh = slurm_node("n", "IDLE");
  EXPECT_FALSE(may_delete(gone, &fresh));
  gone.before = Before::kNothing;
  EXPECT_TRUE(may_delete(gone, &fresh));
}

}  // namespace
}  // namespace bascule::op::nodeset
