// What each state of a job, with each flag, means for a pod that waits for it and for one that runs by it. Meaning of
// the words: squeue(1), "JOB STATE CODES"; slurmctld's own use of them.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/time.hpp"
#include "bridge/names.hpp"
#include "bridge/node_table.hpp"
#include "bridge/pod_plan.hpp"
#include "bridge/unit_jobs.hpp"
#include "bridge/unit_plan.hpp"

namespace bascule::bridge {
namespace {

using namespace std::chrono_literals;
using slurm::JobFlag;
using slurm::JobState;

// Of a pod that waits, and whose label names the job.
enum class Waits {
  kBinds,
  kWaits,    // the job may get it there yet
  kAnother,  // it gets another job, after a pause
};
// Of a pod that is bound to the job's node.
enum class Runs {
  kStays,
  kHeld,    // stays, and the job is held to its node: slurmctld has lost the start
  kLeft,    // stays, and says that nothing is known of its job
  kEnds,    // Slurm has the node back
  kYields,  // ... for no fault of the pod: with the condition DisruptionTarget
};

const char* print(Waits what) {
  constexpr const char* kWords[] = {"binds", "waits", "gets another job"};
  return kWords[static_cast<int>(what)];
}
const char* print(Runs what) {
  constexpr const char* kWords[] = {"stays", "is held", "is left", "ends", "yields"};
  return kWords[static_cast<int>(what)];
}

struct Case {
  JobState base;
  std::vector<JobFlag> flags;
  Waits waits;
  Runs runs;
  std::uint32_t restarts = 0;  // of the job; the pod was bound before the first
};

const std::vector<Case>& cases() {
  static const std::vector<Case> kCases = {
      {JobState::kRunning, {}, Waits::kBinds, Runs::kStays},
      // Allocated, but a node boots or PrologSlurmctld has not ended.
      {JobState::kRunning, {JobFlag::kConfiguring}, Waits::kWaits, Runs::kStays},
      {JobState::kRunning, {JobFlag::kConfiguring, JobFlag::kPowerUpNode}, Waits::kWaits, Runs::kStays},
      {JobState::kRunning, {JobFlag::kCompleting}, Waits::kWaits, Runs::kEnds},
      {JobState::kRunning, {JobFlag::kCompleting, JobFlag::kConfiguring}, Waits::kWaits, Runs::kEnds},
      {JobState::kRunning, {JobFlag::kResizing}, Waits::kBinds, Runs::kStays},
      {JobState::kRunning, {JobFlag::kSignaling}, Waits::kBinds, Runs::kStays},
      {JobState::kRunning, {JobFlag::kStopped}, Waits::kBinds, Runs::kStays},  // keeps its CPUs
      {JobState::kRunning, {JobFlag::kExpediting}, Waits::kBinds, Runs::kStays},
      {JobState::kRunning, {JobFlag::kOther}, Waits::kBinds, Runs::kStays},  // a newer Slurm's
      {JobState::kRunning, {}, Waits::kBinds, Runs::kYields, 1},             // started anew since
      {JobState::kRunning, {JobFlag::kConfiguring}, Waits::kWaits, Runs::kYields, 1},

      {JobState::kPending, {}, Waits::kWaits, Runs::kHeld},
      {JobState::kPending, {JobFlag::kPowerUpNode}, Waits::kWaits, Runs::kHeld},
      {JobState::kPending, {JobFlag::kResvDelHold}, Waits::kWaits, Runs::kHeld},
      // slurmctld counts a restart before it says PENDING; the nodes may be on their way out of the job still.
      {JobState::kPending, {}, Waits::kWaits, Runs::kYields, 1},
      {JobState::kPending, {JobFlag::kCompleting}, Waits::kWaits, Runs::kYields, 1},
      {JobState::kPending, {JobFlag::kRequeued}, Waits::kWaits, Runs::kYields},
      {JobState::kPending, {JobFlag::kRequeued, JobFlag::kCompleting}, Waits::kWaits, Runs::kYields},
      {JobState::kPending, {JobFlag::kRequeueHold}, Waits::kWaits, Runs::kYields},
      {JobState::kPending, {JobFlag::kSpecialExit}, Waits::kWaits, Runs::kYields},
      {JobState::kPending, {JobFlag::kExpediting}, Waits::kWaits, Runs::kYields, 1},

      // By PreemptMode=SUSPEND or an administrator: its CPUs are others'.
      {JobState::kSuspended, {}, Waits::kWaits, Runs::kYields},
      {JobState::kSuspended, {JobFlag::kCompleting}, Waits::kWaits, Runs::kYields},
      {JobState::kSuspended, {JobFlag::kStopped}, Waits::kWaits, Runs::kYields},

      {JobState::kCompleted, {}, Waits::kAnother, Runs::kEnds},
      {JobState::kCompleted, {JobFlag::kCompleting}, Waits::kAnother, Runs::kEnds},
      {JobState::kCompleted, {JobFlag::kStageOut}, Waits::kAnother, Runs::kEnds},  // its nodes are free
      {JobState::kCompleted, {JobFlag::kStageOut, JobFlag::kCompleting}, Waits::kAnother, Runs::kEnds},
      {JobState::kCancelled, {}, Waits::kAnother, Runs::kEnds},
      {JobState::kCancelled, {JobFlag::kCompleting}, Waits::kAnother, Runs::kEnds},
      {JobState::kCancelled, {JobFlag::kRevoked}, Waits::kAnother, Runs::kEnds},
      {JobState::kFailed, {}, Waits::kAnother, Runs::kEnds},
      {JobState::kFailed, {JobFlag::kCompleting}, Waits::kAnother, Runs::kEnds},
      {JobState::kFailed, {JobFlag::kLaunchFailed}, Waits::kAnother, Runs::kEnds},
      {JobState::kFailed, {JobFlag::kReconfigFail}, Waits::kAnother, Runs::kEnds},
      {JobState::kTimeout, {}, Waits::kAnother, Runs::kEnds},
      {JobState::kTimeout, {JobFlag::kCompleting}, Waits::kAnother, Runs::kEnds},
      {JobState::kDeadline, {}, Waits::kAnother, Runs::kEnds},
      {JobState::kOutOfMemory, {}, Waits::kAnother, Runs::kEnds},
      {JobState::kOutOfMemory, {JobFlag::kCompleting}, Waits::kAnother, Runs::kEnds},
      {JobState::kNodeFail, {}, Waits::kAnother, Runs::kYields},
      {JobState::kNodeFail, {JobFlag::kCompleting}, Waits::kAnother, Runs::kYields},
      {JobState::kBootFail, {}, Waits::kAnother, Runs::kYields},
      {JobState::kPreempted, {}, Waits::kAnother, Runs::kYields},
      {JobState::kPreempted, {JobFlag::kCompleting}, Waits::kAnother, Runs::kYields},

      // Over, but it goes back into the queue when its nodes are clean.
      {JobState::kCompleted, {JobFlag::kRequeued, JobFlag::kCompleting}, Waits::kWaits, Runs::kYields},
      {JobState::kFailed, {JobFlag::kSpecialExit, JobFlag::kCompleting}, Waits::kWaits, Runs::kYields},
      {JobState::kFailed, {JobFlag::kRequeueHold}, Waits::kWaits, Runs::kYields},
      {JobState::kNodeFail, {JobFlag::kRequeued, JobFlag::kCompleting}, Waits::kWaits, Runs::kYields},
      {JobState::kPreempted, {JobFlag::kRequeued}, Waits::kWaits, Runs::kYields},

      // A word that nobody here knows.
      {JobState::kUnknown, {}, Waits::kWaits, Runs::kLeft},
      {JobState::kUnknown, {JobFlag::kOther}, Waits::kWaits, Runs::kLeft},
      {JobState::kUnknown, {JobFlag::kCompleting}, Waits::kWaits, Runs::kLeft},
  };
  return kCases;
}

// One pod of a Job, one node n1.
struct JobStatesTest : ::testing::Test {
  JobStatesTest() {
    config.partition = "p";
    pod.meta.key = {"ns", "pod"};
    pod.meta.uid = Uid("u1");
    pod.meta.labels = {{interner(names::kSlurmJobId), interner("7")}};
    pod.meta.finalizers = {interner(names::kFinalizer)};
    pod.meta.owners.push_back({interner("batch/v1"), interner("Job"), interner("j"), Uid("a Job"), true});
    auto node = std::make_shared<kube::Node>();
    node->meta.key = {"", "n1"};
    node->meta.uid = Uid("node-n1");
    node->allocatable = {{interner("pods"), Quantity(110)}};
    nodes.on_node(nullptr, node);
    auto known = std::make_shared<slurm::Node>();
    known->name = "n1";
    known->partitions = {"p"};
    nodes.on_slurm_node(nullptr, known);
  }

  JobView job_of(const Case& c) {
    auto job = std::make_shared<slurm::Job>();
    job->id = JobId{7};
    job->states.base = c.base;
    for (const JobFlag flag : c.flags) job->states.flags |= static_cast<std::uint32_t>(flag);
    job->restart_count = c.restarts;
    // While it is pending it has none, but slurmctld takes them from a job that it queues again only in the end.
    if (c.base != JobState::kPending || job->states.has(JobFlag::kCompleting)) job->nodes = "n1";
    if (job->states.ended())
      job->end_time = std::chrono::duration_cast<std::chrono::seconds>(wall.time_since_epoch()).count();
    JobRecord record{"bridge", "cluster", pod.meta.uid, "spec", {pod.meta.key}, {pod.meta.uid}, false};
    record.owner = Uid("a Job");
    job->admin_comment = print_record(record);
    return {job, record, now};
  }

  Waits waits(const Case& c) {
    UnitView view;
    view.uid = pod.meta.uid;
    kube::Pod waiting = pod;
    waiting.phase = kube::PodPhase::kPending;
    view.pods = {std::make_shared<kube::Pod>(waiting)};
    view.root = Root{};
    view.jobs = {job_of(c)};
    SlurmView slurm;
    slurm.synced = slurm.nodes_synced = slurm.reachable = true;
    slurm.full_as_of = now;
    UnitMemory memory;
    const auto plan = [&](Duration later) {
      return plan_unit(config, {"bridge", "cluster"}, view, slurm, nodes, memory, now + later, wall + later);
    };
    const UnitPlan first = plan(0s);
    EXPECT_TRUE(first.cancels.empty());
    EXPECT_FALSE(first.submit) << "without a pause";
    if (!first.binds.empty()) return Waits::kBinds;
    EXPECT_EQ(first.waiting.size(), 1u);
    if (!view.jobs[0].job->states.ended()) return Waits::kWaits;
    EXPECT_EQ(first.waiting.at(0).reason, "SlurmJobEnded");
    return plan(5s).submit ? Waits::kAnother : Waits::kWaits;
  }

  Runs runs(const Case& c) {
    PodSyncView view;
    view.uid = pod.meta.uid;
    kube::Pod bound = pod;
    bound.phase = kube::PodPhase::kRunning;
    bound.node_name = interner("n1");
    view.pods = {std::make_shared<kube::Pod>(bound)};
    view.synced = true;
    view.highest = JobId{9};
    view.jobs = {job_of(c)};
    view.labelled[JobId{7}] = {slurm::Knowledge::kPresent, view.jobs[0].job};
    view.hosts[pod.meta.uid] = "n1";
    PodSyncMemory memory;
    const PodSyncPlan plan = plan_pod_sync(view, memory, now);
    EXPECT_TRUE(plan.cancels.empty() && plan.releases.empty()) << "a pod that may still run holds its node";
    if (!plan.deletes.empty()) return plan.deletes[0].disruption.empty() ? Runs::kEnds : Runs::kYields;
    if (!plan.pins.empty()) return Runs::kHeld;
    return plan.conditions.empty() ? Runs::kStays : Runs::kLeft;
  }

  json::Interner interner;
  Config config;
  kube::Pod pod;
  NodeTable nodes;
  TimePoint now{1h};
  WallTime wall{std::chrono::sys_days{std::chrono::year{2026} / 1 / 1}};
};

TEST_F(JobStatesTest, EachHasItsMeaningForAPodThatWaits) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(fmt::format("{}, {} restarts", slurm::print(job_of(c).job->states), c.restarts));
    EXPECT_STREQ(print(waits(c)), print(c.waits));
  }
}

TEST_F(JobStatesTest, EachHasItsMeaningForAPodThatRuns) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(fmt::format("{}, {} restarts", slurm::print(job_of(c).job->states), c.restarts));
    EXPECT_STREQ(print(runs(c)), print(c.runs));
  }
}

// The random walk found it: a late table hid that the job had been requeued and started again.
TEST(JobStates, AnAnswerConfirmsOnlyTheRunThatIsKnown) {
  slurm::Job known;
  known.states.base = JobState::kRunning;
  known.nodes = "n1";
  EXPECT_TRUE(confirms(known, &known));
  EXPECT_FALSE(confirms(known, nullptr));
  slurm::Job answer = known;
  answer.restart_count = 1;
  EXPECT_FALSE(confirms(answer, &known));
  answer = known;
  answer.nodes = "n2";
  EXPECT_FALSE(confirms(answer, &known));
  answer = known;
  answer.submit_time = 1;
  EXPECT_FALSE(confirms(answer, &known)) << "another of its id";
  answer = known;
  answer.states.base = JobState::kCancelled;
  EXPECT_FALSE(confirms(answer, &known));
}

// Another member of the gang may have it: the unit tells nothing.
TEST_F(JobStatesTest, AJobThatGotTheIdAnewIsNotThePods) {
  slurm::Job job;
  job.id = JobId{7};
  job.submit_time = 1'800'000'000;
  EXPECT_FALSE(is_another(job, pod)) << "bound by slurm-bridge";
  pod.meta.annotations = {{interner(names::kSlurmSubmitted), interner("1800000000")}};
  EXPECT_FALSE(is_another(job, pod));
  pod.meta.annotations = {{interner(names::kSlurmSubmitted), interner("1700000000")}};
  EXPECT_TRUE(is_another(job, pod));
  job.submit_time = 0;
  EXPECT_FALSE(is_another(job, pod)) << "not known yet";
}

TEST_F(JobStatesTest, APodSaysWhatItsJobWaitsFor) {
  UnitView view;
  view.uid = pod.meta.uid;
  view.pods = {std::make_shared<kube::Pod>(pod)};
  view.root = Root{};
  view.jobs = {job_of({JobState::kRunning, {JobFlag::kConfiguring}, Waits::kWaits, Runs::kStays})};
  SlurmView slurm;
  slurm.synced = slurm.nodes_synced = slurm.reachable = true;
  UnitMemory memory;
  const UnitPlan plan = plan_unit(config, {"bridge", "cluster"}, view, slurm, nodes, memory, now, wall);
  ASSERT_EQ(plan.waiting.size(), 1u);
  EXPECT_EQ(plan.waiting[0].reason, "SlurmStarting");
  EXPECT_EQ(plan.waiting[0].message, "Slurm job 7 is RUNNING+CONFIGURING; waiting for its nodes to be ready");
  EXPECT_TRUE(memory.running.empty()) << "patience with its nodes begins when they are ready";
}

}  // namespace
}  // namespace bascule::bridge
