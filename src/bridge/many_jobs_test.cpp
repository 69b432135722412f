// An array of pods that may share nodes and need not start together has a job for each of them: what one plan costs
// with thousands of them, in processor time.
#include <ctime>

#include "bridge/gang_plan_test.hpp"
#include "bridge/pod_plan.hpp"

namespace bascule::bridge {
namespace {

#if defined(__OPTIMIZE__) && !__has_feature(address_sanitizer)
constexpr double kMostSeconds = 0.1;
#else
constexpr double kMostSeconds = 5;
#endif

struct ManyJobsTest : GangTest {
  ManyJobsTest() {
    view.root->annotations = {{interner("slurmjob.slinky.slurm.net/exclusive"), interner("false")}};
    view.root->gang->minimum = 1;
    for (int i = 0; i < 3'000; ++i) add_pod("w-" + std::to_string(i))->requests = {{interner("cpu"), Quantity(1)}};
  }
  // Each as it would be described now.
  void add_waiting_jobs() {
    const std::vector<PodPtr> all = std::exchange(view.pods, {});
    std::vector<JobView> jobs;
    for (const PodPtr& pod : all) {
      view.pods = {pod};
      const auto record = parse_record(*plan().submit->admin_comment);
      auto job = std::make_shared<slurm::Job>();
      job->id = JobId{static_cast<std::uint32_t>(jobs.size()) + 1};
      job->states.base = slurm::JobState::kPending;
      jobs.push_back({job, *record, now});
    }
    view.pods = all;
    view.jobs = std::move(jobs);
  }
  template <class Work>
  static double seconds(Work work) {
    const std::clock_t begun = std::clock();
    work();
    return static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC;
  }
};

TEST_F(ManyJobsTest, TheSchedulersPlanIsCheap) {
  add_waiting_jobs();
  UnitPlan made;
  EXPECT_LT(seconds([&] { made = plan(); }), kMostSeconds);
  EXPECT_FALSE(made.update || made.submit);
  EXPECT_EQ(made.waiting.size(), view.pods.size());
}

TEST_F(ManyJobsTest, SeveralAreSubmittedByOnePlan) {
  const UnitPlan made = plan();
  ASSERT_TRUE(made.submit);
  ASSERT_EQ(made.more.size(), 15u);
  std::set<Uid> named;
  const auto names = [&named](const slurm::JobDescription& job) {
    const auto record = parse_record(*job.admin_comment);
    named.insert(record->uids.begin(), record->uids.end());
  };
  names(*made.submit);
  for (const slurm::JobDescription& one : made.more) {
    EXPECT_EQ(one.tasks, 1u);
    names(one);
  }
  EXPECT_EQ(named.size(), 16u);
  EXPECT_TRUE(named.contains(Uid("uid-w-0")) && named.contains(Uid("uid-w-15"))) << "in order of rank";
  view.root->gang->minimum = 2;
  EXPECT_TRUE(plan().more.empty()) << "who start together are looked at together";
}

TEST_F(ManyJobsTest, ThePodSyncsPlanIsCheap) {
  add_waiting_jobs();
  PodSyncView sync{view.uid, view.pods, view.jobs, {}, JobId{5'000}, true};
  PodSyncMemory mind;
  PodSyncPlan made;
  EXPECT_LT(seconds([&] { made = plan_pod_sync(sync, mind, now); }), kMostSeconds);
  EXPECT_TRUE(made.cancels.empty());
  sync.pods.clear();
  EXPECT_LT(seconds([&] { made = plan_pod_sync(sync, mind, now); }), kMostSeconds);
  EXPECT_EQ(made.cancels.size(), view.jobs.size());
}

}  // namespace
}  // namespace bascule::bridge
