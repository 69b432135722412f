#include "bridge/pod_plan.hpp"

#include <gtest/gtest.h>

#include "base/time.hpp"
#include "bridge/names.hpp"
#include "bridge/record.hpp"

namespace bascule::bridge {
namespace {

// One pod that runs on n1, and the Slurm job its label names.
struct PodPlanTest : ::testing::Test {
  PodPlanTest() {
    pod.meta.key = {"ns", "pod"};
    pod.meta.uid = Uid("u1");
    pod.meta.labels = {{interner(names::kSlurmJobId), interner("7")}};
    pod.meta.finalizers = {interner(names::kFinalizer)};
    pod.phase = kube::PodPhase::kRunning;
    pod.node_name = interner("n1");
    view.uid = Uid("u1");
    view.synced = true;
    view.highest = JobId{9};
  }

  void set_job(slurm::JobState state, const Uid& unit = Uid("u1")) {
    auto job = std::make_shared<slurm::Job>();
    job->id = JobId{7};
    job->states.base = state;
    const JobRecord record{"bridge", "cluster", unit, "spec", {{"ns", "pod"}}, {unit}, false};
    job->admin_comment = print_record(record);
    view.labelled[JobId{7}] = {slurm::Knowledge::kPresent, job};
    view.jobs.clear();
    if (unit == view.uid) view.jobs.push_back({job, record, {}});
  }
  void set_restarts(std::uint32_t count) {
    auto job = std::make_shared<slurm::Job>(*view.jobs[0].job);
    job->restart_count = count;
    view.jobs[0].job = view.labelled[JobId{7}].job = job;
  }
  PodSyncPlan plan_of(std::vector<PodPtr> pods) {
    view.pods = std::move(pods);
    return plan_pod_sync(view, memory, now);
  }
  PodSyncPlan plan() { return plan_of({std::make_shared<kube::Pod>(pod)}); }

  json::Interner interner;
  kube::Pod pod;
  PodSyncView view;
  PodSyncMemory memory;
  TimePoint now{};
};

TEST_F(PodPlanTest, NothingIsDoneWhileTheJobRuns) {
  set_job(slurm::JobState::kRunning);
  const PodSyncPlan made = plan();
  EXPECT_TRUE(made.deletes.empty() && made.cancels.empty() && made.releases.empty() && made.warnings.empty());
}

// A Slurm that lost everything must not keep deleted pods for ever.
TEST_F(PodPlanTest, ADeletedPodWaitsAMinuteForAJobOfWhichNothingIsKnown) {
  view.labelled[JobId{7}] = {slurm::Knowledge::kUnknown, nullptr};
  pod.phase = kube::PodPhase::kFailed;
  EXPECT_TRUE(plan().releases.empty());
  pod.meta.deleted = WallTime{};  // whatever the API server's clock says
  EXPECT_TRUE(plan().releases.empty());
  EXPECT_TRUE(plan().wake);
  now += std::chrono::seconds(60);
  EXPECT_EQ(plan().releases.size(), 1u);
  pod.phase = kube::PodPhase::kRunning;
  EXPECT_TRUE(plan().releases.empty()) << "it still uses its node";
}

TEST_F(PodPlanTest, AFinalizerIsRemovedOnceWhileTheWatchIsBehind) {
  view.jobs.clear();
  view.labelled[JobId{7}] = {slurm::Knowledge::kGone, nullptr};
  pod.phase = kube::PodPhase::kSucceeded;
  ASSERT_EQ(plan().releases.size(), 1u);
  memory.released[pod.meta.uid] = now;
  EXPECT_TRUE(plan().releases.empty());
  EXPECT_TRUE(plan().wake);
  now += std::chrono::seconds(10);
  EXPECT_EQ(plan().releases.size(), 1u) << "somebody has put it there again";
  pod.meta.finalizers.clear();
  EXPECT_TRUE(plan().releases.empty());
  EXPECT_TRUE(memory.released.empty());
}

TEST_F(PodPlanTest, APodWhoseJobHasEndedIsDeleted) {
  for (const auto state : {slurm::JobState::kCancelled, slurm::JobState::kTimeout, slurm::JobState::kNodeFail,
                           slurm::JobState::kPreempted, slurm::JobState::kCompleted}) {
    set_job(state);
    const PodSyncPlan made = plan();
    ASSERT_EQ(made.deletes.size(), 1u);
    EXPECT_EQ(made.deletes.front().job, JobId{7});
    EXPECT_TRUE(made.cancels.empty());
  }
}

// A killed slurmctld comes back with what it saved some seconds ago: the job has not started there yet.
TEST_F(PodPlanTest, AJobThatIsPendingAgainKeepsItsPodAndIsHeldToItsNode) {
  set_job(slurm::JobState::kPending);
  const PodSyncPlan made = plan();
  EXPECT_TRUE(made.deletes.empty() && made.cancels.empty());
  ASSERT_EQ(made.pins.size(), 1u);
  EXPECT_EQ(made.pins.begin()->first, JobId{7});
  ASSERT_EQ(made.warnings.size(), 1u);
  EXPECT_EQ(made.warnings.front().reason, "SlurmJobRestored");
}

// W48: a requeued job has given its nodes away: the pod goes, and the job keeps its place for whoever comes after it.
TEST_F(PodPlanTest, ARequeuedJobLosesItsPodAndWaitsForTheNextOne) {
  const auto requeue = [this](const Uid& owner) {
    set_job(slurm::JobState::kPending);
    set_restarts(1);
    view.jobs[0].record.owner = owner;
  };
  requeue(Uid("a Job"));
  PodSyncPlan made = plan();
  EXPECT_TRUE(made.pins.empty() && made.cancels.empty());
  ASSERT_EQ(made.deletes.size(), 1u);
  EXPECT_EQ(made.deletes.front().disruption, "PreemptionByScheduler");
  pod.meta.deleted = WallTime{};
  pod.phase = kube::PodPhase::kFailed;
  made = plan();
  EXPECT_EQ(made.releases.size(), 1u);
  EXPECT_TRUE(made.cancels.empty());
  ASSERT_TRUE(made.wake);
  now = *made.wake;
  EXPECT_EQ(plan().cancels.size(), 1u) << "nobody came";

  memory = {};
  requeue({});
  EXPECT_EQ(plan().cancels.size(), 1u) << "nobody will come for a bare pod's";
  pod.phase = kube::PodPhase::kRunning;
  pod.meta.deleted.reset();
  EXPECT_NE(plan().deletes.front().why.find("no controller"), std::string::npos);
}

// A StatefulSet makes the next pod when this one is gone, and Slurm may have started the job again by then.
TEST_F(PodPlanTest, ARequeuedJobThatRunsAgainWaitsForTheNextPodToo) {
  set_job(slurm::JobState::kRunning);
  set_restarts(1);
  view.jobs[0].record.owner = Uid("a StatefulSet");
  pod.meta.deleted = WallTime{};
  pod.phase = kube::PodPhase::kFailed;
  EXPECT_TRUE(plan().cancels.empty());
  PodSyncPlan made = plan_of({});
  EXPECT_TRUE(made.cancels.empty());
  EXPECT_EQ(made.wake, now + kSuccessorsWithin);
  now += kSuccessorsWithin;
  EXPECT_EQ(plan_of({}).cancels.size(), 1u) << "nobody came";
  memory = {};
  EXPECT_EQ(plan_of({}).cancels.size(), 1u) << "in use, and now over";
}

// ... but a job that had been requeued before the pod was bound, and is pending again, comes from an old state.
TEST_F(PodPlanTest, OnlyARequeueAfterTheBindingCounts) {
  set_job(slurm::JobState::kPending);
  set_restarts(1);
  pod.meta.annotations = {{interner(names::kSlurmRestarts), interner("1")}};
  PodSyncPlan made = plan();
  EXPECT_TRUE(made.deletes.empty());
  EXPECT_EQ(made.pins.size(), 1u);
  // Started again before anybody looked: the nodes are not the pod's.
  set_job(slurm::JobState::kRunning);
  set_restarts(2);
  EXPECT_EQ(plan().deletes.size(), 1u);
}

// While its pod cannot be deleted slurmctld forgets the job; the nodes were given away all the same.
TEST_F(PodPlanTest, ThatAJobHasEndedIsRememberedUntilItsPodIsGone) {
  const auto forget = [this] {
    view.labelled[JobId{7}] = {slurm::Knowledge::kGone, nullptr};
    view.jobs.clear();
    view.restarted = pod.meta.created;  // it proves nothing any more that younger ones are listed
  };
  set_job(slurm::JobState::kPreempted);
  const PodSyncPlan seen = plan();
  ASSERT_EQ(seen.deletes.size(), 1u);
  forget();
  PodSyncPlan made = plan();
  ASSERT_EQ(made.deletes.size(), 1u);
  EXPECT_EQ(made.deletes.front().why, seen.deletes.front().why);
  EXPECT_EQ(made.deletes.front().disruption, "PreemptionByScheduler");
  EXPECT_TRUE(made.conditions.empty() && made.warnings.empty());
  set_job(slurm::JobState::kRunning, Uid("another"));
  EXPECT_EQ(plan().deletes.size(), 1u) << "its id is another's";
  set_job(slurm::JobState::kUnknown);
  EXPECT_EQ(plan().deletes.size(), 1u);
  set_job(slurm::JobState::kRunning);
  EXPECT_TRUE(plan().deletes.empty()) << "an older state was put back";
  forget();
  EXPECT_TRUE(plan().deletes.empty());
  set_job(slurm::JobState::kTimeout);
  ASSERT_EQ(plan().deletes.size(), 1u);
  pod.meta.uid = Uid("the next of that name");
  forget();
  EXPECT_TRUE(plan().deletes.empty());
}

// Restored to before its start and started anew elsewhere, or made smaller: the node may be another's.
TEST_F(PodPlanTest, AJobThatRunsOnOtherNodesLeavesThePodAndSaysSo) {
  view.hosts[Uid("u1")] = "s1";  // n1's name in Slurm
  const auto run_on = [this](std::string nodes) {
    set_job(slurm::JobState::kRunning);
    auto job = std::make_shared<slurm::Job>(*view.jobs[0].job);
    job->nodes = std::move(nodes);
    view.jobs[0].job = view.labelled[JobId{7}].job = job;
    return plan();
  };
  for (const char* nodes : {"s[1-3]", "", "s["}) {
    const PodSyncPlan made = run_on(nodes);
    EXPECT_TRUE(made.conditions.empty() && made.warnings.empty()) << nodes;
  }
  PodSyncPlan made = run_on("n1,s[2-3]");
  EXPECT_TRUE(made.deletes.empty() && made.cancels.empty());
  ASSERT_EQ(made.warnings.size(), 1u);
  EXPECT_EQ(made.warnings.front().reason, "SlurmJobElsewhere");
  ASSERT_EQ(made.conditions.size(), 1u);
  EXPECT_FALSE(made.conditions.front().known);
  EXPECT_NE(made.conditions.front().message.find("not on s1"), std::string::npos);
  memory.told[pod.meta.uid] = made.conditions.front().message;
  EXPECT_TRUE(run_on("s2").conditions.empty()) << "told once";
  made = run_on("s1");
  ASSERT_EQ(made.conditions.size(), 1u);
  EXPECT_TRUE(made.conditions.front().known);
  memory.told.clear();
  view.hosts.clear();
  EXPECT_TRUE(run_on("s2").conditions.empty()) << "where the pod is is not known";
}

// What a controllers process knows of the job may be of the start before the one that the pod was bound for.
TEST_F(PodPlanTest, TheNodesOfAnEarlierStartSayNothing) {
  view.hosts[Uid("u1")] = "s1";
  set_job(slurm::JobState::kRunning);
  auto job = std::make_shared<slurm::Job>(*view.jobs[0].job);
  job->nodes = "s2";
  view.jobs[0].job = view.labelled[JobId{7}].job = job;
  pod.meta.annotations = {{interner(names::kSlurmRestarts), interner("1")}};
  EXPECT_TRUE(plan().conditions.empty());
}

// A newer Slurm's word, or an answer without one.
TEST_F(PodPlanTest, AStateThatIsNotKnownEndsNoPod) {
  set_job(slurm::JobState::kUnknown);
  const PodSyncPlan made = plan();
  EXPECT_TRUE(made.deletes.empty());
  ASSERT_EQ(made.warnings.size(), 1u);
  EXPECT_EQ(made.warnings.front().reason, "SlurmJobUnknown");
  ASSERT_EQ(made.conditions.size(), 1u);
  EXPECT_FALSE(made.conditions.front().known);
}

// A Job with a podFailurePolicy can tell what is not the pod's fault.
TEST_F(PodPlanTest, OnlyWhatIsNotThePodsFaultIsADisruption) {
  const auto said = [this](slurm::JobState state) {
    set_job(state);
    return plan().deletes.at(0).disruption;
  };
  EXPECT_EQ(said(slurm::JobState::kPreempted), "PreemptionByScheduler");
  EXPECT_EQ(said(slurm::JobState::kNodeFail), "SlurmNodeFail");
  EXPECT_EQ(said(slurm::JobState::kSuspended), "PreemptionByScheduler") << "PreemptMode=SUSPEND";
  EXPECT_EQ(said(slurm::JobState::kTimeout), "");
  EXPECT_EQ(said(slurm::JobState::kCancelled), "");
}

// W47
TEST_F(PodPlanTest, APodOfAnEndedJobHoldsItsObjectUntilItIsOver) {
  set_job(slurm::JobState::kCancelled);
  pod.meta.deleted = WallTime{};
  EXPECT_TRUE(plan().releases.empty());
  pod.phase = kube::PodPhase::kFailed;
  EXPECT_EQ(plan().releases.size(), 1u);
}

// ... or without the job, whose id then goes to somebody else's.
TEST_F(PodPlanTest, TheEndOfAnotherJobOfThatIdIsNotTheEndOfThePod) {
  set_job(slurm::JobState::kCompleted, Uid("another"));
  const PodSyncPlan made = plan();
  EXPECT_TRUE(made.deletes.empty() && made.pins.empty());
  ASSERT_EQ(made.warnings.size(), 1u);
  EXPECT_EQ(made.warnings.front().reason, "SlurmJobUnknown");
  // Of a user, or of a slurm-bridge beside us.
  auto job = std::make_shared<slurm::Job>(*view.labelled[JobId{7}].job);
  view.labelled[JobId{7}].job = job;
  for (const char* comment : {"", "mine", R"({"pods":["ns/another"]})"}) {
    job->admin_comment = comment;
    EXPECT_TRUE(plan().deletes.empty()) << comment;
  }
  job->admin_comment = R"({"pods":["ns/pod"]})";
  EXPECT_EQ(plan().deletes.size(), 1u) << "made by slurm-bridge before us";
}

TEST_F(PodPlanTest, AJobThatIsUnknownNeverEndsAPod) {
  view.labelled[JobId{7}] = {slurm::Knowledge::kUnknown, nullptr};
  EXPECT_TRUE(plan().deletes.empty());
}

// W38: no text says that a job is gone.
TEST_F(PodPlanTest, AForgottenJobEndsThePodOnlyWhenYoungerOnesAreListed) {
  view.labelled[JobId{7}] = {slurm::Knowledge::kGone, nullptr};
  EXPECT_EQ(plan().deletes.size(), 1u);
  view.highest = JobId{7};
  EXPECT_TRUE(plan().deletes.empty());
  EXPECT_EQ(plan().warnings.size(), 1u);
}

// Ids given anew after a loss pass the old ones some day; only a slurmctld that has never stopped surely knows better.
TEST_F(PodPlanTest, AForgottenJobEndsThePodOnlyWhenSlurmctldHasBeenRunningSinceBefore) {
  pod.meta.created = WallTime(std::chrono::hours(10));
  view.labelled[JobId{7}] = {slurm::Knowledge::kGone, nullptr};
  PodSyncPlan made = plan();
  ASSERT_EQ(made.deletes.size(), 1u);
  const WallTime before = pod.meta.created - kClocksDiffer;
  EXPECT_EQ(made.deletes.front().running_since, before) << "to be asked";
  EXPECT_TRUE(made.conditions.empty());
  view.restarted = before - std::chrono::hours(1);
  EXPECT_EQ(plan().deletes.size(), 1u) << "that is known of an earlier time";
  view.restarted = before;
  made = plan();
  EXPECT_TRUE(made.deletes.empty());
  ASSERT_EQ(made.warnings.size(), 1u);
  ASSERT_EQ(made.conditions.size(), 1u);
  EXPECT_FALSE(made.conditions.front().known);
  EXPECT_EQ(made.conditions.front().message, made.warnings.front().note);
}

// To a Slurm whose clock is an hour behind it was started before the pod was made, though it was after.
TEST_F(PodPlanTest, ThatSlurmctldHasBeenRunningSinceBeforeIsSaidByItsOwnClock) {
  pod.meta.created = WallTime(std::chrono::hours(240));
  view.labelled[JobId{7}] = {slurm::Knowledge::kGone, nullptr};
  const auto running_since = [&](WallTime submitted) {
    pod.meta.annotations = {{interner(names::kSlurmSubmitted), interner(std::to_string(epoch_seconds(submitted)))}};
    return plan().deletes.at(0).running_since;
  };
  const WallTime behind = pod.meta.created - std::chrono::hours(1);
  EXPECT_EQ(running_since(behind), behind);
  EXPECT_EQ(running_since(pod.meta.created + std::chrono::hours(1)), pod.meta.created - kClocksDiffer);
  EXPECT_EQ(running_since(pod.meta.created - std::chrono::hours(100)), pod.meta.created - kClocksDiffer)
      << "a member that was made anew: its job is old";
}

TEST_F(PodPlanTest, ThatAJobIsUnknownIsWrittenOnceAndTakenBack) {
  view.labelled[JobId{7}] = {slurm::Knowledge::kGone, nullptr};
  view.highest = JobId{7};
  const std::string message = plan().conditions.at(0).message;
  memory.told[pod.meta.uid] = message;
  EXPECT_TRUE(plan().conditions.empty());
  set_job(slurm::JobState::kRunning);
  ASSERT_EQ(plan().conditions.size(), 1u);
  EXPECT_TRUE(plan().conditions.front().known);
  memory.told[pod.meta.uid] = {};
  EXPECT_TRUE(plan().conditions.empty()) << "it has been written";
  memory.told.clear();
  EXPECT_TRUE(plan().conditions.empty()) << "the ordinary case is not worth a write";
  pod.conditions = {{interner(names::kSlurmJobKnown), {true, interner("False"), {}, interner(message)}}};
  ASSERT_EQ(plan().conditions.size(), 1u) << "an earlier process wrote it";
  EXPECT_TRUE(plan().conditions.front().known);
}

// After a loss ids begin anew: a controller started since then has never heard of the job.
TEST_F(PodPlanTest, AJobAboveAllThatSlurmListsIsToldOfAfterAWhile) {
  view.labelled[JobId{7}] = {slurm::Knowledge::kUnknown, nullptr};
  view.highest = JobId{3};
  EXPECT_TRUE(plan().warnings.empty());
  EXPECT_TRUE(plan().asks.empty()) << "the next table has it, mostly";
  now += kUnheardOf / 2;
  EXPECT_TRUE(plan().warnings.empty());
  EXPECT_EQ(plan().asks, std::vector{JobId{7}});
  now += kUnheardOf / 2;
  EXPECT_EQ(plan().warnings.size(), 1u);
  EXPECT_EQ(plan().conditions.size(), 1u);
  view.highest = {};
  EXPECT_TRUE(plan().warnings.empty()) << "nothing is known of Slurm";
}

// The webhook was away when somebody changed the group of a bound pod: its job's record still names it.
TEST_F(PodPlanTest, AJobStandsForAPodThatChangedItsGroup) {
  set_job(slurm::JobState::kCancelled, Uid("its old group"));
  auto job = std::make_shared<slurm::Job>(*view.labelled[JobId{7}].job);
  job->admin_comment =
      print_record({"bridge", "cluster", Uid("its old group"), "spec", {{"ns", "pod"}}, {pod.meta.uid}});
  view.labelled[JobId{7}].job = job;
  EXPECT_EQ(plan().deletes.size(), 1u);
  EXPECT_TRUE(plan().warnings.empty());
}

TEST_F(PodPlanTest, TheJobIsCancelledOnceThePodIsOverAndThenTheFinalizerGoes) {
  set_job(slurm::JobState::kRunning);
  pod.phase = kube::PodPhase::kSucceeded;
  const PodSyncPlan made = plan();
  ASSERT_EQ(made.cancels.size(), 1u);
  EXPECT_EQ(made.releases.size(), 1u);
}

// The random walk found it: the pod has been told this job, and runs, and the watch is late.
TEST_F(PodPlanTest, APodThatCountsOnAnotherJobIsSeenToDoSoBeforeThisOneIsCancelled) {
  set_job(slurm::JobState::kRunning);
  auto other = std::make_shared<slurm::Job>(*view.jobs[0].job);
  other->id = JobId{8};
  view.jobs.push_back({other, view.jobs[0].record, {}});
  view.labelled[JobId{8}] = {slurm::Knowledge::kPresent, other};
  pod.meta.labels = {{interner(names::kSlurmJobId), interner("8")}};
  const PodSyncPlan made = plan();
  ASSERT_EQ(made.cancels.size(), 1u);
  EXPECT_EQ(made.cancels[0].job, JobId{7});
  EXPECT_TRUE(made.cancels[0].uids.empty());
  ASSERT_EQ(made.cancels[0].elsewhere.size(), 1u);
  EXPECT_EQ(made.cancels[0].elsewhere[0].uid, pod.meta.uid);
  EXPECT_EQ(made.cancels[0].elsewhere[0].job, JobId{8});
}

// The scheduler may be giving the node of a member that is over to one that waits.
TEST_F(PodPlanTest, AJobOfAGangIsLeftToTheSchedulerWhileMembersWait) {
  set_job(slurm::JobState::kRunning);
  pod.phase = kube::PodPhase::kSucceeded;
  auto waiting = std::make_shared<kube::Pod>();
  waiting->meta.uid = Uid("waiting");
  waiting->phase = kube::PodPhase::kPending;
  const auto both = [&] { return plan_of({std::make_shared<kube::Pod>(pod), waiting}); };
  PodSyncPlan made = both();
  EXPECT_TRUE(made.cancels.empty());
  EXPECT_EQ(made.wake, now + kSuccessorsWithin);
  now += kSuccessorsWithin;
  EXPECT_EQ(both().cancels.size(), 1u) << "the scheduler does not want it";
  memory = {};
  EXPECT_EQ(plan().cancels.size(), 1u) << "nobody waits";
  set_job(slurm::JobState::kPending);
  memory = {};
  EXPECT_EQ(both().cancels.size(), 1u) << "it holds nothing";
}

// Before a job is cancelled others are asked, who take their time: meanwhile the scheduler may give its nodes to
// members that were made since.
TEST_F(PodPlanTest, AJobThatAMemberNeedsMeanwhileIsNotCancelled) {
  set_job(slurm::JobState::kRunning);
  pod.phase = kube::PodPhase::kSucceeded;
  ASSERT_EQ(plan().cancels.size(), 1u);
  const auto needed = [&](const kube::Pod& member) {
    return needed_meanwhile(*view.jobs[0].job, {view.pods[0], std::make_shared<kube::Pod>(member)}, memory);
  };
  kube::Pod member = pod;
  EXPECT_FALSE(needed(member)) << "over";
  member.phase = kube::PodPhase::kRunning;
  EXPECT_TRUE(needed(member)) << "it was given one of the nodes";
  member.meta.labels = {{interner(names::kSlurmJobId), interner("8")}};
  EXPECT_FALSE(needed(member)) << "another job's";
  member.meta.labels.clear();
  member.phase = kube::PodPhase::kPending;
  member.node_name = {};
  EXPECT_TRUE(needed(member)) << "the scheduler may be about to give it one";
  memory.without_pods[JobId{7}] = now;
  EXPECT_FALSE(needed(member)) << "the scheduler has had a minute, and does not want the job";
  memory = {};
  set_job(slurm::JobState::kPending);
  EXPECT_FALSE(needed(member)) << "it holds nothing";
}

TEST_F(PodPlanTest, AClaimThatAnotherPodUsesIsLeftToKubernetes) {
  set_job(slurm::JobState::kRunning);
  pod.phase = kube::PodPhase::kSucceeded;
  ResourceClaim claim;
  claim.meta.finalizers = {interner(kClaimProtection)};
  claim.pod = pod.meta.uid;
  const auto drops = [&] {
    view.device_claims = {std::make_shared<ResourceClaim>(claim)};
    return plan().device_drops.size();
  };
  EXPECT_EQ(drops(), 1u);
  claim.reserved_for = {pod.meta.uid};
  EXPECT_EQ(drops(), 1u);
  claim.reserved_for.emplace_back("another");
  EXPECT_EQ(drops(), 0u);
  EXPECT_EQ(plan().cancels.size(), 1u);
}

// The record of slurm-bridge names no UIDs: ours of the same pods may be longer than a record is read.
TEST_F(PodPlanTest, AnAdoptedJobsRecordNamesAsManyPodsAsItCan) {
  set_job(slurm::JobState::kRunning);
  JobRecord& record = view.jobs[0].record;
  record.legacy = true;
  const std::string name(200, 'x');
  for (std::size_t i = 0; i < 4000; ++i) {
    record.pods.push_back({"ns", name + std::to_string(i)});
    record.uids.emplace_back("12345678-1234-1234-1234-1234567" + std::to_string(10000 + i));
  }
  const PodSyncPlan made = plan();
  ASSERT_EQ(made.adopts.size(), 1u);
  const auto read = parse_record(print_record(made.adopts.front().record));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->unit, view.uid);
  EXPECT_GT(read->pods.size(), 3500u);
}

TEST_F(PodPlanTest, ATerminatingPodKeepsItsAllocationUntilItIsOver) {
  set_job(slurm::JobState::kRunning);
  pod.meta.deleted = WallTime{};
  const PodSyncPlan made = plan();
  EXPECT_TRUE(made.cancels.empty() && made.releases.empty() && made.deletes.empty());
}

}  // namespace
}  // namespace bascule::bridge
