#include "testing/fake_slurm.hpp"

#include <gmock/gmock.h>

#include "base/manual_loop.hpp"

namespace bascule::testing {
namespace {

using namespace std::chrono_literals;
using slurm::JobState;

struct FakeSlurmTest : ::testing::Test {
  ManualLoop loop;
  FakeSlurm fake{loop};

  void SetUp() override {
    fake.add_nodes("NodeName=n[1-2] CPUs=8 RealMemory=8000 Gres=gpu:h100:2 Feature=fast State=EXTERNAL");
    fake.add_nodes("NodeName=m[1-2] CPUs=8 RealMemory=8000 Feature=slow State=EXTERNAL");
  }
  static slurm::JobDescription job(std::uint32_t cpus = 8) {
    slurm::JobDescription out;
    out.nodes = 1;
    out.cpus_per_task = cpus;
    out.memory_per_node = 100;
    return out;
  }
  const slurm::Job& view(JobId id) { return fake.model().job(id)->view; }
  JobState state(JobId id) { return view(id).states.base; }
};

TEST_F(FakeSlurmTest, StartsByPriorityWhenNodesAreFree) {
  slurm::JobDescription all = job();
  all.nodes = 4;
  const JobId holder = fake.submit(all, 60s);
  EXPECT_EQ(view(holder).nodes, "m[1-2],n[1-2]");
  slurm::JobDescription urgent = all;
  urgent.priority = 5000;
  const JobId low = fake.submit(all, 60s);
  const JobId high = fake.submit(urgent, 60s);
  EXPECT_EQ(view(high).state_reason, "Resources");
  EXPECT_EQ(view(low).state_reason, "Priority");
  loop.advance(61s);
  EXPECT_EQ(state(holder), JobState::kCompleted);
  EXPECT_EQ(state(high), JobState::kRunning);
  EXPECT_EQ(state(low), JobState::kPending);
  loop.advance(60s);
  EXPECT_EQ(state(low), JobState::kRunning);
}

TEST_F(FakeSlurmTest, CountsCpusMemoryAndGpus) {
  slurm::JobDescription half = job(4);
  half.required_nodes = std::vector<std::string>{"n1"};
  const JobId a = fake.submit(half), b = fake.submit(half), c = fake.submit(half);
  EXPECT_EQ(state(a), JobState::kRunning);
  EXPECT_EQ(state(b), JobState::kRunning);
  EXPECT_EQ(state(c), JobState::kPending);
  slurm::JobDescription gpus = job(1);
  gpus.tres_per_node = "gres/gpu:2";
  const JobId d = fake.submit(gpus), e = fake.submit(gpus);
  EXPECT_EQ(view(d).nodes, "n2");
  EXPECT_THAT(view(d).gres_detail, ::testing::ElementsAre("gpu:h100:2(IDX:0-1)"));
  EXPECT_EQ(state(e), JobState::kPending);
  slurm::JobDescription whole = job(1);
  whole.exclusive = true;
  whole.constraints = "slow";
  EXPECT_EQ(view(fake.submit(whole)).nodes, "m1");
  slurm::JobDescription big = job(1);
  big.memory_per_node = 9000;
  EXPECT_EQ(fake.model().submit(fake.now(), big, true).error().number, 2014);
}

TEST_F(FakeSlurmTest, HonoursExclusionFeaturesAndHold) {
  slurm::JobDescription picky = job();
  picky.excluded_nodes = std::vector<std::string>{"n[1-2]"};
  picky.constraints = "fast|slow";
  EXPECT_EQ(view(fake.submit(picky)).nodes, "m1");
  slurm::JobDescription held = job();
  held.hold = true;
  const JobId id = fake.submit(held);
  EXPECT_EQ(view(id).state_reason, "JobHeldUser");
  held = {};
  held.priority = 10;
  ASSERT_TRUE(fake.model().update_job(fake.now(), id, held));
  EXPECT_EQ(state(id), JobState::kRunning);
  slurm::JobDescription impossible = job();
  impossible.constraints = "fast&slow";
  EXPECT_EQ(fake.model().submit(fake.now(), impossible, true).error().number, 2029);
}

TEST_F(FakeSlurmTest, JobsOfAPartitionThatIsDownWaitAndHoldUpNobody) {
  fake.model().add_partition("closed", false);
  fake.model().set_partition_up(fake.now(), "closed", false);
  slurm::JobDescription late = job();
  late.partition = "closed";
  const JobId waits = fake.submit(late, 60s), runs = fake.submit(job(), 60s);
  EXPECT_EQ(view(waits).state_reason, "PartitionDown");
  EXPECT_EQ(state(runs), JobState::kRunning);
  fake.model().set_partition_up(fake.now(), "closed", true);
  EXPECT_EQ(state(waits), JobState::kRunning);
}

TEST_F(FakeSlurmTest, TimeLimitsPurgesAndNodeFailures) {
  slurm::JobDescription limited = job();
  limited.time_limit = 1;
  const JobId id = fake.submit(limited);
  loop.advance(61s);
  EXPECT_EQ(state(id), JobState::kTimeout);
  loop.advance(300s);
  EXPECT_EQ(fake.model().job(id), nullptr);
  const JobId other = fake.submit(job());
  slurm::NodeUpdate down;
  down.state = "DOWN";
  down.reason = "test";
  ASSERT_TRUE(fake.model().update_node(fake.now(), view(other).nodes, down));
  EXPECT_EQ(state(other), JobState::kNodeFail);
}

TEST_F(FakeSlurmTest, DrainedNodesTakeNothingNewAndBusyNodesStay) {
  ASSERT_TRUE(fake.model().add_node(fake.now(), "NodeName=d1 CPUs=1 RealMemory=500 Feature=dyn State=EXTERNAL", true));
  slurm::JobDescription there = job(1);
  there.constraints = "dyn";
  const JobId first = fake.submit(there);
  slurm::NodeUpdate drain;
  drain.state = "DRAIN";
  drain.reason = "cordoned";
  ASSERT_TRUE(fake.model().update_node(fake.now(), "d1", drain));
  EXPECT_EQ(state(first), JobState::kRunning);
  EXPECT_EQ(fake.model().delete_node(fake.now(), "d1").error().number, 2016);
  ASSERT_TRUE(fake.model().cancel(fake.now(), first));
  EXPECT_EQ(state(fake.submit(there)), JobState::kPending);
  EXPECT_TRUE(fake.model().delete_node(fake.now(), "d1"));
}

TEST_F(FakeSlurmTest, HoldsThousands) {
  SlurmModelOptions options;
  options.schedule_delay = 1s;
  SlurmModel model(fake.now(), options);
  model.add_partition("main", true);
  model.add_node(fake.now(), "NodeName=x[1-5000] CPUs=8 RealMemory=8000 State=EXTERNAL", false).value();
  for (int i = 0; i < 5000; ++i) ASSERT_TRUE(model.submit(fake.now(), job(), true));
  model.catch_up(fake.now() + 2s);
  EXPECT_EQ(model.job(JobId{5000})->view.states.base, JobState::kPending) << "beyond the schedule depth";
  EXPECT_EQ(model.job(JobId{2000})->view.states.base, JobState::kRunning);
}

}  // namespace
}  // namespace bascule::testing
