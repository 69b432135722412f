#include "net/http.hpp"

#include <gtest/gtest.h>

namespace bascule::net {
namespace {

TEST(Headers, NamesCompareWithoutCaseAndKeepTheirOrder) {
  Headers headers;
  headers.add("Content-Type", "a");
  headers.add("X-One", "1");
  headers.add("content-type", "b");
  EXPECT_EQ(headers.get("CONTENT-TYPE"), "a");
  EXPECT_TRUE(headers.has("x-one"));
  EXPECT_FALSE(headers.has("x-on"));
  EXPECT_EQ(headers.get("missing"), "");
  EXPECT_EQ(headers.fields().size(), 3U);
}

TEST(Headers, SetReplacesEveryFieldOfTheName) {
  Headers headers;
  headers.add("A", "1");
  headers.add("B", "2");
  headers.add("a", "3");
  headers.set("a", "4");
  headers.set("C", "5");
  ASSERT_EQ(headers.fields().size(), 3U);
  EXPECT_EQ(headers.fields()[0], (std::pair<std::string, std::string>("A", "4")));
  EXPECT_EQ(headers.fields()[1], (std::pair<std::string, std::string>("B", "2")));
  EXPECT_EQ(headers.fields()[2], (std::pair<std::string, std::string>("C", "5")));
}

TEST(PercentCoding, KeepsUnreservedCharactersOnly) {
  EXPECT_EQ(percent_encode("aZ09-._~"), "aZ09-._~");
  EXPECT_EQ(percent_encode("a=b,c in (d)/%"), "a%3Db%2Cc%20in%20%28d%29%2F%25");
  EXPECT_EQ(percent_encode("\xC3\xA9"), "%C3%A9");
}

TEST(PercentCoding, DecodesWhatItEncodes) {
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  EXPECT_EQ(percent_decode(percent_encode(all)), all);
  EXPECT_EQ(percent_decode("a+b"), "a+b");
}

TEST(PercentCoding, RefusesBrokenEscapes) {
  for (const char* text : {"%", "%a", "a%2", "%zz", "%2g", "x%%20"}) {
    EXPECT_THROW(percent_decode(text), std::invalid_argument) << text;
  }
}

TEST(Target, SplitsPathAndQuery) {
  const Target target = parse_target("/api/v1/pods?labelSelector=a%3Db%2Cc&watch=1&empty=&flag&a+b=c+d&&watch=2");
  EXPECT_EQ(target.path, "/api/v1/pods");
  EXPECT_EQ(target.get("labelSelector"), "a=b,c");
  EXPECT_EQ(target.get("watch"), "1");
  EXPECT_EQ(target.get("empty"), "");
  EXPECT_EQ(target.get("flag"), "");
  EXPECT_EQ(target.get("a b"), "c d");
  EXPECT_EQ(target.get("none"), "");
  EXPECT_EQ(target.query.size(), 6U);
}

TEST(Target, KeepsThePathEncodedAndTakesTheAbsoluteForm) {
  EXPECT_EQ(parse_target("/a%2Fb").path, "/a%2Fb");
  EXPECT_EQ(parse_target("http://host:1/x?y=z").path, "/x");
  EXPECT_EQ(parse_target("http://host:1").path, "/");
  EXPECT_EQ(parse_target("?y=z").get("y"), "z");
  EXPECT_THROW(parse_target("/x?a=%"), std::invalid_argument);
}

TEST(Error, SaysWhetherTheRequestCanHaveHadAnEffect) {
  EXPECT_TRUE(Error(Error::Kind::kUnreachable, "x").surely_not_sent());
  EXPECT_FALSE(Error(Error::Kind::kDeadline, "x").surely_not_sent());
  EXPECT_TRUE(Error(Error::Kind::kDeadline, "x", Error::Sent::kNo).surely_not_sent());
  EXPECT_EQ(to_string(Error::Kind::kTooLarge), "too large");
}

}  // namespace
}  // namespace bascule::net
