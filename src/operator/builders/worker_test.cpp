#include "operator/builders/worker.hpp"

#include <gtest/gtest.h>

#include "operator/builders/loginset.hpp"
#include "operator/config/golden_test.hpp"
#include "operator/config/sample_test.hpp"

namespace bascule::op {
namespace {

using test::controller;
using test::expect_golden;
using test::node_set;
using test::readable;

WorkerInput input(const NodeSet& set, const Controller& ctl) {
  return {set, ctl, "cluster.local", "key-hash", "sssd-hash"};
}

std::string variable(const NodeSet& set, std::string_view name) {
  const Controller ctl = controller();
  const json::Value made = worker_template(input(set, ctl));
  const json::Value& daemon = json::array_at(made, {"spec", "containers"})->at(0);
  for (const json::Value& item : *json::array_at(daemon, {"env"})) {
    if (json::string_at(item, {"name"}) == name) return std::string(json::string_at(item, {"value"}));
  }
  return "none";
}

TEST(WorkerTest, ExternalControllerIsDialledWhereItIs) {
  const NodeSet set = node_set("gpu");
  const Controller ctl = controller("{external: true, externalConfig: {host: ctl.example.com, port: 7000}}");
  EXPECT_TRUE(json::dump(worker_template(input(set, ctl))).contains(R"("--conf-server","ctl.example.com:7000")"));
}

TEST(WorkerTest, LimitsAreToldToTheImage) {
  EXPECT_EQ(variable(node_set("a"), "POD_CPUS"), "0");
  EXPECT_EQ(variable(node_set("a"), "POD_MEMORY"), "0");
  const NodeSet pod = node_set("a", "template: {spec: {resources: {limits: {cpu: 1, memory: 1Gi}}}}");
  EXPECT_EQ(variable(pod, "POD_CPUS"), "1");
  EXPECT_EQ(variable(pod, "POD_MEMORY"), "1024");
  const NodeSet both = node_set(
      "a",
      "{slurmd: {resources: {limits: {cpu: 3500m, memory: 2Gi}}}, template: {spec: {resources: {limits: {cpu: 1}}}}}");
  EXPECT_EQ(variable(both, "POD_CPUS"), "4");
  EXPECT_EQ(variable(both, "POD_MEMORY"), "2048");
}

TEST(WorkerTest, PrivilegesCanBeTakenAway) {
  // A16.
  const NodeSet set = node_set("a", "slurmd: {securityContext: {privileged: false}}");
  const Controller ctl = controller();
  EXPECT_TRUE(json::dump(worker_template(input(set, ctl))).contains(R"("privileged":false)"));
}

TEST(WorkerTest, AloneOnItsNodeUnlessSaidOtherwise) {
  const Controller ctl = controller();
  const NodeSet alone = node_set("a");
  const NodeSet shared = node_set("a", "oversubscribeNode: true");
  EXPECT_TRUE(json::dump(worker_template(input(alone, ctl))).contains("podAntiAffinity"));
  EXPECT_FALSE(json::dump(worker_template(input(shared, ctl))).contains("podAntiAffinity"));
}

TEST(WorkerTest, Names) {
  const NodeSet plain = node_set("gpu");
  EXPECT_EQ(worker_name(plain, 7), "gpu-7");
  EXPECT_EQ(worker_hostname(plain, 7), "gpu-7");
  const NodeSet named = node_set("gpu", "{ordinalPadding: 3, template: {spec: {hostname: slinky-}}}");
  EXPECT_EQ(worker_name(named, 7), "gpu-007");
  EXPECT_EQ(worker_hostname(named, 7), "slinky-007");
  EXPECT_EQ(worker_claim_name(named, "scratch", "007"), "scratch-gpu-007");
}

TEST(WorkerTest, Claims) {
  const NodeSet set = node_set("gpu", "volumeClaimTemplates: [{metadata: {name: scratch, labels: {a: b}}, spec: {}}]");
  const std::vector<json::Value> claims = worker_claims(set, "0");
  ASSERT_EQ(claims.size(), 1U);
  EXPECT_EQ(json::string_at(claims[0], {"metadata", "name"}), "scratch-gpu-0");
  EXPECT_EQ(json::string_at(claims[0], {"metadata", "labels", "a"}), "b");
  EXPECT_EQ(json::string_at(claims[0], {"metadata", "labels", names::kAppInstance}), "gpu");
}

TEST(WorkerTest, A21_WhatIsMadeSharesNothingWithWhatItIsMadeFrom) {
  const NodeSet set = node_set("a", "template: {spec: {containers: [{name: side, image: s}], nodeSelector: {a: b}}}");
  const Controller ctl = controller();
  const std::string before = json::dump(worker_template(input(set, ctl)));
  json::Value made = worker_template(input(set, ctl));
  json::at_or_create(made, {"spec", "nodeSelector", "a"}) = "changed";
  json::at_or_create(made, {"spec", "containers"}) = json::Array{};
  EXPECT_EQ(json::dump(worker_template(input(set, ctl))), before);
}

TEST(WorkerTest, A45_ATemplateThatCannotBeMadeIsASentence) {
  const NodeSet set = node_set("a", "template: {spec: {containers: [{image: x}]}}");
  const Controller ctl = controller();
  EXPECT_THROW(worker_template(input(set, ctl)), BadObject);
}

TEST(WorkerTest, S23_KeysMakeARevisionAndChartVersionsDoNot) {
  const Controller ctl = controller();
  const auto text = [&](std::string_view chart, std::string_view key, std::string_view sssd) {
    NodeSet set = node_set("a", "ssh: {enabled: true, sssdConfRef: {name: sssd, key: sssd.conf}}");
    set.meta.labels = {{"helm.sh/chart", std::string(chart)}};
    return json::dump(worker_template({set, ctl, "cluster.local", std::string(key), std::string(sssd)}));
  };
  EXPECT_EQ(text("slurm-1", "k", "s"), text("slurm-2", "k", "s"));
  EXPECT_NE(text("slurm-1", "k", "s"), text("slurm-1", "another", "s"));
  EXPECT_NE(text("slurm-1", "k", "s"), text("slurm-1", "k", "another"));
}

TEST(WorkerTest, TheNodeSetsOwnMetadataIsThePodsAndNoRevisions) {
  const Controller ctl = controller();
  const auto made = [&](const char* own, const char* of_template) {
    NodeSet set = node_set("a", fmt::format("template: {{metadata: {{labels: {{team: {}}}}}}}", of_template));
    set.meta.labels = {{"team", "x"}, {"owner", own}};
    set.meta.annotations = {{"note", own}};
    json::Value pods = worker_template(input(set, ctl));
    return std::pair(json::dump(pods), json::dump(worker_revision(input(set, ctl), pods)));
  };
  EXPECT_TRUE(made("me", "t").first.contains(R"("owner":"me")"));
  EXPECT_TRUE(made("me", "t").first.contains(R"("note":"me")"));
  EXPECT_NE(made("me", "t").first, made("you", "t").first);
  EXPECT_EQ(made("me", "t").second, made("you", "t").second);
  EXPECT_NE(made("me", "t").second, made("me", "u").second);
}

TEST(WorkerTest, SharedObjectsBelongToAll) {
  // A43, W24.
  const std::vector<NodeSet> sets{node_set("b"), node_set("a")};
  expect_golden(
      "builders/testdata/workers_shared.golden",
      readable(json::Array{workers_service("slurm", sets), workers_budget("slurm", sets), worker_ssh_config(sets[0])}));
}

LoginSet login_set(std::string_view more = "{}") {
  return read_loginset(test::custom(
      "login", json::dump(json::merged(json::parse_yaml("{controllerRef: {name: slurm}, login: {image: login}, "
                                                        "sssdConfRef: {name: sssd, key: sssd.conf}}"),
                                       json::parse_yaml(more)))));
}

LoginInput login_input(const LoginSet& set, const Controller& ctl) {
  return {set, ctl, "cluster.local", "key-hash", "sssd-hash", "host-hash"};
}

TEST(LoginSetTest, Golden) {
  const LoginSet set = login_set(R"(
replicas: 2
rootSshAuthorizedKeys: ssh-ed25519 AAAA root
extraSshdConfig: Banner none
strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1}}
service: {spec: {type: LoadBalancer}, nodePort: 32222}
initconf: {image: "alpine:3"}
login: {securityContext: {privileged: false}, env: [{name: A, value: a}]}
)");
  const Controller ctl = controller();
  expect_golden("builders/testdata/loginset.golden",
                readable(json::Array{login_service(set), login_ssh_config(set), login_host_keys(set, {{"k", "v"}}),
                                     login_deployment(login_input(set, ctl))}));
}

// Each roll ends sessions.
TEST(LoginSetTest, ItsOwnMetadataRollsNothing) {
  const Controller ctl = controller();
  const auto made = [&ctl](std::string_view more) {
    LoginSet set = login_set("template: {metadata: {labels: {part: of-pods}}}");
    set.meta.labels = {{"owner", std::string(more)}};
    set.meta.annotations = {{"note", std::string(more)}};
    return login_deployment(login_input(set, ctl));
  };
  EXPECT_EQ(json::string_at(made("me"), {"metadata", "labels", "owner"}), "me");
  EXPECT_EQ(json::string_at(made("me"), {"metadata", "annotations", "note"}), "me");
  const auto pods = [&made](std::string_view more) {
    return json::dump(*json::find(made(more), {"spec", "template"}));
  };
  EXPECT_EQ(pods("me"), pods("you"));
  EXPECT_TRUE(pods("me").contains(R"("part":"of-pods")"));
}

TEST(LoginSetTest, SshMayMove) {
  const LoginSet set = login_set("login: {ports: [{name: login, containerPort: 33}]}");
  const Controller ctl = controller();
  const std::string text = json::dump(login_deployment(login_input(set, ctl)));
  EXPECT_TRUE(text.contains(R"("ports":[{"name":"login","containerPort":33,"protocol":"TCP"}])"));
}

TEST(LoginSetTest, RollsForEveryFileItMounts) {
  // A25.
  const Controller ctl = controller();
  const auto text = [&](const LoginSet& set) { return json::dump(login_deployment(login_input(set, ctl))); };
  EXPECT_NE(text(login_set("rootSshAuthorizedKeys: a")), text(login_set("rootSshAuthorizedKeys: b")));
  EXPECT_NE(text(login_set("extraSshdConfig: a")), text(login_set("extraSshdConfig: b")));
}

}  // namespace
}  // namespace bascule::op
