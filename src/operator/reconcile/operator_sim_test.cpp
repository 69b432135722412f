// The operator as a whole process, killed at seeded moments while custom resources come and change. After every storm
// all children are as they are when nothing happens on the way, keys made once are as they were first made, and at rest
// nothing is written.
#include "operator/reconcile/operator_sim_world_test.hpp"

namespace bascule::op::reconcile::test {
namespace {

TEST(OperatorSim, ABudgetsStatusIsNobodysMatter) {
  World w(11);
  w.process.start();
  w.whole_cluster();
  for (const char* name : {"a", "b", "c"}) {
    w.add(kNodeSets, name, "{controllerRef: {name: slurm}, slurmd: {image: slurmd}, replicas: 0}");
  }
  w.settle();
  const json::Value budget = w.get(kBudgets, "slurm-workers-pdb-slurm");
  ASSERT_EQ(json::array_at(budget, {"metadata", "ownerReferences"})->size(), 3u);
  const std::size_t before = visits(w, "nodeset-files");
  ASSERT_GT(before, 0u);
  for (int pods = 0; pods < 5; ++pods) {
    w.api.patch(kBudgets, {"slurm", "slurm-workers-pdb-slurm"},
                json::Object{{"status", json::Object{{"currentHealthy", pods}}}}, "status");
    w.loop.advance(1s);
  }
  EXPECT_EQ(visits(w, "nodeset-files"), before);
  // What is not its status is put back, by one of the three. The API server takes only one of the two bounds.
  w.api.set_admission([](testing::Admission& admission) -> Task<> {
    if (json::find(admission.object, {"spec", "minAvailable"}) &&
        json::find(admission.object, {"spec", "maxUnavailable"})) {
      throw testing::ApiFailure(422, "Invalid", "minAvailable and maxUnavailable cannot be both set");
    }
    co_return;
  });
  w.patch(kBudgets, "slurm-workers-pdb-slurm", "{spec: {minAvailable: null, maxUnavailable: 5}}");
  w.loop.advance(1s);
  const json::Value whole = w.get(kBudgets, "slurm-workers-pdb-slurm");
  EXPECT_EQ(json::int_at(whole, {"spec", "minAvailable"}), 2147483647);
  EXPECT_EQ(json::find(whole, {"spec", "maxUnavailable"}), nullptr);
  // Gone is the one that made it: another takes over.
  w.api.remove(kNodeSets, {"slurm", "a"});
  w.settle(5s);
  EXPECT_EQ(json::array_at(w.get(kBudgets, "slurm-workers-pdb-slurm"), {"metadata", "ownerReferences"})->size(), 2u);
  w.api.remove(kBudgets, {"slurm", "slurm-workers-pdb-slurm"});
  w.settle(5s);
  EXPECT_FALSE(w.get(kBudgets, "slurm-workers-pdb-slurm").is_null());
}

TEST(OperatorSim, AWholeClusterComesUpInAnyOrderAndRests) {
  World w(1);
  w.process.start();
  w.add(kRestApis, "slurm", kRestApi);
  w.add(kLoginSets, "login", kLoginSet);
  w.settle(5s);
  EXPECT_THAT(w.ready(kRestApis, "slurm"), HasSubstr("False Controller slurm, named in spec.controllerRef, does not"));
  EXPECT_THAT(w.events(), HasSubstr("ControllerRefFailed: Controller slurm"));
  w.api.remove(kRestApis, {"slurm", "slurm"});
  w.api.remove(kLoginSets, {"slurm", "login"});
  w.settle(2s);
  w.whole_cluster();
  w.settle();
  for (const kube::Resource* resource : {&kControllers, &kAccountings, &kRestApis}) {
    EXPECT_EQ(w.ready(*resource, "slurm"), "True ") << resource->kind;
  }
  EXPECT_EQ(w.ready(kLoginSets, "login"), "True ");
  EXPECT_EQ(w.ready(kTokens, "ada"), "True ");
  EXPECT_EQ(json::int_at(w.get(kLoginSets, "login"), {"status", "replicas"}), 1);
  EXPECT_THAT(w.events(), HasSubstr("CreateSucceeded: created StatefulSet slurm-controller"));
  EXPECT_EQ(w.related_of("created Deployment slurm-restapi"),
            "RestApi -> Deployment/slurm-restapi by restapi-controller");
  EXPECT_THAT(std::string(json::string_at(w.get(kConfigMaps, "slurm-config"), {"data", "slurm.conf"})),
              HasSubstr("AccountingStorageHost=slurm-accounting"));
  w.loop.advance(1min);
  w.api.reset_counts();
  w.loop.advance(10min);
  EXPECT_EQ(w.api.write_calls(), 0u) << w.api.writes().back().body;
  // Neither does another life find anything to write.
  w.process.kill();
  w.process.start();
  w.loop.advance(10min);
  EXPECT_EQ(w.api.write_calls(), 0u) << w.api.writes().back().body;
}

TEST(OperatorSim, ChangesAreFollowed) {
  World w(2);
  w.process.start();
  w.whole_cluster();
  w.settle();
  const std::string rest = json::dump(*json::find(w.get(kDeployments, "slurm-restapi"), {"spec", "template"}));
  w.api.patch(kSecrets, {"slurm", "auth"},
              json::Object{{"data", json::Object{{"slurm.key", base64_encode("rotated")}}}});
  w.add(kNodeSets, "gpu",
        "{controllerRef: {name: slurm}, slurmd: {image: slurmd}, replicas: 0, partition: "
        "{enabled: true}, ssh: {enabled: true}}");
  w.settle();
  EXPECT_NE(json::dump(*json::find(w.get(kDeployments, "slurm-restapi"), {"spec", "template"})), rest);
  EXPECT_THAT(std::string(json::string_at(w.get(kConfigMaps, "slurm-config"), {"data", "slurm.conf"})),
              HasSubstr("PartitionName=gpu"));
  EXPECT_FALSE(w.get(kServices, "slurm-workers-slurm").is_null());
  EXPECT_FALSE(w.get(kBudgets, "slurm-workers-pdb-slurm").is_null());
  EXPECT_FALSE(w.get(kConfigMaps, "gpu-ssh-config").is_null());
  // A51: ConfigMaps that users name are watched too.
  w.api.create(kConfigMaps, config_map("files", {{"gres.conf", "Name=gpu"}}));
  w.patch(kControllers, "slurm", "{spec: {configFileRefs: [{name: files}]}}");
  w.settle(5s);
  const std::string before = w.children().at("StatefulSet slurm-controller");
  w.patch(kConfigMaps, "files", "{data: {gres.conf: Name=fpga}}");
  w.settle(5s);
  EXPECT_NE(w.children().at("StatefulSet slurm-controller"), before);
  w.patch(kNodeSets, "gpu", "{spec: {ssh: {enabled: false}}}");
  w.settle(5s);
  EXPECT_TRUE(w.get(kConfigMaps, "gpu-ssh-config").is_null()) << "no longer wanted";
  // What somebody changes of ours is put back, what they add stays.
  w.patch(kServices, "slurm-restapi", "{metadata: {annotations: {mine: x}}, spec: {selector: {mine: y}}}");
  w.patch(kServices, "slurm-restapi", "{spec: {selector: {app.kubernetes.io/name: z}}}");
  w.settle(5s);
  const json::Value service = w.get(kServices, "slurm-restapi");
  EXPECT_EQ(json::string_at(service, {"spec", "selector", "app.kubernetes.io/name"}), "slurmrestd");
  EXPECT_EQ(json::string_at(service, {"metadata", "annotations", "mine"}), "x");
  w.api.remove(kStatefulSets, {"slurm", "slurm-controller"});
  w.settle(5s);
  EXPECT_FALSE(w.get(kStatefulSets, "slurm-controller").is_null());
}

TEST(OperatorSim, ABadObjectSaysSoAndLosesNothing) {
  World w(3);
  w.process.start();
  w.whole_cluster();
  w.settle();
  const auto before = w.children();
  w.patch(kControllers, "slurm", "{spec: {ha: {enabled: perhaps}}}");
  w.settle();
  EXPECT_THAT(w.ready(kControllers, "slurm"), HasSubstr("False Controller slurm/slurm: spec.ha.enabled"));
  EXPECT_THAT(w.events(), HasSubstr("SyncFailed: Controller slurm/slurm: spec.ha.enabled"));
  EXPECT_EQ(w.children(), before);
  w.patch(kControllers, "slurm", "{spec: {ha: null}}");
  w.settle();
  EXPECT_EQ(w.ready(kControllers, "slurm"), "True ");
}

// The scale subresource needs them: with no selector the API server refuses a LoginSet's status.
TEST(OperatorSim, WhatIsNotReadyIsAMetric) {
  World w(29);
  const auto ready = [&w](std::string_view name) -> std::string {
    const std::string text = w.metrics.text();
    const std::string line =
        fmt::format("bascule_object_ready{{kind=\"Token\",name=\"{}\",namespace=\"slurm\"}} ", name);
    const auto at = text.find(line);
    return at == std::string::npos ? "none" : text.substr(at + line.size(), 1);
  };
  w.process.start();
  w.add(kTokens, "ada", kToken);
  w.add(kTokens, "bob", "{jwtKeyRef: {name: none, key: jwt.key}, username: bob}");
  w.settle(5s);
  EXPECT_EQ(ready("ada"), "1");
  EXPECT_EQ(ready("bob"), "0");
  w.api.remove(kTokens, {"slurm", "bob"});
  w.settle(5s);
  EXPECT_EQ(ready("bob"), "none");
}

TEST(OperatorSim, ABadObjectKeepsWhatItsStatusSaid) {
  World w(17);
  w.api.set_admission([](testing::Admission& admission) -> Task<> {
    if (admission.resource.name.resource == "loginsets" && admission.subresource == "status" &&
        json::string_at(admission.object, {"status", "selector"}).empty()) {
      throw testing::ApiFailure(422, "Invalid", "status.selector: Required value");
    }
    co_return;
  });
  w.process.start();
  w.whole_cluster();
  w.add(kLoginSets, "new", "{controllerRef: {name: slurm}, login: {image: login}, replicas: many}");
  w.settle();
  EXPECT_THAT(w.ready(kLoginSets, "new"), HasSubstr("False LoginSet slurm/new: spec.replicas"));
  const auto status = [&w](const kube::Resource& kind, const std::string& name) {
    json::Value said = *json::find(w.get(kind, name), {"status"});
    said.get_object().erase("conditions");
    return json::dump(said);
  };
  const std::string login = status(kLoginSets, "login");
  const std::string rest = status(kRestApis, "slurm");
  const std::string token = status(kTokens, "ada");
  EXPECT_THAT(login + rest + token, ::testing::AllOf(HasSubstr("selector"), HasSubstr("issuedAt")));
  w.patch(kLoginSets, "login", "{spec: {replicas: many}}");
  w.patch(kRestApis, "slurm", "{spec: {replicas: many}}");
  w.patch(kTokens, "ada", "{spec: {lifetime: long}}");
  w.settle();
  EXPECT_THAT(w.ready(kLoginSets, "login"), HasSubstr("False LoginSet slurm/login: spec.replicas"));
  EXPECT_THAT(w.ready(kTokens, "ada"), HasSubstr("False Token slurm/ada: spec.lifetime"));
  EXPECT_EQ(status(kLoginSets, "login"), login);
  EXPECT_EQ(status(kRestApis, "slurm"), rest);
  EXPECT_EQ(status(kTokens, "ada"), token);
}

TEST(OperatorSim, NothingOfSomebodyElseIsTakenOver) {
  World w(4);
  json::Value theirs = config_map("slurm-config", {{"mine", "1"}});
  w.api.create(kConfigMaps, theirs);
  w.api.create(kStatefulSets,
               json::Object{{"apiVersion", "apps/v1"},
                            {"kind", "StatefulSet"},
                            {"metadata", json::Object{{"name", "slurm-controller"}, {"namespace", "slurm"}}},
                            {"spec", json::Object{{"replicas", 7}}}});
  w.process.start();
  w.whole_cluster();
  w.settle();
  EXPECT_EQ(json::string_at(w.get(kConfigMaps, "slurm-config"), {"data", "mine"}), "1");
  EXPECT_EQ(json::string_at(w.get(kConfigMaps, "slurm-config"), {"data", "slurm.conf"}), "");
  EXPECT_EQ(json::int_at(w.get(kStatefulSets, "slurm-controller"), {"spec", "replicas"}), 7);
  EXPECT_THAT(w.ready(kControllers, "slurm"), HasSubstr("ConfigMap slurm-config is there already"));
  EXPECT_THAT(w.events(), HasSubstr("SyncFailed: ConfigMap slurm-config is there already"));
  w.api.remove(kConfigMaps, {"slurm", "slurm-config"});
  w.settle();
  EXPECT_THAT(w.ready(kControllers, "slurm"), HasSubstr("StatefulSet slurm-controller is there already"));
  EXPECT_EQ(json::int_at(w.get(kStatefulSets, "slurm-controller"), {"spec", "replicas"}), 7);
  w.api.remove(kStatefulSets, {"slurm", "slurm-controller"});
  w.settle();
  EXPECT_FALSE(w.get(kConfigMaps, "slurm-config").is_null());
}

void orphan(World& w, const kube::Resource& resource, const std::string& name) {
  w.patch(resource, name, "{metadata: {ownerReferences: null}}");
}

// kubectl delete --cascade=orphan, and made again: daemons go on, and their objects follow the new one.
TEST(OperatorSim, ChildrenOfAControllerThatIsMadeAnewAreAdopted) {
  World w(21);
  w.process.start();
  w.whole_cluster();
  w.settle();
  const std::string set(json::string_at(w.get(kStatefulSets, "slurm-controller"), {"metadata", "uid"}));
  w.api.remove(kControllers, {"slurm", "slurm"});
  orphan(w, kStatefulSets, "slurm-controller");
  orphan(w, kServices, "slurm-controller");
  orphan(w, kConfigMaps, "slurm-config");
  w.settle(5s);
  w.add(kControllers, "slurm", kController);
  w.settle();
  const std::string owner(json::string_at(w.get(kControllers, "slurm"), {"metadata", "uid"}));
  EXPECT_EQ(json::string_at(w.get(kStatefulSets, "slurm-controller"), {"metadata", "uid"}), set);
  for (const auto& [resource, name] : {std::pair{&kStatefulSets, "slurm-controller"},
                                       {&kServices, "slurm-controller"},
                                       {&kConfigMaps, "slurm-config"}}) {
    EXPECT_TRUE(is_owned_by(w.get(*resource, name), owner)) << resource->kind;
  }
  EXPECT_EQ(w.ready(kControllers, "slurm"), "True ");
}

// With another place of its state it would start without its jobs.
TEST(OperatorSim, ASlurmctldWhoseStateIsElsewhereIsLeftAlone) {
  for (const char* change : {"{spec: {clusterName: other}}", "{spec: {persistence: {existingClaim: other}}}"}) {
    World w(24);
    w.process.start();
    w.whole_cluster();
    w.settle();
    const auto spec = [&w](const kube::Resource& resource, const std::string& name, std::string_view part) {
      return json::dump(*json::find(w.get(resource, name), {part}));
    };
    const std::string set = spec(kStatefulSets, "slurm-controller", "spec");
    const std::string conf = spec(kConfigMaps, "slurm-config", "data");
    w.api.remove(kControllers, {"slurm", "slurm"});
    orphan(w, kStatefulSets, "slurm-controller");
    orphan(w, kConfigMaps, "slurm-config");
    w.settle(5s);
    w.process.kill();
    w.add(kControllers, "slurm", kController);
    w.patch(kControllers, "slurm", change);
    w.process.start();
    w.settle();
    EXPECT_EQ(spec(kStatefulSets, "slurm-controller", "spec"), set) << change;
    EXPECT_EQ(spec(kConfigMaps, "slurm-config", "data"), conf) << change;
    EXPECT_THAT(w.ready(kControllers, "slurm"), HasSubstr("keeps slurmctld's state in a claim of the")) << change;
    w.patch(kControllers, "slurm", "{spec: {clusterName: null, persistence: null}}");
    w.settle();
    EXPECT_EQ(w.ready(kControllers, "slurm"), "True ");
  }
}

// The word of the API server: what the owner that goes would get back, the garbage collector would take with it.
TEST(OperatorSim, NothingIsAdoptedForAnOwnerThatGoes) {
  World w(22);
  w.process.start();
  w.whole_cluster();
  w.settle();
  w.patch(kControllers, "slurm", "{metadata: {finalizers: [orphan]}}");
  w.api.remove(kControllers, {"slurm", "slurm"});
  orphan(w, kStatefulSets, "slurm-controller");
  orphan(w, kConfigMaps, "slurm-config");
  w.settle();
  EXPECT_TRUE(json::array_at(w.get(kStatefulSets, "slurm-controller"), {"metadata", "ownerReferences"}) == nullptr);
  EXPECT_TRUE(json::array_at(w.get(kConfigMaps, "slurm-config"), {"metadata", "ownerReferences"}) == nullptr);
}

// slurm-operator gives it to the Secret with the signing key.
TEST(OperatorSim, ATokensSecretOfSlurmOperatorIsKeptWithItsJwt) {
  for (const char* refresh : {"true", "false"}) {
    World w(23);
    const std::string jwt = sign_jwt("jwt-key", {"id", "ada", w.loop.wall(), 1000h});
    const std::string key_uid(json::string_at(w.get(kSecrets, "jwt"), {"metadata", "uid"}));
    json::Value theirs = secret("ada-jwt-ada", "SLURM_JWT", jwt);
    theirs.get_object()["immutable"] = std::string_view(refresh) == "false";
    json::at_or_create(theirs, {"metadata", "ownerReferences"}) = json::Array{json::Object{
        {"apiVersion", "v1"}, {"kind", "Secret"}, {"name", "jwt"}, {"uid", key_uid}, {"controller", true}}};
    w.api.create(kSecrets, theirs);
    const json::Value before = w.get(kSecrets, "ada-jwt-ada");
    w.process.start();
    w.add(kTokens, "ada",
          fmt::format("{{jwtKeyRef: {{name: jwt, key: jwt.key}}, username: ada, lifetime: 1000h, refresh: {}}}",
                      refresh));
    w.settle();
    const json::Value after = w.get(kSecrets, "ada-jwt-ada");
    EXPECT_EQ(json::string_at(after, {"metadata", "uid"}), json::string_at(before, {"metadata", "uid"})) << refresh;
    EXPECT_EQ(json::string_at(after, {"data", "SLURM_JWT"}), base64_encode(jwt)) << refresh;
    const json::Array* owners = json::array_at(after, {"metadata", "ownerReferences"});
    ASSERT_TRUE(owners != nullptr && owners->size() == 1U) << json::dump(after);
    EXPECT_TRUE(is_owned_by(after, json::string_at(w.get(kTokens, "ada"), {"metadata", "uid"})));
    EXPECT_EQ(w.ready(kTokens, "ada"), "True ");
  }
}

TEST(OperatorSim, AnObjectThatGoesMakesNoChildren) {
  World w(5);
  w.process.start();
  w.whole_cluster();
  w.settle();
  w.api.patch(kControllers, {"slurm", "slurm"},
              json::Object{{"metadata", json::Object{{"finalizers", json::Array{"test/hold"}}}}});
  w.api.remove(kControllers, {"slurm", "slurm"});
  w.settle(1s);
  w.api.remove(kStatefulSets, {"slurm", "slurm-controller"});
  w.settle(10s);
  EXPECT_TRUE(w.get(kStatefulSets, "slurm-controller").is_null());
}

// The image was wrong and is mended: Kubernetes itself would wait for the old pod for ever.
TEST(OperatorSim, ASlurmctldThatNeverGetsReadyGivesWayToWhatIsWantedNow) {
  World w(10);
  w.process.start();
  w.whole_cluster();
  w.settle();
  const json::Value set = w.get(kStatefulSets, "slurm-controller");
  const auto text = [&set](std::string_view field) { return std::string(json::string_at(set, {"metadata", field})); };
  w.api.create(
      kube::resources::kPods,
      json::parse_yaml("{apiVersion: v1, kind: Pod, metadata: {name: slurm-controller-0, namespace: slurm, labels: "
                       "{app.kubernetes.io/name: slurmctld, app.kubernetes.io/instance: slurm, "
                       "controller-revision-hash: old}, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, "
                       "name: slurm-controller, controller: true, uid: '" +
                       text("uid") + "'}]}, spec: {containers: [{name: slurmctld, image: nowhere}]}}"));
  w.settle(30s);
  EXPECT_FALSE(w.get(kube::resources::kPods, "slurm-controller-0").is_null()) << "nothing newer is known";
  w.api.patch(kStatefulSets, {"slurm", "slurm-controller"},
              json::Object{{"status", json::Object{{"updateRevision", "new"}}}}, "status");
  w.settle(30s);
  EXPECT_TRUE(w.get(kube::resources::kPods, "slurm-controller-0").is_null());
  EXPECT_THAT(w.events(), HasSubstr("DeleteSucceeded: deleted pod slurm-controller-0, which was not ready"));
}

// The Service finds slurmctld by a label, so it is there the moment the pod is, also on a new pod of the same name; and
// nobody asks the API server for pods to know that.
TEST(OperatorSim, TheSlurmctldThatServesIsLabelledAtOnceAndFoundByAWatch) {
  World w(9);
  w.process.start();
  w.whole_cluster();
  w.settle();
  const auto put_pod = [&] {
    w.api.create(
        kube::resources::kPods,
        json::parse_yaml("{apiVersion: v1, kind: Pod, metadata: {name: slurm-controller-0, namespace: slurm, labels: "
                         "{app.kubernetes.io/name: slurmctld, app.kubernetes.io/instance: slurm}}, spec: "
                         "{containers: [{name: slurmctld, image: i}]}}"));
  };
  const auto active = [&] {
    return std::string(
        json::string_at(w.get(kube::resources::kPods, "slurm-controller-0"), {"metadata", "labels", names::kActive}));
  };
  for (int life = 0; life < 2; ++life) {
    put_pod();
    w.loop.advance(1s);
    EXPECT_EQ(active(), "true");
    w.api.remove(kube::resources::kPods, {"slurm", "slurm-controller-0"}, {.grace = 0});
    w.loop.advance(1s);
  }
  put_pod();
  w.settle(5s);
  w.api.reset_counts();
  for (int change = 0; change < 5; ++change) {
    w.patch(kControllers, "slurm", "{metadata: {annotations: {again: '" + std::to_string(change) + "'}}}");
    w.settle(2s);
  }
  EXPECT_EQ(w.api.calls("get", "pods"), 0u);
}

// The jobs of the last seconds are not in any status yet: slurmctld is asked.
TEST(OperatorSim, AControllerWithJobsIsNotDeletedInSilence) {
  World w(10);
  w.slurm.model().add_partition("all", true);
  w.slurm.add_nodes("NodeName=gpu-[0-2] CPUs=4 RealMemory=1000 Feature=gpu");
  w.process.start();
  w.whole_cluster();
  w.add(kNodeSets, "gpu", "{controllerRef: {name: slurm}, slurmd: {image: slurmd}, replicas: 0}");
  w.settle();
  slurm::JobDescription job;
  job.nodes = 2;
  w.slurm.submit(job, 1h, false);
  w.loop.advance(1ms);
  w.api.remove(kControllers, {"slurm", "slurm"});
  w.settle(5s);
  EXPECT_THAT(w.events(), HasSubstr("JobsAtRisk: deleted while 2 of its Slurm nodes run jobs (NodeSets: gpu)"));
}

TEST(OperatorSim, ASlurmctldThatDoesNotAnswerHoldsNoWarningUp) {
  World w(11);
  w.process.start();
  w.whole_cluster();
  w.add(kNodeSets, "gpu", "{controllerRef: {name: slurm}, slurmd: {image: slurmd}, replicas: 0}");
  w.settle();
  w.slurm.set_faults(
      [](const net::ServerRequest&) { return testing::FakeSlurmFault{testing::FakeSlurmFault::Kind::kSilence}; });
  w.api.patch(kNodeSets, {"slurm", "gpu"}, json::parse_yaml("{status: {replicas: 3, slurmAllocated: 3}}"), "status");
  w.loop.advance(1ms);
  w.api.remove(kControllers, {"slurm", "slurm"});
  w.settle(5s);
  EXPECT_THAT(w.events(), HasSubstr("JobsAtRisk: deleted while 3 of its Slurm nodes run, by the last"));
}

// A39: Slurm's ping calls the standby up; it says itself that it does not serve.
TEST(OperatorSim, TheLabelFollowsTheSlurmctldThatSaysItServes) {
  World w(12);
  w.api.add_resource(kServiceMonitors, false);
  w.process.start();
  w.whole_cluster();
  w.patch(kControllers, "slurm", "{spec: {ha: {enabled: true}, persistence: {enabled: true, existingClaim: state}}}");
  w.settle();
  const auto make = [&](const std::string& i) {
    w.api.create(kube::resources::kPods,
                 json::parse_yaml(std::string("{apiVersion: v1, kind: Pod, metadata: {name: slurm-controller-") + i +
                                  ", namespace: slurm, labels: {app.kubernetes.io/name: slurmctld, "
                                  "app.kubernetes.io/instance: slurm}}, spec: {containers: [{name: slurmctld, image: "
                                  "i, livenessProbe: {httpGet: {path: /livez, port: slurmctld}}}]}}"));
    w.api.patch(kube::resources::kPods, {"slurm", "slurm-controller-" + i},
                json::parse_yaml("{status: {podIP: 10.0.0." + i + "}}"), "status");
  };
  for (const char* i : {"0", "1"}) make(i);
  const auto active = [&] {
    std::string out;
    for (const json::Value& pod : w.api.list(kube::resources::kPods)) {
      if (json::string_at(pod, {"metadata", "labels", names::kActive}) == "true") {
        out += std::string(json::string_at(pod, {"metadata", "name"})) + " ";
      }
    }
    return out;
  };
  // Also while slurmctld is asked whether jobs run, and does not answer.
  w.slurm.set_faults(
      [](const net::ServerRequest&) { return testing::FakeSlurmFault{testing::FakeSlurmFault::Kind::kSilence}; });
  w.api.patch(kSecrets, {"slurm", "auth"},
              json::Object{{"data", json::Object{{"slurm.key", base64_encode("rotated")}}}});
  w.settle(4s);
  EXPECT_THAT(w.ready(kControllers, "slurm"), HasSubstr("slurmctld is being asked"));
  for (const char* serving : {"0", "1", "0"}) {
    w.serving = std::string("http://10.0.0.") + serving + ":6817";
    w.settle(4s);
    EXPECT_EQ(active(), std::string("slurm-controller-") + serving + " ");
  }
  w.slurm.set_faults(nullptr);
  w.settle();
  w.serving = "";
  w.settle(5s);
  EXPECT_EQ(active(), "slurm-controller-0 ") << "none serves: all stays";
  w.api.remove(kube::resources::kPods, {"slurm", "slurm-controller-0"}, {.grace = 0});
  w.settle(5s);
  EXPECT_EQ(active(), "") << "a standby is nobody's address";
  make("0");
  w.settle(4s);
  EXPECT_EQ(active(), "slurm-controller-0 ");
  w.api.reset_counts();
  w.loop.advance(20s);
  EXPECT_EQ(w.api.write_calls(), 0u);
  // A child that is refused for good is asked for ever more seldom, and holds up nothing.
  w.api.set_faults([](const testing::ApiCall& call) -> testing::ApiFault {
    if (!call.is("patch", "servicemonitors")) return {};
    return {.kind = testing::ApiFault::Kind::kStatus, .code = 422};
  });
  w.patch(kControllers, "slurm", "{spec: {metrics: {enabled: true, serviceMonitor: {enabled: true, interval: '30'}}}}");
  w.settle(10min);
  EXPECT_THAT(w.ready(kControllers, "slurm"), HasSubstr("ServiceMonitor"));
  EXPECT_LE(w.api.calls("patch", "servicemonitors"), 25u);
  w.serving = "http://10.0.0.1:6817";
  w.settle(4s);
  EXPECT_EQ(active(), "slurm-controller-1 ");
}

// slurmctld would start anew with the old file, and never again with the new one.
TEST(OperatorSim, NothingRollsBeforeItsFilesAreThere) {
  World w(13);
  w.process.start();
  w.whole_cluster();
  w.settle();
  const auto stamp = [&] {
    const json::Value set = *w.api.get(kStatefulSets, {"slurm", "slurm-controller"});
    return json::dump(*json::find(set, {"spec", "template", "metadata", "annotations"}));
  };
  const std::string before = stamp();
  bool refused = true;
  w.api.set_faults([&refused](const testing::ApiCall& call) -> testing::ApiFault {
    if (!refused || !call.is("patch", "configmaps")) return {};
    return {.kind = testing::ApiFault::Kind::kStatus, .code = 403};
  });
  w.patch(kControllers, "slurm", "{spec: {extraConf: 'SchedulerType=sched/builtin'}}");
  w.settle(1min);
  EXPECT_EQ(stamp(), before);
  refused = false;
  w.settle(6min);
  EXPECT_NE(stamp(), before);
}

// Whoever waits for Ready of the newest generation waits for the pods that it asks for.
TEST(OperatorSim, ReadyIsSaidOfPodsThatAreAsTheObjectSaysNow) {
  struct Case {
    const kube::Resource& resource;
    const kube::Resource& workload;
    std::string name, workload_name;
    std::string_view change;
  };
  const std::array cases{
      Case{kControllers, kStatefulSets, "slurm", "slurm-controller", "{spec: {extraConf: 'KillWait=31'}}"},
      Case{kAccountings, kStatefulSets, "slurm", "slurm-accounting", "{spec: {extraConf: 'DebugLevel=debug'}}"},
      Case{kRestApis, kDeployments, "slurm", "slurm-restapi", "{spec: {replicas: 3}}"},
      Case{kLoginSets, kDeployments, "login", "login", "{spec: {replicas: 3}}"}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.resource.kind);
    World w(14);
    w.process.start();
    w.whole_cluster();
    w.settle();
    ASSERT_EQ(w.ready(one.resource, one.name).substr(0, 4), "True") << w.ready(one.resource, one.name);
    w.patch(one.resource, one.name, one.change);
    const auto generation = [](const json::Value& object) { return json::int_at(object, {"metadata", "generation"}); };
    for (int i = 0; i < 3000; ++i) {
      w.loop.advance(1ms);
      const json::Value object = w.get(one.resource, one.name);
      const json::Value& ready = json::array_at(object, {"status", "conditions"})->at(0);
      if (json::int_at(ready, {"observedGeneration"}) != generation(object)) continue;
      ASSERT_EQ(json::string_at(ready, {"status"}), "False") << "after " << i << " ms";
    }
    const json::Value pods = w.get(one.workload, one.workload_name);
    EXPECT_NE(json::int_at(pods, {"status", "observedGeneration"}), generation(pods)) << "the change asks for no pods";
    w.settle();
    EXPECT_EQ(w.ready(one.resource, one.name).substr(0, 4), "True") << w.ready(one.resource, one.name);
  }
}

// A claim template cannot be changed; with another one the API server takes nothing.
TEST(OperatorSim, AnotherSizeOfTheClaimHoldsUpNoOtherChange) {
  World w(15);
  w.process.start();
  w.whole_cluster();
  w.settle();
  const json::Value before = w.get(kStatefulSets, "slurm-controller");
  ASSERT_TRUE(json::array_at(before, {"spec", "volumeClaimTemplates"}));
  w.patch(kControllers, "slurm",
          "{spec: {persistence: {resources: {requests: {storage: 10Gi}}}, slurmctld: {image: newer}}}");
  w.settle();
  const json::Value after = w.get(kStatefulSets, "slurm-controller");
  EXPECT_TRUE(json::equal(*json::find(before, {"spec", "volumeClaimTemplates"}),
                          *json::find(after, {"spec", "volumeClaimTemplates"})));
  EXPECT_THAT(json::dump(after), HasSubstr("newer"));
  EXPECT_THAT(w.ready(kControllers, "slurm"), HasSubstr("spec.persistence has changed"));
}

// In DaemonSet mode only the status says how many nodes there are.
TEST(OperatorSim, RoomForNodesFollowsTheNodesOfADaemonSetNodeSet) {
  World w(14);
  w.process.start();
  w.whole_cluster();
  const auto room = [&] {
    const auto map = w.api.get(kConfigMaps, {"slurm", "slurm-config"});
    const std::string conf(json::string_at(*map, {"data", "slurm.conf"}));
    return conf.substr(conf.find("MaxNodeCount="), 17);
  };
  w.add(kNodeSets, "cpu", "{controllerRef: {name: slurm}, slurmd: {image: slurmd}, scalingMode: DaemonSet}");
  w.settle();
  EXPECT_EQ(room(), "MaxNodeCount=1024");
  w.api.patch(kNodeSets, {"slurm", "cpu"}, json::parse_yaml("{status: {desired: 1300}}"), "status");
  w.settle(5s);
  EXPECT_EQ(room(), "MaxNodeCount=4096");
}

// What the API server put in is nobody's, so no application takes it away, and with it Recreate is refused.
TEST(OperatorSim, AnotherStrategyTakesTheOldOnesLimitsAway) {
  World w(18);
  w.process.start();
  w.whole_cluster();
  w.settle();
  const auto strategy = [&w] { return json::dump(*json::find(w.get(kDeployments, "login"), {"spec", "strategy"})); };
  const std::string usual = R"({"type":"RollingUpdate","rollingUpdate":{"maxSurge":"25%","maxUnavailable":"25%"}})";
  EXPECT_TRUE(json::equal(json::parse_yaml(strategy()), json::parse_yaml(usual)));
  w.process.kill();
  w.patch(kDeployments, "login", "{spec: {strategy: {rollingUpdate: {theirs: 1}}}}");
  w.patch(kLoginSets, "login", "{spec: {strategy: {type: Recreate}}}");
  w.process.start();
  w.settle(10s);
  EXPECT_EQ(strategy(), R"({"type":"Recreate"})");
  w.patch(kLoginSets, "login", "{spec: {strategy: null}}");
  w.settle(10s);
  EXPECT_TRUE(json::equal(json::parse_yaml(strategy()), json::parse_yaml(usual))) << strategy();
}

TEST(OperatorSim, OnlyTheNamespacesItIsToldOf) {
  World w(6, {"slurm", "other"});
  for (const char* ns : {"other", "third"}) {
    json::Value key = secret("jwt", "jwt.key", "k");
    json::at_or_create(key, {"metadata", "namespace"}) = ns;
    w.api.create(kSecrets, key);
    w.add(kTokens, "ada", kToken, ns);
  }
  w.add(kTokens, "ada", kToken);
  w.process.start();
  w.settle(10s);
  EXPECT_TRUE(w.api.get(kSecrets, {"slurm", "ada-jwt-ada"}));
  EXPECT_TRUE(w.api.get(kSecrets, {"other", "ada-jwt-ada"}));
  EXPECT_FALSE(w.api.get(kSecrets, {"third", "ada-jwt-ada"}));
}

TEST(OperatorSim, TokensAreRenewed) {
  World w(7);
  w.process.start();
  w.add(kTokens, "ada", kToken);
  w.settle(5s);
  const json::Value first = w.get(kSecrets, "ada-jwt-ada");
  ASSERT_FALSE(first.is_null());
  w.api.reset_counts();
  w.loop.advance(7min);
  EXPECT_EQ(w.api.write_calls(), 0u);
  w.loop.advance(2min);
  EXPECT_NE(*json::find(w.get(kSecrets, "ada-jwt-ada"), {"data"}), *json::find(first, {"data"}));
  // Not refreshed any longer: the Secret is made anew as one that cannot change.
  w.patch(kTokens, "ada", "{spec: {refresh: false}}");
  w.settle(5s);
  EXPECT_TRUE(json::bool_at(w.get(kSecrets, "ada-jwt-ada"), {"immutable"}));
  w.patch(kTokens, "ada", "{spec: {refresh: true}}");
  w.settle(5s);
  EXPECT_FALSE(json::bool_at(w.get(kSecrets, "ada-jwt-ada"), {"immutable"})) << "W33";
}

// Each token is unlike the last, and its status wakes its queue.
TEST(OperatorSim, ATokenIsNotWrittenInACircleWhileTheWatchOfSecretsIsLate) {
  World w(27);
  w.process.start();
  w.add(kTokens, "ada", kToken);
  w.settle(5s);
  w.loop.advance(7min + 30s);
  w.api.set_faults([](const testing::ApiCall& call) -> testing::ApiFault {
    if (call.is("patch", "secrets")) return {.before = 1s};  // else all tokens are issued in one second
    if (!call.is("watch", "secrets")) return {};
    return {.kind = testing::ApiFault::Kind::kSilent};
  });
  w.api.end_watches();
  w.loop.advance(5s);
  w.api.reset_counts();
  w.loop.advance(2min);
  EXPECT_GE(w.api.calls("patch", "secrets"), 1u) << "it was due";
  EXPECT_LE(w.api.calls("patch", "secrets"), 2u);
  w.api.set_faults(nullptr);
  w.api.end_watches();
  w.loop.advance(5s);
  w.api.reset_counts();
  w.loop.advance(5min);
  EXPECT_EQ(w.api.calls("patch", "secrets"), 0u);
  w.loop.advance(3min);
  EXPECT_EQ(w.api.calls("patch", "secrets"), 1u);
}

TEST(OperatorSim, KilledAtAnyMomentItConverges) {
  World calm(8);
  calm.process.start();
  calm.whole_cluster();
  calm.settle();
  const auto wanted = calm.children();
  for (std::uint64_t seed = 100; seed < 110; ++seed) {
    SCOPED_TRACE(seed);
    World w(seed);
    std::mt19937_64 random(seed);
    std::string host_keys;
    w.process.start();
    w.process.kill_after(random() % 400);
    w.whole_cluster();
    for (int life = 0; life < 6; ++life) {
      w.loop.advance(std::chrono::milliseconds(random() % 3000));
      w.run_workloads();
      const json::Value keys = w.get(kSecrets, "login-ssh-host-keys");
      if (!keys.is_null()) {
        const std::string now = json::dump(*json::find(keys, {"data"}));
        if (host_keys.empty()) host_keys = now;
        EXPECT_EQ(now, host_keys) << "host keys are made once";
      }
      if (w.process.running()) w.process.kill();
      w.process.start();
      if (life < 5) w.process.kill_after(random() % 400);
    }
    w.settle();
    EXPECT_EQ(w.children().size(), wanted.size());
    for (const auto& [name, stamp] : w.children()) EXPECT_TRUE(wanted.contains(name)) << name;
    EXPECT_EQ(w.ready(kControllers, "slurm"), "True ");
    EXPECT_EQ(w.ready(kLoginSets, "login"), "True ");
    w.api.reset_counts();
    w.loop.advance(5min);
    EXPECT_EQ(w.api.write_calls(), 0u) << w.api.writes().back().body;
  }
}

}  // namespace
}  // namespace bascule::op::reconcile::test
