// NodeSets from object to running slurmd and back, between the fakes.
#include "operator/nodeset/driver.hpp"

#include "operator/config/hash.hpp"
#include "operator/nodeset/driver_test_world.hpp"

namespace bascule::op::nodeset {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string ready_of(DriverWorld& world, const std::string& name) {
  const auto ready = condition_at(*json::find(world.nodeset_of(name), {"status"}), "Ready");
  if (!ready) return "nothing";
  return fmt::format("{} {} of {}: {}", ready->is_true, ready->reason, ready->generation, ready->message);
}

TEST(NodeSetDriverTest, MakesPodsThatBecomeNodes) {
  DriverWorld world;
  ASSERT_TRUE(world.runs("foo", 3)) << world.events();
  EXPECT_THAT(world.pods("foo"), ElementsAre("foo-0", "foo-1", "foo-2"));
  world.pass(20s);
  EXPECT_EQ(world.status("foo", "replicas"), 3);
  EXPECT_EQ(world.status("foo", "availableReplicas"), 3);
  EXPECT_EQ(world.status("foo", "slurmIdle"), 3);
  const json::Value pod = *world.api.get(r::kPods, {"slurm", "foo-0"});
  EXPECT_THAT(json::dump(pod), HasSubstr("SlurmNodeStateIdle"));
  EXPECT_THAT(world.slurm.model().node("foo-0")->view.comment, HasSubstr(R"("podName":"foo-0")"));
  EXPECT_THAT(ready_of(world, "foo"), HasSubstr("true AsSpecified"));
}

// As slurm-operator's have it; the pod is told as well, for `kubectl describe` shows only what regards it.
TEST(NodeSetDriverTest, EventsNameThePodThatTheyAreAbout) {
  DriverWorld world;
  ASSERT_TRUE(world.runs("foo", 1)) << world.events();
  world.patch_nodeset("foo", "{spec: {replicas: 0}}");
  ASSERT_TRUE(world.settles("foo", 0)) << world.events();
  world.pass(2s);
  EXPECT_THAT(world.related_events(),
              ::testing::UnorderedElementsAre("SuccessfulCreate NodeSet/foo -> Pod/foo-0 by nodeset-controller",
                                              "SuccessfulDelete NodeSet/foo -> Pod/foo-0 by nodeset-controller",
                                              "SuccessfulDelete Pod/foo-0 -> NodeSet/foo by nodeset-controller"));
}

// Names that the webhook did not see, as after a scale: Slurm has one node of a name, and it is the first NodeSet's.
TEST(NodeSetDriverTest, TwoNodeSetsOfOneHostnameDoNotMeet) {
  const std::string_view hostname = "{template: {spec: {hostname: n-}}}";
  DriverWorld world(6);
  ASSERT_TRUE(world.runs("foo", 2, hostname)) << world.events();
  world.nodeset("bar", 3, hostname);
  ASSERT_TRUE(world.settles("bar", 1)) << world.events();
  EXPECT_THAT(world.pods("bar"), ElementsAre("bar-2"));
  EXPECT_THAT(ready_of(world, "bar"), HasSubstr("pod bar-0 waits: Slurm node n-0 is pod foo-0 of NodeSet foo"));
  const JobId job = world.job_on("n-0", 60s);
  world.patch_nodeset("bar", "{spec: {replicas: 0}}");
  ASSERT_TRUE(world.settles("bar", 0)) << world.events();
  EXPECT_TRUE(world.is_running(job));
  EXPECT_TRUE(world.settles("foo", 2)) << world.events();
  world.patch_nodeset("bar", "{spec: {replicas: 2}}");
  world.patch_nodeset("foo", "{spec: {replicas: 0}}");
  ASSERT_TRUE(world.settles("foo", 0)) << world.events();
  EXPECT_TRUE(world.settles("bar", 2)) << "the names are free: " << world.events();
  EXPECT_THAT(world.killed_jobs, IsEmpty());
}

TEST(NodeSetDriverTest, AtRestNothingIsWritten) {
  DriverWorld world;
  ASSERT_TRUE(world.runs("foo", 3)) << world.events();
  world.pass(2min);
  world.api.reset_counts();
  world.slurm.forget_calls();
  world.pass(10min, 1s);
  EXPECT_EQ(world.api.write_calls(), 0u) << json::dump(json::parse(world.api.writes().back().body));
  EXPECT_EQ(world.slurm.calls("POST node"), 0u);
  EXPECT_EQ(world.slurm.calls("GET node"), 0u);
}

TEST(NodeSetDriverTest, ScaleInWaitsForTheJobAndOutComesBack) {
  DriverWorld world;
  ASSERT_TRUE(world.runs("foo", 3)) << world.events();
  const JobId first = world.job_on("foo-0", 2min);
  const JobId second = world.job_on("foo-1", 5min);
  ASSERT_TRUE(world.is_running(first) && world.is_running(second));
  world.pass(15s);
  world.patch_nodeset("foo", "{spec: {replicas: 1}}");
  ASSERT_TRUE(world.until([&] { return world.pods("foo").size() == 2; }, 90s)) << world.events();
  EXPECT_THAT(world.pods("foo"), ElementsAre("foo-0", "foo-1")) << "the idle one goes first";
  EXPECT_TRUE(world.slurm.model().node("foo-0")->view.states.has(slurm::NodeFlag::kDrain));
  EXPECT_FALSE(world.slurm.model().node("foo-1")->view.states.has(slurm::NodeFlag::kDrain));
  world.pass(40s);
  EXPECT_THAT(ready_of(world, "foo"), AllOf(HasSubstr("false Waiting"), HasSubstr("jobs run on Slurm node foo-0")));
  ASSERT_TRUE(world.until([&] { return world.pods("foo").size() == 1; }, 5min)) << world.events();
  EXPECT_EQ(world.slurm.model().job(first)->view.states.base, slurm::JobState::kCompleted);
  EXPECT_THAT(world.killed_jobs, IsEmpty());
  world.patch_nodeset("foo", "{spec: {replicas: 3}}");
  ASSERT_TRUE(world.settles("foo", 3)) << world.events();
  EXPECT_TRUE(world.is_running(second) ||
              world.slurm.model().job(second)->view.states.base == slurm::JobState::kCompleted);
}

TEST(NodeSetDriverTest, RollsUnderLoadWithoutLosingAJob) {
  DriverWorld world(6);
  ASSERT_TRUE(world.runs("foo", 4)) << world.events();
  for (const char* node : {"foo-0", "foo-1", "foo-2", "foo-3"}) world.job_on(node, 90s);
  world.pass(15s);
  std::size_t least = 4;
  world.every_step = [&] { least = std::min(least, world.ready("foo")); };
  world.patch_nodeset("foo", "{spec: {slurmd: {image: \"slurmd:26.06\"}}}");
  world.pass(2s);
  ASSERT_TRUE(world.settles("foo", 4, 30min)) << world.events() << json::dump_pretty(world.nodeset_of("foo"));
  for (const json::Value& pod : world.api.list(r::kPods, "slurm")) {
    EXPECT_THAT(json::dump(pod), HasSubstr("slurmd:26.06"));
  }
  EXPECT_THAT(world.killed_jobs, IsEmpty());
  EXPECT_GE(least, 3u) << "maxUnavailable is 25% of four";
  EXPECT_EQ(world.api.list(kRevisions, "slurm").size(), 1u) << "the history keeps none";
}

TEST(NodeSetDriverTest, AnOutageOfSlurmctldDecidesNothing) {
  DriverWorld world;
  ASSERT_TRUE(world.runs("foo", 3)) << world.events();
  world.job_on("foo-2", 10min);
  world.pass(15s);
  world.slurm.stop_controller();
  world.pass(10s);
  world.patch_nodeset("foo", "{spec: {replicas: 1}}");
  world.pass(5min, 1s);
  EXPECT_EQ(world.pods("foo").size(), 3u);
  EXPECT_EQ(json::string_at(*world.api.get(r::kPods, {"slurm", "foo-2"}),
                            {"metadata", "labels", "nodeset.slinky.slurm.net/pod-protect"}),
            "true")
      << "what was known stays";
  world.slurm.start_controller();
  ASSERT_TRUE(world.until([&] { return world.pods("foo").size() == 1; }, 20min)) << world.events();
  EXPECT_THAT(world.killed_jobs, IsEmpty());
}

TEST(NodeSetDriverTest, ADeletedNodeSetDrainsAndGoes) {
  DriverWorld world;
  ASSERT_TRUE(world.runs("foo", 2)) << world.events();
  const JobId job = world.job_on("foo-0", 3min);
  world.pass(15s);
  world.api.remove(kNodeSets, {"slurm", "foo"});
  ASSERT_TRUE(world.until([&] { return world.pods("foo").size() == 1; }, 2min)) << world.events();
  EXPECT_TRUE(world.is_running(job));
  ASSERT_TRUE(world.until([&] { return !world.api.get(kNodeSets, {"slurm", "foo"}); }, 10min)) << world.events();
  EXPECT_THAT(world.killed_jobs, IsEmpty());
  EXPECT_EQ(world.slurm.model().node("foo-0"), nullptr);
}

TEST(NodeSetDriverTest, AFinalizerThatCannotBeTakenIsTold) {
  DriverWorld world;
  ASSERT_TRUE(world.runs("foo", 1)) << world.events();
  bool refused = true;
  world.api.set_faults([&](const testing::ApiCall& call) {
    testing::ApiFault fault;
    if (refused && call.is("patch", "nodesets")) fault = {.kind = testing::ApiFault::Kind::kStatus, .code = 500};
    return fault;
  });
  world.api.remove(kNodeSets, {"slurm", "foo"});
  EXPECT_TRUE(world.until([&] { return world.events().contains("SyncFinalizerFailed: "); }, 2min)) << world.events();
  refused = false;
  EXPECT_TRUE(world.until([&] { return !world.api.get(kNodeSets, {"slurm", "foo"}); }, 2min)) << world.events();
}

TEST(NodeSetDriverTest, ADeletedNodeSetWithABadAnnotationGoesAllTheSame) {
  DriverWorld world;
  ASSERT_TRUE(world.runs("foo", 2)) << world.events();
  const JobId job = world.job_on("foo-0", 3min);
  world.pass(15s);
  world.patch_nodeset("foo", "{metadata: {annotations: {nodeset.slinky.slurm.net/drain-limit: soon}}}");
  world.pass(2s);
  world.api.remove(kNodeSets, {"slurm", "foo"});
  world.pass(1min);
  EXPECT_TRUE(world.is_running(job));
  ASSERT_TRUE(world.until([&] { return !world.api.get(kNodeSets, {"slurm", "foo"}); }, 10min)) << world.events();
  EXPECT_THAT(world.killed_jobs, IsEmpty());
}

TEST(NodeSetDriverTest, ADeletedNodeSetThatCannotBeReadGoesWithItsController) {
  DriverWorld world;
  ASSERT_TRUE(world.runs("foo", 1)) << world.events();
  world.patch_nodeset("foo", "{spec: {scalingMode: Perhaps}}");
  world.pass(2s);
  world.api.remove(kNodeSets, {"slurm", "foo"});
  world.pass(15min, 1s);
  ASSERT_TRUE(world.api.get(kNodeSets, {"slurm", "foo"})) << "its pods may have jobs";
  world.api.remove(kControllers, {"slurm", "slurm"});
  EXPECT_TRUE(world.until([&] { return !world.api.get(kNodeSets, {"slurm", "foo"}); }, 1min)) << world.events();
}

TEST(NodeSetDriverTest, ADeletedNodeSetGoesWhenControllersAreNoLongerServed) {
  DriverWorld world;
  ASSERT_TRUE(world.runs("foo", 1)) << world.events();
  bool served = true;
  world.api.set_faults([&](const testing::ApiCall& call) {
    testing::ApiFault fault;
    if (!served && call.resource == "controllers") fault = {.kind = testing::ApiFault::Kind::kStatus, .code = 404};
    return fault;
  });
  served = false;
  const JobId job = world.job_on("foo-0", 1h);
  world.pass(15s);
  world.api.remove(kNodeSets, {"slurm", "foo"});
  world.pass(1min);
  EXPECT_TRUE(world.is_running(job)) << "the Controller was seen, and its end was not";
  world.api.remove(kControllers, {"slurm", "slurm"});
  EXPECT_TRUE(world.until([&] { return !world.api.get(kNodeSets, {"slurm", "foo"}); }, 2min)) << world.events();
}

TEST(NodeSetDriverTest, DaemonSetModeFollowsTheNodes) {
  DriverWorld world(3);
  ASSERT_TRUE(world.runs("foo", 1, "{scalingMode: DaemonSet}", 3)) << world.events();
  EXPECT_NE(world.slurm.model().node("k0"), nullptr);
  world.api.create(r::kNodes, testing::make_node({.name = "k7"}));
  ASSERT_TRUE(world.settles("foo", 4)) << world.events();
  EXPECT_EQ(world.status("foo", "desired"), 4);
}

TEST(NodeSetDriverTest, CordonedNodesAreDrainedAndComeBack) {
  DriverWorld world(3);
  ASSERT_TRUE(world.runs("foo", 3)) << world.events();
  const json::Value pod = *world.api.get(r::kPods, {"slurm", "foo-1"});
  const NamespacedName node{"", std::string(json::string_at(pod, {"spec", "nodeName"}))};
  world.api.patch(r::kNodes, node, json::parse(R"({"spec":{"unschedulable":true},
      "metadata":{"annotations":{"nodeset.slinky.slurm.net/node-cordon-reason":"new fans"}}})"));
  world.pass(20s);
  EXPECT_EQ(world.slurm.model().node("foo-1")->view.reason, "slurm-operator: new fans");
  world.api.patch(r::kNodes, node, json::parse(R"({"spec":{"unschedulable":null}})"));
  world.pass(20s);
  EXPECT_FALSE(world.slurm.model().node("foo-1")->view.states.has(slurm::NodeFlag::kDrain));
  EXPECT_EQ(world.ready("foo"), 3u);
}

// W45: what only describes a node may be refused for ever; nothing waits for it.
TEST(NodeSetDriverTest, ATopologyThatSlurmRefusesHoldsUpNothing) {
  DriverWorld world(5);
  ASSERT_TRUE(world.runs("foo", 3)) << world.events();
  world.slurm.set_faults([](const net::ServerRequest& request) -> testing::FakeSlurmFault {
    if (request.method != "POST" || !request.body.contains("topology_str")) return {};
    return {.kind = testing::FakeSlurmFault::Kind::kRefused};
  });
  const json::Value pod = *world.api.get(r::kPods, {"slurm", "foo-0"});
  const NamespacedName node{"", std::string(json::string_at(pod, {"spec", "nodeName"}))};
  world.api.patch(r::kNodes, node,
                  json::parse(R"({"metadata":{"annotations":{"topology.slinky.slurm.net/spec":"nowhere:x"}}})"));
  world.job_on("foo-0", 10min);
  world.patch_nodeset("foo", "{spec: {replicas: 4}}");
  world.pass(1min);
  EXPECT_TRUE(world.api.get(r::kPods, {"slurm", "foo-3"}));
  EXPECT_EQ(json::string_at(*world.api.get(r::kPods, {"slurm", "foo-0"}),
                            {"metadata", "labels", "nodeset.slinky.slurm.net/pod-protect"}),
            "true");
  world.api.patch(r::kNodes, node, json::parse(R"({"spec":{"unschedulable":true}})"));
  world.pass(1min);
  EXPECT_TRUE(world.slurm.model().node("foo-0")->view.states.has(slurm::NodeFlag::kDrain));
  EXPECT_THAT(ready_of(world, "foo"), HasSubstr("not done: Slurm node foo-0: "));
}

// A limit for what waits, set in need: nothing else comes of it.
TEST(NodeSetDriverTest, TheNodeSetsOwnLabelsAndAnnotationsRollNothing) {
  DriverWorld world(5);
  ASSERT_TRUE(world.runs("foo", 3)) << world.events();
  const JobId job = world.job_on("foo-0", 2h);
  world.pass(15s);
  world.patch_nodeset("foo",
                      R"({metadata: {annotations: {nodeset.slinky.slurm.net/drain-limit: 1m}, labels: {team: a}}})");
  world.pass(5min, 1s);
  EXPECT_TRUE(world.is_running(job)) << world.events();
  EXPECT_EQ(world.api.list(kRevisions, "slurm").size(), 1u);
  EXPECT_EQ(world.ready("foo"), 3u);
  EXPECT_THAT(world.killed_jobs, IsEmpty());
  world.patch_nodeset("foo", "{spec: {replicas: 4}}");
  ASSERT_TRUE(world.settles("foo", 4)) << world.events();
  EXPECT_EQ(json::string_at(*world.api.get(r::kPods, {"slurm", "foo-3"}), {"metadata", "labels", "team"}), "a");
  world.patch_nodeset("foo", "{metadata: {annotations: {nodeset.slinky.slurm.net/drain-limit: null}}}");
  world.patch_nodeset("foo", "{spec: {template: {metadata: {labels: {team: b}}}}}");
  ASSERT_TRUE(world.until([&] { return world.status("foo", "updatedReplicas") < 4; }, 10s)) << "the template's own do";
}

// As written by a version that took the NodeSet's own for part of the revision.
TEST(NodeSetDriverTest, AnOlderRevisionIsStillTheNodeSets) {
  DriverWorld world;
  ASSERT_TRUE(world.runs("foo", 2)) << world.events();
  world.process.kill();
  const std::string name(json::string_at(world.api.list(kRevisions, "slurm").at(0), {"metadata", "name"}));
  world.api.patch(kRevisions, {"slurm", name}, json::parse_yaml("{metadata: {annotations: null}}"));
  world.process.start();
  world.pass(30s);
  world.patch_nodeset("foo", "{metadata: {labels: {team: a}}}");
  world.pass(1min);
  ASSERT_EQ(world.api.list(kRevisions, "slurm").size(), 1u);
  EXPECT_EQ(json::string_at(world.api.list(kRevisions, "slurm")[0], {"metadata", "name"}), name);
  EXPECT_EQ(world.status("foo", "updatedReplicas"), 2);
  EXPECT_EQ(world.ready("foo"), 2u);
}

TEST(NodeSetDriverTest, ATopologyWhoseAnswerWasLostIsToldAgain) {
  DriverWorld world;
  ASSERT_TRUE(world.runs("foo", 1)) << world.events();
  world.pass(10s);
  int lost = 0;
  world.slurm.set_faults([&](const net::ServerRequest& request) -> testing::FakeSlurmFault {
    if (lost > 0 || request.method != "POST" || !request.body.contains("topology_str")) return {};
    ++lost;
    return {.kind = testing::FakeSlurmFault::Kind::kControllerHung};
  });
  const json::Value pod = *world.api.get(r::kPods, {"slurm", "foo-0"});
  const NamespacedName node{"", std::string(json::string_at(pod, {"spec", "nodeName"}))};
  world.api.patch(r::kNodes, node,
                  json::parse(R"({"metadata":{"annotations":{"topology.slinky.slurm.net/spec":"topo:s2"}}})"));
  world.pass(3min);
  EXPECT_EQ(lost, 1);
  EXPECT_EQ(world.slurm.model().node("foo-0")->view.topology, "topo:s2");
}

// Down by the hook of the pod before, and drained since: when the hook ran is no longer to be seen.
TEST(NodeSetDriverTest, ADrainThatHidesTheHookIsNotForEver) {
  DriverWorld world(2);
  ASSERT_TRUE(world.runs("foo", 1)) << world.events();
  world.pass(10s);
  slurm::NodeUpdate down;
  down.state = "DOWN";
  down.reason = "slurm-operator: pod slurm/foo-0 waits to be updated";
  ASSERT_TRUE(world.slurm.model().update_node(world.slurm.now(), "foo-0", down));
  world.pass(20s);
  EXPECT_EQ(world.slurm.model().node("foo-0")->view.states.base, slurm::NodeState::kDown);
  EXPECT_TRUE(world.until([&] { return world.ready("foo") == 1; }, 3min)) << world.events();
}

TEST(NodeSetDriverTest, ClaimsAreMadeAndOwned) {
  DriverWorld world;
  ASSERT_TRUE(world.runs("foo", 2, R"(
volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]
persistentVolumeClaimRetentionPolicy: {whenScaled: Delete, whenDeleted: Retain}
)")) << world.events();
  ASSERT_TRUE(world.api.get(kClaims, {"slurm", "data-foo-0"}));
  EXPECT_THAT(world.events(), HasSubstr("SuccessfulCreate: claim data-foo-0 created\n"));
  EXPECT_THAT(world.events(), Not(HasSubstr("SuccessfulUpdate")));
  std::set<std::string> by_pod;
  world.every_step = [&] {
    const auto claim = world.api.get(kClaims, {"slurm", "data-foo-1"});
    const json::Array* owners = claim ? json::array_at(*claim, {"metadata", "ownerReferences"}) : nullptr;
    if (owners != nullptr && !owners->empty()) by_pod.insert(json::dump(owners->front()));
  };
  world.patch_nodeset("foo", "{spec: {replicas: 1}}");
  ASSERT_TRUE(world.until([&] { return world.pods("foo").size() == 1; }, 3min)) << world.events();
  EXPECT_THAT(by_pod, ElementsAre(AllOf(HasSubstr(R"("kind":"Pod")"), HasSubstr(R"("blockOwnerDeletion":false)"))))
      << "blocking a pod's deletion would need a right on pods/finalizers";
  EXPECT_THAT(world.events(), HasSubstr("SuccessfulUpdate: "));
  world.pass(10s);
  EXPECT_TRUE(world.api.get(kClaims, {"slurm", "data-foo-0"}));
  EXPECT_FALSE(world.api.get(kClaims, {"slurm", "data-foo-1"})) << "it goes with its pod";
}

TEST(NodeSetDriverTest, ClaimsGoWithTheNodeSetOnlyWhenItsPodsAreGone) {
  for (const bool deletes : {true, false}) {
    DriverWorld world;
    world.every_step = [&] { world.watch_claims(); };
    world.nodeset("foo", 2,
                  fmt::format(R"(
volumeClaimTemplates: [{{metadata: {{name: data}}, spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Gi}}}}}}}}]
persistentVolumeClaimRetentionPolicy: {{whenDeleted: {}}}
)",
                              deletes ? "Delete" : "Retain"));
    world.process.start();
    ASSERT_TRUE(world.settles("foo", 2)) << world.events();
    const JobId job = world.job_on("foo-0", 2min);
    world.pass(15s);
    world.api.remove(kNodeSets, {"slurm", "foo"});
    world.pass(30s);
    EXPECT_TRUE(world.is_running(job));
    EXPECT_FALSE(world.uid_of_claim({"slurm", "data-foo-0"}).empty());
    ASSERT_TRUE(world.until([&] { return !world.api.get(kNodeSets, {"slurm", "foo"}); }, 10min)) << world.events();
    world.pass(10s);
    EXPECT_EQ(world.api.list(kClaims, "slurm").size(), deletes ? 0u : 2u);
    EXPECT_THAT(world.lost_claims, IsEmpty());
    EXPECT_THAT(world.killed_jobs, IsEmpty());
  }
}

// The data of a pod that was scaled in is there again when it is scaled out; what an administrator made before is used.
TEST(NodeSetDriverTest, ClaimsThatAreThereAreUsed) {
  DriverWorld world;
  world.every_step = [&] { world.watch_claims(); };
  const std::string templates = R"(
volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]
)";
  world.custom(kClaims, "data-foo-1", "{accessModes: [ReadWriteOnce]}");
  const std::string made_by_hand = world.uid_of_claim({"slurm", "data-foo-1"});
  world.nodeset("foo", 2, templates);
  world.process.start();
  ASSERT_TRUE(world.settles("foo", 2)) << world.events();
  world.patch_nodeset("foo", "{spec: {replicas: 1}}");
  ASSERT_TRUE(world.until([&] { return world.pods("foo").size() == 1; }, 3min)) << world.events();
  world.pass(10s);
  EXPECT_EQ(world.uid_of_claim({"slurm", "data-foo-1"}), made_by_hand);
  world.patch_nodeset("foo", "{spec: {replicas: 2}}");
  ASSERT_TRUE(world.settles("foo", 2)) << world.events();
  EXPECT_EQ(world.uid_of_claim({"slurm", "data-foo-1"}), made_by_hand);
  EXPECT_THAT(world.lost_claims, IsEmpty());
}

// Scaled in with its claim, and wanted again before it is gone: the new pod has a new claim, the old one kept its own.
TEST(NodeSetDriverTest, APodDoesNotInheritAClaimThatGoes) {
  DriverWorld world;
  world.every_step = [&] { world.watch_claims(); };
  ASSERT_TRUE(world.runs("foo", 2, R"(
volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]
persistentVolumeClaimRetentionPolicy: {whenScaled: Delete}
)")) << world.events();
  const std::string first = world.uid_of_claim({"slurm", "data-foo-1"});
  const auto goes = [&] {
    const auto pod = world.api.get(r::kPods, {"slurm", "foo-1"});
    return !pod || json::find(*pod, {"metadata", "deletionTimestamp"}) != nullptr;
  };
  world.patch_nodeset("foo", "{spec: {replicas: 1}}");
  ASSERT_TRUE(world.until(goes, 1min));
  world.patch_nodeset("foo", "{spec: {replicas: 2}}");
  ASSERT_TRUE(world.settles("foo", 2)) << world.events();
  EXPECT_NE(world.uid_of_claim({"slurm", "data-foo-1"}), first);
  EXPECT_THAT(world.lost_claims, IsEmpty());
}

TEST(NodeSetDriverTest, AfterARestartAnIdleWorkerGoesWithinSeconds) {
  DriverWorld world;
  ASSERT_TRUE(world.runs("foo", 3)) << world.events();
  world.pass(1min);
  world.process.kill();
  world.patch_nodeset("foo", "{spec: {replicas: 2}}");
  // A machine under load: the first answers of slurmrestd take their time.
  const WallTime slow_until = world.loop.wall() + 5s;
  world.slurm.set_faults([&world, slow_until](const net::ServerRequest&) {
    testing::FakeSlurmFault fault;
    if (world.loop.wall() < slow_until) fault.before = 2500ms;
    return fault;
  });
  world.process.start();
  world.pass(5s);
  EXPECT_TRUE(world.until([&] { return world.pods("foo").size() == 2; }, 12s)) << world.events();
  world.slurm.set_faults(nullptr);
  world.pass(2min);
  world.slurm.forget_calls();
  world.pass(1min);
  EXPECT_LT(world.slurm.all_calls(), 60u);
}

TEST(NodeSetDriverTest, DaemonSetModeHeedsTaintsAndCordons) {
  DriverWorld world(3);
  ASSERT_TRUE(world.runs("foo", 1, "{scalingMode: DaemonSet}", 3)) << world.events();
  const JobId job = world.job_on("k0", 2min);
  world.pass(15s);
  world.api.patch(r::kNodes, {"", "k0"}, json::parse(R"({"spec":{"taints":[{"key":"away","effect":"NoExecute"}]}})"));
  world.api.patch(r::kNodes, {"", "k1"}, json::parse(R"({"spec":{"taints":[{"key":"full","effect":"NoSchedule"}]}})"));
  world.api.patch(r::kNodes, {"", "k2"}, json::parse(R"({"spec":{"unschedulable":true}})"));
  world.pass(30s);
  EXPECT_TRUE(world.is_running(job));
  EXPECT_EQ(world.pods("foo").size(), 3u) << "k0 has a job, k1 and k2 keep what they have";
  EXPECT_TRUE(world.slurm.model().node("k0")->view.states.has(slurm::NodeFlag::kDrain));
  EXPECT_FALSE(world.slurm.model().node("k1")->view.states.has(slurm::NodeFlag::kDrain));
  EXPECT_TRUE(world.slurm.model().node("k2")->view.states.has(slurm::NodeFlag::kDrain));
  ASSERT_TRUE(world.until([&] { return world.pods("foo").size() == 2; }, 5min)) << world.events();
  EXPECT_THAT(world.killed_jobs, IsEmpty());
  for (const char* node : {"k0", "k1", "k2"}) {
    world.api.patch(r::kNodes, {"", node}, json::parse(R"({"spec":{"taints":null,"unschedulable":null}})"));
  }
  ASSERT_TRUE(world.settles("foo", 3)) << world.events();
}

TEST(NodeSetDriverTest, DaemonSetModeForgetsARemovedNode) {
  DriverWorld world(3);
  ASSERT_TRUE(world.runs("foo", 1, "{scalingMode: DaemonSet}", 3)) << world.events();
  world.api.remove(r::kNodes, {"", "k2"});
  ASSERT_TRUE(world.settles("foo", 2)) << world.events();
  EXPECT_EQ(world.status("foo", "desired"), 2);
  world.pass(1min);
  world.api.reset_counts();
  world.pass(2min);
  EXPECT_EQ(world.api.write_calls(), 0u);
}

// A Secret that is away for a moment is no new revision.
TEST(NodeSetDriverTest, AMissingKeySecretChangesNothing) {
  DriverWorld world;
  ASSERT_TRUE(world.runs("foo", 2)) << world.events();
  world.api.remove(r::kSecrets, {"slurm", "slurm-key"});
  world.pass(2min);
  EXPECT_EQ(world.ready("foo"), 2u);
  EXPECT_EQ(world.api.list(kRevisions, "slurm").size(), 1u);
  EXPECT_THAT(world.events(), HasSubstr("Secret slurm/slurm-key"));
  world.secret("slurm-key", "slurm.key", "key of slurm");
  world.pass(1min);
  EXPECT_EQ(world.api.list(kRevisions, "slurm").size(), 1u);
}

// A worker with another key than slurmctld's is not heard by it.
TEST(NodeSetDriverTest, AChangedKeyIsNoNewRevisionUntilSlurmctldHasIt) {
  DriverWorld world;
  const auto template_with = [](std::string_view key) {
    json::Object annotations{{names::kSlurmKeyHash, sha256_hex(key)}};
    return json::Object{
        {"spec", json::Object{
                     {"template", json::Object{{"metadata", json::Object{{"annotations", std::move(annotations)}}}}}}}};
  };
  json::Value slurmctld = json::parse_yaml(
      "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: slurm-controller, namespace: slurm, labels: "
      "{app.kubernetes.io/name: slurmctld, app.kubernetes.io/instance: slurm}, annotations: "
      "{slinky.slurm.net/applied: x}}}");
  world.api.create(kStatefulSets, json::merged(slurmctld, template_with("key of slurm")));
  ASSERT_TRUE(world.runs("foo", 2)) << world.events();
  world.api.patch(r::kSecrets, {"slurm", "slurm-key"},
                  json::Object{{"data", json::Object{{"slurm.key", base64_encode("another")}}}});
  world.pass(2min);
  EXPECT_EQ(world.api.list(kRevisions, "slurm").size(), 1u);
  world.api.patch(kStatefulSets, {"slurm", "slurm-controller"}, template_with("another"));
  world.pass(500ms);
  EXPECT_EQ(world.api.list(kRevisions, "slurm").size(), 2u);
  EXPECT_TRUE(world.settles("foo", 2)) << world.events();
}

TEST(NodeSetDriverTest, WithoutItsControllerItSaysSoAtOnceAndTouchesNothing) {
  DriverWorld world;
  ASSERT_TRUE(world.runs("foo", 3)) << world.events();
  const JobId job = world.job_on("foo-1", 1h);
  world.pass(30s);
  ASSERT_THAT(ready_of(world, "foo"), HasSubstr("true AsSpecified"));
  const json::Value controller = *world.api.get(kControllers, {"slurm", "slurm"});
  world.api.remove(kControllers, {"slurm", "slurm"});
  world.pass(2s);
  EXPECT_THAT(ready_of(world, "foo"), HasSubstr("false ControllerMissing of 1: 3 of 3 pods are available: Controller "
                                                "slurm/slurm does not exist: pods are left as they are"));
  // Nor is anything done that is asked for meanwhile; it is seen all the same.
  world.patch_nodeset("foo", "{spec: {replicas: 1, slurmd: {image: \"slurmd:26.06\"}}}");
  world.pass(2s);
  const std::int64_t generation = *json::int_at(world.nodeset_of("foo"), {"metadata", "generation"});
  EXPECT_EQ(world.status("foo", "observedGeneration"), generation);
  EXPECT_THAT(ready_of(world, "foo"), HasSubstr(fmt::format("false ControllerMissing of {}: ", generation)));
  world.pass(2min, 1s);  // the count in its message is new
  world.api.reset_counts();
  world.slurm.forget_calls();
  world.pass(5min, 1s);
  EXPECT_EQ(world.api.write_calls(), 0u) << world.api.writes().back().body;
  EXPECT_EQ(world.slurm.calls("POST node"), 0u);
  EXPECT_EQ(world.pods("foo").size(), 3u);
  EXPECT_TRUE(world.is_running(job));
  EXPECT_FALSE(world.slurm.model().node("foo-0")->view.states.has(slurm::NodeFlag::kDrain));
  world.patch_nodeset("foo", "{spec: {replicas: 3, slurmd: {image: \"slurmd:26.05\"}}}");
  world.custom(kControllers, "slurm", json::dump(*json::find(controller, {"spec"})));
  EXPECT_TRUE(world.until([&] { return ready_of(world, "foo").starts_with("true AsSpecified"); }, 3min))
      << ready_of(world, "foo");
  EXPECT_THAT(world.killed_jobs, IsEmpty());
}

TEST(NodeSetDriverTest, AControllerThatNeverWasOrCannotBeReadIsNamed) {
  DriverWorld world;
  world.nodeset("foo", 2, "{controllerRef: {name: other}}");
  world.process.start();
  world.pass(5s);
  EXPECT_EQ(world.status("foo", "observedGeneration"), 1);
  EXPECT_THAT(ready_of(world, "foo"), HasSubstr("false ControllerMissing of 1: 0 of 0 pods are available: Controller "
                                                "slurm/other does not exist"));
  world.pass(1min);
  world.api.reset_counts();
  world.pass(5min, 1s);
  EXPECT_EQ(world.api.write_calls(), 0u) << world.api.writes().back().body;
  world.nodeset("bar", 2);
  ASSERT_TRUE(world.settles("bar", 2));
  world.pass(30s);
  world.api.patch(kControllers, {"slurm", "slurm"}, json::parse_yaml("{spec: {ha: {enabled: perhaps}}}"));
  world.pass(2s);
  EXPECT_THAT(ready_of(world, "bar"), HasSubstr("false Waiting of 1: "));
  EXPECT_THAT(ready_of(world, "bar"), HasSubstr("spec.ha.enabled"));
  EXPECT_EQ(world.pods("bar").size(), 2u);
  world.api.patch(kControllers, {"slurm", "slurm"}, json::parse_yaml("{spec: {ha: null}}"));
  EXPECT_TRUE(world.until([&] { return ready_of(world, "bar").starts_with("true AsSpecified"); }, 3min))
      << ready_of(world, "bar");
}

TEST(NodeSetDriverTest, ABadObjectIsToldAndHoldsUpNobodyElse) {
  DriverWorld world(4);
  world.nodeset("bad", 1, "{updateStrategy: {type: Whenever}}");
  world.nodeset("good", 2);
  world.process.start();
  ASSERT_TRUE(world.settles("good", 2));
  EXPECT_THAT(world.pods("bad"), IsEmpty());
  EXPECT_THAT(world.events(), HasSubstr("spec.updateStrategy.type"));
  EXPECT_THAT(ready_of(world, "bad"), HasSubstr("false BadSpec of 1: "));
  EXPECT_EQ(world.status("bad", "observedGeneration"), 1);
}

// A7: what a person has to mend is an event and in the condition; S36: as it is, whatever it looks like.
TEST(NodeSetDriverTest, A7_S36_AMalformedExtraConfIsToldAndThePodsComeWithoutIt) {
  DriverWorld world;
  ASSERT_TRUE(world.runs("foo", 1, "{extraConf: 'Feature=a Weight%s10'}")) << world.events();
  world.pass(20s);
  EXPECT_THAT(world.events(), HasSubstr("SyncFailed: spec.extraConf: \"Weight%s10\" is no Key=Value"));
  EXPECT_THAT(ready_of(world, "foo"), HasSubstr("Weight%s10"));
}

// S46: it has no annotation at all.
TEST(NodeSetDriverTest, S37_S46_AnOrphanIsAdoptedAfterTheApiServerWasAsked) {
  DriverWorld world;
  ASSERT_TRUE(world.runs("foo", 2)) << world.events();
  world.pass(10s);
  const NamespacedName pod{"slurm", "foo-1"};
  world.api.reset_counts();
  world.api.patch(r::kPods, pod, json::parse(R"({"metadata":{"ownerReferences":null,"annotations":null}})"));
  world.pass(20s);
  EXPECT_THAT(json::dump(*json::find(*world.api.get(r::kPods, pod), {"metadata"})), HasSubstr(R"("kind":"NodeSet")"));
  EXPECT_GE(world.api.calls("get", "nodesets"), 1u);
}

TEST(NodeSetDriverTest, WithoutARestApiNothingOfSlurmIsDecided) {
  DriverWorld world;
  ASSERT_TRUE(world.runs("foo", 2)) << world.events();
  world.job_on("foo-1", 1h);
  world.pass(15s);
  world.api.remove(kRestApis, {"slurm", "slurm"});
  world.pass(5s);
  world.patch_nodeset("foo", "{spec: {replicas: 0}}");
  world.pass(5min, 1s);
  EXPECT_EQ(world.pods("foo").size(), 2u);
  ASSERT_NE(world.driver, nullptr);
  EXPECT_THAT(world.driver->waits({"slurm", "foo"}), ::testing::Contains(HasSubstr("no RestApi refers to")));
}

}  // namespace
}  // namespace bascule::op::nodeset
