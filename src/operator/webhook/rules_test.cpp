// Accounting, RestApi, LoginSet, Token, and all kinds at once.
#include <gtest/gtest.h>

#include <random>

#include "operator/webhook/test_objects.hpp"

namespace bascule::op {
namespace {

using testing::Case;
using testing::changed;
using testing::created;
using ::testing::ElementsAre;
using testing::expect_only;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::object;
using ::testing::SizeIs;
using testing::texts;

constexpr Kind kKinds[] = {Kind::kController, Kind::kAccounting, Kind::kRestApi,
                           Kind::kLoginSet,   Kind::kNodeSet,    Kind::kToken};

TEST(rules, kinds_have_names) {
  EXPECT_EQ(kind_of("nodeset"), Kind::kNodeSet);
  EXPECT_EQ(kind_of("restapi"), Kind::kRestApi);
  EXPECT_EQ(kind_of("NodeSet"), std::nullopt);
  EXPECT_EQ(to_string(Kind::kRestApi), "RestApi");
}

TEST(rules, accounting) {
  const Case cases[] = {
      {"{storageConfig: {host: db, database: slurm_acct_db, username: slurm}}", ""},
      {"{}", ""},
      {"{storageConfig: {host: \"db\\nStorageUser=root\"}}", "spec.storageConfig.host: holds a newline"},
      {"{storageConfig: {username: 'a b'}}", ""},                                             // quoted in the file
      {"{storageConfig: {database: '\"a b'}}", "spec.storageConfig.database: holds quotes"},  // A12
      {"{external: true, externalConfig: {host: h, port: 65536}}",
       "spec.externalConfig.port: is 65536; it must be from 0"},
  };
  for (const Case& one : cases) expect_only(created(Kind::kAccounting, object(one.spec)), one.fault, one.spec);
  EXPECT_THAT(texts(created(Kind::kAccounting, object("{}")).warnings),
              ElementsAre(HasSubstr("spec.storageConfig: is missing")));
  EXPECT_THAT(created(Kind::kAccounting, object("{external: true}")).warnings, IsEmpty());
  expect_only(
      changed(Kind::kAccounting, object("{jwtKeyRef: {name: a, key: k}}"), object("{jwtKeyRef: {name: b, key: k}}")),
      "spec.jwtKeyRef: cannot be changed", "jwt");
  expect_only(created(Kind::kAccounting, object("{}", std::string(42, 'a'))), "metadata.name: has 42", "A14");
}

TEST(rules, restapi) {
  const auto with = [](std::string_view spec) { return created(Kind::kRestApi, object(spec)); };
  expect_only(with("{controllerRef: {name: c}, replicas: 2}"), "", "");
  expect_only(with("{controllerRef: {name: c}, replicas: -2}"), "spec.replicas: is -2; it must be from 0", "");
  EXPECT_THAT(texts(with("{controllerRef: {}}").warnings), SizeIs(1));
  EXPECT_THAT(texts(with("{controllerRef: {name: c}, service: {spec: {externalIPs: [1.2.3.4]}}}").warnings),
              ElementsAre(HasSubstr("Service slurm-restapi")));
  expect_only(changed(Kind::kRestApi, object("{controllerRef: {name: c}}"), object("{controllerRef: {name: d}}")), "",
              "may follow another");
}

TEST(rules, loginset) {
  const Case cases[] = {
      {"{controllerRef: {name: c}, sssdConfRef: {name: s, key: k}}", ""},
      {"{controllerRef: {}, sssdConfRef: {name: s, key: k}}", "spec.controllerRef.name: is empty"},
      {"{controllerRef: {name: c}, sssdConfRef: {key: k}}", "spec.sssdConfRef.name: is empty"},
      {"{controllerRef: {name: c}, sssdConfRef: {name: s, key: k}, strategy: {type: Rolling}}",
       "spec.strategy.type: 'Rolling'"},
      {"{controllerRef: {name: c}, sssdConfRef: {name: s, key: k}, strategy: {type: Recreate}}", ""},
  };
  for (const Case& one : cases) expect_only(created(Kind::kLoginSet, object(one.spec)), one.fault, one.spec);
  const json::Value before = object("{controllerRef: {name: c}, sssdConfRef: {name: s, key: k}}");
  expect_only(changed(Kind::kLoginSet, before, object("{controllerRef: {name: d}, sssdConfRef: {name: s, key: k}}")),
              "spec.controllerRef: cannot be changed from 'c' to 'd'", "");
  expect_only(changed(Kind::kLoginSet, before,
                      object("{controllerRef: {name: c}, sssdConfRef: {name: t, key: k}, replicas: 3}")),
              "", "");
}

TEST(rules, token) {
  const Case cases[] = {
      {"{username: ada}", ""},
      {"{lifetime: 15m}", ""},
      {"{lifetime: 10s}", ""},
      {"{lifetime: 9s}", "spec.lifetime: '9s' is too short"},  // A36
      {"{lifetime: 0s}", "spec.lifetime: '0s' is too short"},
      {"{lifetime: -1h}", "spec.lifetime: '-1h' is too short"},
      {"{lifetime: day}", "spec.lifetime: is \"day\"; it must be a duration"},
      {"{lifetime: 876000h}", ""},
      {"{secretRef: {key: k}}", "spec.secretRef.name: is empty"},
      {"{secretRef: {name: s, key: k}}", ""},
  };
  for (const Case& one : cases) expect_only(created(Kind::kToken, object(one.spec)), one.fault, one.spec);
  expect_only(changed(Kind::kToken, object("{jwtKeyRef: {name: a, key: k}}"), object("{jwtKeyRef: {name: b, key: k}}")),
              "spec.jwtKeyRef: cannot be changed", "");
}

// Rules that meet what the CRD would not have let through stay silent or say a sentence; they never fail.
TEST(rules, any_shape_at_all) {
  const std::uint32_t seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  const char* fields[] = {"clusterName",
                          "controllerRef",
                          "externalConfig",
                          "service",
                          "storageConfig",
                          "configFileRefs",
                          "updateStrategy",
                          "template",
                          "ssh",
                          "extraConf",
                          "volumeClaimTemplates",
                          "persistence",
                          "ha",
                          "lifetime",
                          "replicas",
                          "ordinalPadding",
                          "jwtKeyRef"};
  const char* values[] = {"null",
                          "true",
                          "-9223372036854775808",
                          "1e300",
                          "\"\"",
                          "\"a b\"",
                          "[]",
                          "[null,1,{\"name\":3}]",
                          "{}",
                          "{\"name\":{}}",
                          "{\"spec\":{\"hostname\":7,\"externalIPs\":{}}}",
                          "{\"rollingUpdate\":{\"maxUnavailable\":{}}}",
                          "{\"enabled\":true,\"port\":-1}"};
  const auto any = [&] {
    json::Object spec;
    for (const char* field : fields) {
      if (random() % 2 == 0) spec[field] = json::parse(values[random() % std::size(values)]);
    }
    return json::Value(
        json::Object{{"metadata", json::Object{{"name", "x"}, {"namespace", "y"}}}, {"spec", std::move(spec)}});
  };
  for (int round = 0; round < 3000; ++round) {
    const json::Value before = any();
    const json::Value after = any();
    for (const Kind kind : kKinds) {
      for (const json::Value* old : {static_cast<const json::Value*>(nullptr), &before}) {
        for (const Finding& fault : examine(kind, after, old, {}).faults) {
          ASSERT_FALSE(fault.field.empty() || fault.sentence.empty());
        }
      }
      EXPECT_THAT(examine(kind, after, &after, {}).faults, IsEmpty());
      wanted(kind, after);
    }
  }
}

}  // namespace
}  // namespace bascule::op
