#include "json/yaml.hpp"

#include <gmock/gmock.h>

#include <fstream>
#include <string>

namespace bascule::json {
namespace {

using testing::HasSubstr;

std::string error_of(std::string_view text, YamlLimits limits = {}) {
  try {
    parse_yaml_all(text, limits);
  } catch (const ParseError& error) {
    return error.what();
  }
  return "no error";
}

// What sigs.k8s.io/yaml, the reader of kubectl, makes of some hundred texts (tools/oracle/go/yaml.go).
TEST(Yaml, AgreesWithKubectl) {
  std::ifstream file(BASCULE_SOURCE_DIR "/src/json/testdata/yaml.jsonl");
  int cases = 0;
  for (std::string line; std::getline(file, line); ++cases) {
    const Value expected = parse(line);
    const std::string_view text = string_at(expected, {"yaml"});
    Value ours;
    std::string error;
    try {
      ours = parse_yaml(text);
    } catch (const ParseError& e) {
      error = e.what();
    }
    if (const Value* value = find(expected, {"value"})) {
      EXPECT_TRUE(error.empty() && equal(*value, ours)) << line << "\n  ours: " << dump(ours) << " " << error;
    } else {
      EXPECT_FALSE(error.empty()) << line << "\n  ours: " << dump(ours);
    }
  }
  EXPECT_GT(cases, 300);
}

TEST(Yaml, ReadsSeveralDocuments) {
  const auto documents = parse_yaml_all("a: 1\n---\n# nothing\n---\n- x\n---\n");
  ASSERT_EQ(documents.size(), 2u);
  EXPECT_EQ(dump(documents[0]), R"({"a":1})");
  EXPECT_EQ(dump(documents[1]), R"(["x"])");
  EXPECT_TRUE(parse_yaml("").is_null());
  EXPECT_THROW(parse_yaml("a: 1\n---\nb: 1\n"), ParseError);
}

TEST(Yaml, SaysWhere) {
  EXPECT_THAT(error_of("a: 1\nb:\n  c: 1\n  c: 2\n"), HasSubstr("line 4, column 3: key \"c\" is there twice"));
  EXPECT_THAT(error_of("a: [1\n"), HasSubstr("line"));
  EXPECT_THAT(error_of("a: .inf"), HasSubstr("column 4"));
}

TEST(Yaml, AStrayCommaIsNoDocument) {
  for (const char* text : {", a", "[]\n, a: b", "{} ,", "a: b\n---\n,"}) {
    EXPECT_THAT(error_of(text), HasSubstr("a value is expected here")) << text;
  }
  EXPECT_EQ(error_of("---\n---\n--- \n...\n---\n"), "no error");
}

TEST(Yaml, BoundsAliases) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before;
    for (int n = 0; n < 9; ++n) bomb += ", " + before;
    bomb += "]\n";
  }
  EXPECT_THAT(error_of(bomb), HasSubstr("more than 1000000 values"));
  std::string texts = "a: &a " + std::string(100'000, 'x') + "\nb: [*a";
  for (int i = 0; i < 10'000; ++i) texts += ", *a";
  EXPECT_THAT(error_of(texts + "]\n"), HasSubstr("more than"));
}

TEST(Yaml, BoundsDepth) {
  EXPECT_THAT(error_of(std::string(65, '[') + std::string(65, ']')), HasSubstr("deeper than 64"));
  EXPECT_EQ(error_of(std::string(64, '[') + std::string(64, ']')), "no error");
  EXPECT_THAT(error_of("a: &a [[[[1]]]]\nb: [[[*a]]]", {.depth = 7}), HasSubstr("deeper"));
  EXPECT_NE(error_of(std::string(100'000, '[')), "no error");
}

}  // namespace
}  // namespace bascule::json
