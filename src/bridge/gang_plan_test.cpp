// Gangs: several pods, one or more jobs. Example by example; bridge_sim_test.cpp has them in storms.
#include "bridge/gang_plan_test.hpp"

#include <array>

#include "bridge/unit_jobs.hpp"

namespace bascule::bridge {
namespace {

using ::testing::ElementsAre;

// W26: too few is a wait with a reason, not an error.
TEST_F(GangTest, WaitsForItsMinimum) {
  add_pod("a");
  const UnitPlan p = plan();
  EXPECT_FALSE(p.submit);
  ASSERT_EQ(p.waiting.size(), 1u);
  EXPECT_EQ(p.waiting[0].reason, "InsufficientPods");
  EXPECT_EQ(p.waiting[0].message, "PodGroup ns/g has 1 of the 2 pods that must start together");
}

TEST_F(GangTest, OneJobForAllWithAtLeastTheMinimumOfNodes) {
  for (const char* name : {"a", "b", "c"}) add_pod(name);
  const UnitPlan p = plan();
  ASSERT_TRUE(p.submit);
  EXPECT_EQ(p.submit->nodes, slurm::NodeCount(2, 3));
  EXPECT_EQ(parse_record(*p.submit->admin_comment)->uids.size(), 3u);
  view.root->gang->minimum = 3;
  EXPECT_EQ(plan().submit->nodes, slurm::NodeCount(3));
}

// W14: members that are over, going or gated do not count.
TEST_F(GangTest, OnlyLiveMembersCount) {
  add_pod("a");
  add_pod("b")->phase = kube::PodPhase::kSucceeded;
  add_pod("c")->meta.deleted = wall;
  add_pod("d")->scheduling_gates = {interner("later")};
  EXPECT_FALSE(plan().submit);
  add_pod("e");
  const UnitPlan p = plan();
  ASSERT_TRUE(p.submit);
  EXPECT_EQ(p.submit->nodes, slurm::NodeCount(2));
}

// W2: the same pods get the same nodes, in order of rank, however often it is asked.
TEST_F(GangTest, NodesGoInOrderOfRank) {
  for (const char* name : {"w-10", "w-2", "w-1"}) mark(*add_pod(name), 7);
  add_job(7, slurm::JobState::kRunning, {"w-1", "w-2", "w-10"}, "n[4-6]");
  EXPECT_THAT(bound(plan()), ElementsAre("w-1@n4", "w-2@n5", "w-10@n6"));
}
TEST_F(GangTest, BoundMembersKeepTheirNodes) {
  mark(*add_pod("a"), 7);
  bind(*add_pod("b"), 7, "n4");
  mark(*add_pod("c"), 7);
  add_job(7, slurm::JobState::kRunning, {"a", "b", "c"}, "n[4-6]");
  EXPECT_THAT(bound(plan()), ElementsAre("a@n5", "c@n6"));
  memory.binding.insert_or_assign(Uid("uid-a"), UnitMemory::Binding{NodeName("n5"), now});
  EXPECT_THAT(bound(plan()), ElementsAre("c@n6"));
}

// Its label would name another job than the one that gives it its node.
TEST_F(GangTest, AMarkThatIsNotSeenYetIsYoungerThanTheLabel) {
  mark(*add_pod("a"), 7);
  bind(*add_pod("b"), 7, "n5");
  add_job(7, slurm::JobState::kRunning, {"a", "b"}, "n[4-5]");
  memory.marked[Uid("uid-a")] = {JobId{8}};
  const UnitPlan p = plan();
  EXPECT_THAT(bound(p), ElementsAre());
  ASSERT_EQ(p.marks.size(), 1u);
  EXPECT_EQ(p.marks[0].job, JobId{7});
  memory.marked[Uid("uid-a")] = {JobId{7}};
  EXPECT_THAT(bound(plan()), ElementsAre("a@n4"));
}

TEST_F(GangTest, NoneIsBoundBeforeAllCanBe) {
  mark(*add_pod("a"), 7);
  const auto b = add_pod("b");
  add_job(7, slurm::JobState::kRunning, {"a", "b"}, "n[1-2]");
  UnitPlan p = plan();
  EXPECT_THAT(bound(p), ElementsAre()) << "b is not marked";
  EXPECT_EQ(p.marks.size(), 1u);
  mark(*b, 7);
  b->requests = {{interner("cpu"), Quantity(16)}};
  p = plan();
  EXPECT_THAT(bound(p), ElementsAre()) << "b does not fit";
  EXPECT_EQ(p.waiting.at(0).reason, "NodeRefused");
  now += kMisfitPatience;
  view.jobs[0].confirmed_at = now;
  EXPECT_EQ(plan().cancels.size(), 1u);
}

TEST_F(GangTest, LatecomersJoinAJobThatWaits) {
  mark(*add_pod("a"), 7);
  mark(*add_pod("b"), 7);
  add_pod("c");
  add_job(7, slurm::JobState::kPending, {"a", "b"});
  UnitPlan p = plan();
  EXPECT_FALSE(p.submit);
  ASSERT_TRUE(p.update);
  EXPECT_EQ(p.update->job, JobId{7});
  EXPECT_EQ(p.update->description.nodes, slurm::NodeCount(2, 3));
  EXPECT_TRUE(p.marks.empty()) << "c is marked when Slurm has the new record";
  memory.updates[p.update->job].refused = p.update->fingerprint;
  EXPECT_FALSE(plan().update) << "what Slurm refused is not asked for again";
  view.jobs[0].record = *parse_record(*p.update->description.admin_comment);
  p = plan();
  EXPECT_FALSE(p.update);
  EXPECT_EQ(p.marks.size(), 1u);
  ASSERT_EQ(p.waiting.size(), 1u);
  EXPECT_EQ(p.waiting[0].pods.size(), 3u);
}

// Elastic both ways: while it waits, the job follows the gang down as well as up.
TEST_F(GangTest, AWaitingJobShrinksWithItsGang) {
  for (const char* name : {"a", "b", "c", "d"}) mark(*add_pod(name), 7);
  add_job(7, slurm::JobState::kPending, {"a", "b", "c", "d"});
  view.pods.pop_back();  // scaled in
  UnitPlan p = plan();
  ASSERT_TRUE(p.update);
  EXPECT_EQ(p.update->description.nodes, slurm::NodeCount(2, 3));
  EXPECT_TRUE(p.cancels.empty());
  view.jobs[0].record = *parse_record(*p.update->description.admin_comment);
  view.pods.pop_back();
  p = plan();
  ASSERT_TRUE(p.update);
  EXPECT_EQ(p.update->description.nodes, slurm::NodeCount(2));
  EXPECT_TRUE(p.cancels.empty());
}

// A member that leaves a running gang ends nobody; scaled out again, its node is there for the next one at once.
TEST_F(GangTest, ARunningGangScaledInAndOutAgainKeepsItsNodes) {
  bind(*add_pod("a"), 7, "n1");
  bind(*add_pod("b"), 7, "n2");
  bind(*add_pod("c"), 7, "n3");
  add_job(7, slurm::JobState::kRunning, {"a", "b", "c"}, "n[1-3]");
  view.pods.pop_back();
  UnitPlan p = plan();
  EXPECT_TRUE(p.cancels.empty());
  EXPECT_FALSE(p.submit);
  mark(*add_pod("d"), 7);
  p = plan();
  EXPECT_FALSE(p.submit);
  EXPECT_THAT(bound(p), ElementsAre("d@n3"));
}

// W17: after the start, those who come later get a job of their own, whatever their number.
TEST_F(GangTest, LatecomersOfARunningGangGetTheirOwnJob) {
  bind(*add_pod("a"), 7, "n1");
  bind(*add_pod("b"), 7, "n2");
  add_pod("c");
  add_job(7, slurm::JobState::kRunning, {"a", "b"}, "n[1-2]");
  const UnitPlan p = plan();
  ASSERT_TRUE(p.submit);
  EXPECT_EQ(p.submit->nodes, slurm::NodeCount(1));
  EXPECT_TRUE(p.cancels.empty());
}
TEST_F(GangTest, StartedWithFewerNodesTheRestGetsAJob) {
  for (const char* name : {"a", "b", "c"}) mark(*add_pod(name), 7);
  add_job(7, slurm::JobState::kRunning, {"a", "b", "c"}, "n[1-2]");
  const UnitPlan p = plan();
  EXPECT_THAT(bound(p), ElementsAre("a@n1", "b@n2"));
  ASSERT_TRUE(p.submit);
  EXPECT_EQ(p.submit->nodes, slurm::NodeCount(1));
  add_job(8, slurm::JobState::kPending, {"c"});
  const UnitPlan next = plan();
  EXPECT_FALSE(next.submit);
  EXPECT_TRUE(next.cancels.empty());
  ASSERT_EQ(next.marks.size(), 1u) << "c still carries the label of the first job";
  EXPECT_EQ(next.marks[0].job, JobId{8});
}

// Nobody could tell whose a job is whose record is too long to be read.
TEST_F(GangTest, AJobStandsForNoMorePodsThanItsRecordCanName) {
  view.root->gang->minimum = 1;
  for (int i = 1000; i < 5000; ++i) add_pod(std::string(240, 'x') + std::to_string(i));
  std::size_t named = 0;
  for (std::uint32_t job = 7; job < 9; ++job) {
    const UnitPlan p = plan();
    ASSERT_TRUE(p.submit) << job;
    EXPECT_FALSE(p.update) << "those who wait have no room for more";
    const auto record = parse_record(*p.submit->admin_comment);
    ASSERT_TRUE(record);
    named += record->pods.size();
    EXPECT_EQ(p.submit->nodes, slurm::NodeCount(1, static_cast<std::uint32_t>(record->pods.size())));
    add_job(job, slurm::JobState::kPending, {});
    view.jobs.back().record = *record;
  }
  EXPECT_EQ(named, 4000u);
  EXPECT_FALSE(plan().submit);
  view.jobs.clear();
  view.root->gang->minimum = 4000;
  const UnitPlan p = plan();
  EXPECT_FALSE(p.submit);
  ASSERT_EQ(p.waiting.size(), 1u);
  EXPECT_EQ(p.waiting[0].reason, "InvalidRequest");
}

// One lost member is replaced on its own node; the others go on.
TEST_F(GangTest, AReplacementTakesTheFreeNode) {
  bind(*add_pod("a"), 7, "n1");
  const auto failed = add_pod("b-1");
  bind(*failed, 7, "n2");
  failed->phase = kube::PodPhase::kFailed;
  const auto fresh = add_pod("b-2");
  add_job(7, slurm::JobState::kRunning, {"a", "b-1"}, "n[1-2]");
  UnitPlan p = plan();
  EXPECT_FALSE(p.submit);
  ASSERT_EQ(p.marks.size(), 1u);
  EXPECT_EQ(p.marks[0].pod, fresh);
  mark(*fresh, 7);
  EXPECT_THAT(bound(plan()), ElementsAre("b-2@n2"));
}
// While the lost one still goes, its replacement queues; when the node is free first, the queued job is given back.
TEST_F(GangTest, AFreedNodeComesBeforeAJobThatWaits) {
  bind(*add_pod("a"), 7, "n1");
  const auto old = add_pod("b-1");
  bind(*old, 7, "n2");
  old->meta.deleted = wall;
  const auto fresh = add_pod("b-2");
  add_job(7, slurm::JobState::kRunning, {"a", "b-1"}, "n[1-2]");
  EXPECT_TRUE(plan().submit);
  mark(*fresh, 8);
  add_job(8, slurm::JobState::kPending, {"b-2"});
  EXPECT_TRUE(plan().cancels.empty());
  view.pods.erase(view.pods.begin() + 1);
  const UnitPlan p = plan();
  ASSERT_EQ(p.cancels.size(), 1u);
  EXPECT_EQ(p.cancels[0].job, JobId{8});
  ASSERT_EQ(p.marks.size(), 1u);
  EXPECT_EQ(p.marks[0].job, JobId{7});
}

// A gang that is over leaves its nodes to Slurm: what comes after queues like everybody.
TEST_F(GangTest, ADeadGangsNodesAreNotReused) {
  const auto a = add_pod("a");
  bind(*a, 7, "n1");
  a->phase = kube::PodPhase::kFailed;
  add_pod("c");
  add_pod("d");
  add_job(7, slurm::JobState::kRunning, {"a"}, "n[1-2]");
  const UnitPlan p = plan();
  EXPECT_TRUE(p.binds.empty());
  EXPECT_TRUE(p.submit);
  EXPECT_TRUE(p.cancels.empty()) << "the pod sync gives it back when the pods are surely over";
}

// A member is made anew while the job runs and nobody has been bound: it takes the node, instead of a job that would
// wait for ever beside one that holds what it waits for.
TEST_F(GangTest, AMemberMadeAnewBeforeTheBindingTakesItsNode) {
  mark(*add_pod("a"), 7);
  const auto fresh = add_pod("b2");
  add_job(7, slurm::JobState::kRunning, {"a", "b"}, "n[1-2]");
  UnitPlan p = plan();
  EXPECT_FALSE(p.submit);
  ASSERT_EQ(p.marks.size(), 1u);
  EXPECT_EQ(p.marks[0].pod, fresh);
  mark(*fresh, 7);
  EXPECT_THAT(bound(plan()), ElementsAre("a@n1", "b2@n2"));
}

// Each job has its own patience: a sibling that waits in peace prolongs that of none.
TEST_F(GangTest, ARefusedJobIsGivenBackWhateverItsSiblingsDo) {
  bind(*add_pod("a"), 6, "n1");
  mark(*add_pod("b"), 7);
  mark(*add_pod("c"), 8);
  add_job(6, slurm::JobState::kRunning, {"a"}, "n1");
  add_job(7, slurm::JobState::kRunning, {"b"}, "unknown");
  add_job(8, slurm::JobState::kPending, {"c"});
  EXPECT_TRUE(plan().cancels.empty());
  now += kMisfitPatience;
  const UnitPlan p = plan();
  ASSERT_EQ(p.cancels.size(), 1u);
  EXPECT_EQ(p.cancels[0].job, JobId{7});
}

// A sibling that runs without a problem ends nobody's patience either, and what is no more is forgotten.
TEST_F(GangTest, ARefusedJobIsGivenBackBesideOneThatRunsWell) {
  mark(*add_pod("a"), 6);
  mark(*add_pod("b"), 7);
  view.root->gang->minimum = 1;
  add_job(6, slurm::JobState::kRunning, {"a"}, "n1");
  add_job(7, slurm::JobState::kRunning, {"b"}, "unknown");
  const UnitPlan first = plan();
  EXPECT_TRUE(first.cancels.empty());
  EXPECT_THAT(bound(first), ElementsAre("a@n1"));
  now += kMisfitPatience - 1s;
  for (JobView& job : view.jobs) job.confirmed_at = now;
  EXPECT_TRUE(plan().cancels.empty());
  now += 1s;
  for (JobView& job : view.jobs) job.confirmed_at = now;
  const UnitPlan p = plan();
  ASSERT_EQ(p.cancels.size(), 1u);
  EXPECT_EQ(p.cancels[0].job, JobId{7});
  plan();
  EXPECT_FALSE(memory.misfits.empty()) << "it still holds the node";
  view.jobs.pop_back();
  plan();
  EXPECT_TRUE(memory.misfits.empty());
}

// Slurm must not start the others on a node tainted since, whatever is wrong with one that comes late.
TEST_F(GangTest, ANodeTaintedSinceIsExcludedWhoeverCannotJoin) {
  mark(*add_pod("a"), 7);
  mark(*add_pod("b"), 7);
  const auto late = add_pod("c");
  late->requests = {{interner("cpu"), Quantity(16)}};
  add_job(7, slurm::JobState::kPending, {"a", "b"});
  auto tainted = std::make_shared<kube::Node>(*nodes.by_slurm_name("n2"));
  tainted->taints = {{interner("late"), interner(""), interner("NoSchedule")}};
  nodes.on_node(nodes.by_slurm_name("n2"), tainted);
  const UnitPlan p = plan();
  ASSERT_TRUE(p.update);
  EXPECT_THAT(parse_record(*p.update->description.admin_comment)->uids, ElementsAre(Uid("uid-a"), Uid("uid-b")));
  ASSERT_TRUE(p.update->description.excluded_nodes);
  EXPECT_THAT(*p.update->description.excluded_nodes, ElementsAre("n2"));
  ASSERT_EQ(p.waiting.size(), 2u);
  EXPECT_EQ(p.waiting[0].pods, std::vector<PodPtr>{late});
  EXPECT_THAT(p.waiting[0].message, ::testing::StartsWith("no node that Slurm may use fits the pod"));
}

// One that fits nowhere says so itself; the others and the nodes they may use are followed without it.
TEST_F(GangTest, WhoCannotJoinAWaitingJobHoldsUpNobody) {
  mark(*add_pod("a"), 7);
  mark(*add_pod("b"), 7);
  const auto huge = add_pod("c");
  huge->node_selector = {{interner("no"), interner("where")}};
  add_pod("d");
  add_job(7, slurm::JobState::kPending, {"a", "b"});
  const UnitPlan p = plan();
  ASSERT_TRUE(p.update);
  EXPECT_THAT(parse_record(*p.update->description.admin_comment)->uids,
              ElementsAre(Uid("uid-a"), Uid("uid-b"), Uid("uid-d")));
  const auto told = [&p](const std::string& name) {
    const auto one = std::ranges::find_if(p.waiting, [&](const Waiting& waiting) {
      return std::ranges::any_of(waiting.pods, [&](const PodPtr& pod) { return pod->meta.key.name == name; });
    });
    return one == p.waiting.end() ? std::string() : one->reason + ": " + one->message;
  };
  EXPECT_THAT(told("c"), ::testing::StartsWith("Unschedulable: no node that Slurm may use fits the pod"));
  EXPECT_THAT(told("d"), ::testing::HasSubstr("Slurm job 7 is PENDING"));
  EXPECT_FALSE(p.submit);
}

TEST_F(GangTest, ARequestThatKeepsChangingIsUpdatedEverMoreSeldom) {
  for (const char* name : {"a", "b"}) mark(*add_pod(name), 7);
  add_job(7, slurm::JobState::kPending, {"a"});
  int updates = 0;
  for (int second = 0; second < 600; ++second, now += 1s) {
    const UnitPlan p = plan();
    ASSERT_TRUE(p.wake);
    if (!p.update) continue;
    ++updates;
    memory.updates[JobId{7}].pace.mark(now, kUpdateQuiet);  // and the next plan finds it changed again
  }
  EXPECT_TRUE(updates > 10 && updates < 20) << updates;
  now += 10min;
  EXPECT_TRUE(plan().update);
}

TEST_F(GangTest, AChangeThatSlurmRefusesIsTold) {
  for (const char* name : {"a", "b"}) mark(*add_pod(name), 7);
  add_job(7, slurm::JobState::kPending, {"a"});
  const UnitPlan first = plan();
  ASSERT_TRUE(first.update);
  memory.updates[JobId{7}] = {{}, first.update->fingerprint, "Requested node configuration is not available"};
  const UnitPlan p = plan();
  EXPECT_FALSE(p.update);
  EXPECT_THAT(p.waiting.at(0).message, ::testing::HasSubstr("; Slurm refused to change its request: Requested node"));
}

TEST_F(GangTest, AJobWhoseGangShrankBelowItsMinimumIsGivenBack) {
  mark(*add_pod("a"), 7);
  add_job(7, slurm::JobState::kPending, {"a", "b"});
  const UnitPlan p = plan();
  ASSERT_EQ(p.cancels.size(), 1u);
  EXPECT_EQ(p.cancels[0].why, "PodGroup ns/g has only 1 of the 2 pods that must start together");
  EXPECT_EQ(p.waiting.at(0).reason, "InsufficientPods");
}

// A member made anew does not wait for those that are done; but the pods of another Job under the same group are no
// company.
TEST_F(GangTest, MembersThatAreDoneCountForTheirOwnJob) {
  const auto owned = [this](const char* name, const char* job) {
    const auto pod = add_pod(name);
    pod->meta.owners = {{interner("batch/v1"), interner("Job"), interner(job), Uid(job), true}};
    return pod;
  };
  owned("a", "first")->phase = kube::PodPhase::kSucceeded;
  const auto again = owned("b", "second");
  EXPECT_FALSE(plan().submit);
  again->meta.owners[0].uid = Uid("first");
  EXPECT_TRUE(plan().submit);
}

TEST_F(GangTest, AnUnreadableGroupSubmitsNothing) {  // W16
  add_pod("a");
  add_pod("b");
  view.root.reset();
  view.root_problem = "PodGroup ns/g cannot be read";
  const UnitPlan p = plan();
  EXPECT_FALSE(p.submit);
  EXPECT_EQ(p.waiting.at(0).reason, "OwnerUnknown");
}
TEST_F(GangTest, AFinishedGroupStartsNobody) {
  add_pod("a");
  add_pod("b");
  view.root->gang->closed = "is Finished";
  EXPECT_FALSE(plan().submit);
  EXPECT_EQ(plan().waiting.at(0).message, "PodGroup ns/g is Finished");
}

TEST_F(GangTest, ARefusedHostOfALivingGangIsGivenUpAlone) {
  bind(*add_pod("a"), 7, "n1");
  mark(*add_pod("b"), 7);
  add_job(7, slurm::JobState::kRunning, {"a", "b"}, "n[1-2]");
  nodes.on_node(nodes.by_slurm_name("n2"), nullptr);
  EXPECT_EQ(plan().waiting.at(0).reason, "NodeRefused");
  now += kMisfitPatience;
  plan();
  const UnitPlan p = plan();
  EXPECT_TRUE(p.cancels.empty());
  ASSERT_TRUE(p.submit);
  EXPECT_EQ(p.submit->nodes, slurm::NodeCount(1));
}

// ... for Slurm holds it for the job all the time, and on a full cluster there is no other.
TEST_F(GangTest, AHostThatWasGivenUpServesAgainWhenItIsWell) {
  bind(*add_pod("a"), 7, "n1");
  const auto b = add_pod("b");
  mark(*b, 7);
  add_job(7, slurm::JobState::kRunning, {"a", "b"}, "n[1-2]");
  nodes.on_node(nodes.by_slurm_name("n2"), nullptr);
  plan();
  now += kMisfitPatience;
  plan();
  mark(*b, 8);
  add_job(8, slurm::JobState::kPending, {"b"});
  const auto later = [this](Duration by) {
    now += by;
    for (JobView& view_of : view.jobs) view_of.confirmed_at = now;
    return plan();
  };
  UnitPlan p = later(kRefusedFor);
  EXPECT_TRUE(p.cancels.empty() && p.marks.empty()) << "it is refused still: the second job keeps its place";
  EXPECT_TRUE(p.waits_for_nodes);
  add_node("n2");
  p = later(1s);
  ASSERT_EQ(p.marks.size(), 1u);
  EXPECT_EQ(p.marks[0].job, JobId{7});
  ASSERT_EQ(p.cancels.size(), 1u);
  EXPECT_EQ(p.cancels[0].job, JobId{8});
  mark(*b, 7);
  view.jobs.pop_back();
  EXPECT_THAT(bound(plan()), ElementsAre("b@n2"));
}
// ... but not for a moment only.
TEST_F(GangTest, AHostThatWasGivenUpIsLeftAloneForAWhile) {
  bind(*add_pod("a"), 7, "n1");
  mark(*add_pod("b"), 7);
  add_job(7, slurm::JobState::kRunning, {"a", "b"}, "n[1-2]");
  const NodePtr n2 = nodes.by_slurm_name("n2");
  nodes.on_node(n2, nullptr);
  plan();
  const TimePoint until = (now += kMisfitPatience) + kRefusedFor;
  plan();
  add_job(8, slurm::JobState::kPending, {"b"});
  nodes.on_node(nullptr, n2);
  now = until - 1s;
  const UnitPlan p = plan();
  EXPECT_TRUE(p.cancels.empty());
  ASSERT_TRUE(p.wake);
  EXPECT_LE(*p.wake, until);
}

// ... and the others, who start this instant, are not told that they cannot.
TEST_F(GangTest, WhoIsBoundBesideARefusedHostIsToldNothing) {
  bind(*add_pod("a"), 7, "n1");
  mark(*add_pod("b"), 7);
  mark(*add_pod("c"), 7);
  add_job(7, slurm::JobState::kRunning, {"a", "b", "c"}, "n[1-3]");
  nodes.on_node(nodes.by_slurm_name("n2"), nullptr);
  const UnitPlan p = plan();
  ASSERT_EQ(p.binds.size(), 1u);
  EXPECT_EQ(p.binds[0].pod->meta.key.name, "c");
  ASSERT_EQ(p.waiting.size(), 1u);
  ASSERT_EQ(p.waiting[0].pods.size(), 1u);
  EXPECT_EQ(p.waiting[0].pods[0]->meta.key.name, "b");
}

TEST_F(GangTest, TheYoungerOfTwoJobsForTheSamePodsIsCancelled) {
  add_pod("a");
  add_pod("b");
  add_job(7, slurm::JobState::kPending, {"a", "b"});
  add_job(9, slurm::JobState::kPending, {"a", "b"});
  const UnitPlan p = plan();
  ASSERT_EQ(p.cancels.size(), 1u);
  EXPECT_EQ(p.cancels[0].job, JobId{9});
  EXPECT_EQ(p.marks.size(), 2u);
}

// --- several members on a node (W18) ---------------------------------------------------------------------------------

struct PackedGangTest : GangTest {
  PackedGangTest() {
    view.root->annotations = {{interner("slurmjob.slinky.slurm.net/exclusive"), interner("false")}};
    view.root->gang->minimum = 3;
  }
  std::shared_ptr<kube::Pod> add_pod(const std::string& name, int cpus = 2) {
    const auto pod = GangTest::add_pod(name);
    pod->requests = {{interner("cpu"), Quantity(cpus)}, {interner("memory"), Quantity(std::int64_t{3} << 30)}};
    return pod;
  }
  // `cpus`: of the allocation, on each host.
  void add_job(std::uint32_t id, std::vector<std::string> pods, std::string hosts, std::vector<std::uint32_t> cpus) {
    GangTest::add_job(id, slurm::JobState::kRunning, std::move(pods), std::move(hosts));
    auto job = std::make_shared<slurm::Job>(*view.jobs.back().job);
    job->node_cpus = std::move(cpus);
    view.jobs.back().job = job;
    view.jobs.back().record.cpus = 2;
    view.jobs.back().record.task = TaskSize{2, 3072};
  }
};

TEST_F(PackedGangTest, AsksForTasksOnOneNodeOrMore) {
  for (const char* name : {"a", "b", "c"}) add_pod(name);
  view.pods[1] = [&] {
    auto gpu = std::make_shared<kube::Pod>(*view.pods[1]);
    gpu->limits = {{interner("nvidia.com/gpu"), Quantity(1)}};
    return gpu;
  }();
  const UnitPlan p = plan();
  ASSERT_TRUE(p.submit);
  EXPECT_EQ(p.submit->tasks, 3u);
  EXPECT_EQ(p.submit->nodes, slurm::NodeCount(1, 3));
  EXPECT_EQ(p.submit->cpus_per_task, 2u);
  EXPECT_EQ(p.submit->memory_per_cpu, 1536u);
  EXPECT_EQ(p.submit->tres_per_task, "gres/gpu=1");
  EXPECT_FALSE(p.submit->tasks_per_node || p.submit->memory_per_node || p.submit->tres_per_node);
  EXPECT_EQ(parse_record(*p.submit->admin_comment)->cpus, 2u);
}

TEST_F(PackedGangTest, ANodeTakesAsManyAsItHasCpusFor) {
  mark(*add_pod("w-1"), 7);
  const auto second = add_pod("w-2");
  mark(*second, 7);
  mark(*add_pod("w-3"), 7);
  add_job(7, {"w-1", "w-2", "w-3"}, "n[1-2]", {4, 2});
  EXPECT_THAT(bound(plan()), ElementsAre("w-1@n1", "w-2@n1", "w-3@n2"));
  bind(*second, 7, "n1");
  EXPECT_THAT(bound(plan()), ElementsAre("w-1@n1", "w-3@n2")) << "one place is taken, the others stay as they were";
}

// Members that fit alone need not fit together: what is about to be bound counts too.
TEST_F(PackedGangTest, WhatGoesToOneNodeIsCountedTogether) {
  for (const char* name : {"w-1", "w-2", "w-3"}) mark(*add_pod(name), 7);
  auto other = std::make_shared<kube::Pod>();
  other->meta.uid = Uid("daemon");
  other->node_name = interner("n1");
  other->requests = {{interner("cpu"), Quantity(5)}};
  nodes.on_pod(nullptr, other);
  add_job(7, {"w-1", "w-2", "w-3"}, "n[1-2]", {4, 2});
  const UnitPlan p = plan();
  EXPECT_TRUE(p.binds.empty());
  EXPECT_EQ(p.waiting.at(0).message, "Slurm job 7 is RUNNING but the pod cannot start: node n1 has no room: cpu");
}

// The largest member is the measure of every place, so each fits wherever it goes.
TEST_F(PackedGangTest, MembersThatDifferAreSizedByTheLargest) {
  add_pod("a", 1);
  add_pod("b", 4);
  add_pod("c", 2);
  EXPECT_EQ(plan().submit->cpus_per_task, 4u);
}

TEST_F(PackedGangTest, TheMinimumFirstAndTheRestByJobsOfTheirOwn) {
  view.root->gang->minimum = 2;
  const std::array first{add_pod("a"), add_pod("b")};
  for (const char* name : {"c", "d"}) add_pod(name);
  UnitPlan p = plan();
  EXPECT_EQ(p.submit->tasks, 2u);
  EXPECT_EQ(parse_record(*p.submit->admin_comment)->uids.size(), 2u);
  GangTest::add_job(7, slurm::JobState::kPending, {"a", "b"});
  view.jobs[0].record = *parse_record(*p.submit->admin_comment);
  p = plan();
  EXPECT_FALSE(p.update) << "c and d do not join";
  view.jobs.clear();
  for (const auto& pod : first) bind(*pod, 7, "n1");
  add_job(7, {"a", "b"}, "n1", {4});
  p = plan();
  ASSERT_TRUE(p.submit);
  EXPECT_EQ(p.submit->tasks, 1u);
  EXPECT_EQ(parse_record(*p.submit->admin_comment)->uids, std::vector{Uid("uid-c")});
}

// The random walk found it: a job of the gang was requeued and its node given to the next one, which had not been
// confirmed since.
TEST_F(PackedGangTest, TwoJobsThatNoLookHasShownTogetherDoNotShareANodeInOnePlan) {
  view.root->gang->minimum = 1;
  mark(*add_pod("a"), 7);
  mark(*add_pod("b"), 8);
  add_job(7, {"a"}, "n1", {2});
  add_job(8, {"b"}, "n1", {2});
  EXPECT_THAT(bound(plan()), ElementsAre("a@n1", "b@n1")) << "one look has shown both";
  view.jobs[0].confirmed_at -= 1s;
  const UnitPlan p = plan();
  EXPECT_THAT(bound(p), ElementsAre("a@n1"));
  EXPECT_LE(*p.wake, now + 1s);
}

// The random walk found it: those that get jobs of their own later were told nothing.
TEST_F(PackedGangTest, WhereNobodyFitsAllAreTold) {
  for (const char* name : {"a", "b", "c", "d"}) add_pod(name, 1000);
  const UnitPlan p = plan();
  ASSERT_EQ(p.waiting.size(), 1u);
  EXPECT_EQ(p.waiting[0].pods.size(), 4u) << p.waiting[0].message;
}

// The place of one that fits nowhere goes to the next.
TEST_F(PackedGangTest, WhoCannotJoinKeepsNoPlace) {
  mark(*add_pod("a"), 7);
  mark(*add_pod("b"), 7);
  add_pod("c", 16);
  add_pod("d");
  GangTest::add_job(7, slurm::JobState::kPending, {"a", "b"});
  view.jobs.back().record.cpus = 2;
  const UnitPlan p = plan();
  ASSERT_TRUE(p.update);
  EXPECT_EQ(p.update->description.tasks, 3u);
  EXPECT_THAT(parse_record(*p.update->description.admin_comment)->uids,
              ElementsAre(Uid("uid-a"), Uid("uid-b"), Uid("uid-d")));
}

// Of several jobs whose changes Slurm refuses, each is remembered: the refusal of one does not ask for the other again.
TEST_F(PackedGangTest, RefusedChangesOfSeveralJobsAreNotAskedForInTurn) {
  view.root->gang->minimum = 1;
  for (const char* name : {"a", "b"}) {
    const std::uint32_t job = *name == 'a' ? 7 : 8;
    mark(*add_pod(name), job);
    GangTest::add_job(job, slurm::JobState::kPending, {name});
    view.jobs.back().record.cpus = 2;
  }
  int updates = 0;
  for (int i = 0; i < 10; ++i) {
    const UnitPlan p = plan();
    if (!p.update) continue;
    ++updates;
    memory.updates[p.update->job] = {{}, p.update->fingerprint, "no"};
  }
  EXPECT_EQ(updates, 2);
}

TEST_F(PackedGangTest, AnAllocationThatIsNotSaidIsNotGuessed) {
  for (const char* name : {"a", "b", "c"}) mark(*add_pod(name), 7);
  add_job(7, {"a", "b", "c"}, "n[1-2]", {});
  EXPECT_TRUE(plan().binds.empty());
}

// A place is of the size that Slurm gave; the rest of the node is others'.
TEST_F(PackedGangTest, APlaceGoesToNobodyWhoAsksForMore) {
  view.root->gang->minimum = 1;
  bind(*add_pod("a"), 7, "n1");
  add_pod("b")->phase = kube::PodPhase::kSucceeded;
  const auto c = add_pod("c", 6);
  add_job(7, {"a", "b"}, "n1", {4});
  const auto takes_the_place = [&] {
    const UnitPlan p = plan();
    if (p.marks.empty()) {
      EXPECT_TRUE(p.submit);
      return false;
    }
    EXPECT_EQ(p.marks.front().job, JobId{7});
    EXPECT_FALSE(p.submit);
    return true;
  };
  EXPECT_FALSE(takes_the_place()) << "more CPUs";
  c->requests = {{interner("cpu"), Quantity(1)}, {interner("memory"), Quantity(std::int64_t{4} << 30)}};
  EXPECT_FALSE(takes_the_place()) << "more memory";
  c->requests = {{interner("cpu"), Quantity(1)}, {interner("memory"), Quantity(std::int64_t{3} << 30)}};
  EXPECT_TRUE(takes_the_place());
  c->limits = {{interner("nvidia.com/gpu"), Quantity(4)}};
  EXPECT_FALSE(takes_the_place()) << "GPUs";
}

// Slurm gives whole cores: a task of one CPU and one GPU holds two CPUs, and one GPU all the same.
TEST_F(PackedGangTest, AJobHasNoMorePlacesThanTasks) {
  view.root->gang->minimum = 1;
  bind(*add_pod("a"), 7, "n1");
  add_pod("b");
  add_job(7, {"a"}, "n1", {4});
  const UnitPlan p = plan();
  EXPECT_TRUE(p.marks.empty());
  EXPECT_TRUE(p.submit);
}

TEST_F(PackedGangTest, TasksOfWholeCoresAreSharedAmongTheirNodes) {
  view.root->gang->minimum = 2;
  mark(*add_pod("a"), 7);
  mark(*add_pod("b"), 7);
  add_job(7, {"a", "b"}, "n[1-2]", {4, 4});
  EXPECT_THAT(bound(plan()), ElementsAre("a@n1", "b@n2"));
}

// W15: the same group name in two namespaces is two gangs; a group of another kind is another.
TEST(UnitOf, GroupsAreOfOneNamespaceAndKind) {
  json::Interner interner;
  kube::Pod pod;
  pod.meta.key = {"a", "p"};
  pod.meta.uid = Uid("u");
  EXPECT_EQ(unit_of(pod), Uid("u"));
  pod.meta.labels = {{interner(names::kPodGroup), interner("g")}};
  EXPECT_EQ(unit_of(pod), Uid("scheduling.x-k8s.io/a/g"));
  pod.meta.key.ns = "b";
  EXPECT_EQ(unit_of(pod), Uid("scheduling.x-k8s.io/b/g"));
  pod.scheduling_group = interner("g");
  EXPECT_EQ(unit_of(pod), Uid("scheduling.k8s.io/b/g"));
  pod.scheduling_group = {};
  pod.meta.labels = {{interner(names::kLwsGroupKey), interner("k")}, {interner(names::kLwsName), interner("l")}};
  EXPECT_EQ(unit_of(pod), Uid("leaderworkerset.x-k8s.io/b/l/k"));
}

TEST(Rank, NumbersCountByValue) {
  const auto before = [](std::string a, std::string b) {
    kube::Pod x, y;
    x.meta.key = {"ns", std::move(a)};
    y.meta.key = {"ns", std::move(b)};
    EXPECT_FALSE(ranks_before(x, y) && ranks_before(y, x));
    return ranks_before(x, y);
  };
  EXPECT_TRUE(before("w-2", "w-10"));
  EXPECT_FALSE(before("w-10", "w-2"));
  EXPECT_TRUE(before("set-0", "set-0-1"));
  EXPECT_TRUE(before("set-0-9", "set-1"));
  EXPECT_TRUE(before("a01", "a1"));
  EXPECT_FALSE(before("a", "a"));
  EXPECT_TRUE(before("a-1-x", "a-2-a"));
}

}  // namespace
}  // namespace bascule::bridge
