#include "json/strategic.hpp"

#include <gmock/gmock.h>

#include <fstream>
#include <string>

#include "json/random_objects.hpp"

namespace bascule::json {
namespace {

using testing::HasSubstr;

Value pod(std::string_view text) {
  return parse(text);
}

std::string merge(std::string_view kind, std::string_view target, std::string_view patch) {
  return dump(strategic_merged(parse(target), parse(patch), StrategicSchema::of(kind)));
}

std::string refusal(std::string_view kind, std::string_view target, std::string_view patch) {
  try {
    return merge(kind, target, patch);
  } catch (const PatchError& error) {
    return error.what();
  }
}

// Cases with the answers of Kubernetes' own library (tools/oracle/run with GOLDEN set makes the file).
TEST(Strategic, AgreesWithKubernetes) {
  std::ifstream file(BASCULE_SOURCE_DIR "/src/json/testdata/strategic.jsonl");
  int cases = 0;
  int refused = 0;
  for (std::string line; std::getline(file, line); ++cases) {
    const Value golden = parse(line);
    const auto schema = StrategicSchema::of(string_at(golden, {"kind"}));
    const Value* expected = find(golden, {"result"});
    try {
      const Value ours = strategic_merged(golden.at("from"), golden.at("patch"), schema);
      ASSERT_TRUE(expected && equal(ours, *expected)) << line << "\n  ours: " << dump(ours);
    } catch (const PatchError& error) {
      ASSERT_FALSE(expected) << line << "\n  " << error.what();
      ++refused;
    }
  }
  EXPECT_GE(cases, 300);
  EXPECT_GT(refused, 5);
}

TEST(Strategic, DiffTurnsOneIntoTheOther) {
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    random::Objects random(seed, 1 + seed % 4);
    const std::string_view kinds[] = {"Pod", "Node", "Deployment", "Service", "StatefulSet", "PodTemplateSpec"};
    const auto schema = StrategicSchema::of(kinds[seed % std::size(kinds)]);
    const Value from = random.object(schema.type());
    const Value to = random.changed(from.get_object(), schema.type());
    Value patch;
    try {
      patch = diff_strategic(from, to, schema);
    } catch (const PatchError& error) {
      EXPECT_THAT(error.what(), HasSubstr("out of order")) << seed;
      continue;
    }
    ASSERT_TRUE(equal(strategic_merged(from, patch, schema), to)) << "seed " << seed << "\n"
                                                                  << dump(from) << "\n"
                                                                  << dump(to) << "\n"
                                                                  << dump(patch);
    ASSERT_EQ(dump(diff_strategic(to, to, schema)), "{}") << seed;
  }
}

TEST(Strategic, MergesByTheKeyOfThePlace) {
  EXPECT_EQ(merge("Pod", R"({"spec":{"containers":[{"name":"a","ports":[{"containerPort":1,"name":"x"}]}]}})",
                  R"({"spec":{"containers":[{"name":"a","ports":[{"containerPort":1,"protocol":"UDP"}]}]}})"),
            R"({"spec":{"containers":[{"name":"a","ports":[{"containerPort":1,"name":"x","protocol":"UDP"}]}]}})");
  EXPECT_EQ(merge("Service", R"({"spec":{"ports":[{"port":1,"name":"x"}]}})",
                  R"({"spec":{"ports":[{"port":1,"protocol":"UDP"},{"port":2}]}})"),
            R"({"spec":{"ports":[{"port":1,"name":"x","protocol":"UDP"},{"port":2}]}})");
  // Taints and tolerations have no merge key: a patch replaces them all.
  EXPECT_EQ(merge("Node", R"({"spec":{"taints":[{"key":"a"}]}})", R"({"spec":{"taints":[{"key":"b"}]}})"),
            R"({"spec":{"taints":[{"key":"b"}]}})");
}

TEST(Strategic, ObeysDirectives) {
  const std::string_view two = R"({"spec":{"volumes":[{"name":"a","emptyDir":{}},{"name":"b","emptyDir":{}}]}})";
  EXPECT_EQ(merge("Pod", two, R"({"spec":{"volumes":[{"name":"a","$patch":"delete"}]}})"),
            R"({"spec":{"volumes":[{"name":"b","emptyDir":{}}]}})");
  EXPECT_EQ(merge("Pod", two, R"({"spec":{"volumes":[{"$patch":"replace"},{"name":"c"}]}})"),
            R"({"spec":{"volumes":[{"name":"c"}]}})");
  EXPECT_EQ(merge("Pod", two, R"({"spec":{"$setElementOrder/volumes":[{"name":"b"},{"name":"a"}]}})"),
            R"({"spec":{"volumes":[{"name":"b","emptyDir":{}},{"name":"a","emptyDir":{}}]}})");
  EXPECT_EQ(merge("Pod", two,
                  R"({"spec":{"volumes":[{"name":"a","hostPath":{},"$retainKeys":["name","hostPath"]},
                      {"name":"b","$retainKeys":["name"]}]}})"),
            R"({"spec":{"volumes":[{"name":"a","hostPath":{}},{"name":"b"}]}})");
  EXPECT_EQ(merge("Pod", R"({"metadata":{"finalizers":["a","b","c"]}})",
                  R"({"metadata":{"$deleteFromPrimitiveList/finalizers":["b"],"finalizers":["d"]}})"),
            R"({"metadata":{"finalizers":["d","a","c"]}})");  // without $setElementOrder new items come first
  EXPECT_EQ(merge("Pod", R"({"spec":{"a":1}})", R"({"spec":{"$patch":"replace","b":2}})"), R"({"spec":{"b":2}})");
  EXPECT_EQ(merge("Pod", R"({"spec":{"a":1}})", R"({"spec":{"$patch":"delete"}})"), R"({"spec":{}})");
}

TEST(Strategic, RefusesWithASentence) {
  const std::string_view base = R"({"spec":{"volumes":[{"name":"a"}],"affinity":{"x":{}}}})";
  EXPECT_THAT(refusal("Pod", base, R"({"spec":{"volumes":[{"emptyDir":{}}]}})"),
              HasSubstr("lacks its merge key \"name\""));
  EXPECT_THAT(refusal("Pod", base, R"({"spec":{"$patch":"merge"}})"), HasSubstr("replace or delete"));
  EXPECT_THAT(refusal("Pod", base, R"({"spec":{"affinity":{"x":{}}}})"), HasSubstr("Affinity has no field \"x\""));
  EXPECT_THAT(refusal("Pod", base, R"({"spec":{"$setElementOrder/volumes":3}})"), HasSubstr("needs lists"));
  EXPECT_THROW(StrategicSchema::of("NodeSet"), PatchError);
  EXPECT_THROW(strategic_merged(Array(), Object(), StrategicSchema::of("Pod")), PatchError);
}

TEST(Strategic, RefusalChangesNothing) {
  Value target = pod(R"({"metadata":{"name":"a"},"spec":{"volumes":[{"name":"a"}]}})");
  const Value before = target;
  EXPECT_THROW(apply_strategic(target, parse(R"({"metadata":{"name":"b"},"spec":{"volumes":[{}]}})"),
                               StrategicSchema::of("Pod")),
               PatchError);
  EXPECT_EQ(target, before);
}

TEST(Strategic, DiffSaysOnlyWhatChanged) {
  const auto schema = StrategicSchema::of("Pod");
  const Value from = pod(R"({"metadata":{"labels":{"a":"1","b":"2"},"finalizers":["x"]},
      "spec":{"containers":[{"name":"c","image":"i:1","args":["1"]},{"name":"d"}]}})");
  const Value to = pod(R"({"metadata":{"labels":{"a":"1","c":"3"}},
      "spec":{"containers":[{"name":"c","image":"i:2","args":["1"]},{"name":"d"}]}})");
  EXPECT_TRUE(equal(diff_strategic(from, to, schema), parse(R"({
      "metadata":{"labels":{"b":null,"c":"3"},"finalizers":null},
      "spec":{"containers":[{"name":"c","image":"i:2"}],
              "$setElementOrder/containers":[{"name":"c"},{"name":"d"}]}})")))
      << dump(diff_strategic(from, to, schema));
}

TEST(Strategic, DiffOfRepeatedKeysReplacesTheList) {
  const auto schema = StrategicSchema::of("Service");
  const Value from = parse(R"({"spec":{"ports":[{"port":53,"protocol":"UDP"},{"port":53,"protocol":"TCP"}]}})");
  const Value to =
      parse(R"({"spec":{"ports":[{"port":53,"protocol":"TCP"},{"port":53,"protocol":"SCTP"},{"port":80}]}})");
  EXPECT_TRUE(equal(strategic_merged(from, diff_strategic(from, to, schema), schema), to));
  const Value apart = parse(R"({"spec":{"ports":[{"port":53},{"port":80},{"port":53,"protocol":"UDP"}]}})");
  EXPECT_THROW(diff_strategic(from, apart, schema), PatchError);
}

TEST(Strategic, DiffInsideMapsAndOpaqueFields) {
  const auto schema = StrategicSchema::of("ResourceSlice");
  const Value from = parse(R"({"spec":{"sharedCounters":[{"name":"a"}],"nodeSelector":{}},"x":{"y":{"z":1}}})");
  Value to = from;
  at_or_create(to, {"x", "y", "z"}) = 2;
  EXPECT_THROW(diff_strategic(from, to, schema), PatchError);
  const auto revision = StrategicSchema::of("ControllerRevision");
  const Value old_data = parse(R"({"data":{"spec":{"a":1}}})");
  const Value new_data = parse(R"({"data":{"spec":{"b":{}}}})");
  EXPECT_TRUE(equal(strategic_merged(old_data, diff_strategic(old_data, new_data, revision), revision), new_data));
}

}  // namespace
}  // namespace bascule::json
