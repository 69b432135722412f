#include "operator/builders/controller.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "operator/api/derived.hpp"
#include "operator/builders/accounting.hpp"
#include "operator/builders/restapi.hpp"
#include "operator/config/golden_test.hpp"
#include "operator/config/sample_test.hpp"

namespace bascule::op {
namespace {

using test::accounting;
using test::controller;
using test::expect_golden;
using test::readable;

const KeyHashes kKeys{"slurm-hash", "jwt-hash"};
constexpr std::string_view kHa = "{ha: {enabled: true, backups: 2}, persistence: {existingClaim: state}}";

template <class Call>
std::string sentence(Call call) {
  try {
    call();
  } catch (const BadObject& fault) {
    return fault.what();
  }
  return "";
}

// The selector chooses pods of the template.
void expect_selects(const json::Value& object) {
  const json::Object* selector = json::object_at(object, {"spec", "selector", "matchLabels"});
  const json::Object* labels = json::object_at(object, {"spec", "template", "metadata", "labels"});
  ASSERT_TRUE(selector && labels);
  for (const auto& [key, value] : *selector) EXPECT_EQ(labels->at(key), value) << std::string_view(key);
}

std::string annotation(const json::Value& object, std::string_view key) {
  return std::string(json::string_at(object, {"spec", "template", "metadata", "annotations", key}));
}

TEST(ControllerChildrenTest, Minimal) {
  const Controller ctl = controller();
  const json::Value set = controller_stateful_set(ctl, "A=1\n", {}, kKeys);
  expect_selects(set);
  expect_golden("builders/testdata/controller_minimal.golden",
                readable(json::Array{controller_internal_service(ctl), controller_service(ctl),
                                     controller_config(ctl, "A=1\n", {}), set}));
}

TEST(ControllerChildrenTest, Everything) {
  const Controller ctl = controller(R"(
ha: {enabled: true, backups: 1}
persistence: {existingClaim: state}
jwksKeyRef: {name: jwks, key: k}
inplaceReconfigure: true
logfile: {image: "alpine:3"}
reconfigure: {resources: {limits: {memory: 64Mi}}}
slurmctld: {args: [-v], resources: {requests: {cpu: "1"}}}
service: {port: 7000, nodePort: 32500, metadata: {annotations: {a: b}}, spec: {type: NodePort, externalIPs: [1.2.3.4]}}
template: {metadata: {labels: {team: hpc, helm.sh/chart: slurm-1.3}}, spec: {nodeSelector: {kubernetes.io/os: linux}}}
metrics: {enabled: true, serviceMonitor: {enabled: true, interval: 30s, labels: {release: prom}}}
)");
  FilePlan files;
  files.sources = {"prolog", "extra"};
  files.own_cgroup_conf = true;
  const json::Value set = controller_stateful_set(ctl, "A=1\n", files, kKeys);
  expect_selects(set);
  EXPECT_TRUE(wants_service_monitor(ctl));
  expect_golden("builders/testdata/controller_everything.golden",
                readable(json::Array{controller_service(ctl), controller_config(ctl, "A=1\n", files), set,
                                     controller_service_monitor(ctl)}));
}

TEST(ControllerChildrenTest, ExternalHasOnlyItsConfig) {
  const Controller ctl = controller(
      "{external: true, externalConfig: {host: h, port: 1}, metrics: {enabled: true, "
      "serviceMonitor: {enabled: true}}}");
  const json::Value config = controller_config(ctl, "A=1\n", {});
  EXPECT_EQ(json::dump(*json::find(config, {"data"})), R"({"slurm.conf":"A=1\n"})");
  EXPECT_FALSE(wants_service_monitor(ctl));  // A40
}

TEST(ControllerChildrenTest, HighAvailability) {
  const json::Value set = controller_stateful_set(controller(kHa), "", {}, kKeys);
  EXPECT_EQ(json::int_at(set, {"spec", "replicas"}), 3);
  EXPECT_FALSE(json::find(set, {"spec", "volumeClaimTemplates"}));
  const json::Value& daemon = json::array_at(set, {"spec", "template", "spec", "containers"})->at(0);
  EXPECT_EQ(json::string_at(daemon, {"readinessProbe", "httpGet", "path"}), "/livez");
  EXPECT_TRUE(json::find(set, {"spec", "template", "spec", "affinity", "podAntiAffinity"}));
  EXPECT_EQ(json::string_at(controller_service(controller(kHa)), {"spec", "selector", names::kActive}), "true");
  // A38: without a standby nothing has to label the pod before anyone can connect. A22: nor is it kept apart.
  EXPECT_FALSE(json::find(controller_service(controller()), {"spec", "selector", names::kActive}));
  EXPECT_FALSE(
      json::find(controller_stateful_set(controller(), "", {}, kKeys), {"spec", "template", "spec", "affinity"}));
}

TEST(ControllerChildrenTest, HighAvailabilityNeedsAClaim) {
  for (const std::string_view persistence :
       {"{enabled: false}", "{enabled: true}", "{enabled: false, existingClaim: c}"}) {
    const Controller ctl = controller("{ha: {enabled: true}, persistence: " + std::string(persistence) + "}");
    EXPECT_TRUE(sentence([&] {
                  controller_stateful_set(ctl, "", {}, kKeys);
                }).starts_with("Controller slurm/slurm: spec.persistence must be enabled and name an existingClaim"));
  }
}

TEST(ControllerChildrenTest, StateSave) {
  const auto volumes = [](std::string_view more) {
    const json::Value set = controller_stateful_set(controller(more), "", {}, kKeys);
    std::string text = json::dump(*json::find(set, {"spec", "template", "spec", "volumes"}));
    return std::pair(text, json::array_at(set, {"spec", "volumeClaimTemplates"}) != nullptr);
  };
  EXPECT_TRUE(volumes("{}").second);
  EXPECT_FALSE(volumes("{}").first.contains("statesave"));
  EXPECT_TRUE(volumes("persistence: {existingClaim: c}").first.contains(R"("claimName":"c")"));
  EXPECT_TRUE(volumes("persistence: {enabled: false}").first.contains(R"({"name":"statesave","emptyDir":{}})"));
  EXPECT_FALSE(volumes("persistence: {enabled: false}").second);
}

TEST(ControllerChildrenTest, HashesRollPodsOnlyWhenTheyMust) {
  const auto hash = [](std::string_view conf, const FilePlan& files, std::string_view more = "{}") {
    return annotation(controller_stateful_set(controller(more), conf, files, kKeys), names::kSlurmConfigHash);
  };
  FilePlan files;
  files.hash = "x";
  EXPECT_NE(hash("A=1", {}), "");
  EXPECT_EQ(hash("A=1", {}), hash("A=1", {}));
  EXPECT_NE(hash("A=1", {}), hash("A=2", {}));
  EXPECT_NE(hash("A=1", {}), hash("A=1", files));  // A24
  EXPECT_EQ(hash("A=1", {}, "inplaceReconfigure: true"), "");
  // A23: what tools write on the custom resource is no reason to roll.
  Controller ctl = controller();
  const std::string before = json::dump(*json::find(controller_stateful_set(ctl, "", {}, kKeys), {"spec"}));
  ctl.meta.annotations = {{"kubectl.kubernetes.io/last-applied-configuration", "{}"},
                          {"meta.helm.sh/release-name", "r"}};
  ctl.meta.labels = {{"helm.sh/chart", "slurm-9"}, {"app.kubernetes.io/version", "9"}};
  ctl.meta.resource_version = "9";
  ctl.meta.generation = 9;
  EXPECT_EQ(json::dump(*json::find(controller_stateful_set(ctl, "", {}, kKeys), {"spec"})), before);
}

// The fields of every object in another order.
void shuffle(json::Value& value, std::mt19937& random) {
  if (json::Object* object = value.if_object()) {
    std::vector<std::pair<std::string, json::Value>> fields;
    for (auto& [key, item] : *object) fields.emplace_back(key, std::move(item));
    std::ranges::shuffle(fields, random);
    object->clear();
    for (auto& [key, item] : fields) {
      shuffle(item, random);
      object->emplace(key, std::move(item));
    }
  } else if (json::Array* array = value.if_array()) {
    for (json::Value& item : *array) shuffle(item, random);
  }
}

TEST(ControllerChildrenTest, OrderOfFieldsMeansNothing) {
  json::Value object = test::custom("slurm", R"(
slurmKeyRef: {name: a, key: b}
jwtKeyRef: {name: c, key: d}
slurmctld: {image: i, env: [{name: A, value: a}, {name: B, value: b}], resources: {limits: {cpu: 1, memory: 1Gi}}}
template: {metadata: {labels: {x: "1", y: "2"}, annotations: {z: "3", w: "4"}}, spec: {hostNetwork: true, volumes: [{name: v, emptyDir: {}}]}}
service: {spec: {type: NodePort}, metadata: {labels: {x: "1", y: "2"}}}
)");
  const Controller ctl = read_controller(object);
  const json::Value expected = controller_stateful_set(ctl, "A=1", {}, kKeys);
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    shuffle(object, random);
    const Controller other = read_controller(object);
    ASSERT_TRUE(json::equal(controller_stateful_set(other, "A=1", {}, kKeys), expected));
    ASSERT_TRUE(json::equal(controller_service(other), controller_service(ctl)));
  }
}

TEST(ControllerChildrenTest, PortOverrideIsWhatEveryoneDials) {
  // A2.
  const Controller ctl = controller("service: {port: 7000}");
  const std::string set = json::dump(controller_stateful_set(ctl, "", {}, kKeys));
  EXPECT_TRUE(set.contains(R"("containerPort":7000)"));
  EXPECT_TRUE(json::dump(controller_internal_service(ctl)).contains(R"("port":7000)"));
  EXPECT_EQ(conf_server(ctl), "slurm-controller.slurm:7000");
}

TEST(ControllerChildrenTest, MistakesGetASentence) {
  Controller ctl = controller();
  ctl.slurmctld = json::Object{};
  EXPECT_EQ(sentence([&] { controller_stateful_set(ctl, "", {}, kKeys); }),
            "Controller slurm/slurm: spec.slurmctld.image is missing; name the container image there");
  EXPECT_EQ(
      sentence([&] { controller_service(controller("service: {spec: {ports: [{name: slurmctld, port: 1}]}}")); }),
      "Controller slurm/slurm: spec.service.spec.ports has two ports named \"slurmctld\", of which one may be the "
      "operator's; rename one");
  EXPECT_NE(sentence([&] { controller_service(controller("service: {spec: {ports: [{name: a, port: 6817}]}}")); }), "");
}

TEST(AccountingChildrenTest, Golden) {
  const Accounting acct = accounting("{jwksKeyRef: {name: j, key: k}, template: {metadata: {labels: {team: hpc}}}}");
  const json::Value set = accounting_stateful_set(acct, "DbdPort=6819\n", kKeys);
  expect_selects(set);
  EXPECT_EQ(json::string_at(set, {"spec", "template", "metadata", "labels", "team"}), "hpc");  // A23
  expect_golden("builders/testdata/accounting.golden",
                readable(json::Array{accounting_service(acct), accounting_config(acct, "DbdPort=6819\n"), set}));
}

RestApi restapi(std::string_view more = "{}") {
  return read_restapi(test::custom(
      "slurm", json::dump(json::merged(json::parse_yaml("{controllerRef: {name: slurm}, slurmrestd: {image: r}}"),
                                       json::parse_yaml(more)))));
}

TEST(RestApiChildrenTest, Golden) {
  const RestApi api =
      restapi("{replicas: 2, slurmrestd: {args: [-v]}, service: {port: 80, spec: {type: LoadBalancer}}}");
  const json::Value deployment = restapi_deployment(api, controller(), "A=1\n", kKeys);
  expect_selects(deployment);
  expect_golden("builders/testdata/restapi.golden", readable(json::Array{restapi_service(api), deployment}));
}

TEST(RestApiChildrenTest, ArgumentsDependOnAccounting) {
  const auto args = [](std::string_view more) {
    const json::Value object = restapi_deployment(restapi(), controller(more), "", kKeys);
    return json::dump(json::array_at(object, {"spec", "template", "spec", "containers"})->at(0).at("args"));
  };
  EXPECT_EQ(args("{}"), R"(["-s","openapi/slurmctld","0.0.0.0:6820"])");
  EXPECT_EQ(args("accountingRef: {name: a}"), R"(["0.0.0.0:6820"])");
}

TEST(RestApiChildrenTest, ServiceInheritsLikeAllOthers) {
  RestApi api = restapi();
  api.meta.labels = {{"team", "hpc"}};
  EXPECT_EQ(json::string_at(restapi_service(api), {"metadata", "labels", "team"}), "hpc");
}

TEST(RestApiChildrenTest, RestartsForKeysAndWhatItReads) {
  // A25.
  const auto hash = [](std::string_view conf) {
    return annotation(restapi_deployment(restapi(), controller(), conf, kKeys), names::kSlurmConfigHash);
  };
  EXPECT_NE(hash("SlurmctldPort=1\n"), hash("SlurmctldPort=2\n"));
  EXPECT_EQ(hash("SlurmctldPort=1\nNodeSet=a Feature=a\n"), hash("SlurmctldPort=1\n"));
}

}  // namespace
}  // namespace bascule::op
