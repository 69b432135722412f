#include "operator/reconcile/apply.hpp"

#include <gtest/gtest.h>

#include <random>

#include "json/patch.hpp"
#include "json/yaml.hpp"

namespace bascule::op::reconcile {
namespace {

json::Value yaml(std::string_view text) {
  return json::parse_yaml(text);
}

const char* const kWanted = R"(
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: x, namespace: n, ownerReferences: [{kind: Controller, name: c, uid: u1, controller: true}]}
spec:
  serviceName: x-internal
  template: {spec: {containers: [{name: a, resources: {limits: {cpu: 1000m}}, env: [{name: E, value: ""}]}]}}
)";

// As the API server keeps it.
json::Value live_of(const json::Value& wanted) {
  json::Value live = wanted;
  for (const char* key : {"apiVersion", "kind"}) live.get_object().erase(key);  // as items of a list come
  json::at_or_create(live, {"metadata", "resourceVersion"}) = "7";
  json::at_or_create(live, {"metadata", "uid"}) = "live-uid";
  json::at_or_create(live, {"spec", "podManagementPolicy"}) = "OrderedReady";
  json::at_or_create(live, {"status", "replicas"}) = 1;
  return live;
}

TEST(Judge, NothingIsWrittenAtRest) {
  const json::Value wanted = stamped(yaml(kWanted));
  const json::Value live = live_of(wanted);
  EXPECT_EQ(judge(wanted, &live, {}), Verdict::kKeep);
  EXPECT_EQ(judge(wanted, nullptr, {}), Verdict::kCreate);
}

TEST(Judge, AFieldNoLongerWantedIsNoticed) {
  const json::Value before = stamped(yaml(kWanted));
  json::Value less = yaml(kWanted);
  less.at("spec").get_object().erase("template");
  const json::Value live = live_of(before);
  EXPECT_EQ(judge(stamped(less), &live, {}), Verdict::kApply) << "all it says is so, but it says less than before";
}

TEST(Judge, WhatOthersChangeOfOursIsPutBack) {
  const json::Value wanted = stamped(yaml(kWanted));
  json::Value live = live_of(wanted);
  json::at_or_create(live, {"metadata", "labels", "theirs"}) = "x";
  EXPECT_EQ(judge(wanted, &live, {}), Verdict::kKeep) << "what they add stays";
  live.at("spec").at("template").at("spec").at("containers").get_array()[0].get_object()["resources"] =
      yaml("{limits: {cpu: 2}}");
  EXPECT_EQ(judge(wanted, &live, {}), Verdict::kApply);
}

TEST(Judge, WhatTheServerMadeOfItIsNoChange) {
  const json::Value wanted = stamped(yaml(kWanted));
  json::Value live = live_of(wanted);
  live.at("spec").get_object()["template"] = yaml("{spec: {containers: [{name: a, image: normalised}]}}");
  EXPECT_EQ(judge(wanted, &live, {}), Verdict::kApply);
  Applied last{.stamp = std::string(json::string_at(wanted, {"metadata", "annotations", kStamp})),
               .before = "6",
               .digest = digest_of(live)};
  json::at_or_create(live, {"status", "replicas"}) = 3;
  json::at_or_create(live, {"metadata", "resourceVersion"}) = "9";
  EXPECT_EQ(judge(wanted, &live, last), Verdict::kKeep);
  json::at_or_create(live, {"spec", "template", "spec", "hostNetwork"}) = true;
  EXPECT_EQ(judge(wanted, &live, last), Verdict::kApply);
}

TEST(Judge, ACacheBehindOurOwnWriteIsNoReasonToWriteAgain) {
  const json::Value wanted = stamped(yaml(kWanted));
  json::Value other = yaml(kWanted);
  other.at("spec").get_object()["replicas"] = 2;
  const json::Value live = live_of(stamped(other));
  const Applied last{
      .stamp = std::string(json::string_at(wanted, {"metadata", "annotations", kStamp})), .before = "7", .digest = "d"};
  EXPECT_EQ(judge(wanted, &live, last), Verdict::kKeep);
  EXPECT_EQ(judge(wanted, &live, {}), Verdict::kApply);
}

// After a restore of etcd the version of then may be there again, with something else in it.
TEST(Judge, ACacheThatIsBehindForLongIsNotBelieved) {
  const json::Value wanted = stamped(yaml(kWanted));
  json::Value other = yaml(kWanted);
  other.at("spec").get_object()["replicas"] = 2;
  const json::Value live = live_of(stamped(other));
  const TimePoint then{std::chrono::hours(1)};
  const Applied last{.stamp = std::string(json::string_at(wanted, {"metadata", "annotations", kStamp})),
                     .before = "7",
                     .digest = "d",
                     .at = then};
  EXPECT_EQ(judge(wanted, &live, last, then + std::chrono::seconds(59)), Verdict::kKeep);
  EXPECT_EQ(judge(wanted, &live, last, then + std::chrono::seconds(60)), Verdict::kAsk);
  const json::Value own = live_of(wanted);
  EXPECT_EQ(judge(wanted, &own, last, then + std::chrono::hours(1)), Verdict::kKeep) << "it changed nothing";
}

TEST(Judge, NeverTakesOverAndNeverTouchesWhatGoes) {
  const json::Value wanted = stamped(yaml(kWanted));
  json::Value live = live_of(wanted);
  live.at("metadata").get_object()["ownerReferences"] =
      yaml("[{kind: Controller, name: other, uid: u2, controller: true}]");
  EXPECT_EQ(judge(wanted, &live, {}), Verdict::kForeign);
  live.at("metadata").get_object()["deletionTimestamp"] = "2026-11-28T00:00:00Z";
  EXPECT_EQ(judge(wanted, &live, {}), Verdict::kGoing);
}

// A Controller that was deleted without its children, to be made anew.
TEST(Judge, AChildOfOursWithoutAnOwnerIsAdopted) {
  json::Value plain = yaml(kWanted);
  json::at_or_create(plain, {"metadata", "labels"}) =
      yaml("{app.kubernetes.io/name: slurmctld, app.kubernetes.io/instance: x}");
  const json::Value wanted = stamped(plain);
  json::Value live = live_of(wanted);
  json::Object& meta = live.at("metadata").get_object();
  meta.erase("ownerReferences");
  EXPECT_EQ(judge(wanted, &live, {}), Verdict::kAdopt);
  meta.erase("annotations");
  EXPECT_EQ(judge(wanted, &live, {}), Verdict::kAdopt) << "of slurm-operator, which stamps nothing";
  meta["labels"].get_object()["app.kubernetes.io/instance"] = "another";
  EXPECT_EQ(judge(wanted, &live, {}), Verdict::kForeign);
  meta.erase("labels");
  EXPECT_EQ(judge(wanted, &live, {}), Verdict::kForeign);
  EXPECT_EQ(judge(stamped(yaml(kWanted)), &live, {}), Verdict::kForeign) << "no labels are no proof";
  meta["annotations"] = json::Object{{kStamp, "of another version"}};
  EXPECT_EQ(judge(wanted, &live, {}), Verdict::kAdopt);
  meta["ownerReferences"] = yaml("[{kind: Controller, name: other, uid: u2, controller: true}]");
  EXPECT_EQ(judge(wanted, &live, {}), Verdict::kForeign);
  meta["ownerReferences"] = yaml("[{kind: Team, name: t, uid: u3}]");
  EXPECT_EQ(judge(wanted, &live, {}), Verdict::kAdopt);
  adopt_owners(wanted, live);
  EXPECT_EQ(*json::find(live, {"metadata", "ownerReferences"}),
            yaml("[{kind: Team, name: t, uid: u3}, {kind: Controller, name: c, uid: u1, controller: true}]"));
  EXPECT_EQ(judge(wanted, &live, {}), Verdict::kApply);
}

TEST(Judge, SharedChildrenAreOursByTheKindOfTheirOwners) {
  const json::Value wanted = stamped(yaml(R"(
{kind: Service, metadata: {name: w, ownerReferences: [{apiVersion: slinky.slurm.net/v1beta1, kind: NodeSet, uid: a}]}})"));
  json::Value live = live_of(wanted);
  live.at("metadata").get_object()["ownerReferences"] =
      yaml("[{apiVersion: slinky.slurm.net/v1beta1, kind: NodeSet, uid: gone}]");
  EXPECT_EQ(judge(wanted, &live, {}), Verdict::kApply);
  live.at("metadata").get_object()["ownerReferences"] = yaml("[{apiVersion: v1, kind: ConfigMap, uid: a}]");
  EXPECT_EQ(judge(wanted, &live, {}), Verdict::kForeign);
}

TEST(Judge, AnotherServiceNameMakesAStatefulSetAnew) {  // W42
  const json::Value wanted = stamped(yaml(kWanted));
  json::Value live = live_of(wanted);
  live.at("spec").get_object()["serviceName"] = "x";
  EXPECT_EQ(judge(wanted, &live, {}), Verdict::kRecreate);
}

TEST(Judge, AnImmutableSecretIsMadeAnewToChange) {  // W33
  const char* const text = R"(
{kind: Secret, immutable: false, data: {k: QQ==}, metadata: {name: s, ownerReferences: [{uid: u, controller: true}]}})";
  const json::Value wanted = stamped(yaml(text));
  json::Value live = live_of(wanted);
  live.get_object()["immutable"] = true;
  EXPECT_EQ(judge(wanted, &live, {}), Verdict::kRecreate);
  json::Value frozen = yaml(text);
  frozen.get_object()["immutable"] = true;
  EXPECT_EQ(judge(stamped(frozen), &live, {}), Verdict::kApply) << "metadata may still be written";
  live.get_object()["data"].get_object()["k"] = "Qg==";
  EXPECT_EQ(judge(stamped(frozen), &live, {}), Verdict::kRecreate);
}

TEST(TakeOver, FieldsOfSlurmOperatorBecomeOurs) {
  const auto fields = taken_over_fields(yaml(R"(
metadata:
  managedFields:
    - {manager: manager, operation: Update, fieldsV1: {a: {}}}
    - {manager: kube-controller-manager, operation: Update, subresource: status, fieldsV1: {b: {}}}
    - {manager: manager, operation: Update, subresource: status, fieldsV1: {c: {}}})"));
  ASSERT_TRUE(fields);
  EXPECT_EQ(json::string_at(fields->at(0), {"manager"}), kFieldManager);
  EXPECT_EQ(json::string_at(fields->at(0), {"operation"}), "Apply");
  EXPECT_EQ(json::string_at(fields->at(1), {"manager"}), "kube-controller-manager");
  EXPECT_EQ(json::string_at(fields->at(2), {"manager"}), "manager");
  EXPECT_FALSE(taken_over_fields(json::Object{{"metadata", json::Object{{"managedFields", *fields}}}})) << "once";
  EXPECT_FALSE(taken_over_fields(json::Object{}));
}

TEST(Judge, ATokenSecretOfSlurmOperatorIsAdopted) {
  const json::Value wanted =
      stamped(yaml("{kind: Secret, metadata: {name: s, ownerReferences: [{kind: Token, uid: t, controller: true}]}}"));
  json::Value live = live_of(wanted);
  live.at("metadata").get_object()["ownerReferences"] = yaml("[{kind: Secret, uid: key, controller: true}]");
  EXPECT_EQ(judge(wanted, &live, {}), Verdict::kAdopt);
  adopt_owners(wanted, live);
  EXPECT_EQ(*json::find(live, {"metadata", "ownerReferences"}), yaml("[{kind: Token, uid: t, controller: true}]"));
}

TEST(PatchBefore, OnlyWhereRecreateMeetsLimits) {
  const json::Value recreate = yaml("{kind: Deployment, spec: {strategy: {type: Recreate}}}");
  const json::Value rolling = yaml(
      "{kind: Deployment, metadata: {uid: u}, spec: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1}}}}");
  EXPECT_EQ(patch_before(recreate, rolling),
            yaml("{metadata: {uid: u}, spec: {strategy: {type: Recreate, rollingUpdate: null}}}"));
  EXPECT_EQ(patch_before(recreate, recreate), std::nullopt);
  EXPECT_EQ(patch_before(rolling, rolling), std::nullopt);
  EXPECT_EQ(patch_before(rolling, recreate), std::nullopt);
}

// The API server takes only one of the two bounds, and one that somebody else wrote goes with no application of ours.
TEST(PatchBefore, ABudgetHasOneBound) {
  const json::Value wanted = yaml("{kind: PodDisruptionBudget, spec: {minAvailable: 7}}");
  EXPECT_EQ(patch_before(wanted, yaml("{metadata: {uid: u}, spec: {maxUnavailable: 0}}")),
            yaml("{metadata: {uid: u}, spec: {minAvailable: 7, maxUnavailable: null}}"));
  EXPECT_EQ(patch_before(wanted, yaml("{metadata: {uid: u}, spec: {minAvailable: 1}}")), std::nullopt);
}

TEST(Covers, ListsByNameAndAmountsByValue) {
  EXPECT_TRUE(covers(yaml("[{name: b, x: 1}, {name: a}]"), yaml("[{name: a}]")));
  EXPECT_FALSE(covers(yaml("[{name: b}]"), yaml("[{name: a}]")));
  EXPECT_TRUE(covers(yaml("{requests: {memory: 1Gi}}"), yaml("{requests: {memory: 1024Mi}}")));
  EXPECT_TRUE(covers(yaml("{limits: {cpu: '1'}}"), yaml("{limits: {cpu: 1}}")));
  EXPECT_FALSE(covers(yaml("{data: {x: 1Gi}}"), yaml("{data: {x: 1024Mi}}"))) << "text is text";
  EXPECT_TRUE(covers(yaml("{}"), yaml("{emptyDir: {}, args: [], value: ''}")));
  EXPECT_FALSE(covers(yaml("{}"), yaml("{replicas: 0}")));
  EXPECT_FALSE(covers(yaml("{a: [1, 2]}"), yaml("{a: [2, 1]}")));
}

// Whatever somebody does to a child: after one application by the rules of the server it rests.
TEST(Judge, ConvergesFromAnyChange) {
  std::mt19937 random(20261128);
  const json::Value wanted = stamped(yaml(kWanted));
  for (int i = 0; i < 500; ++i) {
    json::Value live = live_of(wanted);
    json::Object& spec = live.at("spec").get_object();
    switch (random() % 4) {
      case 0:
        spec.erase("template");
        break;
      case 1:
        spec["template"] = random() % 2 ? json::Value(7) : json::Value(json::Object());
        break;
      case 2:
        live.at("metadata").at("annotations").get_object()[kStamp] = std::to_string(random());
        break;
      default:
        spec["extra"] = random() % 3;
        break;
    }
    if (judge(wanted, &live, {}) == Verdict::kApply) json::apply_merge(live, wanted);
    EXPECT_EQ(judge(wanted, &live, {}), Verdict::kKeep) << json::dump(live);
  }
}

}  // namespace
}  // namespace bascule::op::reconcile
