#include "operator/reconcile/plan.hpp"

#include "operator/api/read.hpp"
#include "operator/builders/token.hpp"
#include "operator/reconcile/apply.hpp"
#include "operator/reconcile/key_change.hpp"
#include "operator/reconcile/test_view.hpp"

namespace bascule::op::reconcile::test {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr std::string_view kOutside =
    R"({slurmKeyRef: {name: auth, key: slurm.key}, jwtKeyRef: {name: jwt, key: jwt.key},
                 external: true, externalConfig: {host: ctl.example.com, port: 6817}})";
const WallTime kNow = std::chrono::sys_days(std::chrono::year(2026) / 11 / 28);

std::string slurm_conf_of(const Plan& plan) {
  return std::string(json::string_at(child(plan, "ConfigMap"), {"data", "slurm.conf"}));
}

TEST(ControllerPlan, MakesEverythingOnceItsSecretsAreThere) {
  MapView view = whole_namespace();
  const Plan plan = plan_controller(custom(kControllers, "slurm", kController), view, kNow);
  EXPECT_THAT(children_of(plan), ElementsAre("Service slurm-controller-internal", "Service slurm-controller",
                                             "ConfigMap slurm-config", "StatefulSet slurm-controller"));
  EXPECT_THAT(plan.faults, IsEmpty());
  EXPECT_THAT(waits_of(plan), ElementsAre("StatefulSet slurm-controller is not there yet"));
}

TEST(ControllerPlan, WithoutAKeyNoPodsAreMadeOrChanged) {
  MapView view = whole_namespace();
  view.drop(kSecrets, "jwt");
  const Plan plan = plan_controller(custom(kControllers, "slurm", kController), view, kNow);
  EXPECT_THAT(children_of(plan),
              ElementsAre("Service slurm-controller-internal", "Service slurm-controller", "ConfigMap slurm-config"));
  EXPECT_THAT(waits_of(plan), Contains("Secret jwt, named in spec.jwtKeyRef, does not exist"));
  EXPECT_THAT(plan.unwanted, ::testing::SizeIs(1)) << "the ServiceMonitor alone";
}

TEST(ControllerPlan, AKeyChangedRollsThePods) {
  MapView view = whole_namespace();
  const json::Value object = custom(kControllers, "slurm", kController);
  const json::Value before = child(plan_controller(object, view, kNow), "StatefulSet");
  view.put(kSecrets, secret("auth", "slurm.key", "another"));
  EXPECT_NE(before, child(plan_controller(object, view, kNow), "StatefulSet"));
}

// As the operator made it when the key was another.
json::Value stateful_set_of_another_key(MapView& view, const json::Value& controller) {
  const json::Value now = *view.find(kSecrets, "auth");
  view.drop(kStatefulSets, "slurm-controller");
  view.put(kSecrets, secret("auth", "slurm.key", "older"));
  json::Value set = stamped(child(plan_controller(controller, view, kNow), "StatefulSet"));
  view.put(kSecrets, now);
  return set;
}

// Of a person who says to take the key whatever runs.
json::Value with_order(json::Value controller) {
  json::at_or_create(controller, {"metadata", "annotations", "controller.slinky.slurm.net/take-slurm-key"}) = "true";
  return controller;
}

TEST(ControllerPlan, AChangedKeyWaitsForSlurmctldsWord) {
  const json::Value object = custom(kControllers, "slurm", kController);
  MapView view = whole_namespace();
  view.put(kNodeSets, custom(kNodeSets, "idle", kNodeSet));
  json::Value set = custom(kNodeSets, "gpu", kNodeSet);
  view.put(kNodeSets, set);
  view.put(kStatefulSets, stateful_set_of_another_key(view, object));
  const auto wait = [&] { return plan_controller(object, view, kNow).key_wait.value(); };
  EXPECT_THAT(wait().rule, HasSubstr("the key in Secret auth has changed, and slurmctld takes it when no node"));
  EXPECT_FALSE(wait().workers || wait().jobs_seen || wait().jwt);
  // One that is not ready for a moment is there.
  set.get_object()["status"] = json::parse_yaml("{replicas: 2, readyReplicas: 0, slurmAllocated: 1}");
  view.put(kNodeSets, set);
  EXPECT_TRUE(wait().workers && wait().jobs_seen);
  EXPECT_FALSE(wait().jwt);
  view.put(kSecrets, secret("jwt", "jwt.key", "another"));
  EXPECT_TRUE(wait().jwt);
  Plan plan = plan_controller(object, view, kNow);
  EXPECT_TRUE(hold_key(plan, NodesStand::kOpen));
  EXPECT_THAT(children_of(plan), Contains("ConfigMap slurm-config"));
  EXPECT_THAT(children_of(plan), Not(Contains("StatefulSet slurm-controller")));
  // Whoever knows better says so.
  plan = plan_controller(with_order(object), view, kNow);
  EXPECT_FALSE(hold_key(plan, NodesStand::kOpen));
  EXPECT_THAT(json::dump(child(plan, "StatefulSet")), Not(HasSubstr("take-slurm-key"))) << "it would roll once more";
}

TEST(ControllerPlan, OnlyAnotherKeyWaitsForJobs) {
  MapView view = whole_namespace();
  const json::Value object = custom(kControllers, "slurm", kController);
  const auto waits = [&] { return plan_controller(object, view, kNow).key_wait.has_value(); };
  EXPECT_FALSE(waits()) << "there is no slurmctld";
  view.put(kStatefulSets, stamped(child(plan_controller(object, view, kNow), "StatefulSet")));
  view.put(kSecrets, secret("jwt", "jwt.key", "another"));
  EXPECT_FALSE(waits()) << "no worker has the JWT key";
  json::Value original = stateful_set_of_another_key(view, object);
  json::find(original, {"metadata", "annotations"})->get_object().erase(kStamp);
  view.put(kStatefulSets, original);
  EXPECT_FALSE(waits()) << "its hash may be made in another way";
}

// Whoever has another key than slurmctld is not heard by it; it could not even be asked whether jobs run.
TEST(ControllerPlan, UntilSlurmctldTakesAChangedKeyNobodyIsMadeAnewForIt) {
  MapView view = whole_namespace();
  const json::Value object =
      custom(kControllers, "slurm",
             std::string(kController.substr(0, kController.rfind('}'))) + ", accountingRef: {name: slurm}}");
  view.put(kControllers, object);
  view.put(kConfigMaps, config_map("slurm-config", {{"slurm.conf", "x"}}));
  view.put(kSecrets, secret("login-ssh-host-keys", "k", "v"));
  view.put(kSecrets, secret("auth", "slurm.key", "older"));
  const auto made = [&view] {
    const json::Value login = custom(kLoginSets, "login", kLoginSet);
    return std::vector{child(plan_restapi(custom(kRestApis, "slurm", kRestApi), view), "Deployment"),
                       child(plan_loginset(login, view, "cluster.local"), "Deployment"),
                       child(plan_accounting(custom(kAccountings, "slurm", kAccounting), view), "StatefulSet")};
  };
  const std::vector<json::Value> before = made();
  json::Value slurmctld = stamped(child(plan_controller(object, view, kNow), "StatefulSet"));
  view.put(kStatefulSets, slurmctld);
  view.put(kSecrets, secret("auth", "slurm.key", "another"));
  EXPECT_EQ(made(), before);
  view.put(kControllers, with_order(object));
  const std::vector<json::Value> ordered = made();
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_NE(ordered[i], before[i]) << i;
  view.put(kControllers, object);
  EXPECT_EQ(made(), before);
  view.put(kStatefulSets, stamped(child(plan_controller(object, view, kNow), "StatefulSet")));  // no job runs
  EXPECT_EQ(made(), ordered);
}

TEST(ControllerPlan, AnAccountingThatIsNotThereKeepsTheConfigurationAsItIs) {
  MapView view = whole_namespace();
  const json::Value object = custom(kControllers, "slurm",
                                    R"({slurmKeyRef: {name: auth, key: slurm.key}, jwtKeyRef: {name: jwt, key: jwt.key},
                 slurmctld: {image: slurmctld}, logfile: {image: alpine}, accountingRef: {name: acct}})");
  Plan plan = plan_controller(object, view, kNow);
  EXPECT_THAT(children_of(plan), ElementsAre("Service slurm-controller-internal", "Service slurm-controller"));
  EXPECT_THAT(waits_of(plan), Contains("Accounting acct, named in spec.accountingRef, does not exist"));
  view.put(kAccountings, custom(kAccountings, "acct", kAccounting));
  plan = plan_controller(object, view, kNow);
  EXPECT_THAT(slurm_conf_of(plan), HasSubstr("AccountingStorageHost=acct-accounting"));
}

TEST(ControllerPlan, ANodeSetThatCannotBeReadTakesNoPartitionAway) {
  MapView view = whole_namespace();
  const json::Value object = custom(kControllers, "slurm", kController);
  view.put(kNodeSets, custom(kNodeSets, "good", kNodeSet));
  view.put(kNodeSets, custom(kNodeSets, "bad", "{controllerRef: {name: slurm}, replicas: many}"));
  Plan plan = plan_controller(object, view, kNow);
  EXPECT_THAT(slurm_conf_of(plan), HasSubstr("NodeSet=good")) << "a new cluster comes up without it";
  view.put(kConfigMaps, config_map("slurm-config", {{"slurm.conf", "old"}}));
  plan = plan_controller(object, view, kNow);
  EXPECT_THAT(children_of(plan), Not(Contains("ConfigMap slurm-config")));
  EXPECT_THAT(children_of(plan), Not(Contains("StatefulSet slurm-controller")));
  EXPECT_THAT(waits_of(plan), Contains(HasSubstr("spec.replicas")));
}

TEST(ControllerPlan, FilesOfConfigMaps) {
  MapView view = whole_namespace();
  const json::Value object = custom(kControllers, "slurm",
                                    R"({slurmKeyRef: {name: auth, key: slurm.key}, jwtKeyRef: {name: jwt, key: jwt.key},
                 slurmctld: {image: slurmctld}, logfile: {image: alpine}, configFileRefs: [{name: files}]})");
  const Plan missing = plan_controller(object, view, kNow);
  EXPECT_THAT(children_of(missing), Not(Contains("ConfigMap slurm-config")));
  EXPECT_THAT(waits_of(missing), Contains(HasSubstr("ConfigMap files"))) << "A4";
  view.put(kConfigMaps, config_map("files", {{"gres.conf", "Name=gpu"}}));
  EXPECT_THAT(children_of(plan_controller(object, view, kNow)), Contains("ConfigMap slurm-config"));
  view.put(kConfigMaps, config_map("files", {{"slurm.conf", "mine"}}));
  const Plan plan = plan_controller(object, view, kNow);
  EXPECT_THAT(children_of(plan), Not(Contains("ConfigMap slurm-config")));
  ASSERT_THAT(plan.faults, ::testing::SizeIs(1));
  EXPECT_EQ(plan.faults[0].reason, "ConfigFiles");
}

// Slurmctlds run on different nodes: a standby would hang for ever on a claim that one node may write.
TEST(ControllerPlan, AClaimOfSeveralSlurmctldsIsToBeWritableByMany) {
  MapView view = whole_namespace();
  const std::string base(kController.substr(0, kController.rfind('}')));
  const json::Value object =
      custom(kControllers, "slurm", base + ", ha: {enabled: true}, persistence: {existingClaim: state}}");
  const auto faults = [&](std::string_view modes) {
    view.put(kClaims, json::Object{{"metadata", json::Object{{"name", "state"}}},
                                   {"spec", json::Object{{"accessModes", json::parse_yaml(modes)}}}});
    return plan_controller(object, view, kNow).faults;
  };
  EXPECT_THAT(plan_controller(object, view, kNow).faults, IsEmpty()) << "not known";
  ASSERT_THAT(faults("[ReadWriteOnce]"), ::testing::SizeIs(1));
  EXPECT_EQ(faults("[ReadWriteOnce]")[0].reason, "ClaimOfOneNode");
  EXPECT_THAT(faults("[ReadWriteOnce]")[0].sentence, HasSubstr("claim state, named in spec.persistence.existingClaim"));
  EXPECT_THAT(faults("[ReadWriteOnce, ReadWriteMany]"), IsEmpty());
  view.put(kClaims, json::Object{{"metadata", json::Object{{"name", "state"}}}});
  EXPECT_THAT(
      plan_controller(custom(kControllers, "slurm", base + ", persistence: {existingClaim: state}}"), view, kNow)
          .faults,
      IsEmpty())
      << "there is one slurmctld";
}

TEST(ControllerPlan, IsNotStartedWhileItsInstallationGoesOn) {
  MapView view = whole_namespace();
  json::Value object = custom(kControllers, "slurm", kController);
  json::at_or_create(object, {"metadata", "creationTimestamp"}) = "2026-11-27T23:59:59Z";
  Plan plan = plan_controller(object, view, kNow);
  EXPECT_THAT(children_of(plan), Not(Contains("StatefulSet slurm-controller")));
  EXPECT_EQ(plan.wake, kNow + 1s);
  json::Value set = custom(kNodeSets, "a", kNodeSet);
  json::at_or_create(set, {"metadata", "creationTimestamp"}) = "2026-11-28T00:00:01Z";
  view.put(kNodeSets, set);
  EXPECT_EQ(plan_controller(object, view, kNow + 1s).wake, kNow + 3s);
  EXPECT_THAT(children_of(plan_controller(object, view, kNow + 3s)), Contains("StatefulSet slurm-controller"));
  view.put(kConfigMaps, config_map("slurm-config", {{"slurm.conf", "x"}}));
  EXPECT_THAT(children_of(plan_controller(object, view, kNow + 1s)), Contains("StatefulSet slurm-controller"))
      << "one that runs follows at once";
  EXPECT_THAT(children_of(plan_controller(object, view, kNow - 1h)), Contains("StatefulSet slurm-controller"));
}

TEST(ControllerPlan, AnExternalOneHasItsConfigurationOnly) {
  MapView view = whole_namespace();
  const Plan plan = plan_controller(custom(kControllers, "slurm",
                                           "{slurmKeyRef: {name: auth, key: slurm.key}, jwtKeyRef: "
                                           "{name: jwt, key: jwt.key}, external: true, externalConfig: "
                                           "{host: ctl.example.com, port: 6817}}"),
                                    view, kNow);
  EXPECT_THAT(children_of(plan), ElementsAre("ConfigMap slurm-config"));
  EXPECT_THAT(plan.waits, IsEmpty());
}

TEST(ControllerPlan, A3_TheLinesThatAnOutsideSlurmctldNeedsAreSaid) {
  MapView view = whole_namespace();
  const json::Value object = custom(kControllers, "slurm", kOutside);
  EXPECT_THAT(plan_controller(object, view, kNow).notes, IsEmpty());
  view.put(kNodeSets, custom(kNodeSets, "gpu", "{controllerRef: {name: slurm}, partition: {enabled: true}}"));
  const Plan plan = plan_controller(object, view, kNow);
  ASSERT_THAT(plan.notes, ::testing::SizeIs(1));
  EXPECT_THAT(plan.notes[0], HasSubstr("NodeSet=gpu Feature=gpu;PartitionName=gpu Nodes=gpu"));
}

TEST(ControllerPlan, A44_WhatMovesOutsideLeavesNothingRunningHere) {
  MapView view = whole_namespace();
  const auto unwanted = [](const Plan& plan) {
    std::vector<std::string> out;
    for (const Unwanted& one : plan.unwanted) out.push_back(one.resource->kind + " " + one.name);
    return out;
  };
  EXPECT_THAT(unwanted(plan_controller(custom(kControllers, "slurm", kOutside), view, kNow)),
              ::testing::IsSupersetOf(
                  {"StatefulSet slurm-controller", "Service slurm-controller", "Service slurm-controller-internal"}));
  const json::Value outside = custom(kAccountings, "slurm", "{external: true, externalConfig: {host: h, port: 1}}");
  EXPECT_THAT(unwanted(plan_accounting(outside, view)),
              ElementsAre("StatefulSet slurm-accounting", "Service slurm-accounting", "Secret slurm-accounting"));
}

// A27: a hash of what is wanted is there in the first plan, before what it is of has been seen.
TEST(ControllerPlan, A27_TheHashIsThatOfWhatIsWanted) {
  MapView view = whole_namespace();
  const json::Value object = custom(kControllers, "slurm", kController);
  const Plan first = plan_controller(object, view, kNow);
  EXPECT_NE(json::string_at(child(first, "StatefulSet"),
                            {"spec", "template", "metadata", "annotations", names::kSlurmConfigHash}),
            "");
  view.put(kConfigMaps, child(first, "ConfigMap"));
  EXPECT_EQ(child(first, "StatefulSet"), child(plan_controller(object, view, kNow), "StatefulSet"));
}

TEST(ControllerPlan, ABadObjectThrowsTheSentence) {
  MapView view = whole_namespace();
  EXPECT_THROW(plan_controller(custom(kControllers, "slurm", "{ha: {enabled: maybe}}"), view, kNow), BadObject);
}

TEST(AccountingPlan, FollowsThePassword) {
  MapView view = whole_namespace();
  const json::Value object = custom(kAccountings, "slurm", kAccounting);
  const Plan plan = plan_accounting(object, view);
  EXPECT_THAT(children_of(plan),
              ElementsAre("Service slurm-accounting", "Secret slurm-accounting", "StatefulSet slurm-accounting"));
  view.put(kSecrets, secret("db", "password", "another"));
  EXPECT_NE(child(plan, "StatefulSet"), child(plan_accounting(object, view), "StatefulSet")) << "W34";
  view.drop(kSecrets, "db");
  EXPECT_THAT(children_of(plan_accounting(object, view)), ElementsAre("Service slurm-accounting"));
  view.put(kSecrets, secret("db", "password", "a\nb"));
  const Plan bad = plan_accounting(object, view);
  ASSERT_THAT(bad.faults, ::testing::SizeIs(1));
  EXPECT_THAT(bad.faults[0].sentence, Not(HasSubstr("a\nb")));
}

TEST(RestApiPlan, WaitsForControllerAndConfiguration) {
  MapView view = whole_namespace();
  const json::Value object = custom(kRestApis, "slurm", kRestApi);
  view.drop(kControllers, "slurm");
  Plan plan = plan_restapi(object, view);
  EXPECT_THAT(children_of(plan), ElementsAre("Service slurm-restapi"));
  EXPECT_EQ(plan.waits[0].event, "ControllerRefFailed");
  view.put(kControllers, custom(kControllers, "slurm", kController));
  plan = plan_restapi(object, view);
  EXPECT_THAT(waits_of(plan), Contains("ConfigMap slurm-config of Controller slurm has no slurm.conf yet"));
  view.put(kConfigMaps, config_map("slurm-config", {{"slurm.conf", "ClusterName=x"}}));
  plan = plan_restapi(object, view);
  EXPECT_THAT(children_of(plan), ElementsAre("Service slurm-restapi", "Deployment slurm-restapi"));
  EXPECT_EQ(plan.status.at("replicas"), 0);
}

TEST(LoginSetPlan, AsksForHostKeysOnceAndKeepsThoseThatAreThere) {
  MapView view = whole_namespace();
  const json::Value object = custom(kLoginSets, "login", kLoginSet);
  Plan plan = plan_loginset(object, view, "cluster.local");
  EXPECT_TRUE(plan.needs_host_keys);
  EXPECT_THAT(children_of(plan), ElementsAre("Service login", "ConfigMap login-ssh-config"));
  view.put(kSecrets, secret("login-ssh-host-keys", "ssh_host_rsa_key", "whoever made it"));
  plan = plan_loginset(object, view, "cluster.local");
  EXPECT_FALSE(plan.needs_host_keys) << "W35";
  EXPECT_THAT(children_of(plan), ElementsAre("Service login", "ConfigMap login-ssh-config", "Deployment login"));
  view.drop(kSecrets, "sssd");
  EXPECT_THAT(children_of(plan_loginset(object, view, "cluster.local")), Not(Contains("Deployment login")));
}

TEST(NodeSetFilesPlan, SharesWithTheNodeSetsOfItsController) {
  MapView view = whole_namespace();
  view.put(kNodeSets, custom(kNodeSets, "a", kNodeSet));
  view.put(kNodeSets, custom(kNodeSets, "b", kNodeSet));
  const Plan plan = plan_nodeset_files(custom(kNodeSets, "a", kNodeSet), view);
  EXPECT_THAT(children_of(plan), ElementsAre("ConfigMap a-ssh-config", "Service slurm-workers-slurm",
                                             "PodDisruptionBudget slurm-workers-pdb-slurm"));
  EXPECT_EQ(json::array_at(child(plan, "Service"), {"metadata", "ownerReferences"})->size(), 2u);
  view.put(kNodeSets, custom(kNodeSets, "b", "{controllerRef: {name: slurm}, replicas: many}"));
  EXPECT_THAT(children_of(plan_nodeset_files(custom(kNodeSets, "a", kNodeSet), view)),
              ElementsAre("ConfigMap a-ssh-config"))
      << "one that cannot be read loses nothing";
}

TEST(NodeSetFilesPlan, OneOfThemMakesWhatAllShareAndAnotherTakesOver) {
  MapView view = whole_namespace();
  for (const char* name : {"a", "b", "c"}) view.put(kNodeSets, custom(kNodeSets, name, kNodeSet));
  const auto planned = [&view](const char* name) {
    return children_of(plan_nodeset_files(*view.find(kNodeSets, name), view));
  };
  EXPECT_EQ(planned("a").size(), 3u);
  EXPECT_THAT(planned("b"), ElementsAre("ConfigMap b-ssh-config"));
  EXPECT_THAT(planned("c"), ElementsAre("ConfigMap c-ssh-config"));
  json::Value going = custom(kNodeSets, "a", kNodeSet);
  json::at_or_create(going, {"metadata", "deletionTimestamp"}) = "2026-11-28T00:00:00Z";
  view.put(kNodeSets, std::move(going));
  EXPECT_EQ(planned("b").size(), 3u) << "the first of those that stay";
  EXPECT_EQ(json::array_at(child(plan_nodeset_files(*view.find(kNodeSets, "b"), view), "Service"),
                           {"metadata", "ownerReferences"})
                ->size(),
            3u);
  view.drop(kNodeSets, "a");
  EXPECT_EQ(planned("b").size(), 3u);
}

TEST(NodeSetFilesPlan, A15_ALoginSetOfTheSameNameKeepsItsSshConfiguration) {
  MapView view = whole_namespace();
  const auto made = [](const Plan& plan, std::string_view uid) {
    json::Value out = child(plan, "ConfigMap");
    json::at_or_create(out, {"metadata", "ownerReferences"}).get_array().at(0).get_object()["uid"] = uid;
    return stamped(std::move(out));
  };
  view.put(kNodeSets, custom(kNodeSets, "x", kNodeSet));
  const json::Value theirs = made(plan_loginset(custom(kLoginSets, "x", kLoginSet), view, "cluster.local"), "login");
  const json::Value ours = made(plan_nodeset_files(custom(kNodeSets, "x", kNodeSet), view), "workers");
  ASSERT_EQ(json::string_at(theirs, {"metadata", "name"}), json::string_at(ours, {"metadata", "name"}));
  EXPECT_EQ(judge(ours, &theirs, {}), Verdict::kForeign);
  EXPECT_EQ(judge(theirs, &ours, {}), Verdict::kForeign);
}

struct TokenPlan : ::testing::Test {
  MapView view = whole_namespace();
  WallTime now = std::chrono::sys_days(std::chrono::year(2026) / 11 / 28);
  json::Value object = custom(kTokens, "ada", kToken);

  std::string jwt(const Plan& plan) {
    return *base64_decode(json::string_at(child(plan, "Secret"), {"data", "SLURM_JWT"}));
  }
  // As the cluster would have it then.
  Plan make() {
    Plan plan = plan_token(object, view, "id", now);
    view.put(kSecrets, child(plan, "Secret"));
    return plan;
  }
};

TEST_F(TokenPlan, IsMadeKeptAndRenewedBeforeItEnds) {
  const Plan first = make();
  EXPECT_EQ(first.wake, now + 8min) << "a fifth of its time is left then";
  EXPECT_EQ(read_jwt("jwt-key", jwt(first))->user, "ada");
  EXPECT_EQ(json::string_at(first.status, {"issuedAt"}), "2026-11-28T00:00:00Z");
  now += 7min;
  EXPECT_EQ(jwt(make()), jwt(first));
  now += 1min;
  const Plan renewed = make();
  EXPECT_NE(jwt(renewed), jwt(first));
  EXPECT_EQ(renewed.wake, now + 8min);
}

// The cache is late, and each token is unlike the last: it would be written in a circle.
TEST_F(TokenPlan, WhatWasSignedIsSignedOnceThoughTheCacheDoesNotHaveItYet) {
  Plan first = plan_token(object, view, "1", now);
  ASSERT_TRUE(first.token);
  EXPECT_EQ(jwt(plan_token(object, view, "2", now + 1s, first.token)), jwt(first)) << "there was none";
  json::Value stored = child(first, "Secret");
  json::at_or_create(stored, {"metadata", "resourceVersion"}) = "7";
  view.put(kSecrets, stored);
  EXPECT_FALSE(plan_token(object, view, "3", now + 1s, first.token).token) << "seen";
  now += 8min;
  const Plan second = plan_token(object, view, "4", now);
  ASSERT_NE(jwt(second), jwt(first));
  const Plan again = plan_token(object, view, "5", now + 1s, second.token);
  EXPECT_EQ(jwt(again), jwt(second));
  EXPECT_TRUE(again.token);
  EXPECT_NE(jwt(plan_token(object, view, "6", now + 8min, again.token)), jwt(second)) << "over";
  json::at_or_create(stored, {"metadata", "resourceVersion"}) = "8";
  view.put(kSecrets, stored);
  EXPECT_NE(jwt(plan_token(object, view, "7", now, second.token)), jwt(second)) << "somebody put the old one back";
}

TEST_F(TokenPlan, FollowsAnotherKey) {  // W33
  const Plan first = make();
  view.put(kSecrets, secret("jwt", "jwt.key", "rotated"));
  EXPECT_TRUE(read_jwt("rotated", jwt(make())));
}

TEST_F(TokenPlan, WithoutRefreshItStaysAndSaysThatItIsOver) {
  object = custom(kTokens, "ada",
                  "{jwtKeyRef: {name: jwt, key: jwt.key}, username: ada, lifetime: 10m, "
                  "refresh: false}");
  const Plan first = make();
  EXPECT_EQ(first.wake, now + 10min) << "its end is told";
  EXPECT_TRUE(json::bool_at(child(first, "Secret"), {"immutable"}));
  now += 1h;
  const Plan later = make();
  EXPECT_EQ(jwt(later), jwt(first));
  ASSERT_THAT(later.faults, ::testing::SizeIs(1));
  EXPECT_EQ(later.faults[0].reason, "Expired");
  EXPECT_EQ(later.wake, std::nullopt);
}

TEST_F(TokenPlan, WaitsForTheKey) {
  view.drop(kSecrets, "jwt");
  const Plan plan = plan_token(object, view, "id", now);
  EXPECT_THAT(plan.children, IsEmpty());
  EXPECT_THAT(waits_of(plan), ElementsAre("Secret jwt, named in spec.jwtKeyRef, does not exist"));
  view.put(kSecrets, secret("jwt", "jwt.key", ""));
  EXPECT_EQ(plan_token(object, view, "id", now).faults.at(0).reason, "EmptyKey");
}

TEST(WorkloadWait, SaysHowFarItIs) {
  const auto live = [](std::string_view status) {
    return json::Value(json::Object{{"metadata", json::Object{{"generation", 2}}},
                                    {"spec", json::Object{{"replicas", 2}}},
                                    {"status", json::parse_yaml(status)}});
  };
  json::Value object = live("{observedGeneration: 1, readyReplicas: 2, updatedReplicas: 2}");
  EXPECT_EQ(workload_wait(kStatefulSets, "x", &object), "StatefulSet x has changed, its pods follow");
  object = live("{observedGeneration: 2, readyReplicas: 1, updatedReplicas: 2}");
  EXPECT_EQ(workload_wait(kStatefulSets, "x", &object), "StatefulSet x: 1 of 2 pods are ready");
  object = live("{observedGeneration: 2, readyReplicas: 2, updatedReplicas: 1}");
  EXPECT_EQ(workload_wait(kStatefulSets, "x", &object), "StatefulSet x: 1 of 2 pods run its newest version");
  object = live("{observedGeneration: 2, readyReplicas: 2, updatedReplicas: 2}");
  EXPECT_EQ(workload_wait(kStatefulSets, "x", &object), std::nullopt);
}

// A quota, a policy: no pod is there to ask.
TEST(WorkloadWait, SaysWhyADeploymentCannotMakePods) {
  const json::Value object = json::parse_yaml(R"(
spec: {replicas: 2}
status:
  conditions:
    - {type: Progressing, status: "True", message: fine}
    - {type: ReplicaFailure, status: "True", message: 'pods "x" is forbidden: exceeded quota'})");
  EXPECT_EQ(workload_wait(kDeployments, "x", &object),
            "Deployment x: 0 of 2 pods are ready: pods \"x\" is forbidden: exceeded quota");
}

}  // namespace
}  // namespace bascule::op::reconcile::test
