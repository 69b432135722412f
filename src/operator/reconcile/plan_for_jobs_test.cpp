// What plans leave as it is for the jobs that run.
#include "operator/reconcile/apply.hpp"
#include "operator/reconcile/conditions.hpp"
#include "operator/reconcile/key_change.hpp"
#include "operator/reconcile/test_view.hpp"

namespace bascule::op::reconcile::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const WallTime kNow = std::chrono::sys_days(std::chrono::year(2026) / 11 / 28);

std::string slurm_conf_of(const Plan& plan) {
  return std::string(json::string_at(child(plan, "ConfigMap"), {"data", "slurm.conf"}));
}

// The other way to another key, which the webhook allows: a second one in the Secret.
TEST(PlanForJobs, UntilSlurmctldTakesTheKeyOfAnotherNameNobodyIsMadeAnewForIt) {
  MapView view = whole_namespace();
  view.put(kConfigMaps, config_map("slurm-config", {{"slurm.conf", "x"}}));
  view.put(kSecrets, secret("login-ssh-host-keys", "k", "v"));
  json::Value object =
      custom(kControllers, "slurm",
             std::string(kController.substr(0, kController.rfind('}'))) + ", accountingRef: {name: slurm}}");
  json::Value accounting = custom(kAccountings, "slurm", kAccounting);
  view.put(kControllers, object);
  const auto made = [&] {
    const json::Value login = custom(kLoginSets, "login", kLoginSet);
    return std::vector{child(plan_restapi(custom(kRestApis, "slurm", kRestApi), view), "Deployment"),
                       child(plan_loginset(login, view, "cluster.local"), "Deployment"),
                       child(plan_accounting(accounting, view), "StatefulSet")};
  };
  const std::vector<json::Value> before = made();
  view.put(kStatefulSets, stamped(child(plan_controller(object, view, kNow), "StatefulSet")));
  view.put(kStatefulSets, stamped(before[2]));
  json::Value both = secret("auth", "slurm.key", "auth-key");
  json::at_or_create(both, {"data", "slurm2.key"}) = base64_encode("another");
  view.put(kSecrets, both);
  json::at_or_create(accounting, {"spec", "slurmKeyRef", "key"}) = "slurm2.key";
  EXPECT_EQ(made(), before) << "slurmdbd has the key of its Controllers, whichever changes first";
  json::at_or_create(object, {"spec", "slurmKeyRef", "key"}) = "slurm2.key";
  view.put(kControllers, object);
  EXPECT_EQ(made(), before);
  EXPECT_THAT(plan_accounting(accounting, view).notes, Contains(HasSubstr("slurmdbd keeps the auth/slurm key")));
  const Plan plan = plan_controller(object, view, kNow);
  ASSERT_TRUE(plan.key_wait);
  view.put(kStatefulSets, stamped(child(plan, "StatefulSet")));  // no job runs
  const std::vector<json::Value> after = made();
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_NE(after[i], before[i]) << i;
    EXPECT_THAT(json::dump(after[i]), HasSubstr("slurm2.key")) << i;
  }
}

TEST(PlanForJobs, AKeyWaitsForAllControllersOfAnAccounting) {
  MapView view = whole_namespace();
  const std::string spec =
      std::string(kController.substr(0, kController.rfind('}'))) + ", accountingRef: {name: slurm}}";
  const json::Value a = custom(kControllers, "a", spec);
  const json::Value b = custom(kControllers, "b", spec);
  for (const json::Value* one : {&a, &b}) {
    view.put(kControllers, *one);
    view.put(kStatefulSets, stamped(child(plan_controller(*one, view, kNow), "StatefulSet")));
  }
  const json::Value slurmdbd = stamped(child(plan_accounting(*view.find(kAccountings, "slurm"), view), "StatefulSet"));
  view.put(kStatefulSets, slurmdbd);
  json::Value set = custom(kNodeSets, "gpu", "{controllerRef: {name: a}, slurmd: {image: slurmd}}");
  set.get_object()["status"] = json::parse_yaml("{replicas: 1}");
  view.put(kNodeSets, set);
  view.put(kSecrets, secret("auth", "slurm.key", "another"));
  // Also one that names another Secret of the same content.
  view.put(kSecrets, secret("copy", "slurm.key", "another"));
  json::Value accounting = *view.find(kAccountings, "slurm");
  json::at_or_create(accounting, {"spec", "slurmKeyRef", "name"}) = "copy";
  EXPECT_EQ(stamped(child(plan_accounting(accounting, view), "StatefulSet")), slurmdbd);
  Plan plan = plan_controller(b, view, kNow);
  ASSERT_TRUE(plan.key_wait);
  ASSERT_THAT(plan.key_wait->beside, ::testing::SizeIs(1));
  EXPECT_EQ(plan.key_wait->beside[0].controller, "a");
  EXPECT_TRUE(plan.key_wait->beside[0].workers);
  // A has taken it.
  view.put(kStatefulSets, stamped(child(plan_controller(a, view, kNow), "StatefulSet")));
  plan = plan_controller(b, view, kNow);
  ASSERT_TRUE(plan.key_wait);
  EXPECT_THAT(plan.key_wait->beside, IsEmpty());
  EXPECT_EQ(stamped(child(plan_accounting(accounting, view), "StatefulSet")), slurmdbd) << "b has not";
}

// Made anew over what another Controller has left: the webhook sees a new object only.
TEST(PlanForJobs, ASlurmctldWhoseStateIsElsewhereStaysAsItIs) {
  const std::string base(kController.substr(0, kController.rfind('}')));
  const std::string claim_a = base + ", persistence: {enabled: true, existingClaim: a}}";
  const std::string claim_b = base + ", persistence: {enabled: true, existingClaim: b}}";
  const std::string none = base + ", persistence: {enabled: false}}";
  const std::string other_name = base + ", clusterName: other}";
  const std::pair<std::string, std::string> cases[] = {{claim_a, claim_b},
                                                       {std::string(kController), other_name},
                                                       {std::string(kController), claim_a},
                                                       {claim_a, std::string(kController)},
                                                       {std::string(kController), none},
                                                       {none, std::string(kController)}};
  for (const auto& [before, after] : cases) {
    MapView view = whole_namespace();
    const Plan first = plan_controller(custom(kControllers, "slurm", before), view, kNow);
    view.put(kConfigMaps, child(first, "ConfigMap"));
    view.put(kStatefulSets, stamped(child(first, "StatefulSet")));
    const Plan plan = plan_controller(custom(kControllers, "slurm", after), view, kNow);
    ASSERT_THAT(plan.faults, ::testing::SizeIs(1)) << before << after;
    EXPECT_EQ(plan.faults[0].reason, "StateElsewhere");
    EXPECT_THAT(plan.faults[0].sentence, HasSubstr("would start without its jobs"));
    EXPECT_THAT(children_of(plan), ElementsAre("Service slurm-controller-internal", "Service slurm-controller"));
    EXPECT_THAT(plan_controller(custom(kControllers, "slurm", before), view, kNow).faults, IsEmpty());
  }
}

// slurmctld ends the jobs of a partition that is no longer in slurm.conf.
TEST(PlanForJobs, LinesThatNoNodeSetAsksForStayUntilNoJobRunsThere) {
  MapView view = whole_namespace();
  const json::Value object = custom(kControllers, "slurm", kController);
  const auto set = [](std::string_view rest) {
    return custom(kNodeSets, "gpu", "{controllerRef: {name: slurm}, slurmd: {image: slurmd}" + std::string(rest) + "}");
  };
  view.put(kNodeSets, set(", partition: {enabled: true, config: MaxTime=60}"));
  view.put(kNodeSets, custom(kNodeSets, "other", kNodeSet));
  const std::string before = slurm_conf_of(plan_controller(object, view, kNow));
  ASSERT_THAT(before, HasSubstr("PartitionName=gpu Nodes=gpu MaxTime=60\n"));
  view.put(kConfigMaps, config_map("slurm-config", {{"slurm.conf", before}}));
  view.drop(kNodeSets, "gpu");
  const auto clear = [] { return ClusterStand{.rest = NodesStand::kClear}; };
  const auto conf = [&](const ClusterStand& stand) {
    return slurm_conf_of(plan_controller(object, view, kNow, stand));
  };
  ClusterStand open = clear();
  open.open_features = {{"gpu", "a100"}};
  ClusterStand busy = clear();
  busy.busy_partitions = {"gpu"};
  for (const ClusterStand& stand : {ClusterStand{}, ClusterStand{.rest = NodesStand::kUnknown}, open, busy}) {
    const Plan plan = plan_controller(object, view, kNow, stand);
    EXPECT_EQ(slurm_conf_of(plan), before) << "with nothing moved slurmctld is not made anew";
    EXPECT_TRUE(plan.keeps_lines);
    const auto keeps = HasSubstr("slurm.conf keeps the lines of gpu, which no NodeSet asks for");
    if (stand.rest == NodesStand::kUnknown) {
      EXPECT_THAT(waits_of(plan), Contains(keeps)) << "by itself nothing comes, and slurmctld may be down for it";
    } else {
      EXPECT_THAT(plan.notes, Contains(keeps));
    }
  }
  EXPECT_THAT(conf(clear()), Not(HasSubstr("gpu")));
  EXPECT_FALSE(plan_controller(object, view, kNow, clear()).keeps_lines);
  // Nodes of another NodeSet that have its name as a feature.
  ClusterStand others = clear();
  others.open = true;
  others.open_features = {{"gpu", "other"}};
  EXPECT_THAT(conf(others), Not(HasSubstr("gpu")));
  // Another hostname.
  view.put(kNodeSets, set(", partition: {enabled: true}, template: {spec: {hostname: big}}"));
  EXPECT_THAT(conf(open), ::testing::AllOf(HasSubstr("PartitionName=gpu"), HasSubstr("PartitionName=big")));
  EXPECT_THAT(conf(clear()), Not(HasSubstr("PartitionName=gpu")));
  // The partition alone: its nodes go on with other jobs.
  view.put(kNodeSets, set(""));
  EXPECT_THAT(conf(busy), HasSubstr("PartitionName=gpu Nodes=gpu MaxTime=60 State=DRAIN\n")) << "it is given no others";
  EXPECT_THAT(conf(open), ::testing::AllOf(HasSubstr("NodeSet=gpu"), Not(HasSubstr("PartitionName=gpu"))));
}

// A line that slurmctld dies of: it never answers, and nobody could say any more that no job runs.
TEST(PlanForJobs, LinesThatSlurmctldCannotStartWithGoByOrder) {
  MapView view = whole_namespace();
  json::Value object = custom(kControllers, "slurm", kController);
  json::Value set = custom(kNodeSets, "gpu",
                           "{controllerRef: {name: slurm}, slurmd: {image: slurmd}, partition: {enabled: true, config: "
                           "MaxTme=60}}");
  view.put(kNodeSets, set);
  const Plan first = plan_controller(object, view, kNow);
  view.put(kConfigMaps, child(first, "ConfigMap"));
  json::Value slurmctld = stamped(child(first, "StatefulSet"));
  slurmctld.get_object()["status"] = json::parse_yaml("{replicas: 1, readyReplicas: 0}");
  view.put(kStatefulSets, slurmctld);
  const ClusterStand unknown{.rest = NodesStand::kUnknown};
  const auto ready = [&] {
    const json::Object status = make_status(plan_controller(object, view, kNow, unknown), 1, json::Object(), kNow);
    return std::string(json::string_at(status.at("conditions").as_array().at(0), {"message"}));
  };
  const auto conf = [&] { return slurm_conf_of(plan_controller(object, view, kNow, unknown)); };
  const std::string order = "controller.slinky.slurm.net/drop-lines";
  // Its finalizer waits for slurmctld.
  json::at_or_create(set, {"metadata", "deletionTimestamp"}) = "2026-11-28T00:00:00Z";
  view.put(kNodeSets, set);
  EXPECT_THAT(ready(), ::testing::AllOf(HasSubstr("NodeSet gpu"), HasSubstr(order)));
  view.drop(kNodeSets, "gpu");
  EXPECT_THAT(ready(), ::testing::AllOf(HasSubstr("lines of gpu"), HasSubstr(order)));
  EXPECT_THAT(conf(), HasSubstr("MaxTme"));
  json::at_or_create(object, {"metadata", "annotations", order}) = "true";
  EXPECT_THAT(conf(), Not(HasSubstr("gpu")));
  EXPECT_THAT(ready(), Not(HasSubstr(order)));
  const Plan plan = plan_controller(object, view, kNow, unknown);
  EXPECT_FALSE(plan.keeps_lines);
  EXPECT_THAT(json::dump(child(plan, "StatefulSet")), Not(HasSubstr("drop-lines"))) << "it would roll once more";
  // Left on it ends no job of a slurmctld that answers.
  const ClusterStand open{.rest = NodesStand::kClear, .open = true, .open_features = {{"gpu"}}};
  EXPECT_THAT(slurm_conf_of(plan_controller(object, view, kNow, open)), HasSubstr("NodeSet=gpu"));
  view.put(kNodeSets, set);
  EXPECT_THAT(slurm_conf_of(plan_controller(object, view, kNow, open)), HasSubstr("NodeSet=gpu"));
  EXPECT_THAT(conf(), Not(HasSubstr("gpu")));
  EXPECT_THAT(ready(), Not(HasSubstr(order)));
  // What has gone does not come back and stop slurmctld again, while its NodeSet waits for the jobs.
  view.put(kConfigMaps, child(plan, "ConfigMap"));
  const Plan after = plan_controller(object, view, kNow, open);
  EXPECT_THAT(slurm_conf_of(after), Not(HasSubstr("gpu")));
  EXPECT_TRUE(after.keeps_lines);
}

// The key that the StatefulSet was made for is what its pods have, whatever has become of the Secret.
TEST(PlanForJobs, AControllerWhoseKeyIsMissingKeepsTheOneThatItHas) {
  MapView view = whole_namespace();
  const std::string spec =
      std::string(kController.substr(0, kController.rfind('}'))) + ", accountingRef: {name: slurm}}";
  const json::Value a = custom(kControllers, "a", spec);
  json::Value b = custom(kControllers, "b", spec);
  for (const json::Value* one : {&a, &std::as_const(b)}) {
    view.put(kControllers, *one);
    view.put(kStatefulSets, stamped(child(plan_controller(*one, view, kNow), "StatefulSet")));
  }
  json::Value accounting = *view.find(kAccountings, "slurm");
  const json::Value slurmdbd = stamped(child(plan_accounting(accounting, view), "StatefulSet"));
  view.put(kStatefulSets, slurmdbd);
  view.drop(kSecrets, "auth");
  view.put(kSecrets, secret("auth2", "slurm.key", "another"));
  json::at_or_create(accounting, {"spec", "slurmKeyRef", "name"}) = "auth2";
  json::Value taken = a;
  json::at_or_create(taken, {"spec", "slurmKeyRef", "name"}) = "auth2";
  view.put(kControllers, taken);
  const json::Value of_a = *view.find(kStatefulSets, "a-controller");
  view.drop(kStatefulSets, "a-controller");
  view.put(kStatefulSets, stamped(child(plan_controller(taken, view, kNow), "StatefulSet")));
  for (const bool readable : {true, false}) {
    if (!readable) json::at_or_create(b, {"spec", "ha"}) = json::parse_yaml("{enabled: perhaps}");
    view.put(kControllers, b);
    const Plan plan = plan_accounting(accounting, view);
    EXPECT_EQ(stamped(child(plan, "StatefulSet")), slurmdbd) << readable;
    EXPECT_THAT(plan.notes, Contains(HasSubstr("that Controller b has"))) << readable;
  }
  // Likewise beside a Controller that would take another.
  json::Value set = custom(kNodeSets, "gpu", "{controllerRef: {name: b}, slurmd: {image: slurmd}}");
  set.get_object()["status"] = json::parse_yaml("{replicas: 1}");
  view.put(kNodeSets, set);
  view.put(kStatefulSets, of_a);
  for (const json::Value& other : {custom(kControllers, "b", spec), b}) {
    view.put(kControllers, other);
    const Plan plan = plan_controller(taken, view, kNow);
    ASSERT_TRUE(plan.key_wait);
    ASSERT_THAT(plan.key_wait->beside, ::testing::SizeIs(1));
    EXPECT_EQ(plan.key_wait->beside[0].controller, "b");
  }
}

// Pods that start anew mount it.
TEST(PlanForJobs, ASecretWhoseKeyIsInUseIsMissed) {
  MapView view = whole_namespace();
  view.put(kConfigMaps, config_map("slurm-config", {{"slurm.conf", "x"}}));
  json::Value object = custom(kControllers, "slurm", kController);
  view.put(kStatefulSets, stamped(child(plan_controller(object, view, kNow), "StatefulSet")));
  view.put(kSecrets, secret("auth2", "slurm.key", "another"));
  json::at_or_create(object, {"spec", "slurmKeyRef", "name"}) = "auth2";
  view.put(kControllers, object);
  const auto waits = [&] {
    std::vector<std::string> all = waits_of(plan_controller(object, view, kNow));
    std::ranges::copy(waits_of(plan_restapi(custom(kRestApis, "slurm", kRestApi), view)), std::back_inserter(all));
    return all;
  };
  EXPECT_THAT(waits(), Not(Contains(HasSubstr("in use"))));
  view.drop(kSecrets, "auth");
  EXPECT_EQ(
      std::ranges::count_if(waits(),
                            [](const std::string& one) {
                              return one.starts_with("Secret auth, whose key slurm.key is in use, does not exist");
                            }),
      2);
}

}  // namespace
}  // namespace bascule::op::reconcile::test
