#include "operator/config/parameters.hpp"

#include <gtest/gtest.h>

namespace bascule::op {
namespace {

TEST(MergedParametersTest, OnlyWhatTheUserSets) {
  EXPECT_EQ(merged_parameters("", {{"Foo", {"bar", "baz"}}}), "");
  EXPECT_EQ(merged_parameters("Foo=fizz,buzz", {{"Foo", {"bar", "baz"}}}), "Foo=bar,baz,buzz,fizz");
  EXPECT_EQ(merged_parameters("Foo=fizz,buzz,", {{"Foo", {"bar", "baz"}}}), "Foo=bar,baz,buzz,fizz");
  EXPECT_EQ(merged_parameters("Foo=fizz,overlap,buzz", {{"Foo", {"bar", "overlap", "baz"}}}),
            "Foo=bar,baz,buzz,fizz,overlap");
}

TEST(MergedParametersTest, OptionsOfMembersAreOurs) {
  EXPECT_EQ(merged_parameters("Foo=bar,opt=1", {{"Foo", {"this", "that=2"}}}), "Foo=bar,opt=1,that=2,this");
  EXPECT_EQ(merged_parameters("Foo=overlap=1", {{"Foo", {"overlap=0"}}}), "Foo=overlap=0");
}

TEST(MergedParametersTest, KeysWithoutCaseMembersAsSpelled) {
  EXPECT_EQ(merged_parameters("foo=bar,overlap\nfizz=buzz,overlap",
                              {{"Foo", {"Thing", "Overlap"}}, {"Fizz", {"Thing", "Overlap"}}, {"Absent", {"a"}}}),
            "Fizz=Overlap,Thing,buzz\nFoo=Overlap,Thing,bar");
  // A5: values were written in lower case.
  EXPECT_EQ(merged_parameters("AuthAltParameters=UserClaimField=Name", {{"AuthAltParameters", {"jwt_key=/k"}}}),
            "AuthAltParameters=UserClaimField=Name,jwt_key=/k");
}

TEST(MergedParametersTest, ReadsLinesAsSlurmDoes) {
  const Required required{{"Foo", {"x"}}};
  EXPECT_EQ(merged_parameters("# Foo=no\n  Foo = a,b  # why\n#Foo=no\r\n", required), "Foo=a,b,x");
  EXPECT_EQ(merged_parameters("Foo=a\nFoo=b", required), "Foo=b,x");
  EXPECT_EQ(merged_parameters("Foo=a,\\\nb,\\\nc", required), "Foo=a,b,c,x");
  EXPECT_EQ(merged_parameters("Foo=a,\\", required), "Foo=a,x");
  EXPECT_EQ(merged_parameters("Foo=a Bar=b", required), "Foo=a,x");
  EXPECT_EQ(merged_parameters("Bar = b\tFoo = a Baz", required), "Foo=a,x");
  EXPECT_EQ(merged_parameters("Bar=\"c Foo=d\" Foo=\"a b,c\"", required), "Foo=\"a b,c,x\"");
  EXPECT_EQ(merged_parameters("Foo=\"a", required), "Foo=\"a,x") << "Slurm will complain of it";
  EXPECT_EQ(merged_parameters("NodeName=n CPUs=1\nFoo\n=1\nFoo=", required), "");
}

TEST(OptionsTest, InOrderAsTheyAreSpelled) {
  std::string text;
  for (const Option& option : options_of("B=1 a = 2\nInclude x\nb=\"c D=3\" # E=4")) {
    text += option.key + ":" + option.value + ";";
  }
  EXPECT_EQ(text, "B:1;a:2;b:c D=3;");
  EXPECT_EQ(parse_options("B=1\nb=2"), (std::map<std::string, std::string>{{"b", "2"}}));
}

TEST(MergedParametersTest, Auth) {
  EXPECT_EQ(auth_alt_parameters(true), "jwt_key=/etc/slurm/jwt.key,jwks=/etc/slurm/jwks.json");
  EXPECT_EQ(auth_parameters(true).at("AuthAltParameters").size(), 2U);
  EXPECT_EQ(auth_parameters(false).at("AuthAltParameters").size(), 1U);
}

}  // namespace
}  // namespace bascule::op
