// An administrator, or a job_submit plug-in, writes words of his own over the record by which a job of ours is known:
// the job stays its pods', and ends with them.
#include "bridge/bridge_sim_test.hpp"

namespace bascule::bridge {
namespace {

using ::testing::HasSubstr;

struct Overwritten : ::testing::Test {
  void start() {
    w.scheduler.start();
    w.loop.advance(1ms);  // names of events are made of the time of the start
    w.pod_sync.start();
  }
  void kill() {
    w.scheduler.kill();
    w.pod_sync.kill();
  }
  void add_pod() {
    w.api.create(r::kPods,
                 testing::make_pod({.name = "p", .ns = "slurm-bridge", .scheduler = "slurm-bridge-scheduler"}));
  }
  void overwrite(std::uint32_t job) {
    slurm::JobDescription change;
    change.admin_comment = "INC-17";
    ASSERT_TRUE(w.slurm.model().update_job(w.slurm.now(), JobId{job}, change));
  }
  // Its job is 2, behind job 1, which holds the nodes.
  void start_with_a_pod_that_waits() {
    w.hold_nodes(2);
    start();
    add_pod();
    w.loop.advance(1min);
  }
  void expect_written_back_and_bound() {
    EXPECT_TRUE(parse_record(comment(2))) << comment(2);
    EXPECT_THAT(comment(2), HasSubstr("INC-17"));
    ASSERT_TRUE(w.slurm.model().cancel(w.slurm.now(), JobId{1}));
    w.loop.advance(10s);
    EXPECT_TRUE(bound());
    EXPECT_EQ(w.slurm.model().submitted(), 2u);
  }
  std::string comment(std::uint32_t job) { return w.slurm.model().job(JobId{job})->view.admin_comment; }
  bool bound() { return w.pods_on_nodes().size() == 1; }

  World w{51, 2, 1min};
};

TEST_F(Overwritten, TheRecordOfARunningJobIsWrittenBackBesideTheWords) {
  start();
  add_pod();
  w.loop.advance(5s);
  ASSERT_TRUE(bound());
  overwrite(1);
  w.loop.advance(20s);
  EXPECT_TRUE(parse_record(comment(1))) << comment(1);
  EXPECT_THAT(comment(1), HasSubstr("INC-17"));
  kill();
  start();
  w.loop.advance(2min);
  EXPECT_EQ(w.live_jobs(), 0u);
}

// Nobody of the bridge has seen that job with its record: the pod says which it is.
TEST_F(Overwritten, AJobEndsWithItsPodThoughNobodySawItsRecord) {
  start();
  add_pod();
  w.loop.advance(5s);
  ASSERT_TRUE(bound());
  kill();
  overwrite(1);
  start();
  w.loop.advance(20s);
  EXPECT_TRUE(parse_record(comment(1))) << comment(1);
  w.loop.advance(2min);
  EXPECT_EQ(w.live_jobs(), 0u);
  EXPECT_EQ(w.slurm.model().submitted(), 1u);
}

// ... by the time of its submit: the next job of that id is another's.
TEST_F(Overwritten, AJobOfAnotherTimeIsNotTakenForIt) {
  start();
  add_pod();
  w.loop.advance(5s);
  ASSERT_TRUE(bound());
  kill();
  w.slurm.stop_controller();
  w.slurm.model().lose_state(w.slurm.now(), true, true);
  w.slurm.start_controller();
  slurm::JobDescription theirs;
  theirs.nodes = 2;
  theirs.exclusive = true;
  theirs.admin_comment = "INC-17";
  ASSERT_EQ(w.slurm.submit(std::move(theirs)), JobId{1});
  start();
  w.loop.advance(3min);
  EXPECT_EQ(comment(1), "INC-17");
  EXPECT_EQ(w.slurm.model().job(JobId{1})->view.states.base, slurm::JobState::kRunning);
}

TEST_F(Overwritten, TheRecordOfAWaitingJobIsWrittenBack) {
  start_with_a_pod_that_waits();
  overwrite(2);
  w.loop.advance(2min);
  expect_written_back_and_bound();
}

// What the pod was told of its job says which it is.
TEST_F(Overwritten, AWaitingJobStaysItsPodsThoughNobodySawItsRecord) {
  start_with_a_pod_that_waits();
  kill();
  overwrite(2);
  start();
  w.loop.advance(1min);
  expect_written_back_and_bound();
}

TEST_F(Overwritten, AWaitingJobEndsWithItsPodThoughNobodySawItsRecord) {
  start_with_a_pod_that_waits();
  kill();
  overwrite(2);
  w.api.remove(r::kPods, {"slurm-bridge", "p"});
  start();
  w.loop.advance(1min);
  EXPECT_TRUE(w.slurm.model().job(JobId{2})->view.states.ended());
  EXPECT_FALSE(w.api.get(r::kPods, {"slurm-bridge", "p"}));
}

// ... unless it was submitted at another time.
TEST_F(Overwritten, AWaitingJobOfAnotherTimeIsNotTakenForIt) {
  start_with_a_pod_that_waits();
  kill();
  w.slurm.stop_controller();
  w.slurm.model().lose_state(w.slurm.now(), true, true);
  w.slurm.start_controller();
  w.hold_nodes(2);
  slurm::JobDescription theirs;
  theirs.nodes = 2;
  theirs.exclusive = true;
  theirs.admin_comment = "INC-17";
  ASSERT_EQ(w.slurm.submit(std::move(theirs)), JobId{2});
  w.api.remove(r::kPods, {"slurm-bridge", "p"});
  start();
  w.loop.advance(3min);
  EXPECT_EQ(comment(2), "INC-17");
  EXPECT_FALSE(w.slurm.model().job(JobId{2})->view.states.ended());
}

TEST_F(Overwritten, APodThatCannotKnowItsJobSaysWhy) {
  start_with_a_pod_that_waits();
  kill();
  overwrite(2);
  json::Value untold = *w.api.get(r::kPods, {"slurm-bridge", "p"});
  ASSERT_EQ(json::at_or_create(untold, {"metadata", "annotations"}).get_object().erase(names::kSlurmSubmitted), 1u);
  w.api.update(r::kPods, untold);
  start();
  w.loop.advance(1min);
  const std::string status = json::dump(*json::find(*w.api.get(r::kPods, {"slurm-bridge", "p"}), {"status"}));
  EXPECT_THAT(status, HasSubstr("ForeignJob"));
  EXPECT_THAT(status, HasSubstr("Slurm job 2"));
  EXPECT_THAT(status, HasSubstr("INC-17"));
}

// The id of the pod's job, which starts at once or waits for the nodes.
JobId start_with_one_pod(World& w, bool waits) {
  if (waits) w.hold_nodes(2);
  w.scheduler.start();
  w.loop.advance(1ms);
  w.pod_sync.start();
  w.api.create(r::kPods, testing::make_pod({.name = "p", .ns = "slurm-bridge", .scheduler = "slurm-bridge-scheduler"}));
  return JobId{waits ? 2u : 1u};
}

// It writes before slurmctld has told anybody of the job.
TEST_F(Overwritten, AJobSubmitPluginTakesNoJobFromItsPod) {
  for (const bool waits : {true, false}) {
    World one(waits ? 52 : 53, 2, 1min);
    const JobId job = start_with_one_pod(one, waits);
    const auto plugin = [&] {
      if (one.slurm.model().job(job) == nullptr) return false;
      slurm::JobDescription change;
      change.admin_comment = "checked";
      return one.slurm.model().update_job(one.slurm.now(), job, change).has_value();
    };
    ASSERT_TRUE(one.loop.run_until(plugin, 10s));
    one.loop.advance(30s);
    if (waits) {
      ASSERT_TRUE(one.slurm.model().cancel(one.slurm.now(), JobId{1}));
      one.loop.advance(10s);
    }
    EXPECT_EQ(one.pods_on_nodes().size(), 1u) << waits;
    const std::optional<JobRecord> record = parse_record(one.slurm.model().job(job)->view.admin_comment);
    ASSERT_TRUE(record) << waits;
    EXPECT_FALSE(record->spec.empty()) << waits << ": of the controllers, who know less than the scheduler";
    one.loop.advance(2min);
    EXPECT_EQ(one.live_jobs(), 0u) << waits;
    EXPECT_EQ(one.slurm.model().submitted(), job.value);
  }
}

// What is remembered serves as well; and the last word is not fought for.
TEST_F(Overwritten, APluginThatWritesOverEachOfOurWritesIsLetBe) {
  for (const bool waits : {true, false}) {
    World one(waits ? 54 : 55, 2, 12h);
    const JobId job = start_with_one_pod(one, waits);
    int written = 0;
    const auto plugin = [&] {
      const auto* there = one.slurm.model().job(job);
      if (there == nullptr || there->view.admin_comment.starts_with("checked")) return;
      slurm::JobDescription change;
      change.admin_comment = "checked " + std::to_string(++written);
      ASSERT_TRUE(one.slurm.model().update_job(one.slurm.now(), job, change));
    };
    for (int second = 0; second < 3600; ++second) {
      one.loop.advance(1s);
      plugin();
    }
    EXPECT_LE(written, 30) << waits;
    EXPECT_EQ(one.pods_on_nodes().size(), waits ? 0u : 1u);
    EXPECT_EQ(one.live_jobs(), waits ? 2u : 1u);
  }
}

}  // namespace
}  // namespace bascule::bridge
