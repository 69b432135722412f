#include "operator/api/read.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "json/yaml.hpp"
#include "operator/api/derived.hpp"

namespace bascule::op {
namespace {

json::Value yaml(std::string_view text) {
  return json::parse_yaml(text);
}

json::Value object(std::string_view spec) {
  json::Value value = yaml("metadata: {name: gpu, namespace: slurm, uid: u1, generation: 3}");
  value.get_object()["spec"] = yaml(spec);
  return value;
}

template <class Read>
std::string sentence(Read read, std::string_view spec) {
  try {
    read(object(spec));
  } catch (const BadObject& fault) {
    return fault.what();
  }
  return "";
}

TEST(ReadControllerTest, DefaultsOfAnEmptySpec) {
  const Controller controller = read_controller(object("{}"));
  EXPECT_EQ(controller.cluster_name, "slurm_gpu");
  EXPECT_TRUE(controller.persistence.enabled);
  EXPECT_FALSE(controller.external);
  EXPECT_FALSE(controller.ha);
  EXPECT_EQ(controller.backups, 0);
  EXPECT_EQ(replicas(controller), 1);
  EXPECT_EQ(conf_server(controller), "gpu-controller.slurm:6817");
  EXPECT_EQ(controller.meta.generation, 3);
  EXPECT_TRUE(read_controller(yaml("{metadata: {name: a}}")).persistence.enabled);
}

TEST(ReadControllerTest, ExplicitValuesAreKept) {
  const Controller controller = read_controller(object(R"(
clusterName: c
slurmKeyRef: {name: s, key: k}
jwtKeyRef: {name: j, key: k}
jwtHs256KeyRef: {name: older, key: k}
accountingRef: {name: acct}
ha: {enabled: true, backups: 2}
persistence: {enabled: false, existingClaim: c, storageClassName: "", resources: {requests: {storage: 4Gi}}}
prologScriptRefs: [{name: p1}, {name: p2}]
service: {port: 7000, nodePort: 32500, metadata: {labels: {a: b}}, spec: {type: NodePort}}
)"));
  EXPECT_EQ(controller.cluster_name, "c");
  EXPECT_EQ(controller.keys.jwt.name, "j");
  EXPECT_EQ(replicas(controller), 3);
  EXPECT_FALSE(controller.persistence.enabled);
  EXPECT_EQ(json::dump(controller.persistence.claim),
            R"({"storageClassName":"","resources":{"requests":{"storage":"4Gi"}}})");
  EXPECT_EQ(controller.prolog, (std::vector<std::string>{"p1", "p2"}));
  EXPECT_EQ(controller.service.node_port, 32500);
  EXPECT_EQ(conf_server(controller), "gpu-controller.slurm:7000");
}

TEST(ReadControllerTest, HighAvailabilityHasOneBackupUnlessSaid) {
  EXPECT_EQ(read_controller(object("ha: {enabled: true}")).backups, 1);
  EXPECT_EQ(read_controller(object("ha: {enabled: false, backups: 3}")).backups, 0);
}

TEST(ReadControllerTest, ExternalIsDialledWhereItIs) {
  const Controller controller = read_controller(
      object("external: true\nexternalConfig: {host: ctl.example.com, port: 7001}\nha: {enabled: true}"));
  EXPECT_EQ(conf_server(controller), "ctl.example.com:7001");
  EXPECT_EQ(replicas(controller), 1);
}

TEST(ReadControllerTest, OlderJwtReferenceCountsOnlyWithoutTheNewOne) {
  EXPECT_EQ(read_controller(object("jwtHs256KeyRef: {name: older, key: k}")).keys.jwt, (KeyRef{"older", "k"}));
  EXPECT_EQ(read_controller(object("{jwtKeyRef: {key: a}, jwtHs256KeyRef: {name: older, key: k}}")).keys.jwt,
            (KeyRef{"", "a"}));
  EXPECT_TRUE(read_controller(object("{}")).keys.jwt.empty());
}

TEST(ReadNodeSetTest, Defaults) {
  const NodeSet set = read_nodeset(object("controllerRef: {name: slurm}"));
  EXPECT_EQ(set.replicas, 1);
  EXPECT_EQ(set.scaling_mode, ScalingMode::kStatefulSet);
  EXPECT_EQ(set.update, UpdateType::kRollingUpdate);
  EXPECT_EQ(set.max_unavailable, (IntOrPercent{25, true}));
  EXPECT_EQ(set.scheduled.duration, std::chrono::minutes(30));
  EXPECT_TRUE(set.protect);
  EXPECT_EQ(set.prune, Prune::kNever);
  EXPECT_EQ(set.when_deleted, Retention::kRetain);
  EXPECT_EQ(slurm_name(set), "gpu");
}

TEST(ReadNodeSetTest, ExplicitValuesAreKept) {
  const NodeSet set = read_nodeset(object(R"(
replicas: 0
scalingMode: DaemonSet
workloadDisruptionProtection: false
updateStrategy: {type: ScheduledUpdate, rollingUpdate: {maxUnavailable: 3}, scheduledUpdate: {startTime: "2026-05-01T04:00:00Z", duration: 90m, flags: [FLEX]}}
persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete}
pruneSlurmNodeRecords: NodeNotFound
partition: {enabled: true, config: State=UP}
template: {spec: {hostname: gpu-x-, hostNetwork: true}}
)"));
  EXPECT_EQ(set.replicas, 0);
  EXPECT_EQ(set.scaling_mode, ScalingMode::kDaemonSet);
  EXPECT_FALSE(set.protect);
  EXPECT_EQ(set.update, UpdateType::kScheduledUpdate);
  EXPECT_EQ(set.max_unavailable, (IntOrPercent{3, false}));
  EXPECT_EQ(set.scheduled.duration, std::chrono::minutes(90));
  EXPECT_TRUE(set.scheduled.start);
  EXPECT_EQ(set.when_deleted, Retention::kDelete);
  EXPECT_EQ(set.when_scaled, Retention::kRetain);
  EXPECT_EQ(set.prune, Prune::kNodeNotFound);
  EXPECT_TRUE(set.partition);
  EXPECT_EQ(slurm_name(set), "gpu-x");
  EXPECT_TRUE(host_network(set.pod_template));
}

TEST(ReadNodeSetTest, SlurmNameIsOneWord) {
  const auto name = [](std::string_view hostname) {
    NodeSet set;
    set.meta.name = "cr";
    set.pod_template.spec = json::Object{{"hostname", hostname}};
    return slurm_name(set);
  };
  EXPECT_EQ(name("foo-"), "foo");
  EXPECT_EQ(name("--foo-bar--"), "foo-bar");
  EXPECT_EQ(name("foo\nPartitionName=x"), "foo");
  EXPECT_EQ(name("foo'$(x)"), "foo");
  EXPECT_EQ(name(""), "cr");
  EXPECT_EQ(name("  \t"), "cr");  // A8: it crashed
  EXPECT_EQ(name("---"), "cr");
}

// The CRD takes any text. What stands in a live object must stop neither its NodeSet nor slurm.conf.
TEST(ReadNodeSetTest, AnyTextOfMaxUnavailableIsRead) {
  const auto read = [](std::string_view value) {
    return read_nodeset(object(fmt::format("updateStrategy: {{rollingUpdate: {{maxUnavailable: {}}}}}", value)));
  };
  EXPECT_EQ(read("\"2\"").max_unavailable, (IntOrPercent{2, false}));
  EXPECT_EQ(read("\"2\"").max_unavailable_fault, "");
  EXPECT_EQ(read("30%").max_unavailable, (IntOrPercent{30, true}));
  for (const char* bad : {"25 %", "many", "\"\"", "\"%\"", "-1", "\"-1\"", "-5%", "\"99999999999999999999\""}) {
    EXPECT_EQ(read(bad).max_unavailable, (IntOrPercent{1, false})) << bad;
    EXPECT_NE(read(bad).max_unavailable_fault, "") << bad;
    EXPECT_EQ(sentence(check_nodeset, fmt::format("updateStrategy: {{rollingUpdate: {{maxUnavailable: {}}}}}", bad)),
              read(bad).max_unavailable_fault);
  }
  EXPECT_EQ(read("\"0\"").max_unavailable, (IntOrPercent{1, false})) << "not a percentage, as with slurm-operator";
  EXPECT_EQ(
      read("\"0\"").max_unavailable_fault,
      "NodeSet slurm/gpu: spec.updateStrategy.rollingUpdate.maxUnavailable is \"0\"; it must be at least 1 or 1%");
  EXPECT_EQ(read("0").max_unavailable, (IntOrPercent{0, false}));
  EXPECT_EQ(read("0%").max_unavailable, (IntOrPercent{0, true}));
  EXPECT_EQ(
      read("25 %").max_unavailable_fault,
      "NodeSet slurm/gpu: spec.updateStrategy.rollingUpdate.maxUnavailable is \"25 %\"; it must be a number as in "
      "2, or a percentage as in \"25%\"");
}

TEST(ReadTest, FaultsNameObjectFieldAndRemedy) {
  EXPECT_EQ(sentence(read_nodeset, "replicas: \"3\""),
            "NodeSet slurm/gpu: spec.replicas is a text; it must be a whole number, as in replicas: 1");
  EXPECT_EQ(sentence(read_nodeset, "replicas: -1"),
            "NodeSet slurm/gpu: spec.replicas is -1; it must be from 0 to 2147483647");
  EXPECT_EQ(sentence(read_nodeset, "scalingMode: Deployment"),
            "NodeSet slurm/gpu: spec.scalingMode is \"Deployment\"; it must be one of StatefulSet, DaemonSet");
  EXPECT_EQ(sentence(read_controller, "prologScriptRefs: [p1]"),
            "Controller slurm/gpu: spec.prologScriptRefs[0] is a text; it must be an object, as in - name: scripts");
  EXPECT_EQ(sentence(read_controller, "template: {metadata: {labels: {a: 1}}}"),
            "Controller slurm/gpu: spec.template.metadata.labels.a is a number; it must be a text, as in a: \"1\"");
  EXPECT_EQ(sentence(read_controller, "slurmctld: image"),
            "Controller slurm/gpu: spec.slurmctld is a text; it must be an object with fields below it");
  EXPECT_EQ(sentence(read_controller, "service: {port: 70000}"),
            "Controller slurm/gpu: spec.service.port is 70000; it must be from 0 to 65535");
  EXPECT_EQ(sentence(read_controller, "external: \"yes\""),
            "Controller slurm/gpu: spec.external is a text; it must be true or false, without quotes");
  EXPECT_EQ(sentence(read_token, "lifetime: 3 days"),
            "Token slurm/gpu: spec.lifetime is \"3 days\"; it must be a duration as in 90m or 1h30m");
  EXPECT_THROW(read_controller(yaml("[]")), BadObject);
}

TEST(ReadTest, NullsAreAbsent) {
  const Controller controller =
      read_controller(object("{external: null, ha: null, configFileRefs: null, service: null}"));
  EXPECT_FALSE(controller.external);
  EXPECT_TRUE(controller.config_files.empty());
}

TEST(ReadAccountingTest, StorageDefaults) {
  const Accounting accounting = read_accounting(object("storageConfig: {host: db}"));
  EXPECT_EQ(accounting.storage.port, 3306);
  EXPECT_EQ(accounting.storage.database, "slurm_acct_db");
  EXPECT_EQ(read_accounting(object("storageConfig: {host: db, port: 0}")).storage.port, 3306);
  EXPECT_EQ(slurmdbd_host(accounting), "gpu-accounting");
  EXPECT_EQ(slurmdbd_port(accounting), 6819);
  const Accounting own = read_accounting(object("storageConfig: {port: 9999, database: mydb}\nservice: {port: 7003}"));
  EXPECT_EQ(own.storage.port, 9999);
  EXPECT_EQ(own.storage.database, "mydb");
  EXPECT_EQ(slurmdbd_port(own), 7003);
  const Accounting outside =
      read_accounting(object("external: true\nexternalConfig: {host: dbd.example.com, port: 7002}"));
  EXPECT_EQ(slurmdbd_host(outside), "dbd.example.com");
  EXPECT_EQ(slurmdbd_port(outside), 7002);
}

TEST(ReadOthersTest, Defaults) {
  EXPECT_EQ(read_restapi(object("{}")).replicas, 1);
  EXPECT_EQ(rest_url(read_restapi(object("{}"))), "http://gpu-restapi.slurm:6820");
  EXPECT_EQ(rest_url(read_restapi(object("service: {port: 80}"))), "http://gpu-restapi.slurm:80");
  EXPECT_EQ(read_loginset(object("{replicas: 3}")).replicas, 3);
  EXPECT_EQ(read_loginset(object("{}")).replicas, 1);
}

TEST(ReadTokenTest, SecretNames) {
  const Token token = read_token(object("username: alice"));
  EXPECT_TRUE(token.refresh);
  EXPECT_EQ(token.lifetime, std::chrono::minutes(15));
  EXPECT_EQ(token.secret, (KeyRef{"gpu-jwt-alice", "SLURM_JWT"}));
  EXPECT_EQ(read_token(object("secretRef: {name: s, key: k}")).secret, (KeyRef{"s", "k"}));
  EXPECT_EQ(read_token(object("{}")).username, "nobody");
  EXPECT_EQ(token_secret("t", "a.b-c"), "t-jwt-a.b-c");
  // A35: names that no object may have.
  EXPECT_EQ(token_secret("t", "Alice_B").substr(0, 14), "t-jwt-alice-b-");
  EXPECT_NE(token_secret("t", "alice_b"), token_secret("t", "alice.b"));
  EXPECT_NE(token_secret("t", "Alice"), token_secret("t", "alice"));
}

TEST(DerivedTest, Labels) {
  EXPECT_EQ(selector_text(names::kLogin, "l"), "app.kubernetes.io/instance=l,app.kubernetes.io/name=login");
  const StringMap all = child_labels(names::kSlurmd, "gpu");
  EXPECT_EQ(all.size(), 3U);
  for (const auto& [key, value] : selector_labels(names::kSlurmd, "gpu")) EXPECT_EQ(all.at(key), value);
}

}  // namespace
}  // namespace bascule::op
