// What ends early: jobs that Slurm preempts or requeues, pods that Kubernetes evicts, nodes that die. Scheduler and pod
// sync as whole processes in simulated time.
#include "bridge/bridge_sim_test.hpp"

namespace bascule::bridge {
namespace {

struct Life : ::testing::Test {
  void start() {
    w.scheduler.start();
    w.loop.advance(1ms);  // names of events are made of the time of the start
    w.pod_sync.start();
  }
  void add_bare_pod(const std::string& name) {
    w.api.create(r::kPods, testing::make_pod({.name = name,
                                              .ns = "slurm-bridge",
                                              .scheduler = "slurm-bridge-scheduler",
                                              .annotations = {{"fake/run-for", "forever"}}}));
  }
  // Of the group g; with a node it is bound already, for that job.
  void add_member(const std::string& name, const std::string& node = {}, const std::string& job_id = {}) {
    json::Object labels{{names::kPodGroup, "g"}};
    if (!job_id.empty()) labels[names::kSlurmJobId] = job_id;
    w.api.create(r::kPods, testing::make_pod({.name = name,
                                              .ns = "slurm-bridge",
                                              .scheduler = "slurm-bridge-scheduler",
                                              .node = node,
                                              .labels = std::move(labels),
                                              .annotations = {{"fake/run-for", "forever"}}}));
  }
  // "p", whose volume is made on its node, when somebody does so.
  void add_class() {
    w.api.create(classes, json::Object{{"apiVersion", "storage.k8s.io/v1"},
                                       {"kind", "StorageClass"},
                                       {"metadata", json::Object{{"name", "fast"}}},
                                       {"provisioner", "csi.example.com"},
                                       {"volumeBindingMode", "WaitForFirstConsumer"}});
  }
  json::Value pod_with_claim() {
    json::Value pod = testing::make_pod({.name = "p", .ns = "slurm-bridge", .scheduler = "slurm-bridge-scheduler"});
    json::at_or_create(pod, {"spec", "volumes"}) =
        json::Array{json::Object{{"name", "data"}, {"persistentVolumeClaim", json::Object{{"claimName", "c"}}}}};
    return pod;
  }
  void add_claim() {
    w.api.create(claims, json::Object{{"apiVersion", "v1"},
                                      {"kind", "PersistentVolumeClaim"},
                                      {"metadata", json::Object{{"name", "c"}, {"namespace", "slurm-bridge"}}},
                                      {"spec", json::Object{{"storageClassName", "fast"}}}});
  }
  const testing::SlurmModel::JobRecord* job(std::uint32_t id) { return w.slurm.model().job(JobId{id}); }
  std::optional<JobRecord> record(std::uint32_t id) { return parse_record(job(id)->view.admin_comment); }
  // Pods that hold a node, by node.
  std::map<std::string, std::string> holders() {
    std::map<std::string, std::string> out;
    for (const json::Value& pod : w.api.list(r::kPods)) {
      const std::string_view phase = json::string_at(pod, {"status", "phase"});
      const std::string node(json::string_at(pod, {"spec", "nodeName"}));
      if (node.empty() || phase == "Succeeded" || phase == "Failed") continue;
      EXPECT_TRUE(out.emplace(node, json::string_at(pod, {"metadata", "uid"})).second) << "two pods on " << node;
    }
    return out;
  }
  std::string events() {
    std::string all;
    for (const json::Value& event : w.api.list({"events.k8s.io", "v1", "events", "Event", true})) {
      all +=
          std::string(json::string_at(event, {"reason"})) + ": " + std::string(json::string_at(event, {"note"})) + "\n";
    }
    return all;
  }

  const kube::Resource claims{"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", true};
  const kube::Resource classes{"storage.k8s.io", "v1", "storageclasses", "StorageClass", false};
  World w{1, 4, 20s};
};

// W48: the pod goes, the job keeps its place in the queue, and the pod that the Job makes next takes it over.
TEST_F(Life, ARequeuedJobGoesToTheNextPodOfItsController) {
  start();
  w.add_job("one", 1);
  w.loop.advance(3s);
  ASSERT_EQ(holders().size(), 1u);
  const Uid first = record(1)->uids.front();
  w.slurm.model().requeue(w.slurm.now(), JobId{1}, 5s);
  bool said = false;
  for (int i = 0; i < 60 && holders().contains("n1") && holders().at("n1") == first.str(); ++i) {
    w.loop.advance(100ms);
    said = said || json::dump(w.api.list(r::kPods).front()).find("PreemptionByScheduler") != std::string::npos;
  }
  EXPECT_TRUE(said) << "a disruption, not a failure of the pod's own";
  w.loop.advance(4s);
  ASSERT_TRUE(record(1));
  EXPECT_NE(record(1)->uids.front(), first);
  EXPECT_TRUE(w.run(60s));
  EXPECT_EQ(w.slurm.model().submitted(), 1u) << "the same job";
  w.loop.advance(10s);
  EXPECT_EQ(w.live_jobs(), 0u);
  EXPECT_THAT(events(), ::testing::HasSubstr("SlurmJobEnded: Slurm job 1 was preempted or requeued"));
}

TEST_F(Life, ARequeuedGangComesBackTogetherInItsJob) {
  start();
  w.add_gang("gang", 3, 3);
  w.loop.advance(3s);
  ASSERT_EQ(holders().size(), 3u);
  w.slurm.model().requeue(w.slurm.now(), JobId{1}, 10s);
  for (int i = 0; i < 300 && !w.all_complete(); ++i) {
    w.loop.advance(250ms);
    holders();
  }
  EXPECT_TRUE(w.all_complete());
  EXPECT_EQ(w.slurm.model().submitted(), 1u);
  w.loop.advance(10s);
  EXPECT_EQ(w.live_jobs(), 0u);
}

// A webhook of somebody else's is away, and the conditions of a gang's pods fail batch by batch: they wait for it
// together, since Slurm has given all their nodes away.
TEST_F(Life, ALargeGangWaitsForItsConditionsOnce) {
  World large{3, 9, 1h};
  large.scheduler.start();
  large.loop.advance(1ms);
  large.pod_sync.start();
  large.add_gang("gang", 65, 65, {{"slurmjob.slinky.slurm.net/exclusive", "false"}});
  large.loop.advance(20s);
  std::set<std::string> stopped;
  for (const json::Value& pod : large.pods_on_nodes()) stopped.emplace(json::string_at(pod, {"metadata", "uid"}));
  ASSERT_EQ(stopped.size(), 65u);
  large.api.set_faults([](const testing::ApiCall& call) -> testing::ApiFault {
    if (!call.is("patch", "pods/status")) return {};
    return {.kind = testing::ApiFault::Kind::kStatus, .code = 500};
  });
  large.slurm.model().requeue(large.slurm.now(), JobId{1}, 1h);
  const auto left = [&] {
    return std::ranges::count_if(large.api.list(r::kPods), [&](const json::Value& pod) {
      return stopped.contains(std::string(json::string_at(pod, {"metadata", "uid"}))) &&
             json::find(pod, {"metadata", "deletionTimestamp"}) == nullptr;
    });
  };
  large.loop.advance(20s);
  EXPECT_EQ(left(), 65);
  large.loop.advance(40s);
  EXPECT_EQ(left(), 0);
}

// After a slurmctld was killed 24.11 starts a batch job again that still runs, slurmd refuses, and Slurm holds the job
// until somebody releases it: the next pod does not wait for that.
TEST_F(Life, AJobThatIsHeldSinceItsLaunchFailedIsNotInherited) {
  start();
  w.add_job("one", 1);
  w.loop.advance(3s);
  ASSERT_EQ(holders().size(), 1u);
  w.add_gang("gang", 2, 2);
  w.loop.advance(5s);
  ASSERT_EQ(holders().size(), 3u);
  std::set<std::string> stopped;
  for (const auto& [node, pod] : holders()) stopped.insert(pod);
  for (const std::uint32_t id : {1u, 2u}) w.slurm.model().fail_launch(w.slurm.now(), JobId{id});
  w.loop.advance(15s);
  for (const std::uint32_t id : {1u, 2u}) EXPECT_TRUE(job(id)->view.states.ended()) << id;
  EXPECT_EQ(holders().size(), 3u);
  for (const auto& [node, pod] : holders()) EXPECT_FALSE(stopped.contains(pod)) << node;
}

// ... nor does one that was about to be bound stay with it.
TEST_F(Life, APodThatIsNotBoundDoesNotStayWithAJobThatIsHeldSinceItsLaunchFailed) {
  add_class();
  add_claim();
  start();
  w.api.create(r::kPods, pod_with_claim());
  w.loop.advance(5s);
  ASSERT_NE(job(1), nullptr);
  ASSERT_EQ(job(1)->view.states.base, slurm::JobState::kRunning);
  ASSERT_TRUE(holders().empty()) << "its volume is not made";
  w.slurm.model().fail_launch(w.slurm.now(), JobId{1});
  w.loop.advance(20s);
  EXPECT_TRUE(job(1)->view.states.ended());
  ASSERT_NE(job(2), nullptr);
  EXPECT_EQ(job(2)->view.states.base, slurm::JobState::kRunning);
}

// A webhook of somebody else's on pods/status that hangs: what Slurm's nodes depend on does not wait for it.
TEST_F(Life, ConditionsThatAreNotTakenHoldUpNoDelete) {
  World large{4, 9, 1h};
  large.scheduler.start();
  large.loop.advance(1ms);
  large.pod_sync.start();
  large.add_gang("gang", 65, 65, {{"slurmjob.slinky.slurm.net/exclusive", "false"}});
  large.loop.advance(20s);
  ASSERT_EQ(large.pods_on_nodes().size(), 65u);
  large.scheduler.kill();
  slurm::JobDescription restored;
  restored.admin_comment = large.slurm.model().job(JobId{1})->view.admin_comment;
  restored.nodes = 1;
  large.slurm.stop_controller();
  large.loop.advance(20ms);
  large.slurm.model().lose_state(large.slurm.now(), true, true);
  large.slurm.submit({});
  large.slurm.start_controller();
  const auto told = [&] {
    return std::ranges::count_if(large.api.list(r::kPods), [](const json::Value& pod) {
      return json::dump(pod).contains(names::kSlurmJobKnown);
    });
  };
  ASSERT_TRUE(large.loop.run_until([&] { return told() == 65; }, 5min));
  large.api.set_faults([](const testing::ApiCall& call) -> testing::ApiFault {
    if (!call.is("patch", "pods/status")) return {};
    return {.kind = testing::ApiFault::Kind::kStatus, .code = 500, .before = 10s};
  });
  large.slurm.stop_controller();
  large.slurm.model().lose_state(large.slurm.now(), true, true);
  ASSERT_EQ(large.slurm.submit(std::move(restored)), JobId{1});  // somebody has put its state back
  ASSERT_TRUE(large.slurm.model().cancel(large.slurm.now(), JobId{1}));
  large.slurm.start_controller();
  large.loop.advance(90s);
  EXPECT_EQ(large.pods_on_nodes().size(), 0u);
}

// The scheduler hands a requeued job on at the moment when the pod sync would give it back, and while that asks about
// the job, a table comes in that was asked for before: what slurmctld answers counts.
TEST_F(Life, AJobThatIsHandedOnAtTheLastMomentIsNotCancelled) {
  World late{5, 1, 1h};
  late.scheduler.start();
  late.loop.advance(1ms);
  late.pod_sync.start();
  late.add_job("one", 1);
  late.loop.advance(20s);
  ASSERT_EQ(late.pods_on_nodes().size(), 1u);
  late.scheduler.kill();
  late.slurm.model().requeue(late.slurm.now(), JobId{1}, 1h);
  ASSERT_TRUE(late.loop.run_until([&] { return late.pods_on_nodes().empty() && late.api.count(r::kPods) == 1; }, 30s));
  const json::Value next = late.api.list(r::kPods).front();
  auto handed_on = parse_record(late.slurm.model().job(JobId{1})->view.admin_comment);
  ASSERT_TRUE(handed_on);
  handed_on->unit = Uid(json::string_at(next, {"metadata", "uid"}));
  handed_on->uids = {handed_on->unit};
  handed_on->pods = {{"slurm-bridge", std::string(json::string_at(next, {"metadata", "name"}))}};
  const TimePoint since = late.loop.now();
  std::optional<TimePoint> table, question;
  late.slurm.set_faults([&](const net::ServerRequest& request) -> testing::FakeSlurmFault {
    if (question || late.loop.now() - since < 49s) return {};
    if (request.target.contains("/jobs/?")) {
      table = late.loop.now();
      return {.kind = testing::FakeSlurmFault::Kind::kNone, .after = 12s};
    }
    if (request.method != "GET" || !request.target.contains("/job/1")) return {};
    question = late.loop.now();
    slurm::JobDescription change;
    change.admin_comment = print_record(*handed_on);
    EXPECT_TRUE(late.slurm.model().update_job(late.slurm.now(), JobId{1}, change));
    return {.kind = testing::FakeSlurmFault::Kind::kNone, .after = 13s};
  });
  for (int i = 0; i < 100; ++i) {  // others' jobs: else all tables are the same
    late.slurm.submit({}, 1s);
    late.loop.advance(1s);
  }
  ASSERT_TRUE(table && question);
  ASSERT_LT(*question - *table, 12s);
  EXPECT_EQ(late.slurm.model().job(JobId{1})->view.states.base, slurm::JobState::kPending);
}

// A slurmctld that was killed has forgotten that it was: its record names the pod of before.
TEST_F(Life, AJobWhoseHandOverIsLostKeepsItsPod) {
  World late{6, 1, 1h};
  late.scheduler.start();
  late.loop.advance(1ms);
  late.pod_sync.start();
  late.add_job("one", 1);
  late.loop.advance(20s);
  const testing::SlurmModel& model = late.slurm.model();
  const std::string before = model.job(JobId{1})->view.admin_comment;
  late.slurm.model().requeue(late.slurm.now(), JobId{1}, 5s);
  late.loop.advance(40s);
  ASSERT_EQ(late.pods_on_nodes().size(), 1u);
  ASSERT_NE(model.job(JobId{1})->view.admin_comment, before);
  slurm::JobDescription lost;
  lost.admin_comment = before;
  ASSERT_TRUE(late.slurm.model().update_job(late.slurm.now(), JobId{1}, lost));
  late.loop.advance(2min);
  EXPECT_EQ(model.job(JobId{1})->view.states.base, slurm::JobState::kRunning);
  EXPECT_EQ(late.pods_on_nodes().size(), 1u);
}

// Several Jobs' pods stopped at once, while both processes die now and then: every job finds a successor, none is lost.
TEST_F(Life, RequeuesHealThroughKills) {
  start();
  for (int i = 0; i < 8; ++i) w.add_job("j" + std::to_string(i), 1 + i % 2);
  std::mt19937_64 random(7);
  for (int round = 0; round < 6; ++round) {
    w.loop.advance(std::chrono::milliseconds(1000 + random() % 3000));
    for (const auto& [id, one] : std::map(w.slurm.model().jobs())) {
      if (one.view.states.base == slurm::JobState::kRunning && random() % 2 == 0) {
        w.slurm.model().requeue(w.slurm.now(), JobId{id}, std::chrono::seconds(1 + random() % 4));
      }
    }
    testing::SimProcess& victim = random() % 2 == 0 ? w.scheduler : w.pod_sync;
    w.loop.advance(std::chrono::milliseconds(random() % 1500));
    victim.kill();
    w.loop.advance(std::chrono::milliseconds(random() % 1500));
    victim.start();
  }
  w.loop.advance(90s);
  EXPECT_TRUE(w.run(10min));
  w.loop.advance(70s);
  w.check();
  EXPECT_EQ(w.live_jobs(), 0u);
}

// The answer to the binding is lost, the watch is slow and the job ends: the pod seems to wait and gets another job. It
// runs by the first one all the same, and ends with it.
TEST_F(Life, ABoundPodIsNeverGivenToAnotherJob) {
  bool bound = false;
  w.api.set_faults([&](const testing::ApiCall& call) -> testing::ApiFault {
    if (call.is("watch", "pods")) return {.after = 5s};
    if (bound || !call.is("create", "pods/binding")) return {};
    bound = true;
    return {.kind = testing::ApiFault::Kind::kStatusAfter, .code = 500};
  });
  start();
  w.loop.advance(10s);
  add_bare_pod("a");
  const auto pod = [&] { return w.api.get(r::kPods, {"slurm-bridge", "a"}); };
  ASSERT_TRUE(w.loop.run_until([&] { return bound; }, 60s));
  ASSERT_TRUE(w.slurm.model().cancel(w.slurm.now(), JobId{1}));
  for (int i = 0; i < 600 && pod(); ++i) {
    w.loop.advance(100ms);
    if (const auto now = pod()) EXPECT_EQ(json::string_at(*now, {"metadata", "labels", names::kSlurmJobId}), "1");
  }
  EXPECT_FALSE(pod());
  w.loop.advance(2min);
  EXPECT_EQ(w.live_jobs(), 0u);
}

// The last member is gone, and while the API server is slow to say so a new one is given its node.
TEST_F(Life, AJobIsNotCancelledThatAMemberWasGivenMeanwhile) {
  start();
  w.add_group("g", 1);
  add_member("first");
  w.loop.advance(3s);
  ASSERT_EQ(holders().size(), 1u);
  w.scheduler.kill();
  bool asked = false;
  w.api.set_faults([&](const testing::ApiCall& call) -> testing::ApiFault {
    if (!call.is("get", "pods") || call.key.name != "first") return {};
    asked = true;
    return {.before = 10s};
  });
  w.api.erase(r::kPods, {"slurm-bridge", "first"});
  ASSERT_TRUE(w.loop.run_until([&] { return asked; }, 10s));
  add_member("second", "n1", "1");
  for (int i = 0; i < 300; ++i) {
    w.loop.advance(100ms);
    w.check();
  }
  EXPECT_EQ(holders().size(), 1u);
  EXPECT_EQ(job(1)->view.states.base, slurm::JobState::kRunning);
}

// It was stopped for a while, and its timers have yet to tell it so.
TEST_F(Life, WhoDoesNotLeadAnyLongerDeletesAndCancelsNothing) {
  start();
  for (const char* name : {"a", "b"}) {
    add_bare_pod(name);
    w.loop.advance(3s);
  }
  ASSERT_EQ(holders().size(), 2u);
  w.pod_sync_leads = false;
  ASSERT_TRUE(w.slurm.model().cancel(w.slurm.now(), JobId{1}));
  w.api.patch(r::kPods, {"slurm-bridge", "b"}, json::parse(R"({"status":{"phase":"Succeeded"}})"), "status");
  w.loop.advance(60s);
  EXPECT_EQ(w.api.list(r::kPods).size(), 2u);
  EXPECT_EQ(job(2)->view.states.base, slurm::JobState::kRunning);
  w.pod_sync_leads = true;
  w.loop.advance(60s);
  EXPECT_EQ(w.api.list(r::kPods).size(), 1u);
  EXPECT_EQ(w.live_jobs(), 0u);
}

// A pod without a controller has no successor: its end is told, and the job is not left behind.
TEST_F(Life, ARequeuedBarePodEndsClearly) {
  start();
  add_bare_pod("bare");
  w.loop.advance(3s);
  w.slurm.model().requeue(w.slurm.now(), JobId{1}, 5s);
  w.loop.advance(10s);
  EXPECT_TRUE(w.api.list(r::kPods).empty());
  EXPECT_EQ(w.live_jobs(), 0u);
  EXPECT_THAT(events(), ::testing::HasSubstr("nothing makes another pod in place of one that has no controller"));
}

// The random walk found it: the next member comes when a requeued job has waited for it long enough, and is bound
// before the watch of the pod sync tells that it is there.
TEST_F(Life, AMemberThatTheWatchHasNotToldOfKeepsTheJobOfItsGang) {
  for (int wait = 56; wait < 68; ++wait) {
    World late{11, 1, 1h};
    std::string agent;
    late.api.on_call([&agent](const testing::ApiCall&, std::string_view whose) { agent = whose; });
    late.api.set_faults([&agent](const testing::ApiCall& call) -> testing::ApiFault {
      const bool slow = call.is("watch", "pods") && agent == kControllersAgent;
      return slow ? testing::ApiFault{.after = 5s} : testing::ApiFault{};
    });
    late.scheduler.start();
    late.loop.advance(1ms);
    late.pod_sync.start();
    late.add_group("g", 1);
    const auto add_member = [&late](const std::string& name) {
      late.api.create(r::kPods, testing::make_pod({.name = name,
                                                   .ns = "slurm-bridge",
                                                   .scheduler = "slurm-bridge-scheduler",
                                                   .cpu = "1",
                                                   .labels = {{std::string(names::kPodGroup), "g"}}}));
    };
    add_member("first");
    late.loop.advance(10s);
    ASSERT_EQ(late.pods_on_nodes().size(), 1u);
    late.slurm.model().requeue(late.slurm.now(), JobId{1}, 5s);
    late.loop.advance(std::chrono::seconds(wait));
    add_member("second");
    for (int i = 0; i < 100 && !HasFailure(); ++i) {
      late.loop.advance(100ms);
      late.check();
    }
    ASSERT_FALSE(HasFailure()) << "after " << wait << " s";
  }
}

// Each binding is of the pod as it was when it was told its job: one that comes late finds another version.
TEST_F(Life, ABindingIsOfThePodThatWasToldThatJob) {
  start();
  w.add_job("j", 4);
  w.loop.advance(10s);
  int bindings = 0;
  for (const testing::ApiWrite& write : w.api.writes()) {
    if (!write.call.is("create", "pods/binding")) continue;
    ++bindings;
    EXPECT_EQ(write.code, 201) << "nobody else wrote to these pods";
    EXPECT_NE(json::string_at(json::parse(write.body), {"metadata", "resourceVersion"}), "");
  }
  EXPECT_EQ(bindings, 4);
}

TEST_F(Life, WhatOthersWriteToAPodPutsOffNoBinding) {
  add_bare_pod("p");
  int tries = 0;
  w.api.set_faults([&](const testing::ApiCall& call) -> testing::ApiFault {
    if (!call.is("create", "pods/binding")) return {};
    if (++tries == 1) {
      const json::Object note{{"team", "a"}};
      w.api.patch(r::kPods, call.key, json::Object{{"metadata", json::Object{{"annotations", note}}}});
    }
    return {};
  });
  start();
  ASSERT_TRUE(w.loop.run_until([&] { return tries > 0; }, 10s));
  w.loop.advance(100ms);
  EXPECT_EQ(tries, 2);
  EXPECT_EQ(w.pods_on_nodes().size(), 1u);
}

// A job that Slurm preempts for good is replaced by a new one.
TEST_F(Life, APreemptedJobIsSubmittedAgainForTheNextPod) {
  start();
  w.add_job("one", 1);
  w.loop.advance(3s);
  w.slurm.model().end(w.slurm.now(), JobId{1}, slurm::JobState::kPreempted, "Preempted");
  w.loop.advance(4s);
  EXPECT_TRUE(w.run(60s));
  EXPECT_EQ(w.slurm.model().submitted(), 2u);
  w.loop.advance(10s);
  EXPECT_EQ(w.live_jobs(), 0u);
}

// Preempted before it was bound: the pod waits on in the same job.
TEST_F(Life, ARequeueBeforeTheBindingCostsNothing) {
  start();
  w.api.patch(r::kNodes, {"", "n1"}, json::Object{{"spec", json::Object{{"unschedulable", true}}}});
  for (const char* node : {"n1", "n2", "n3", "n4"}) {
    w.api.patch(
        r::kNodes, {"", node},
        json::Object{{"spec", json::Object{{"taints", json::Array{json::Object{{"key", "node.kubernetes.io/not-ready"},
                                                                               {"effect", "NoSchedule"}}}}}}});
  }
  add_bare_pod("waits");
  w.loop.advance(5s);
  ASSERT_EQ(job(1)->view.states.base, slurm::JobState::kRunning);
  w.slurm.model().requeue(w.slurm.now(), JobId{1}, 5s);
  w.loop.advance(2s);
  for (const char* node : {"n1", "n2", "n3", "n4"}) {
    w.api.patch(r::kNodes, {"", node}, json::Object{{"spec", json::Object{{"taints", nullptr}}}});
  }
  w.loop.advance(20s);
  EXPECT_EQ(w.slurm.model().submitted(), 1u);
  EXPECT_EQ(holders().size(), 1u);
  const json::Value pod = w.api.list(r::kPods).front();
  EXPECT_EQ(json::string_at(pod, {"metadata", "annotations", names::kSlurmRestarts}), "1");
  w.loop.advance(60s);
  EXPECT_EQ(holders().size(), 1u) << "bound after the requeue: its allocation is its own";
}

// W47: whoever takes a pod away (eviction, kube-scheduler's preemption, a user), its nodes are Slurm's again only when
// the pod is really over.
TEST_F(Life, AnEvictedPodHoldsItsAllocationToTheEnd) {
  start();
  add_bare_pod("p");
  w.loop.advance(3s);
  ASSERT_EQ(job(1)->view.states.base, slurm::JobState::kRunning);
  w.cluster.set_node_alive(job(1)->view.nodes, false);  // its containers do not end
  w.api.remove(r::kPods, {"slurm-bridge", "p"});
  w.loop.advance(5min);
  EXPECT_EQ(job(1)->view.states.base, slurm::JobState::kRunning);
  w.cluster.set_node_alive(job(1)->view.nodes, true);
  w.loop.advance(5s);
  EXPECT_EQ(w.live_jobs(), 0u);
  EXPECT_TRUE(w.api.list(r::kPods).empty());
}

// W47, the other half: where Slurm itself ends the job it gives the node away at once. The next pod is bound when the
// last one has really ended.
TEST_F(Life, W47TheNextPodWaitsForTheGracePeriodOfTheLast) {
  World one{2, 1, 20min};
  one.scheduler.start();
  one.loop.advance(1ms);
  one.pod_sync.start();
  const auto add = [&one](const std::string& name) {
    one.api.create(r::kPods,
                   testing::make_pod({.name = name, .ns = "slurm-bridge", .scheduler = "slurm-bridge-scheduler"}));
  };
  const auto live = [&one] {
    return std::ranges::count_if(one.pods_on_nodes(), [](const json::Value& pod) {
      const std::string_view phase = json::string_at(pod, {"status", "phase"});
      return phase != "Succeeded" && phase != "Failed";
    });
  };
  const auto runs = [&one](std::uint32_t id) {
    const auto* job = one.slurm.model().job(JobId{id});
    return job != nullptr && job->view.states.base == slurm::JobState::kRunning;
  };
  add("first");
  one.loop.advance(3s);
  ASSERT_EQ(live(), 1);
  add("second");
  one.loop.advance(2min);
  ASSERT_TRUE(one.slurm.model().cancel(one.slurm.now(), JobId{1}));
  bool given_away = false;
  const auto bound = [&] { return !one.api.get(r::kPods, {"slurm-bridge", "first"}) && live() == 1; };
  for (int i = 0; i < 3'000 && !bound(); ++i) {
    one.loop.advance(10ms);
    ASSERT_LE(live(), 1) << "two pods on one node";
    given_away = given_away || (runs(2) && one.api.get(r::kPods, {"slurm-bridge", "first"}).has_value());
  }
  EXPECT_TRUE(given_away);
  EXPECT_TRUE(bound());
  EXPECT_TRUE(runs(2)) << "the job was not given back meanwhile";
}

// A dead kubelet: its pods may still run, so their nodes stay theirs until Kubernetes itself says that they are over
// (out-of-service taint, or the Node deleted). Then the work goes on elsewhere.
TEST_F(Life, ADeadKubeletsPodsAreReplacedOnlyWhenKubernetesIsSure) {
  start();
  w.add_gang("gang", 3, 3);
  w.loop.advance(3s);
  ASSERT_EQ(holders().size(), 3u);
  const std::string dead = "n2";
  const std::string lost = holders().at(dead);
  w.cluster.set_node_alive(dead, false);
  const auto pod = [&]() -> std::optional<json::Value> {
    for (json::Value& one : w.api.list(r::kPods)) {
      if (json::string_at(one, {"metadata", "uid"}) == lost) return one;
    }
    return std::nullopt;
  };
  w.api.remove(r::kPods, {"slurm-bridge", std::string(json::string_at(*pod(), {"metadata", "name"}))});
  w.loop.advance(4min);
  EXPECT_TRUE(pod());
  EXPECT_EQ(job(1)->view.nodes, "n[1-3]") << "still held";
  w.api.erase(r::kNodes, {"", dead});  // PodGC ends the pods of nodes that are gone
  w.loop.advance(2min);
  EXPECT_FALSE(pod());
  EXPECT_TRUE(w.run(5min));
  w.loop.advance(10s);
  EXPECT_EQ(w.live_jobs(), 0u);
}

// W18: members that do not ask for whole nodes share them, as many as there is room for, beside others.
TEST_F(Life, AGangSharesNodesExactly) {
  start();
  w.add_gang("gang", 6, 6, {{"slurmjob.slinky.slurm.net/exclusive", "false"}}, "3");
  w.loop.advance(3s);
  std::map<std::string, int> members;
  for (const json::Value& pod : w.pods_on_nodes()) ++members[std::string(json::string_at(pod, {"spec", "nodeName"}))];
  EXPECT_THAT(members, ::testing::ElementsAre(std::pair("n1", 2), std::pair("n2", 2), std::pair("n3", 2)));
  EXPECT_EQ(w.slurm.model().node("n1")->view.alloc_cpus, 6u);
  for (int i = 0; i < 240 && !w.all_complete(); ++i) w.loop.advance(250ms);
  EXPECT_TRUE(w.all_complete());
  w.loop.advance(10s);
  EXPECT_EQ(w.live_jobs(), 0u);
  EXPECT_EQ(w.slurm.model().submitted(), 1u);
}

// ... and so do single pods, each by a job of its own: eight of one CPU on a node of eight.
TEST_F(Life, SinglePodsShareANode) {
  World one(2, 1);
  one.scheduler.start();
  one.pod_sync.start();
  for (int i = 0; i < 9; ++i) {
    one.api.create(r::kPods, testing::make_pod({.name = "p" + std::to_string(i),
                                                .ns = "slurm-bridge",
                                                .scheduler = "slurm-bridge-scheduler",
                                                .cpu = "1",
                                                .annotations = {{"fake/run-for", "forever"},
                                                                {"slurmjob.slinky.slurm.net/exclusive", "false"}}}));
  }
  one.loop.advance(10s);
  EXPECT_EQ(one.pods_on_nodes().size(), 8u);
  EXPECT_EQ(one.slurm.model().node("n1")->view.alloc_cpus, 8u);
  EXPECT_EQ(one.live_jobs(), 9u) << "the ninth waits in Slurm";
}

// W21: a pod whose volume is made on the node that Slurm chose is bound when the volume is there.
TEST_F(Life, VolumesAreMadeBeforeTheBinding) {
  add_class();
  start();
  w.api.create(r::kPods, pod_with_claim());
  w.loop.advance(5s);
  EXPECT_EQ(w.slurm.model().submitted(), 0u);
  EXPECT_THAT(json::dump(w.api.list(r::kPods).front()), ::testing::HasSubstr("PersistentVolumeClaim c does not exist"));
  add_claim();
  w.loop.advance(5s);
  const NamespacedName key{"slurm-bridge", "c"};
  ASSERT_NE(job(1), nullptr);
  EXPECT_EQ(job(1)->view.states.base, slurm::JobState::kRunning);
  EXPECT_EQ(json::string_at(*w.api.get(claims, key), {"metadata", "annotations", "volume.kubernetes.io/selected-node"}),
            job(1)->view.nodes);
  EXPECT_TRUE(holders().empty());
  w.api.create({"", "v1", "persistentvolumes", "PersistentVolume", false},
               json::Object{{"apiVersion", "v1"},
                            {"kind", "PersistentVolume"},
                            {"metadata", json::Object{{"name", "v"}}},
                            {"spec", json::Object{{"storageClassName", "fast"}}}});
  w.api.patch(claims, key,
              json::Object{
                  {"metadata", json::Object{{"annotations", json::Object{{"pv.kubernetes.io/bind-completed", "yes"}}}}},
                  {"spec", json::Object{{"volumeName", "v"}}}});
  w.loop.advance(2s);
  EXPECT_EQ(holders().size(), 1u);
}

}  // namespace
}  // namespace bascule::bridge
