#include "json/hot.hpp"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace bascule::json {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Reads a as what `read` makes of it.
template <class Read>
auto read_a(std::string_view text, Read read) {
  decltype(read(std::declval<hot::Value>())) out{};
  hot::parse(text, [&](std::string_view key, hot::Value value) {
    if (key == "a") out = read(value);
  });
  return out;
}

const auto kAsString = [](hot::Value v) {
  const auto text = v.string();
  return text ? std::optional<std::string>(*text) : std::nullopt;
};
const auto kAsInteger = [](hot::Value v) { return v.integer(); };
const auto kAsScalar = [](hot::Value v) { return std::string(v.scalar().value_or("none")); };
const auto kAsRaw = [](hot::Value v) { return std::string(v.raw()); };

TEST(Hot, ReadsScalars) {
  EXPECT_EQ(read_a(R"({"b":[1,{"a":2}],"a":"x\n\u00e9"})", kAsString), "x\né");
  EXPECT_EQ(read_a(R"({"a":-42})", kAsInteger), -42);
  EXPECT_EQ(read_a(R"({"a":3.0})", kAsInteger), 3);
  EXPECT_EQ(read_a(R"({"a":1e3})", kAsInteger), 1000);
  EXPECT_EQ(read_a(R"({"a":true})", [](hot::Value v) { return v.boolean(); }), true);
  EXPECT_EQ(read_a(R"({"a":1.5})", [](hot::Value v) { return v.real(); }), 1.5);
}

TEST(Hot, NullAndAbsentAreAlike) {
  for (const std::string_view text : {R"({"a":null})", R"({"b":1})", "{}"}) {
    EXPECT_EQ(read_a(text, kAsString), std::nullopt);
    EXPECT_EQ(read_a(text, kAsInteger), std::nullopt);
    EXPECT_EQ(read_a(text, [](hot::Value v) { return v.boolean(); }), std::nullopt);
  }
  int calls = 0;
  hot::parse(R"({"a":null,"b":null})", [&](std::string_view key, hot::Value value) {
    if (key == "a") value.items([&](hot::Value) { ++calls; });
    if (key == "b") value.fields([&](std::string_view, hot::Value) { ++calls; });
  });
  EXPECT_EQ(calls, 0);
}

TEST(Hot, ReadsTextOfQuantitiesAndRawParts) {
  EXPECT_EQ(read_a(R"({"a":"100m"})", kAsScalar), "100m");
  EXPECT_EQ(read_a(R"({"a": 2 })", kAsScalar), "2");
  EXPECT_EQ(read_a(R"({"a":1.50,"b":1})", kAsScalar), "1.50");
  EXPECT_EQ(read_a(R"({"a":null})", kAsScalar), "none");
  EXPECT_EQ(read_a(R"({"a": {"x": [1, "}"] } ,"b":2})", kAsRaw), R"({"x": [1, "}"] })");
  EXPECT_EQ(read_a(R"({"a": [1,2] })", kAsRaw), "[1,2]");
  EXPECT_EQ(read_a(R"({"a": "x\"y" })", kAsRaw), R"("x\"y")");
}

TEST(Hot, WalksNested) {
  std::vector<std::string> seen;
  hot::parse(R"({"l":[{"n":"x","skip":{"deep":[[]]}},{"n":"y"}],"m":{"k":"v"},"z":1})",
             [&](std::string_view key, hot::Value value) {
               if (key == "l") {
                 value.items([&](hot::Value item) {
                   item.fields([&](std::string_view name, hot::Value v) {
                     if (name == "n") seen.push_back(v.path() + "=" + std::string(*v.string()));
                   });
                 });
               } else if (key == "m") {
                 value.fields([&](std::string_view name, hot::Value v) {
                   seen.push_back(std::string(name) + "=" + std::string(*v.string()));
                 });
               }
             });
  EXPECT_THAT(seen, ElementsAre("l[0].n=x", "l[1].n=y", "k=v"));
}

template <class Error, class Read>
std::string error_of(std::string_view text, Read read) {
  try {
    hot::parse(text, [&](std::string_view, hot::Value value) { read(value); });
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(Hot, WrongKindNamesThePath) {
  EXPECT_EQ(error_of<ShapeError>(R"({"a":5})", kAsString), "a: expected a string");
  EXPECT_EQ(error_of<ShapeError>(R"({"a":"5"})", kAsInteger), "a: expected an integer");
  EXPECT_EQ(error_of<ShapeError>(R"({"a":1.5})", kAsInteger), "a: expected an integer");
  EXPECT_EQ(error_of<ShapeError>(R"({"a":99999999999999999999})", kAsInteger), "a: expected an integer");
  EXPECT_EQ(error_of<ShapeError>(R"({"a":{}})", kAsInteger), "a: expected an integer");
  EXPECT_EQ(error_of<ShapeError>(R"({"a":[]})", kAsScalar), "a: expected a string or a number");
  EXPECT_EQ(error_of<ShapeError>(R"({"a":[1,"x"]})", [](hot::Value v) { v.items([](hot::Value i) { i.integer(); }); }),
            "a[1]: expected an integer");
  EXPECT_EQ(error_of<ShapeError>(R"({"a":"x"})", [](hot::Value v) { v.fields([](std::string_view, hot::Value) {}); }),
            "a: expected an object");
  EXPECT_EQ(error_of<ShapeError>("[1]", kAsString), "the document: expected an object");
}

TEST(Hot, BrokenTextIsAParseError) {
  const auto deep = [](hot::Value v) { v.fields([](std::string_view, hot::Value w) { w.string(); }); };
  for (const std::string_view bad : {"", "{", R"({"a")", R"({"a":)", R"({"a":{"b":"c})", R"({"a":{"b":"c"})",
                                     R"({"a":{}} x)", R"({"a":{"b" "c"}})", "{\"a\":{\"b\":\"\xff\"}}"}) {
    EXPECT_THAT(error_of<ParseError>(bad, deep), HasSubstr("not JSON")) << bad;
  }
}

// The parser must be usable after every kind of failure.
TEST(Hot, ParserSurvivesErrors) {
  hot::Parser parser;
  const auto ignore = [](std::string_view, hot::Value) {};
  EXPECT_THROW(parser.parse("{", ignore), ParseError);
  EXPECT_THROW(parser.parse(R"({"a":1})", [](std::string_view, hot::Value v) { v.string(); }), ShapeError);
  EXPECT_THROW(parser.parse(R"({"a":1})", [](std::string_view, hot::Value v) { v.refuse("better"); }), ShapeError);
  std::int64_t a = 0;
  parser.parse(R"({"a":1})", [&](std::string_view, hot::Value v) { a = *v.integer(); });
  EXPECT_EQ(a, 1);
}

TEST(Hot, ReadsWhatTheSplitterCut) {
  ListSplitter splitter;
  const std::string text = R"({"items":[{"name":"a"},{"name":"b"}]})";
  splitter.feed(text);
  std::string names;
  hot::Parser parser;
  while (const auto item = splitter.next()) {
    parser.parse_padded(*item, [&](std::string_view, hot::Value v) { names += *v.string(); });
  }
  EXPECT_EQ(names, "ab");
}

}  // namespace
}  // namespace bascule::json
