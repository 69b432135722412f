#include "bridge/pod_plan.hpp"

#include <gtest/gtest.h>

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
  PodSyncPlan plan() {
    view.pods = {std::make_shared<kube::Pod>(pod)};
    return plan_pod_sync(view, {});
  }

  json::Interner interner;
  kube::Pod pod;
  PodSyncView view;
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
  view.wall = WallTime(std::chrono::hours(1));
  pod.meta.deleted = view.wall;
  EXPECT_TRUE(plan().releases.empty());
  EXPECT_TRUE(plan().wake);
  view.wall += std::chrono::seconds(61);
  EXPECT_EQ(plan().releases.size(), 1u);
  pod.phase = kube::PodPhase::kRunning;
  EXPECT_TRUE(plan().releases.empty()) << "it still uses its node";
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

// ... or without the job, whose id then goes to somebody else's.
TEST_F(PodPlanTest, TheEndOfAnotherJobOfThatIdIsNotTheEndOfThePod) {
  set_job(slurm::JobState::kCompleted, Uid("another"));
  const PodSyncPlan made = plan();
  EXPECT_TRUE(made.deletes.empty() && made.pins.empty());
  ASSERT_EQ(made.warnings.size(), 1u);
  EXPECT_EQ(made.warnings.front().reason, "SlurmJobUnknown");
}

TEST_F(PodPlanTest, AJobThatIsUnknownNeverEndsAPod) {
  view.labelled[JobId{7}] = {slurm::Knowledge::kUnknown, nullptr};
  EXPECT_TRUE(plan().deletes.empty());
}

TEST_F(PodPlanTest, AForgottenJobEndsThePodOnlyWhenYoungerOnesAreListed) {
  view.labelled[JobId{7}] = {slurm::Knowledge::kGone, nullptr};
  EXPECT_EQ(plan().deletes.size(), 1u);
  view.highest = JobId{7};
  EXPECT_TRUE(plan().deletes.empty());
  EXPECT_EQ(plan().warnings.size(), 1u);
}

TEST_F(PodPlanTest, TheJobIsCancelledOnceThePodIsOverAndThenTheFinalizerGoes) {
  set_job(slurm::JobState::kRunning);
  pod.phase = kube::PodPhase::kSucceeded;
  const PodSyncPlan made = plan();
  ASSERT_EQ(made.cancels.size(), 1u);
  EXPECT_EQ(made.releases.size(), 1u);
}

TEST_F(PodPlanTest, ATerminatingPodKeepsItsAllocationUntilItIsOver) {
  set_job(slurm::JobState::kRunning);
  pod.meta.deleted = WallTime{};
  const PodSyncPlan made = plan();
  EXPECT_TRUE(made.cancels.empty() && made.releases.empty() && made.deletes.empty());
}

}  // namespace
}  // namespace bascule::bridge
