// What once let a pod wait for ever although there was a place for it.
#include <fmt/format.h>

#include <ranges>

#include "bridge/bridge_sim_test.hpp"

namespace bascule::bridge {
namespace {

std::string reason_of(World& w, const std::string& pod) {
  const auto seen = w.api.get(r::kPods, {"slurm-bridge", pod});
  return seen ? json::dump(*json::find(*seen, {"status"})) : "it is gone";
}

void add_pod(World& w, const std::string& name, json::Object labels = {}, std::string cpu = "1") {
  w.api.create(r::kPods, testing::make_pod({.name = name,
                                            .ns = "slurm-bridge",
                                            .scheduler = "slurm-bridge-scheduler",
                                            .cpu = std::move(cpu),
                                            .labels = std::move(labels)}));
}

// The waiting job ends and is purged while no scheduler runs, and nobody submits another that would pass its id.
TEST(Stall, AWaitingPodWhoseJobIsGoneGetsAnother) {
  World w(21, 1, 1h);
  w.scheduler.start();
  w.pod_sync.start();
  w.hold_nodes(1);
  add_pod(w, "p");
  w.loop.advance(20s);
  ASSERT_EQ(w.live_jobs(), 2u);
  w.scheduler.kill();
  w.pod_sync.kill();
  for (const std::uint32_t id : {1u, 2u}) ASSERT_TRUE(w.slurm.model().cancel(w.slurm.now(), JobId{id}));
  w.loop.advance(20min);
  ASSERT_EQ(w.slurm.model().job(JobId{2}), nullptr);
  w.scheduler.start();
  w.pod_sync.start();
  EXPECT_TRUE(w.loop.run_until([&] { return w.pods_on_nodes().size() == 1; }, 2min)) << reason_of(w, "p");
}

// Slurm packs by what it knows, and chooses the node that somebody else has filled each time anew.
TEST(Stall, AJobThatWasGivenBackIsNotGivenTheSameNodeForEver) {
  World w(22, 2, 1h);
  w.api.create(r::kPods, testing::make_pod({.name = "theirs", .ns = "slurm-bridge", .cpu = "8", .node = "n1"}));
  w.scheduler.start();
  w.pod_sync.start();
  add_pod(w, "p", {}, "4");
  w.loop.advance(10s);
  const auto placed = [&] {
    return json::string_at(*w.api.get(r::kPods, {"slurm-bridge", "p"}), {"spec", "nodeName"}) == "n2";
  };
  EXPECT_TRUE(w.loop.run_until(placed, 2min)) << reason_of(w, "p");
}

// A node that did not fit for a while is not shunned for as long as the job waits.
TEST(Stall, AnExclusionIsTakenBackWhenTheNodeFitsAgain) {
  World w(29, 2, 1h);
  w.scheduler.start();
  w.pod_sync.start();
  w.hold_nodes(2);
  add_pod(w, "p");
  w.loop.advance(10s);
  const auto taint = [&w](json::Array taints) {
    w.api.patch(r::kNodes, {"", "n2"}, json::Object{{"spec", json::Object{{"taints", std::move(taints)}}}});
    w.loop.advance(2min);
    return w.slurm.model().job(JobId{2})->view.excluded_nodes;
  };
  EXPECT_EQ(taint({json::Object{{"key", "team"}, {"effect", "NoSchedule"}}}), "n2");
  EXPECT_EQ(taint({}), "");
}

// slurm-bridge's jobs require the nodes that would have done when they were submitted.
TEST(Stall, AnAdoptedJobThatWaitsIsNotHeldToTheNodesOfItsSubmit) {
  World w(30, 2, 1h);
  w.hold_nodes(1);
  w.hold_nodes(1);
  slurm::JobDescription job;
  job.nodes = 1;
  job.partition = "slurm-bridge";
  job.required_nodes = {"n1"};
  job.admin_comment = R"({"pods":["slurm-bridge/p"]})";
  const JobId id = w.slurm.submit(std::move(job));
  add_pod(w, "p", {{std::string(names::kSlurmJobId), id.str()}});
  w.scheduler.start();
  w.pod_sync.start();
  w.loop.advance(10s);
  EXPECT_EQ(w.slurm.model().job(id)->view.required_nodes, "");
  const std::string second = w.slurm.model().job(JobId{2})->view.nodes;
  ASSERT_EQ(second, "n2");
  ASSERT_TRUE(w.slurm.model().cancel(w.slurm.now(), JobId{2}));
  EXPECT_TRUE(w.loop.run_until([&] { return w.pods_on_nodes().size() == 1; }, 1min)) << reason_of(w, "p");
  EXPECT_EQ(w.slurm.model().submitted(), 3u);
}

// It has the name of one that was there a moment ago.
TEST(Stall, AGroupMadeAnewIsReadAnew) {
  World w(23, 2, 1h);
  w.scheduler.start();
  w.pod_sync.start();
  w.hold_nodes(2);
  w.add_group("g", 1);
  const json::Object in_group{{std::string(names::kPodGroup), "g"}};
  add_pod(w, "first", in_group);
  w.loop.advance(5s);
  ASSERT_EQ(w.live_jobs(), 2u);
  w.api.remove(kPodGroups, {"slurm-bridge", "g"});
  w.add_group("g", 2);
  json::Value gated = testing::make_pod(
      {.name = "gated", .ns = "slurm-bridge", .scheduler = "slurm-bridge-scheduler", .labels = in_group});
  json::at_or_create(gated, {"spec", "schedulingGates"}) = json::Array{json::Object{{"name", "later"}}};
  w.api.create(r::kPods, std::move(gated));  // one of the group is there all the time
  w.api.remove(r::kPods, {"slurm-bridge", "first"});
  w.loop.advance(5s);
  add_pod(w, "third", in_group);
  w.loop.advance(15s);
  EXPECT_EQ(w.live_jobs(), 1u);
  EXPECT_THAT(reason_of(w, "third"), ::testing::HasSubstr("InsufficientPods"));
}

// Another admission policy, or our own rights. Its job does not keep the node for ever, and others go on.
TEST(Stall, APodThatKubernetesRefusesToChangeSaysSoAndGivesItsJobBack) {
  for (const auto& [verb, resource] : {std::pair("patch", "pods"), std::pair("create", "pods/binding")}) {
    World w(24, 2, 1h);
    bool refuses = true;
    w.api.set_faults([&](const testing::ApiCall& call) -> testing::ApiFault {
      if (!refuses || !call.is(verb, resource) || call.key.name != "p") return {};
      return {.kind = testing::ApiFault::Kind::kStatus, .code = 403};
    });
    w.scheduler.start();
    w.pod_sync.start();
    add_pod(w, "p");
    add_pod(w, "other");
    w.loop.advance(10s);
    EXPECT_EQ(w.pods_on_nodes().size(), 1u) << resource;
    EXPECT_THAT(reason_of(w, "p"), ::testing::HasSubstr("KubernetesRefused"));
    EXPECT_THAT(reason_of(w, "p"), ::testing::HasSubstr("forbidden, as planned"));
    ASSERT_EQ(w.live_jobs(), 2u);
    EXPECT_TRUE(w.loop.run_until([&] { return w.live_jobs() == 1; }, 30s)) << resource;
    w.loop.advance(5min);
    EXPECT_LE(w.slurm.model().submitted(), 8u) << "ever less often";
    const std::size_t writes = w.api.writes().size();
    w.loop.advance(5min);
    EXPECT_LE(w.api.writes().size() - writes, 150u);
    refuses = false;
    EXPECT_TRUE(w.loop.run_until([&] { return w.pods_on_nodes().size() == 2; }, 2min)) << reason_of(w, "p");
  }
}

// An outage leaves no long pauses behind.
TEST(Stall, WhenKubernetesIsWellAgainAPodIsBoundSoon) {
  for (const auto& [verb, resource] : {std::pair("patch", "pods"), std::pair("create", "pods/binding")}) {
    World w(26, 1, 1h);
    bool down = true;
    w.api.set_faults([&](const testing::ApiCall& call) -> testing::ApiFault {
      if (!down || !call.is(verb, resource)) return {};
      return {.kind = testing::ApiFault::Kind::kStatus, .code = 500};
    });
    w.scheduler.start();
    w.pod_sync.start();
    add_pod(w, "p");
    w.loop.advance(20min);
    down = false;
    EXPECT_TRUE(w.loop.run_until([&] { return w.pods_on_nodes().size() == 1; }, 31s)) << resource;
  }
}

// Its watch is cut before it says that the pod is bound, and stays so until the pod is over and its job cancelled.
TEST(Stall, ASchedulerWhoseWatchIsCutSubmitsNothingForAPodThatHasRun) {
  World w(31, 1, 3s);
  bool cut = false;
  std::string agent;
  w.api.on_call([&agent](const testing::ApiCall&, std::string_view whose) { agent = whose; });
  w.api.set_faults([&](const testing::ApiCall& call) -> testing::ApiFault {
    if (call.is("create", "pods/binding") && !std::exchange(cut, true)) {
      w.api.end_watches();
      return {.before = 50ms};
    }
    if (!cut || !call.is("watch", "pods") || agent != kSchedulerAgent) return {};
    return {.kind = testing::ApiFault::Kind::kStatus, .code = 500};
  });
  w.scheduler.start();
  w.pod_sync.start();
  w.add_job("j", 1);
  ASSERT_TRUE(w.loop.run_until([&] { return w.all_complete(); }, 30s));
  w.loop.advance(20s);
  ASSERT_EQ(w.live_jobs(), 0u);
  w.api.set_faults({});
  w.loop.advance(2min);
  EXPECT_EQ(w.slurm.model().submitted(), 1u);
}

// The answer to the first binding is lost, and the scheduler's watch of pods is silent from then on.
struct LostBinding {
  explicit LostBinding(World& w) {
    w.api.on_call([this](const testing::ApiCall&, std::string_view whose) { agent = whose; });
    w.api.set_faults([this, &w](const testing::ApiCall& call) -> testing::ApiFault {
      using Kind = testing::ApiFault::Kind;
      if (call.is("create", "pods/binding") && !std::exchange(cut, true)) {
        w.api.end_watches();
        return {.kind = Kind::kStatusAfter, .code = 500, .before = 50ms};
      }
      if (!cut || agent != kSchedulerAgent) return {};
      if (refuses_others && call.is("create", "pods/binding")) return {.kind = Kind::kStatus, .code = 500};
      return call.is("watch", "pods") ? testing::ApiFault{.kind = Kind::kSilent} : testing::ApiFault{};
    });
  }

  bool cut = false;
  bool refuses_others = false;
  std::string agent;
};

// The node gets a taint: the pod seems to wait for a node that does not fit. It runs.
TEST(Stall, TheJobOfAPodThatIsBoundUnseenIsNotGivenBack) {
  World w(32, 1, 1h);
  LostBinding lost(w);
  lost.refuses_others = true;
  w.scheduler.start();
  w.pod_sync.start();
  add_pod(w, "p");
  ASSERT_TRUE(w.loop.run_until([&] { return lost.cut; }, 30s));
  const json::Object taint{{"key", "team"}, {"effect", "NoSchedule"}};
  w.api.patch(r::kNodes, {"", "n1"}, json::Object{{"spec", json::Object{{"taints", json::Array{taint}}}}});
  w.loop.advance(2min);
  EXPECT_EQ(w.pods_on_nodes().size(), 1u) << reason_of(w, "p");
  EXPECT_EQ(w.live_jobs(), 1u);
  EXPECT_EQ(w.slurm.model().submitted(), 1u);
}

// ... and its job ends: Slurm gives the node to the next one.
TEST(Stall, NobodyIsBoundBesideAPodThatIsBoundUnseen) {
  World w(34, 1, 1h);
  LostBinding lost(w);
  add_pod(w, "p");
  add_pod(w, "q");
  w.scheduler.start();
  ASSERT_TRUE(w.loop.run_until([&] { return lost.cut; }, 30s));
  w.loop.advance(3s);
  ASSERT_EQ(w.pods_on_nodes().size(), 1u);
  w.slurm.model().end(w.slurm.now(), JobId{1}, slurm::JobState::kTimeout);
  w.loop.advance(20s);
  ASSERT_EQ(w.slurm.model().job(JobId{2})->view.states.base, slurm::JobState::kRunning);
  EXPECT_EQ(w.pods_on_nodes().size(), 1u);
}

// An etcd that was restored from a backup has forgotten it. What it took of the node is free for the next attempt.
TEST(Stall, ABindingThatIsForgottenIsDoneAnewByTheSameJob) {
  World w(31, 1, 1h);
  int bindings = 0;
  w.api.set_faults([&bindings](const testing::ApiCall& call) -> testing::ApiFault {
    if (!call.is("create", "pods/binding") || ++bindings > 1) return {};
    return {.kind = testing::ApiFault::Kind::kStatus, .code = 201};
  });
  w.scheduler.start();
  w.pod_sync.start();
  add_pod(w, "p", {}, "5");
  w.loop.advance(10s);
  ASSERT_EQ(bindings, 1);
  EXPECT_TRUE(w.loop.run_until([&] { return w.pods_on_nodes().size() == 1; }, 12min)) << reason_of(w, "p");
  EXPECT_EQ(w.slurm.model().submitted(), 1u);
}

// What a proxy says, or slurmrestd for want of a good token, is no word about the change.
TEST(Stall, AnUpdateThatFailedOnceIsSentAgain) {
  World w(33, 2, 1h);
  int left = 1;
  w.slurm.set_faults([&left](const net::ServerRequest& request) -> testing::FakeSlurmFault {
    if (request.method != "POST" || request.target.ends_with("/submit") || left-- <= 0) return {};
    return {.kind = testing::FakeSlurmFault::Kind::kHtml404};
  });
  w.scheduler.start();
  w.pod_sync.start();
  w.hold_nodes(2);
  add_pod(w, "p");
  w.loop.advance(10s);
  const json::Object taint{{"key", "team"}, {"effect", "NoSchedule"}};
  w.api.patch(r::kNodes, {"", "n2"}, json::Object{{"spec", json::Object{{"taints", json::Array{taint}}}}});
  w.loop.advance(1min);
  EXPECT_LE(left, 0);
  EXPECT_EQ(w.slurm.model().job(JobId{2})->view.excluded_nodes, "n2");
}

TEST(Stall, APodWhoseRunningJobCannotBeConfirmedSaysThatSlurmFails) {
  World w(34, 1, 1h);
  bool fails = false;
  w.slurm.set_faults([&fails](const net::ServerRequest&) -> testing::FakeSlurmFault {
    if (!fails) return {};
    return {.kind = testing::FakeSlurmFault::Kind::kControllerHung};
  });
  w.api.set_faults([&](const testing::ApiCall& call) -> testing::ApiFault {
    if (!call.is("create", "pods/binding") || std::exchange(fails, true)) return {};
    return {.kind = testing::ApiFault::Kind::kStatus, .code = 500, .before = 5s};
  });
  w.scheduler.start();
  w.pod_sync.start();
  add_pod(w, "p");
  w.loop.advance(2min);
  EXPECT_THAT(reason_of(w, "p"), ::testing::HasSubstr("SlurmUnreachable"));
}

// Of a gang that runs already only that member waits, and keeps its place.
TEST(Stall, AMemberThatIsNotBoundHoldsUpNoOther) {
  World w(25, 3, 1h);
  bool refuses = true;
  std::string victim;
  w.api.set_faults([&](const testing::ApiCall& call) -> testing::ApiFault {
    if (!refuses || !call.is("create", "pods/binding")) return {};
    if (victim.empty()) victim = call.key.name;
    if (victim != call.key.name) return {};
    return {.kind = testing::ApiFault::Kind::kStatus, .code = 422};
  });
  w.scheduler.start();
  w.pod_sync.start();
  w.add_gang("gang", 3, 3);
  w.loop.advance(2min);
  EXPECT_EQ(w.pods_on_nodes().size(), 2u);
  EXPECT_EQ(w.live_jobs(), 1u);
  EXPECT_THAT(reason_of(w, victim), ::testing::HasSubstr("KubernetesRefused"));
  refuses = false;
  EXPECT_TRUE(w.loop.run_until([&] { return w.pods_on_nodes().size() == 3; }, 90s)) << reason_of(w, victim);
  EXPECT_EQ(w.slurm.model().submitted(), 1u);
}

// ... nor one whose volume may not be asked for.
TEST(Stall, AVolumeThatIsRefusedHoldsUpNoOther) {
  const kube::Resource claims{"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", true};
  World w(26, 3, 1h);
  bool refuses = true;
  w.api.set_faults([&](const testing::ApiCall& call) -> testing::ApiFault {
    if (!refuses || !call.is("patch", "persistentvolumeclaims")) return {};
    return {.kind = testing::ApiFault::Kind::kStatus, .code = 403};
  });
  w.api.create({"storage.k8s.io", "v1", "storageclasses", "StorageClass", false},
               json::Object{{"apiVersion", "storage.k8s.io/v1"},
                            {"kind", "StorageClass"},
                            {"metadata", json::Object{{"name", "fast"}}},
                            {"provisioner", "csi.example.com"},
                            {"volumeBindingMode", "WaitForFirstConsumer"}});
  w.api.create(claims, json::Object{{"apiVersion", "v1"},
                                    {"kind", "PersistentVolumeClaim"},
                                    {"metadata", json::Object{{"name", "c"}, {"namespace", "slurm-bridge"}}},
                                    {"spec", json::Object{{"storageClassName", "fast"}}}});
  w.scheduler.start();
  w.pod_sync.start();
  w.add_group("g", 3);
  const json::Object labels{{std::string(names::kPodGroup), "g"}};
  for (const char* name : {"p1", "p2", "p3"}) add_pod(w, name, labels);
  w.loop.advance(10s);
  ASSERT_EQ(w.pods_on_nodes().size(), 3u);
  for (const char* name : {"p2", "p3"}) w.api.remove(r::kPods, {"slurm-bridge", name});
  json::Value bad =
      testing::make_pod({.name = "bad", .ns = "slurm-bridge", .scheduler = "slurm-bridge-scheduler", .labels = labels});
  json::at_or_create(bad, {"spec", "volumes"}) =
      json::Array{json::Object{{"name", "data"}, {"persistentVolumeClaim", json::Object{{"claimName", "c"}}}}};
  w.api.create(r::kPods, bad);
  add_pod(w, "good", labels);
  w.loop.advance(2min);
  EXPECT_EQ(w.pods_on_nodes().size(), 2u) << reason_of(w, "good");
  EXPECT_THAT(reason_of(w, "bad"), ::testing::HasSubstr("KubernetesRefused"));
  EXPECT_EQ(w.live_jobs(), 1u);
  refuses = false;
  const auto asked = [&] {
    const auto claim = w.api.get(claims, {"slurm-bridge", "c"});
    return !json::string_at(*claim, {"metadata", "annotations", "volume.kubernetes.io/selected-node"}).empty();
  };
  EXPECT_TRUE(w.loop.run_until(asked, 90s)) << reason_of(w, "bad");
}

// The owner of a pod is what its maker says: that must not stand for objects of other namespaces.
TEST(Stall, AForgedOwnerSpeaksForNobodyElse) {
  World w(24, 4, 1h);
  w.scheduler.start();
  w.pod_sync.start();
  w.add_group("g", 2);
  add_pod(w, "one", {{std::string(names::kPodGroup), "g"}});
  w.loop.advance(2s);
  const auto forged = [&w](const std::string& name, const char* uid) {
    json::Value pod = testing::make_pod({.name = name, .ns = "team-a", .scheduler = "slurm-bridge-scheduler"});
    json::at_or_create(pod, {"metadata", "ownerReferences"}) = json::Array{json::Object{
        {"apiVersion", "apps/v1"}, {"kind", "ReplicaSet"}, {"name", "mine"}, {"uid", uid}, {"controller", true}}};
    w.api.create(r::kPods, std::move(pod));
  };
  w.api.create(r::kReplicaSets, json::Object{{"apiVersion", "apps/v1"},
                                             {"kind", "ReplicaSet"},
                                             {"metadata", json::Object{{"name", "mine"}, {"namespace", "team-a"}}},
                                             {"spec", json::Object{{"replicas", 0}, {"selector", json::Object{}}}}});
  const std::string unit = "scheduling.x-k8s.io/slurm-bridge/g";
  w.loop.advance(31s);  // what was read of the group is no longer remembered
  forged("p", unit.c_str());
  w.loop.advance(1s);
  w.api.patch(r::kPods, {"slurm-bridge", "one"},
              json::Object{{"metadata", json::Object{{"annotations", json::Object{{"touched", "1"}}}}}});
  w.loop.advance(5s);
  EXPECT_EQ(w.live_jobs(), 0u) << "one of two";
  EXPECT_THAT(reason_of(w, "one"), ::testing::HasSubstr("InsufficientPods"));
}

// A webhook of somebody else's that is away, with failurePolicy Fail: the job keeps its node, and the pod says why.
TEST(Stall, AFailingApiServerIsNamedAndCostsNoJob) {
  // An overloaded server (429) fails no less.
  for (const auto& [verb, resource, code] :
       {std::tuple("patch", "pods", 500), std::tuple("create", "pods/binding", 500), std::tuple("patch", "pods", 429),
        std::tuple("create", "pods/binding", 429)}) {
    SCOPED_TRACE(fmt::format("{} {}", resource, code));
    World w(26, 2, 1h);
    bool fails = true;
    w.api.set_faults([&](const testing::ApiCall& call) -> testing::ApiFault {
      if (!fails || !call.is(verb, resource)) return {};
      return {.kind = testing::ApiFault::Kind::kStatus, .code = code};
    });
    w.scheduler.start();
    w.pod_sync.start();
    add_pod(w, "p");
    w.loop.advance(5s);
    EXPECT_THAT(reason_of(w, "p"), ::testing::Not(::testing::HasSubstr("KubernetesFails"))) << "it may pass";
    w.loop.advance(5min);
    EXPECT_THAT(reason_of(w, "p"), ::testing::HasSubstr("KubernetesFails")) << resource;
    EXPECT_EQ(w.slurm.model().submitted(), 1u);
    EXPECT_EQ(w.live_jobs(), 1u);
    fails = false;
    EXPECT_TRUE(w.loop.run_until([&] { return w.pods_on_nodes().size() == 1; }, 2min)) << reason_of(w, "p");
  }
}

// Nobody need wait for the job to start to learn that it will not be used.
TEST(Stall, ALabelThatIsRefusedIsToldWhileTheJobWaits) {
  World w(27, 1, 1h);
  w.api.set_faults([&](const testing::ApiCall& call) -> testing::ApiFault {
    if (!call.is("patch", "pods") || call.key.name != "second") return {};
    return {.kind = testing::ApiFault::Kind::kStatus, .code = 403};
  });
  w.scheduler.start();
  w.pod_sync.start();
  add_pod(w, "first");
  w.loop.advance(5s);
  add_pod(w, "second");
  w.loop.advance(30s);
  EXPECT_THAT(reason_of(w, "second"), ::testing::HasSubstr("PENDING"));
  EXPECT_THAT(reason_of(w, "second"), ::testing::HasSubstr("Kubernetes does not let pod second be changed"));
}

// A priority releases a job in Slurm. Whoever holds one is not undone by the pod's own wish, nor where both come at
// once.
TEST(Stall, AJobThatIsHeldMeanwhileIsNotReleasedByItsPriority) {
  World w(43, 1, 1h);
  w.scheduler.start();
  w.pod_sync.start();
  w.hold_nodes(1);
  const std::string priority = "slurmjob.slinky.slurm.net/priority", limit = "slurmjob.slinky.slurm.net/timelimit";
  w.api.create(r::kPods, testing::make_pod({.name = "p",
                                            .ns = "slurm-bridge",
                                            .scheduler = "slurm-bridge-scheduler",
                                            .annotations = {{priority, "100"}}}));
  w.loop.advance(20s);
  const auto job = [&w] { return w.slurm.model().job(JobId{2})->view; };
  ASSERT_EQ(job().priority, 100u);
  slurm::JobDescription hold;
  hold.hold = true;
  ASSERT_TRUE(w.slurm.model().update_job(w.slurm.now(), JobId{2}, hold));
  w.api.patch(r::kPods, {"slurm-bridge", "p"},
              json::Object{{"metadata", json::Object{{"annotations", json::Object{{priority, "200"}, {limit, "9"}}}}}});
  w.loop.advance(20s);
  EXPECT_EQ(job().time_limit, 9u);
  EXPECT_TRUE(job().hold);
}

// Two members of one group, each by its own job.
void add_pair(World& w) {
  w.add_group("g", 1);
  for (const char* name : {"g-0", "g-1"}) {
    add_pod(w, name, {{std::string(names::kPodGroup), "g"}});
    w.loop.advance(5s);
  }
}

// One job that Slurm refuses to end keeps its own pod's object, which says why, and nothing else of the unit.
TEST(Stall, AJobThatSlurmDoesNotEndHoldsUpNoOther) {
  World w(41, 2, 1h);
  w.scheduler.start();
  w.loop.advance(1ms);
  w.pod_sync.start();
  add_pair(w);
  ASSERT_EQ(w.pods_on_nodes().size(), 2u);
  ASSERT_EQ(w.live_jobs(), 2u);
  bool refuses = true;
  w.slurm.set_faults([&refuses](const net::ServerRequest& request) -> testing::FakeSlurmFault {
    if (!refuses || request.method != "DELETE" || !request.target.contains("/job/1")) return {};
    return {.kind = testing::FakeSlurmFault::Kind::kRefused};
  });
  for (const char* name : {"g-0", "g-1"}) w.api.remove(r::kPods, {"slurm-bridge", name});
  w.loop.advance(10s);
  EXPECT_NE(reason_of(w, "g-0"), "it is gone");
  EXPECT_EQ(reason_of(w, "g-1"), "it is gone");
  EXPECT_EQ(w.live_jobs(), 1u);
  EXPECT_TRUE(std::ranges::any_of(w.api.list(r::kEvents), [](const json::Value& event) {
    return json::string_at(event, {"reason"}) == "SlurmJobNotCancelled" &&
           json::string_at(event, {"regarding", "name"}) == "g-0";
  }));
  refuses = false;
  w.loop.advance(40s);
  EXPECT_EQ(reason_of(w, "g-0"), "it is gone");
  EXPECT_EQ(w.live_jobs(), 0u);
}

// slurmctld lost a start, and the pod's node has been taken out of Slurm since.
TEST(Stall, AJobThatCannotBeHeldToItsNodeHoldsUpNoOther) {
  World w(42, 1, 1h);
  w.api.create(r::kNodes, testing::make_node({.name = "n2"}));
  ASSERT_TRUE(w.slurm.model().add_node(w.slurm.now(),
                                       "NodeName=n2 NodeAddr=127.0.0.1 State=External CPUs=8 RealMemory=32000", true));
  w.scheduler.start();
  w.pod_sync.start();
  add_pair(w);
  ASSERT_EQ(w.pods_on_nodes().size(), 2u);
  const std::string node = w.slurm.model().job(JobId{2})->view.nodes;
  ASSERT_EQ(node, "n2");
  slurm::NodeUpdate drain;
  drain.state = "DRAIN";
  drain.reason = "it goes";
  ASSERT_TRUE(w.slurm.model().update_node(w.slurm.now(), node, drain));
  w.slurm.model().forget_start(w.slurm.now(), JobId{2});
  ASSERT_TRUE(w.slurm.model().delete_node(w.slurm.now(), node));
  w.api.remove(r::kPods, {"slurm-bridge", "g-0"});
  w.loop.advance(15s);
  EXPECT_EQ(reason_of(w, "g-0"), "it is gone");
  EXPECT_TRUE(w.slurm.model().job(JobId{1})->view.states.ended());
  EXPECT_NE(reason_of(w, "g-1"), "it is gone");
}

// As many calls at once as the client has connections; the others stand in line.
class Narrow final : public net::Transport {
 public:
  Narrow(Loop& loop, std::unique_ptr<net::Transport> wide) : wide_(std::move(wide)), connections_(loop, 32) {}
  Task<net::Response> call(net::Request request, net::CallLimits limits) override {
    const Semaphore::Permit connection = co_await connections_.acquire(limits.stop, limits.deadline);
    if (!connection) throw net::Error(net::Error::Kind::kDeadline, "waiting for a connection");
    co_return co_await wide_->call(std::move(request), std::move(limits));
  }
  Task<net::StreamResponse> open(net::Request request, net::CallLimits limits) override {
    return wide_->open(std::move(request), std::move(limits));
  }

 private:
  std::unique_ptr<net::Transport> wide_;
  Semaphore connections_;
};

// A webhook of somebody else's on pods/status hangs in one namespace, where many gangs wait: pods of the others get
// their nodes.
TEST(Stall, ANamespaceWhoseConditionsHangHoldsUpNoOther) {
  World w(28, 4, 1h);
  w.to_api = std::make_unique<Narrow>(w.loop, std::move(w.to_api));
  for (int i = 0; i < 40; ++i) w.add_gang("gang" + std::to_string(i), 40, 40);
  w.api.set_faults([](const testing::ApiCall& call) -> testing::ApiFault {
    if (!call.is("patch", "pods/status") || call.key.ns != "slurm-bridge") return {};
    return {.kind = testing::ApiFault::Kind::kStatus, .code = 500, .before = 10s};
  });
  w.scheduler.start();
  w.loop.advance(20s);
  ASSERT_GT(w.api.calls("patch", "pods/status"), 0u);
  w.api.create(r::kPods, testing::make_pod({.name = "other", .ns = "other", .scheduler = "slurm-bridge-scheduler"}));
  EXPECT_TRUE(w.loop.run_until([&] { return w.pods_on_nodes().size() == 1; }, 10s));
}

// What a pod is told again is the same event, counted.
TEST(Stall, AGroupThatLosesAMemberAgainIsTheSameEvent) {
  World w(30, 1, 1h);
  w.add_group("g", 2);
  w.hold_nodes(1);
  w.scheduler.start();
  add_pod(w, "a", {{std::string(names::kPodGroup), "g"}});
  w.loop.advance(20s);
  add_pod(w, "b", {{std::string(names::kPodGroup), "g"}});
  w.loop.advance(20s);
  w.api.remove(r::kPods, {"slurm-bridge", "b"});
  w.loop.advance(40s);
  EXPECT_THAT(reason_of(w, "a"), ::testing::HasSubstr("has 1 of the 2 pods"));
  const auto told = w.api.list({"events.k8s.io", "v1", "events", "Event", true});
  EXPECT_EQ(std::ranges::count_if(told,
                                  [](const json::Value& event) {
                                    return json::string_at(event, {"note"}).contains("has 1 of the 2 pods") &&
                                           json::int_at(event, {"series", "count"}) == 2;
                                  }),
            1);
}

double reconciles(runtime::Metrics& metrics) {
  const std::string text = metrics.text();
  double sum = 0;
  for (const auto line : std::views::split(text, '\n')) {
    const std::string one(line.begin(), line.end());
    if (one.starts_with("controller_runtime_reconcile_total{")) sum += std::stod(one.substr(one.rfind(' ')));
  }
  return sum;
}

// Claims come and go all day; only units with claims of their own look again.
TEST(Stall, AClaimOfOthersWakesNobodyWhoHasNone) {
  World w(29, 2, 1h);
  runtime::Metrics metrics;
  testing::SimProcess scheduler(w.loop, w.network, [&](SimEnvironment& self, std::stop_token stop) {
    return scheduler_main(self, *w.to_api, *w.to_rest, std::move(stop), &metrics);
  });
  w.hold_nodes(2);
  for (int i = 0; i < 100; ++i) add_pod(w, "p" + std::to_string(i));
  scheduler.start();
  w.loop.advance(50s);
  const double before = reconciles(metrics);
  EXPECT_GE(before, 100);
  w.api.create({"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", true},
               json::Object{{"apiVersion", "v1"},
                            {"kind", "PersistentVolumeClaim"},
                            {"metadata", json::Object{{"name", "c"}, {"namespace", "other"}}}});
  w.loop.advance(2s);
  EXPECT_LT(reconciles(metrics) - before, 10);
  scheduler.kill();
}

}  // namespace
}  // namespace bascule::bridge
