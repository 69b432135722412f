#include "bridge/unit_plan.hpp"

#include <gtest/gtest.h>

#include "base/time.hpp"
#include "bridge/names.hpp"
#include "bridge/node_table.hpp"

namespace bascule::bridge {
namespace {

using namespace std::chrono_literals;

// One pod, two nodes n1 and n2 in the partition, a Slurm that answers.
struct UnitPlanTest : ::testing::Test {
  UnitPlanTest() {
    config.partition = "p";
    pod.meta.key = {"ns", "pod"};
    pod.meta.uid = Uid("u1");
    pod.scheduler_name = interner("bridge");
    pod.phase = kube::PodPhase::kPending;
    view.uid = Uid("u1");
    view.root = Root{};
    slurm.synced = slurm.nodes_synced = slurm.reachable = true;
    slurm.full_as_of = now;
    for (const char* name : {"n1", "n2"}) add_node(name);
  }

  void add_node(const std::string& name, std::vector<kube::Taint> taints = {}) {
    auto node = std::make_shared<kube::Node>();
    node->meta.key = {"", name};
    node->meta.uid = Uid("node-" + name);
    node->taints = std::move(taints);
    node->allocatable = {{interner("pods"), Quantity(110)}};
    nodes.on_node(nullptr, node);
    auto record = std::make_shared<slurm::Node>();
    record->name = name;
    record->partitions = {"p"};
    nodes.on_slurm_node(nullptr, record);
  }
  void add_job(std::uint32_t id, slurm::JobState state, std::string hosts = {}) {
    auto job = std::make_shared<slurm::Job>();
    job->id = JobId{id};
    job->states.base = state;
    job->nodes = std::move(hosts);
    job->state_reason = "Resources";
    JobRecord record;
    record.bridge = self.bridge;
    record.cluster = self.cluster;
    record.unit = view.uid;
    record.uids = {pod.meta.uid};
    record.spec = submitted_spec;
    view.jobs.push_back({job, record, now});
  }
  void mark(std::uint32_t id) {
    pod.meta.labels = {{interner(names::kSlurmJobId), interner(std::to_string(id))}};
    pod.meta.finalizers = {interner(names::kFinalizer)};
  }
  UnitPlan plan() {
    view.pods = {std::make_shared<kube::Pod>(pod)};
    return plan_unit(config, self, view, slurm, nodes, memory, now, wall);
  }
  // The fingerprint a submit would carry.
  void learn_spec() {
    const UnitPlan first = plan();
    ASSERT_TRUE(first.submit);
    submitted_spec = parse_record(*first.submit->admin_comment)->spec;
  }
  // Job 7 of another pod of its controller, which Slurm has requeued.
  void inherit(std::optional<TaskSize> task = {}) {
    auto job = std::make_shared<slurm::Job>();
    job->id = JobId{7};
    job->states.base = slurm::JobState::kPending;
    job->restart_count = 1;
    JobRecord record{self.bridge, self.cluster, Uid("u0"), submitted_spec, {{"ns", "old"}},
                     {Uid("u0")}, false,        0,         Uid("rs")};
    record.task = task;
    view.inherits = JobView{job, record, now};
  }

  json::Interner interner;
  Config config;
  Identity self{"bridge", "cluster"};
  kube::Pod pod;
  UnitView view;
  SlurmView slurm;
  NodeTable nodes;
  UnitMemory memory;
  TimePoint now{1h};
  WallTime wall{std::chrono::sys_days{std::chrono::year{2026} / 1 / 1}};
  std::string submitted_spec;
};

TEST_F(UnitPlanTest, SubmitsWithARecordThatNamesThePod) {
  const UnitPlan p = plan();
  ASSERT_TRUE(p.submit);
  const auto record = parse_record(*p.submit->admin_comment);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->unit, view.uid);
  EXPECT_EQ(record->uids, std::vector<Uid>{pod.meta.uid});
  EXPECT_EQ(record->cluster, "cluster");
  EXPECT_FALSE(p.submit->excluded_nodes) << "all nodes fit: later ones may be used too";
}

// What it last said of the job is wrong by now, and nobody should look for the cause in the queue.
TEST_F(UnitPlanTest, APodWhoseJobWaitsSaysThatSlurmIsAway) {
  add_job(7, slurm::JobState::kPending);
  mark(7);
  slurm.reachable = false;
  slurm.why = "connecting: Connection refused";
  const UnitPlan first = plan();
  ASSERT_EQ(first.waiting.size(), 1u);
  EXPECT_EQ(first.waiting[0].reason, "Unschedulable");
  ASSERT_TRUE(first.wake);
  EXPECT_LE(*first.wake, now + kAwayIsTold);
  now += kAwayIsTold;
  EXPECT_EQ(plan().waiting.at(0).reason, "SlurmUnreachable");
  EXPECT_EQ(plan().waiting.at(0).message, "Slurm does not answer; its job 7 was PENDING when it last did");
  slurm.reachable = true;
  EXPECT_EQ(plan().waiting.at(0).reason, "Unschedulable");
}

// Slurm was asked to end it and did not answer: it may end it yet.
TEST_F(UnitPlanTest, AJobThatIsBeingCancelledIsNotUsedAgain) {
  for (const auto state : {slurm::JobState::kPending, slurm::JobState::kRunning}) {
    view.jobs.clear();
    add_job(7, state, state == slurm::JobState::kRunning ? "n2" : "");
    mark(7);
    memory.cancelling = {{JobId{7}, "its gang was too small"}};
    const UnitPlan p = plan();
    ASSERT_EQ(p.cancels.size(), 1u);
    EXPECT_EQ(p.cancels.front().why, "its gang was too small");
    EXPECT_TRUE(p.binds.empty() && p.confirms.empty() && !p.update);
  }
}

// The API server had not done it when it was asked: it may do it yet.
TEST_F(UnitPlanTest, APodWhoseBindingMayBeOnItsWayGetsNoOtherNode) {
  add_job(7, slurm::JobState::kRunning, "n2");
  mark(7);
  memory.confirmed[JobId{7}] = now + 1h;
  memory.doubted[pod.meta.uid] = {NodeName("n2"), now + 20s};
  EXPECT_EQ(plan().binds.size(), 1u) << "twice the same";
  memory.doubted[pod.meta.uid] = {NodeName("n1"), now + 20s};
  UnitPlan p = plan();
  EXPECT_TRUE(p.binds.empty() && p.unseen.empty() && p.cancels.empty());
  EXPECT_TRUE(p.waiting.front().message.ends_with("is not bound to n1, which the API server was told before"));
  now += 20s;
  EXPECT_EQ(plan().unseen, std::vector<Uid>{pod.meta.uid}) << "its place there is free";
  EXPECT_EQ(plan().binds.size(), 1u);
  memory.doubted[pod.meta.uid] = {NodeName("n1"), now + 20s};
  pod.meta.deleted = WallTime(1s);
  EXPECT_EQ(plan().unseen, std::vector<Uid>{pod.meta.uid}) << "it waits no more, and is there for as long as it likes";
}

// It may have run and ended unseen; but an etcd that was restored knows of no binding.
TEST_F(UnitPlanTest, APodWhoseBindingIsNotSeenGetsNoOtherJobForAWhile) {
  memory.binding[pod.meta.uid] = {NodeName("n1"), now};
  EXPECT_FALSE(plan().submit);
  now += kBindingSeenWithin;
  view.pods_followed = false;
  const UnitPlan unheard = plan();
  EXPECT_FALSE(unheard.submit);
  EXPECT_TRUE(unheard.unseen.empty());
  EXPECT_LE(unheard.wake.value(), now + 1s) << "nothing else may wake it";
  view.pods_followed = true;
  const UnitPlan heard = plan();
  EXPECT_TRUE(heard.submit);
  EXPECT_EQ(heard.unseen, std::vector<Uid>{pod.meta.uid});
}

// Slurm cannot know that Kubernetes has GPUs where it counts none.
TEST_F(UnitPlanTest, ARefusalSaysThatSlurmCountsNoGpusOfADevicePlugin) {
  for (const char* name : {"n1", "n2"}) {
    auto external = std::make_shared<slurm::Node>(*nodes.slurm_node(name));
    external->states.flags = static_cast<std::uint32_t>(slurm::NodeFlag::kExternal);
    nodes.on_slurm_node(nullptr, external);
  }
  auto gpus = std::make_shared<kube::Node>(*nodes.by_slurm_name("n1"));
  gpus->allocatable.emplace_back(interner("nvidia.com/gpu"), Quantity(8));
  std::ranges::sort(gpus->allocatable, {}, [](const auto& one) { return one.first.view(); });
  nodes.on_node(nodes.by_slurm_name("n1"), gpus);
  memory.hold_until = now + 10s;
  memory.hold_why = "Requested node configuration is not available";
  UnitPlan p = plan();
  ASSERT_EQ(p.waiting.size(), 1u);
  EXPECT_EQ(p.waiting.front().message, memory.hold_why) << "the pod asks for none";
  pod.requests = {{interner("nvidia.com/gpu"), Quantity(2)}};
  p = plan();
  ASSERT_EQ(p.waiting.size(), 1u);
  EXPECT_EQ(p.waiting.front().reason, "SlurmRefused");
  EXPECT_TRUE(p.waiting.front().message.starts_with(memory.hold_why + "; Slurm counts no GPU on the nodes that"));
}

TEST_F(UnitPlanTest, DecidesNothingBeforeSlurmIsKnown) {
  slurm.synced = false;
  EXPECT_FALSE(plan().submit);
  slurm.synced = true;
  slurm.nodes_synced = false;
  EXPECT_FALSE(plan().submit);
  slurm.nodes_synced = true;
  slurm.reachable = false;
  EXPECT_FALSE(plan().submit);
}

// Slurm's clock is an hour ahead of ours, or ours was set back: an ended job delays the next one no longer than usual.
TEST_F(UnitPlanTest, AnEndInTheFutureDelaysNoLongerThanAnother) {
  add_job(1, slurm::JobState::kFailed);
  auto job = std::make_shared<slurm::Job>(*view.jobs.front().job);
  job->end_time = epoch_seconds(wall + 1h);
  view.jobs.front().job = job;
  EXPECT_FALSE(plan().submit);
  now += 1s;
  EXPECT_FALSE(plan().submit);
  now += 1s;
  EXPECT_TRUE(plan().submit);
}

// Slurm's clock is an hour behind ours: jobs that end at once are not submitted without a pause.
TEST_F(UnitPlanTest, AnEndInThePastKeepsThePauseAfterASubmit) {
  add_job(1, slurm::JobState::kFailed);
  auto job = std::make_shared<slurm::Job>(*view.jobs.front().job);
  job->end_time = epoch_seconds(wall - 1h);
  view.jobs.front().job = job;
  memory.submitted = now;
  now += 1s;
  const UnitPlan early = plan();
  EXPECT_FALSE(early.submit);
  EXPECT_EQ(early.wake, now + 1s);
  now += 1s;
  EXPECT_TRUE(plan().submit);
}

// The job ended while no scheduler ran, and Slurm lists none that is younger.
TEST_F(UnitPlanTest, AJobThatNoTableListsForAMinuteIsNotWaitedFor) {
  mark(1005);
  view.labelled = slurm::Knowledge::kUnknown;
  EXPECT_FALSE(plan().submit || plan().look_soon);
  now += kUnlistedSettles;
  const UnitPlan asks = plan();
  EXPECT_TRUE(!asks.submit && asks.look_soon) << "a table of now is needed";
  slurm.full_as_of = now;
  EXPECT_TRUE(plan().submit);
  view.labelled = slurm::Knowledge::kGone;
  plan();
  view.labelled = slurm::Knowledge::kUnknown;
  EXPECT_FALSE(plan().submit) << "another time it is another minute";
}

// W10: a submit whose answer was lost is looked for before another is made.
TEST_F(UnitPlanTest, LostSubmitIsNotRepeatedUntilATableLacksIt) {
  memory.doubt = now;
  EXPECT_FALSE(plan().submit);
  now += kDoubtSettles;
  slurm.full_as_of = now - 1ms;
  EXPECT_FALSE(plan().submit);
  slurm.full_as_of = now;
  EXPECT_TRUE(plan().submit);
}
TEST_F(UnitPlanTest, LostSubmitIsAdopted) {
  memory.doubt = now;
  add_job(7, slurm::JobState::kPending);
  const UnitPlan p = plan();
  EXPECT_FALSE(p.submit);
  ASSERT_EQ(p.marks.size(), 1u);
  EXPECT_EQ(p.marks[0].job, JobId{7});
}

TEST_F(UnitPlanTest, TheYoungerOfTwoJobsIsCancelled) {
  add_job(7, slurm::JobState::kPending);
  add_job(9, slurm::JobState::kPending);
  const UnitPlan p = plan();
  ASSERT_EQ(p.cancels.size(), 1u);
  EXPECT_EQ(p.cancels[0].job, JobId{9});
}

// W27: Slurm's own words reach the pod.
TEST_F(UnitPlanTest, PendingJobSaysWhy) {
  learn_spec();
  add_job(7, slurm::JobState::kPending);
  mark(7);
  const UnitPlan p = plan();
  ASSERT_FALSE(p.waiting.empty());
  EXPECT_EQ(p.waiting.at(0).reason, "Unschedulable");
  EXPECT_EQ(p.waiting.at(0).message, "Slurm job 7 is PENDING (Resources)");
  EXPECT_FALSE(p.waiting.at(0).passing);
  EXPECT_FALSE(p.update) << "W24: nothing changed";
  EXPECT_TRUE(p.marks.empty()) << "W28: it is marked already";
}

// A node that joins later and does not fit is excluded from the job that already waits.
TEST_F(UnitPlanTest, PendingJobFollowsTheNodes) {
  learn_spec();
  add_job(7, slurm::JobState::kPending);
  mark(7);
  add_node("n3", {{interner("team"), interner("a"), interner("NoSchedule")}});
  const UnitPlan p = plan();
  ASSERT_TRUE(p.update);
  EXPECT_EQ(p.update->description.excluded_nodes, std::vector<std::string>{"n3"});
  view.jobs[0].record = *parse_record(*p.update->description.admin_comment);
  EXPECT_FALSE(plan().update);
  auto fits = std::make_shared<kube::Node>(*nodes.by_slurm_name("n3"));
  fits->taints.clear();
  nodes.on_node(nodes.by_slurm_name("n3"), fits);
  const UnitPlan back = plan();
  ASSERT_TRUE(back.update) << "it fits again";
  EXPECT_EQ(back.update->description.excluded_nodes, std::vector<std::string>{});
}

// An administrator's word about a job that waits counts until annotations or configuration say something new.
TEST_F(UnitPlanTest, AnUpdateLeavesAloneWhatAnAdministratorMayHaveChanged) {
  const auto annotate = [this](const char* key, const char* value) {
    kube::StringMap& all = view.root->annotations;
    std::erase_if(all, [&](const auto& one) { return one.first.view() == key; });
    all.emplace_back(interner(key), interner(value));
    std::ranges::sort(all, {}, [](const auto& one) { return one.first.view(); });
  };
  annotate("slurmjob.slinky.slurm.net/timelimit", "60");
  annotate("slurmjob.slinky.slurm.net/priority", "100");
  const UnitPlan first = plan();
  ASSERT_TRUE(first.submit && first.submit->time_limit && first.submit->priority);
  add_job(7, slurm::JobState::kPending);
  view.jobs[0].record = *parse_record(*first.submit->admin_comment);
  mark(7);
  add_node("n3", {{interner("team"), interner("a"), interner("NoSchedule")}});
  UnitPlan p = plan();
  ASSERT_TRUE(p.update);
  EXPECT_EQ(p.update->description.excluded_nodes, std::vector<std::string>{"n3"});
  EXPECT_FALSE(p.update->description.partition || p.update->description.name || p.update->description.exclusive);
  EXPECT_FALSE(p.update->description.time_limit || p.update->description.priority);
  annotate("slurmjob.slinky.slurm.net/timelimit", "120");
  annotate("slurmjob.slinky.slurm.net/priority", "200");
  p = plan();
  ASSERT_TRUE(p.update);
  EXPECT_EQ(p.update->description.time_limit, 120u);
  EXPECT_EQ(p.update->description.priority, 200u);
  EXPECT_FALSE(p.update->description.partition);
  const auto first_job = view.jobs[0].job;
  auto held = std::make_shared<slurm::Job>(*first_job);
  held->hold = true;
  view.jobs[0].job = held;
  p = plan();
  ASSERT_TRUE(p.update);
  EXPECT_EQ(p.update->description.time_limit, 120u);
  EXPECT_FALSE(p.update->description.priority) << "it would release the job";
  view.jobs[0].record = *parse_record(*p.update->description.admin_comment);
  EXPECT_FALSE(plan().update);
  view.jobs[0].job = first_job;
  p = plan();
  ASSERT_TRUE(p.update) << "released";
  EXPECT_EQ(p.update->description.priority, 200u);
  EXPECT_FALSE(p.update->description.time_limit);
  view.jobs[0].record = *parse_record(*p.update->description.admin_comment);
  EXPECT_FALSE(plan().update);
  view.jobs[0].job = held;
  EXPECT_FALSE(plan().update) << "that it is held is nothing new to ask for";
}

// ... and the nodes that it may not use are those of the partition where it waits now.
TEST_F(UnitPlanTest, AJobThatWasMovedFollowsTheNodesOfItsPartition) {
  const UnitPlan first = plan();
  ASSERT_TRUE(first.submit);
  add_job(7, slurm::JobState::kPending);
  view.jobs[0].record = *parse_record(*first.submit->admin_comment);
  mark(7);
  auto other = std::make_shared<slurm::Node>();
  other->name = "elsewhere";
  other->partitions = {"q"};
  nodes.on_slurm_node(nullptr, other);
  auto both = std::make_shared<slurm::Node>(*nodes.slurm_node("n2"));
  both->partitions = {"p", "q"};
  nodes.on_slurm_node(nullptr, both);
  EXPECT_FALSE(plan().update);
  auto moved = std::make_shared<slurm::Job>(*view.jobs[0].job);
  moved->partition = "q";
  view.jobs[0].job = moved;
  const UnitPlan p = plan();
  ASSERT_TRUE(p.update);
  EXPECT_EQ(p.update->description.excluded_nodes, std::vector<std::string>{"elsewhere"});
  EXPECT_FALSE(p.update->description.partition);
  view.jobs[0].record = *parse_record(*p.update->description.admin_comment);
  EXPECT_FALSE(plan().update);
}

TEST_F(UnitPlanTest, BindsToTheNodeOfARunningJob) {
  add_job(7, slurm::JobState::kRunning, "n2");
  UnitPlan p = plan();
  EXPECT_TRUE(p.binds.empty()) << "not before the pod carries label and finalizer";
  EXPECT_EQ(p.marks.size(), 1u);
  mark(7);
  p = plan();
  ASSERT_EQ(p.binds.size(), 1u);
  EXPECT_EQ(p.binds[0].node->meta.key.name, "n2");
}

TEST_F(UnitPlanTest, NothingIsKeptOfAUnitWhosePodHasItsNode) {
  add_job(7, slurm::JobState::kRunning, "n2");
  mark(7);
  ASSERT_EQ(plan().binds.size(), 1u);
  memory.submitted = now;
  memory.marked[pod.meta.uid] = {JobId{7}};
  memory.binding[pod.meta.uid] = {NodeName("n2"), now};
  EXPECT_TRUE(plan().binds.empty());
  EXPECT_FALSE(memory.settled()) << "the binding is not seen yet";
  pod.node_name = interner("n2");
  plan();
  EXPECT_TRUE(memory.settled());
  memory.refused["n1"] = now + kRefusedFor;
  EXPECT_FALSE(memory.settled()) << "the next job would go there again";
}

TEST_F(UnitPlanTest, NothingIsKeptOfAUnitWhoseJobWaits) {
  add_job(7, slurm::JobState::kPending);
  mark(7);
  plan();
  EXPECT_TRUE(memory.idle(now));
  memory.submitted = now;
  EXPECT_FALSE(memory.idle(now)) << "a job that ends at once is not followed by another at once";
  EXPECT_TRUE(memory.idle(now + kLongestEndPause + 1s));
  memory.updates[JobId{7}].pace.mark(now, kUpdateQuiet);
  EXPECT_FALSE(memory.idle(now + kLongestEndPause + 1s)) << "the next update has its time";
}

// W6: an old answer is no allocation.
TEST_F(UnitPlanTest, AsksBeforeItBindsOnAnOldAnswer) {
  add_job(7, slurm::JobState::kRunning, "n2");
  mark(7);
  now += kConfirmWithin + 1s;
  const UnitPlan p = plan();
  EXPECT_TRUE(p.binds.empty());
  EXPECT_EQ(p.confirms, std::vector{JobId{7}});
}

// An answer that takes longer than that is as new as it can be.
TEST_F(UnitPlanTest, BindsOnASlowAnswerToItsOwnQuestion) {
  add_job(7, slurm::JobState::kRunning, "n2");
  mark(7);
  now += kConfirmWithin + 1s;
  memory.confirmed = {{JobId{7}, now}};
  EXPECT_EQ(plan().binds.size(), 1u);
  now += 1s;
  EXPECT_EQ(plan().confirms, std::vector{JobId{7}});
  memory.confirmed = {{JobId{6}, now}};
  EXPECT_EQ(plan().confirms, std::vector{JobId{7}});
}

// W47: the job of a pod that is still on the node may have ended just before this one was started there: only a word of
// Slurm that is younger than this job's start tells whether the two share the node.
TEST_F(UnitPlanTest, AsksAboutThePodsOnTheNodeBeforeItBindsBesideThem) {
  auto other = std::make_shared<kube::Pod>();
  other->meta.key = {"ns", "other"};
  other->meta.uid = Uid("other");
  other->meta.labels = {{interner(names::kSlurmJobId), interner("5")}};
  other->node_name = interner("n2");
  nodes.on_pod(nullptr, other);
  Neighbour known;
  known.hold = Neighbour::Hold::kHolds;
  known.confirmed_at = now;
  nodes.on_neighbour([&](const std::string&, Neighbour& one) {
    EXPECT_EQ(one.job, JobId{5});
    one.hold = known.hold;
    one.confirmed_at = known.confirmed_at;
  });
  add_job(7, slurm::JobState::kRunning, "n2");
  mark(7);
  now += 1ms;
  UnitPlan p = plan();
  EXPECT_TRUE(p.binds.empty());
  EXPECT_EQ(p.confirms, std::vector{JobId{5}});
  view.jobs[0].started_by = known.confirmed_at + 1us;
  EXPECT_EQ(plan().confirms, std::vector{JobId{5}});
  view.jobs[0].started_by = known.confirmed_at;
  EXPECT_EQ(plan().binds.size(), 1u)
      << "asked about after a look had said that job 7 runs, if before its nodes were known";
  view.jobs[0].started_by.reset();
  known.confirmed_at = now += 1ms;
  slurm.listed_since_away = false;
  memory.confirmed = {{JobId{7}, now + 1s}};
  p = plan();
  EXPECT_TRUE(p.binds.empty()) << "job 5 may be another's by now";
  EXPECT_TRUE(p.look_soon && p.wake && p.confirms.empty());
  slurm.listed_since_away = true;
  EXPECT_EQ(plan().binds.size(), 1u) << "they share it";
  known.hold = Neighbour::Hold::kUnknown;
  p = plan();
  EXPECT_TRUE(p.binds.empty() && p.cancels.empty());
  ASSERT_EQ(p.waiting.size(), 1u);
  EXPECT_EQ(p.waiting[0].reason, "SlurmUnknown");
  known.hold = Neighbour::Hold::kOver;
  p = plan();
  EXPECT_TRUE(p.binds.empty());
  ASSERT_EQ(p.waiting.size(), 1u);
  EXPECT_NE(p.waiting[0].message.find("waits for the end of pod ns/other"), std::string::npos);
}

// A lost job may not be heard of for as long as its pod lives.
TEST_F(UnitPlanTest, ANodeWhosePodIsNotKnownToSlurmIsGivenBackInTheEnd) {
  auto other = std::make_shared<kube::Pod>();
  other->meta.key = {"ns", "other"};
  other->meta.uid = Uid("other");
  other->meta.labels = {{interner(names::kSlurmJobId), interner("5")}};
  other->node_name = interner("n2");
  nodes.on_pod(nullptr, other);
  nodes.on_neighbour([&](const std::string&, Neighbour& one) { one.hold = Neighbour::Hold::kUnknown; });
  add_job(7, slurm::JobState::kRunning, "n2");
  mark(7);
  UnitPlan p = plan();
  EXPECT_TRUE(p.binds.empty() && p.cancels.empty());
  EXPECT_FALSE(p.look_soon) << "nothing comes of it";
  now += kEndPatience - 1s;
  view.jobs[0].confirmed_at = now;
  EXPECT_TRUE(plan().cancels.empty());
  now += 1s;
  view.jobs[0].confirmed_at = now;
  slurm.reachable = false;
  EXPECT_TRUE(plan().cancels.empty()) << "nothing can be given back";
  slurm.reachable = true;
  p = plan();
  EXPECT_EQ(p.cancels.size(), 1u);
  EXPECT_TRUE(memory.refused.contains("n2"));
}

TEST_F(UnitPlanTest, ManyPodsOnTheNodeAreLookedUpTogether) {
  for (std::uint32_t id = 20; id < 30; ++id) {
    auto other = std::make_shared<kube::Pod>();
    other->meta.uid = Uid("other" + std::to_string(id));
    other->meta.labels = {{interner(names::kSlurmJobId), interner(std::to_string(id))}};
    other->node_name = interner("n2");
    nodes.on_pod(nullptr, other);
  }
  TimePoint confirmed = now;
  nodes.on_neighbour([&](const std::string&, Neighbour& one) { one.confirmed_at = confirmed; });
  add_job(7, slurm::JobState::kRunning, "n2");
  mark(7);
  now += 1ms;
  UnitPlan p = plan();
  EXPECT_TRUE(p.binds.empty() && p.confirms.empty());
  EXPECT_EQ(p.looks.size(), 10u);
  EXPECT_TRUE(p.wake && !p.look_soon);
  confirmed = now;
  EXPECT_EQ(plan().binds.size(), 1u);
  // One after the other they come, each only one more: each of them would ask about all others.
  nodes.on_neighbour(
      [&](const std::string&, Neighbour& one) { one.confirmed_at = one.job == JobId{29} ? TimePoint{} : confirmed; });
  p = plan();
  EXPECT_TRUE(p.binds.empty() && p.confirms.empty());
  EXPECT_EQ(p.looks, std::vector{JobId{29}});
}

// W5: a job that has ended with nodes is no allocation; the next one waits a little.
TEST_F(UnitPlanTest, EndedJobsAreReplacedAfterAPause) {
  for (const auto state :
       {slurm::JobState::kFailed, slurm::JobState::kTimeout, slurm::JobState::kNodeFail, slurm::JobState::kPreempted}) {
    view.jobs.clear();
    add_job(7, state, "n1");
    auto ended = std::make_shared<slurm::Job>(*view.jobs[0].job);
    ended->end_time = std::chrono::duration_cast<std::chrono::seconds>(wall.time_since_epoch()).count();
    view.jobs[0].job = ended;
    mark(7);
    UnitPlan p = plan();
    EXPECT_TRUE(p.binds.empty());
    EXPECT_FALSE(p.submit);
    ASSERT_TRUE(p.wake);
    wall += 1min;
    p = plan();
    EXPECT_TRUE(p.submit);
  }
}

// W13: a running job on a node that Kubernetes refuses is given back, not kept.
TEST_F(UnitPlanTest, MisfitIsGivenBack) {
  add_node("bad", {{interner("team"), interner("a"), interner("NoSchedule")}});
  add_job(7, slurm::JobState::kRunning, "bad");
  mark(7);
  UnitPlan p = plan();
  EXPECT_TRUE(p.binds.empty());
  EXPECT_TRUE(p.cancels.empty());
  ASSERT_FALSE(p.waiting.empty());
  EXPECT_NE(p.waiting.at(0).message.find("does not tolerate"), std::string::npos) << p.waiting.at(0).message;
  now += kMisfitPatience;
  view.jobs[0].confirmed_at = now;
  p = plan();
  ASSERT_EQ(p.cancels.size(), 1u);
  EXPECT_TRUE(memory.refused.contains("bad"));
}

// After a start Slurm's nodes may be told long after its jobs: that is no fault of the node.
TEST_F(UnitPlanTest, AJobIsNotGivenBackWhileSlurmsNodesAreNotKnown) {
  add_job(7, slurm::JobState::kRunning, "n2");
  mark(7);
  slurm.nodes_synced = false;
  for (int i = 0; i < 3; ++i, now += kMisfitPatience) {
    view.jobs[0].confirmed_at = now;
    const UnitPlan p = plan();
    EXPECT_TRUE(p.binds.empty() && p.cancels.empty());
    EXPECT_EQ(p.waiting.at(0).reason, "SlurmUnknown");
  }
  slurm.nodes_synced = true;
  view.jobs[0].confirmed_at = now;
  EXPECT_EQ(plan().binds.size(), 1u);
}

TEST_F(UnitPlanTest, DevicesThatAreNotKnownCostAJobOnlyWhenThatLasts) {
  DeviceLedger ledger("bridge");
  nodes.set_devices(&ledger);
  pod.device_requests = {{interner("c"), interner("deviceclass.resource.kubernetes.io/gpu.example.com"), 1}};
  add_job(7, slurm::JobState::kRunning, "n2");
  mark(7);
  memory.layouts[JobId{7}].nodes = {{.node = "n2", .core_bitmap = {}, .gres = {}}};
  const TimePoint begin = now;
  UnitPlan p = plan();
  EXPECT_EQ(p.waiting.at(0).reason, "SlurmUnknown");
  now = view.jobs[0].confirmed_at = begin + kEndPatience - 1s;
  EXPECT_TRUE(plan().cancels.empty());
  ledger.set_unknown({});
  p = plan();
  EXPECT_EQ(p.waiting.at(0).reason, "NodeRefused") << p.waiting.at(0).message;
  EXPECT_TRUE(p.cancels.empty()) << "a no has its own patience";
  ledger.set_unknown("they are read anew");
  plan();
  now = view.jobs[0].confirmed_at = now + kEndPatience;
  slurm.reachable = false;
  p = plan();
  EXPECT_TRUE(p.cancels.empty());
  EXPECT_GE(p.wake.value(), now + 1s);
  slurm.reachable = true;
  p = plan();
  EXPECT_EQ(p.cancels.size(), 1u);
  EXPECT_TRUE(memory.refused.contains("n2"));
  nodes.set_devices(nullptr);
}

// An admission policy: the pod is asked about again, ever less often, and its job is given back as for a node.
TEST_F(UnitPlanTest, AMarkThatKubernetesRefusesGivesTheJobBack) {
  add_job(7, slurm::JobState::kRunning, "n1");
  EXPECT_EQ(plan().marks.size(), 1u);
  memory.deny(pod.meta.uid, UnitMemory::Denial::What::kMark, "not here", now);
  UnitPlan p = plan();
  EXPECT_TRUE(p.marks.empty() && p.cancels.empty());
  ASSERT_EQ(p.waiting.size(), 1u);
  EXPECT_EQ(p.waiting[0].reason, "KubernetesRefused");
  EXPECT_TRUE(p.waiting[0].message.ends_with("not here")) << p.waiting[0].message;
  ASSERT_TRUE(p.wake);
  std::size_t tries = 0;
  for (; p.cancels.empty() && tries < 20; p = plan()) {
    now = view.jobs[0].confirmed_at = *p.wake;
    if (p = plan(); p.marks.empty()) continue;
    memory.deny(pod.meta.uid, UnitMemory::Denial::What::kMark, "not here", now);
    ++tries;
  }
  EXPECT_EQ(now, TimePoint(1h) + 32s) << "the first no after kMisfitPatience";
  EXPECT_EQ(tries, 6u);
  EXPECT_TRUE(memory.refused.empty()) << "no node is to blame";
  view.jobs.clear();
  add_job(8, slurm::JobState::kRunning, "n1");
  now += 1s;
  p = plan();
  EXPECT_EQ(p.marks.size(), 1u) << "each job that starts is tried";
  EXPECT_TRUE(p.cancels.empty());
  mark(8);
  EXPECT_EQ(plan().binds.size(), 1u) << "the refusal has ended";
}

TEST_F(UnitPlanTest, ABindingThatKubernetesRefusesGivesTheJobBack) {
  add_job(7, slurm::JobState::kRunning, "n1");
  mark(7);
  EXPECT_EQ(plan().binds.size(), 1u);
  memory.deny(pod.meta.uid, UnitMemory::Denial::What::kBinding, "not here", now);
  UnitPlan p = plan();
  EXPECT_TRUE(p.binds.empty() && p.cancels.empty());
  EXPECT_EQ(p.waiting.at(0).reason, "KubernetesRefused");
  now = view.jobs[0].confirmed_at = *p.wake;
  EXPECT_EQ(plan().binds.size(), 1u) << "once more";
  now = view.jobs[0].confirmed_at = TimePoint(1h) + kMisfitPatience;
  p = plan();
  EXPECT_EQ(p.binds.size(), 1u) << "nobody was asked since";
  EXPECT_TRUE(p.cancels.empty());
  memory.deny(pod.meta.uid, UnitMemory::Denial::What::kBinding, "not here", now);
  p = plan();
  EXPECT_TRUE(p.binds.empty());
  EXPECT_EQ(p.cancels.size(), 1u);
  pod.node_name = interner("n1");
  plan();
  EXPECT_TRUE(memory.denied.empty());
}

TEST_F(UnitPlanTest, ABindingRefusedOnceDoesNotCountOnWhileItsNodeWaitsForSomethingElse) {
  auto other = std::make_shared<kube::Pod>();
  other->meta.key = {"ns", "other"};
  other->meta.uid = Uid("other");
  other->meta.labels = {{interner(names::kSlurmJobId), interner("5")}};
  other->node_name = interner("n1");
  nodes.on_pod(nullptr, other);
  nodes.on_neighbour([&](const std::string&, Neighbour& one) { one.hold = Neighbour::Hold::kOver; });
  add_job(7, slurm::JobState::kRunning, "n1");
  mark(7);
  plan();
  memory.deny(pod.meta.uid, UnitMemory::Denial::What::kBinding, "not here", now);
  now = view.jobs[0].confirmed_at = TimePoint(1h) + 2 * kMisfitPatience;
  EXPECT_TRUE(plan().cancels.empty());
  nodes.on_pod(other, nullptr);
  EXPECT_EQ(plan().binds.size(), 1u);
}

// Slurm does not know why the job was given back: it would choose the same node again, for ever.
TEST_F(UnitPlanTest, AHostThatWasRefusedIsLeftOutWhileThereAreOthers) {
  add_node("bad", {{interner("team"), interner("a"), interner("NoSchedule")}});
  for (const char* host : {"bad", "n1", "n2"}) memory.refused[host] = now + kRefusedFor;
  EXPECT_EQ(plan().submit.value().excluded_nodes, std::vector<std::string>{"bad"}) << "there is no other";
  memory.refused.erase("n2");
  UnitPlan p = plan();
  ASSERT_TRUE(p.submit && p.submit->excluded_nodes);
  EXPECT_EQ(*p.submit->excluded_nodes, std::vector<std::string>{"bad,n1"});
  now += kRefusedFor;
  p = plan();
  EXPECT_EQ(p.submit.value().excluded_nodes, std::vector<std::string>{"bad"});
}

TEST_F(UnitPlanTest, AFullNodeIsNotBoundTo) {
  auto other = std::make_shared<kube::Pod>(pod);
  other->meta.uid = Uid("other");
  other->node_name = interner("n1");
  other->requests = {{interner("cpu"), Quantity(8)}};
  nodes.on_pod(nullptr, other);
  auto n1 = std::make_shared<kube::Node>(*nodes.by_slurm_name("n1"));
  n1->allocatable = {{interner("cpu"), Quantity(8)}, {interner("pods"), Quantity(110)}};
  nodes.on_node(nodes.by_slurm_name("n1"), n1);
  pod.requests = {{interner("cpu"), Quantity(1)}};
  add_job(7, slurm::JobState::kRunning, "n1");
  mark(7);
  const UnitPlan p = plan();
  EXPECT_TRUE(p.binds.empty());
  EXPECT_NE(p.waiting.at(0).message.find("has no room: cpu"), std::string::npos) << p.waiting.at(0).message;
}

// W7: a job that slurmctld has forgotten is none, whatever the pod's label says.
TEST_F(UnitPlanTest, AForgottenJobIsSubmittedAgain) {
  mark(7);
  view.labelled = slurm::Knowledge::kUnknown;
  EXPECT_FALSE(plan().submit);
  view.labelled = slurm::Knowledge::kGone;
  EXPECT_TRUE(plan().submit);
}

// W9: a pod without annotations whose label is wrong is put right like any other.
TEST_F(UnitPlanTest, ALabelOfTheWrongJobIsCorrected) {
  mark(5);
  pod.meta.annotations.clear();
  pod.meta.finalizers.clear();
  add_job(7, slurm::JobState::kPending);
  const UnitPlan p = plan();
  ASSERT_EQ(p.marks.size(), 1u);
  EXPECT_EQ(p.marks[0].job, JobId{7});
}

// W12: what others use at the moment keeps nobody out of Slurm's queue.
TEST_F(UnitPlanTest, FullNodesDoNotKeepAPodOutOfTheQueue) {
  for (const char* name : {"n1", "n2"}) {
    auto node = std::make_shared<kube::Node>(*nodes.by_slurm_name(name));
    node->allocatable = {{interner("cpu"), Quantity(8)}, {interner("pods"), Quantity(110)}};
    nodes.on_node(nodes.by_slurm_name(name), node);
    auto other = std::make_shared<kube::Pod>(pod);
    other->meta.uid = Uid(name);
    other->node_name = interner(name);
    other->requests = {{interner("cpu"), Quantity(8)}};
    nodes.on_pod(nullptr, other);
  }
  pod.requests = {{interner("cpu"), Quantity(8)}};
  EXPECT_TRUE(plan().submit);
}

// W29: a node list that cannot be read is told, not passed over.
TEST_F(UnitPlanTest, AnUnreadableNodeListBindsNothingAndIsTold) {
  add_job(7, slurm::JobState::kRunning, "n[1-");
  mark(7);
  const UnitPlan p = plan();
  EXPECT_TRUE(p.binds.empty() && p.cancels.empty());
  EXPECT_NE(p.waiting.at(0).message.find("has a node list that cannot be read"), std::string::npos);
}
// ... nor is a node that Kubernetes does not have.
TEST_F(UnitPlanTest, ANodeThatKubernetesLacksIsNoNode) {
  add_job(7, slurm::JobState::kRunning, "elsewhere");
  mark(7);
  const UnitPlan p = plan();
  EXPECT_TRUE(p.binds.empty());
  EXPECT_NE(p.waiting.at(0).message.find("is not a node of this Kubernetes cluster"), std::string::npos);
}

// W48: what a pod's controller makes in its place takes over the job that Slurm requeued.
TEST_F(UnitPlanTest, ARequeuedJobIsInherited) {
  learn_spec();
  inherit();
  const UnitPlan p = plan();
  EXPECT_FALSE(p.submit);
  ASSERT_TRUE(p.update);
  EXPECT_EQ(p.update->job, JobId{7});
  const auto changed = parse_record(*p.update->description.admin_comment);
  ASSERT_TRUE(changed);
  EXPECT_EQ(changed->unit, Uid("u1"));
  EXPECT_EQ(changed->uids, std::vector{Uid("u1")});
  EXPECT_EQ(changed->owner, Uid("rs"));
  EXPECT_EQ(changed->spec, submitted_spec);
  memory.updates[p.update->job].refused = p.update->fingerprint;
  EXPECT_TRUE(plan().submit) << "Slurm would not have it";
}

// It may start before Slurm has heard of what the successor asks for.
TEST_F(UnitPlanTest, ARequeuedJobGoesToNobodyWhoAsksForMore) {
  learn_spec();
  inherit(TaskSize{2, 4096});
  EXPECT_TRUE(plan().submit) << "whole nodes";
  view.root->annotations = {{interner("slurmjob.slinky.slurm.net/exclusive"), interner("false")}};
  pod.requests = {{interner("cpu"), Quantity(2)}};
  const UnitPlan same = plan();
  ASSERT_TRUE(same.update);
  EXPECT_EQ(parse_record(*same.update->description.admin_comment)->task, view.inherits->record.task);
  pod.requests = {{interner("cpu"), Quantity(3)}};
  EXPECT_FALSE(plan().update);
}

TEST_F(UnitPlanTest, GatedPodsAreLeftAlone) {
  pod.scheduling_gates = {interner("wait")};
  const UnitPlan p = plan();
  EXPECT_FALSE(p.submit);
  EXPECT_TRUE(p.waiting.empty());
}

TEST_F(UnitPlanTest, ForeignJobNamedByTheLabelIsNotTouched) {
  mark(99);
  view.labelled = slurm::Knowledge::kPresent;
  const UnitPlan p = plan();
  EXPECT_FALSE(p.submit);
  EXPECT_TRUE(p.cancels.empty());
  EXPECT_EQ(p.waiting.at(0).reason, "ForeignJob");
  EXPECT_NE(p.waiting.at(0).message.find("belongs to something else"), std::string::npos);
  auto job = std::make_shared<slurm::Job>();
  job->id = JobId{99};
  job->admin_comment = "INC-17";
  view.foreign = job;
  EXPECT_NE(plan().waiting.at(0).message.find("Slurm job 99"), std::string::npos);
  EXPECT_NE(plan().waiting.at(0).message.find("it is \"INC-17\""), std::string::npos);
}

TEST_F(UnitPlanTest, NoNodeFitsSaysHowMany) {
  pod.node_selector = {{interner("disk"), interner("ssd")}};
  const UnitPlan p = plan();
  EXPECT_FALSE(p.submit);
  EXPECT_TRUE(p.waits_for_nodes);
  EXPECT_NE(p.waiting.at(0).message.find("2 nodes: 2 does not match the pod's node selector"), std::string::npos)
      << p.waiting.at(0).message;
}

}  // namespace
}  // namespace bascule::bridge
