#include "json/patch.hpp"

#include <gmock/gmock.h>

#include <string>

#include "json/random_objects.hpp"

namespace bascule::json {
namespace {

using testing::HasSubstr;

std::string run(std::string_view target, std::string_view patch) {
  try {
    return dump(patched(parse(target), parse(patch)));
  } catch (const PatchError& error) {
    return error.what();
  }
}

// The examples of RFC 6902, appendix A, and its corners.
TEST(JsonPatch, DoesWhatTheRfcSays) {
  const struct {
    std::string_view target, patch, result;
  } cases[] = {
      {R"({"foo":"bar"})", R"([{"op":"add","path":"/baz","value":"qux"}])", R"({"foo":"bar","baz":"qux"})"},
      {R"({"foo":["bar","baz"]})", R"([{"op":"add","path":"/foo/1","value":"qux"}])", R"({"foo":["bar","qux","baz"]})"},
      {R"({"baz":"qux","foo":"bar"})", R"([{"op":"remove","path":"/baz"}])", R"({"foo":"bar"})"},
      {R"({"foo":["bar","qux","baz"]})", R"([{"op":"remove","path":"/foo/1"}])", R"({"foo":["bar","baz"]})"},
      {R"({"baz":"qux","foo":"bar"})", R"([{"op":"replace","path":"/baz","value":"boo"}])",
       R"({"baz":"boo","foo":"bar"})"},
      {R"({"foo":{"bar":"baz","waldo":"fred"},"qux":{"corge":"grault"}})",
       R"([{"op":"move","from":"/foo/waldo","path":"/qux/thud"}])",
       R"({"foo":{"bar":"baz"},"qux":{"corge":"grault","thud":"fred"}})"},
      {R"({"foo":["all","grass","cows","eat"]})", R"([{"op":"move","from":"/foo/1","path":"/foo/3"}])",
       R"({"foo":["all","cows","eat","grass"]})"},
      {R"({"baz":"qux","foo":["a",2,"c"]})",
       R"([{"op":"test","path":"/baz","value":"qux"},{"op":"test","path":"/foo/1","value":2.0}])",
       R"({"baz":"qux","foo":["a",2,"c"]})"},
      {R"({"foo":"bar"})", R"([{"op":"add","path":"/child","value":{"grandchild":{}},"xyz":1}])",
       R"({"foo":"bar","child":{"grandchild":{}}})"},
      {R"({"/":9,"~1":10})", R"([{"op":"test","path":"/~01","value":10},{"op":"remove","path":"/~1"}])",
       R"({"~1":10})"},
      {R"({"foo":["bar"]})", R"([{"op":"add","path":"/foo/-","value":["abc","def"]}])",
       R"({"foo":["bar",["abc","def"]]})"},
      {R"({"foo":1})", R"([{"op":"add","path":"","value":[]}])", "[]"},
      {R"({"":1})", R"([{"op":"replace","path":"/","value":2}])", R"({"":2})"},
      {R"({"a":{"b":1}})", R"([{"op":"copy","from":"/a","path":"/a/c"}])", R"({"a":{"b":1,"c":{"b":1}}})"},
      {R"({"a":1})", R"([{"op":"move","from":"/a","path":"/a"}])", R"({"a":1})"},
  };
  for (const auto& c : cases) EXPECT_EQ(run(c.target, c.patch), c.result) << c.patch;
}

TEST(JsonPatch, RefusesWithASentence) {
  EXPECT_THAT(run("{}", R"([{"op":"remove","path":"/a/b"}])"),
              HasSubstr("\"/a\" is not there (operation 0: remove /a/b)"));
  EXPECT_THAT(run(R"({"a":1})", R"([{"op":"test","path":"/a","value":2}])"), HasSubstr("the value is 1"));
  EXPECT_THAT(run(R"({"a":[]})", R"([{"op":"add","path":"/a/1","value":2}])"), HasSubstr("behind the end"));
  EXPECT_THAT(run(R"({"a":[1,2]})", R"([{"op":"add","path":"/a/01","value":2}])"), HasSubstr("no place in a list"));
  EXPECT_THAT(run(R"({"a":[1]})", R"([{"op":"remove","path":"/a/-"}])"), HasSubstr("is not there"));
  EXPECT_THAT(run(R"({"a":{}})", R"([{"op":"move","from":"/a","path":"/a/b"}])"), HasSubstr("into itself"));
  EXPECT_THAT(run("{}", R"([{"op":"add","path":"/a"}])"), HasSubstr("\"value\" is missing"));
  EXPECT_THAT(run("{}", R"([{"op":"add","path":"a","value":1}])"), HasSubstr("must begin with /"));
  EXPECT_THAT(run("{}", R"([{"op":"add","path":"/~2","value":1}])"), HasSubstr("~0 or ~1"));
  EXPECT_THAT(run("{}", R"([{"op":"frob","path":""}])"), HasSubstr("op is not"));
  EXPECT_THAT(run("{}", "{}"), HasSubstr("list of operations"));
}

TEST(JsonPatch, AppliesAllOrNothing) {
  Value target = parse(R"({"a":1})");
  EXPECT_THROW(apply_patch(target, parse(R"([{"op":"add","path":"/b","value":1},{"op":"remove","path":"/c"}])")),
               PatchError);
  EXPECT_EQ(dump(target), R"({"a":1})");
}

TEST(JsonPatch, BoundsGrowth) {
  std::string doubling = "[";
  for (int i = 0; i < 60; ++i)
    doubling += R"({"op":"copy","from":"","path":"/a"},{"op":"copy","from":"","path":"/b"},)";
  doubling.back() = ']';
  EXPECT_THAT(run("{}", doubling), HasSubstr("beyond all bounds"));
}

TEST(Patches, DiffTurnsOneIntoTheOther) {
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    random::Objects random(seed, 1 + seed % 4);
    const auto* type = StrategicSchema::of("Pod").type();
    const Value from = random.object(type);
    const Value to = random.changed(from.get_object(), type);
    const Array operations = diff_patch(from, to);
    ASSERT_TRUE(equal(patched(from, operations), to)) << seed << dump(from) << dump(to) << dump(operations);
    const Value merge = diff_merge(from, to);
    ASSERT_TRUE(equal(merged(from, merge), to)) << seed << dump(from) << dump(to) << dump(merge);
    ASSERT_TRUE(diff_patch(to, to).empty());
    ASSERT_EQ(dump(diff_merge(to, to)), "{}");
  }
}

TEST(Patches, DiffOfListsTouchesTheMiddleOnly) {
  EXPECT_EQ(dump(diff_patch(parse("[1,2,3,4]"), parse("[1,3,4]"))), R"([{"op":"remove","path":"/1"}])");
  EXPECT_EQ(dump(diff_patch(parse("[1,4]"), parse("[1,2,3,4]"))),
            R"([{"op":"add","path":"/1","value":2},{"op":"add","path":"/2","value":3}])");
  EXPECT_EQ(dump(diff_patch(parse("1"), parse("2"))), R"([{"op":"replace","path":"","value":2}])");
}

// RFC 7396, appendix A.
TEST(MergePatch, DoesWhatTheRfcSays) {
  const std::string_view cases[][3] = {
      {R"({"a":"b"})", R"({"a":"c"})", R"({"a":"c"})"},
      {R"({"a":"b"})", R"({"b":"c"})", R"({"a":"b","b":"c"})"},
      {R"({"a":"b"})", R"({"a":null})", "{}"},
      {R"({"a":"b","b":"c"})", R"({"a":null})", R"({"b":"c"})"},
      {R"({"a":["b"]})", R"({"a":"c"})", R"({"a":"c"})"},
      {R"({"a":"c"})", R"({"a":["b"]})", R"({"a":["b"]})"},
      {R"({"a":{"b":"c"}})", R"({"a":{"b":"d","c":null}})", R"({"a":{"b":"d"}})"},
      {R"({"a":[{"b":"c"}]})", R"({"a":[1]})", R"({"a":[1]})"},
      {R"(["a","b"])", R"(["c","d"])", R"(["c","d"])"},
      {R"({"a":"b"})", R"(["c"])", R"(["c"])"},
      {R"({"a":"foo"})", "null", "null"},
      {R"({"a":"foo"})", R"("bar")", R"("bar")"},
      {R"({"e":null})", R"({"a":1})", R"({"e":null,"a":1})"},
      {R"([1,2])", R"({"a":"b","c":null})", R"({"a":"b"})"},
      {"{}", R"({"a":{"bb":{"ccc":null}}})", R"({"a":{"bb":{}}})"},
  };
  for (const auto& c : cases) EXPECT_EQ(dump(merged(parse(c[0]), parse(c[1]))), c[2]) << c[1];
}

}  // namespace
}  // namespace bascule::json
