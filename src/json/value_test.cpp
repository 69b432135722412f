#include "json/value.hpp"

#include <gmock/gmock.h>

#include <limits>
#include <string>

namespace bascule::json {
namespace {

using testing::HasSubstr;

TEST(Value, ParsesStrictly) {
  EXPECT_EQ(dump(parse(R"( {"a":[1,-2,18446744073709551615,1.5,true,null,"x\u00e9"]} )")),
            "{\"a\":[1,-2,18446744073709551615,1.5,true,null,\"xé\"]}");
  for (const std::string_view bad : {"", " ", "{", "[1,]", "{\"a\":1,}", "nul", "01", "1 2", "{\"a\" 1}", "'a'",
                                     "\"\x01\"", "\"\xff\"", "[1]]", "// x", "NaN", "\"\\x\"", "+1", ".5"}) {
    EXPECT_THROW(parse(bad), ParseError) << bad;
  }
}

TEST(Value, SaysWhereParsingFailed) {
  try {
    parse("{\"a\": [1, x]}");
    FAIL();
  } catch (const ParseError& error) {
    EXPECT_EQ(error.offset(), 10u) << error.what();
  }
  try {
    parse("{} {}");
    FAIL();
  } catch (const ParseError& error) {
    EXPECT_EQ(error.offset(), 3u) << error.what();
  }
}

TEST(Value, LastOfARepeatedKeyWins) {
  EXPECT_EQ(dump(parse(R"({"a":1,"b":2,"a":3})")), R"({"a":3,"b":2})");
}

TEST(Value, BoundsDepthAndSize) {
  const auto nested = [](std::size_t n) { return std::string(n, '[') + std::string(n, ']'); };
  EXPECT_NO_THROW(parse(nested(64)));
  EXPECT_THROW(parse(nested(65)), LimitError);
  EXPECT_THROW(parse(nested(1'000'000)), LimitError);
  EXPECT_THROW(parse("[1,2,3]", {.bytes = 6}), LimitError);
}

TEST(Value, WritesNumbersAsGoDoes) {
  EXPECT_EQ(dump(Array{1.0, -0.5, 1e20, 1e21, 1e-6, 1e-7, 123456789.25, 0.1}),
            "[1,-0.5,100000000000000000000,1e+21,0.000001,1e-07,123456789.25,0.1]");
  EXPECT_EQ(dump(Array{std::numeric_limits<double>::infinity()}), "[null]");
  EXPECT_EQ(dump(Value(std::numeric_limits<double>::max())), "1.7976931348623157e+308");
  EXPECT_EQ(dump(Value(std::numeric_limits<double>::denorm_min())), "5e-324");
}

TEST(Value, Escapes) {
  EXPECT_EQ(dump(Value("a\"\\/\n\r\t\b\x01<é")), "\"a\\\"\\\\/\\n\\r\\t\\u0008\\u0001<é\"");
  EXPECT_EQ(parse(dump(Value("a\"\\\n\x1f"))), Value("a\"\\\n\x1f"));
}

TEST(Value, DumpsPretty) {
  EXPECT_EQ(dump_pretty(parse(R"({"a":[1,{}],"b":[],"c":{"d":null}})")),
            "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": [],\n  \"c\": {\n    \"d\": null\n  }\n}\n");
}

TEST(Value, FindsByPath) {
  const Value v = parse(R"({"a":{"s":"x","i":3,"d":4.0,"b":true,"l":[1],"o":{},"n":null,"u":18446744073709551615}})");
  EXPECT_EQ(string_at(v, {"a", "s"}), "x");
  EXPECT_EQ(string_at(v, {"a", "i"}, "none"), "none");
  EXPECT_EQ(string_at(v, {"a", "s", "t"}, "none"), "none");
  EXPECT_EQ(int_at(v, {"a", "i"}), 3);
  EXPECT_EQ(int_at(v, {"a", "d"}), 4);
  EXPECT_EQ(int_at(v, {"a", "u"}), std::nullopt);
  EXPECT_EQ(int_at(v, {"a", "s"}), std::nullopt);
  EXPECT_TRUE(bool_at(v, {"a", "b"}));
  EXPECT_TRUE(bool_at(v, {"a", "n"}, true));
  EXPECT_EQ(array_at(v, {"a", "l"})->size(), 1u);
  EXPECT_EQ(array_at(v, {"a", "o"}), nullptr);
  EXPECT_NE(object_at(v, {"a", "o"}), nullptr);
  EXPECT_EQ(find(v, {}), &v);
  EXPECT_EQ(find(v, {"a", "l", "0"}), nullptr);
}

TEST(Value, CreatesPaths) {
  Value v;
  at_or_create(v, {"a", "b"}) = 1;
  at_or_create(v, {"a", "c", "d"}) = 2;
  EXPECT_EQ(dump(v), R"({"a":{"b":1,"c":{"d":2}}})");
  try {
    at_or_create(v, {"a", "b", "x"});
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_STREQ(error.what(), "a.b: expected an object");
  }
}

TEST(Value, EqualityIsOfJson) {
  EXPECT_TRUE(equal(parse(R"({"a":1,"b":[2,3]})"), parse(R"({"b":[2.0,3],"a":1e0})")));
  EXPECT_TRUE(equal(Value(std::uint64_t{7}), Value(std::int64_t{7})));
  EXPECT_FALSE(equal(Value(std::uint64_t{1} << 63), Value(std::numeric_limits<std::int64_t>::min())));
  EXPECT_FALSE(equal(Value(9007199254740993), Value(9007199254740992.0)));
  EXPECT_FALSE(equal(Value(std::numeric_limits<std::uint64_t>::max()), Value(18446744073709551616.0)));
  EXPECT_FALSE(equal(parse("[1,2]"), parse("[2,1]")));
  EXPECT_FALSE(equal(parse(R"({"a":null})"), parse("{}")));
  EXPECT_FALSE(equal(Value(true), Value(1)));
  EXPECT_TRUE(equal(Value(0.0), Value(-0.0)));
}

}  // namespace
}  // namespace bascule::json
