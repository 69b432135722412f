#include "slurm/hostlist.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <random>

namespace bascule::slurm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string error_of(std::string_view text, HostlistLimits limits = {}) {
  const auto names = expand_hostlist(text, limits);
  return names ? "no error" : names.error();
}

std::vector<std::string> expand(std::string_view text) {
  return expand_hostlist(text).value();
}

TEST(Hostlist, Expands) {
  EXPECT_THAT(expand("n1"), ElementsAre("n1"));
  EXPECT_THAT(expand("n[1-2,4]"), ElementsAre("n1", "n2", "n4"));
  EXPECT_THAT(expand("n[08-11]"), ElementsAre("n08", "n09", "n10", "n11"));
  EXPECT_THAT(expand("n[9-11]"), ElementsAre("n9", "n10", "n11"));
  EXPECT_THAT(expand("n[1-2,5],a,b[3,03]"), ElementsAre("n1", "n2", "n5", "a", "b3", "b03"));
  EXPECT_THAT(expand("rack[1-2]-gpu[008-009]"),
              ElementsAre("rack1-gpu008", "rack1-gpu009", "rack2-gpu008", "rack2-gpu009"));
  EXPECT_THAT(expand("n[1-2]-ib.example_x"), ElementsAre("n1-ib.example_x", "n2-ib.example_x"));
  EXPECT_THAT(expand("[1-2]"), ElementsAre("1", "2"));
  EXPECT_THAT(expand("n[1][2-3]"), ElementsAre("n12", "n13"));
  EXPECT_THAT(expand("a[1-2].b[3-4].c"), ElementsAre("a1.b3.c", "a1.b4.c", "a2.b3.c", "a2.b4.c"));
  EXPECT_THAT(expand("n1,n1"), ElementsAre("n1", "n1"));
}

TEST(Hostlist, SaysWhatIsWrong) {
  EXPECT_THAT(error_of(""), HasSubstr("empty"));
  EXPECT_THAT(error_of("a,,b"), HasSubstr("name was expected at byte 2"));
  EXPECT_THAT(error_of("a,"), HasSubstr("name is missing"));
  EXPECT_THAT(error_of("n[1-2"), HasSubstr("not closed"));
  EXPECT_THAT(error_of("n["), HasSubstr("not closed"));
  EXPECT_THAT(error_of("n[1[2]]"), HasSubstr("at byte 3"));
  EXPECT_THAT(error_of("n[2-1]"), HasSubstr("goes down"));
  EXPECT_THAT(error_of("n 1"), HasSubstr("cannot be in a name"));
  EXPECT_THAT(error_of("n1]"), HasSubstr("cannot be in a name"));
  EXPECT_THAT(error_of("n[]"), HasSubstr("number was expected"));
  EXPECT_THAT(error_of("n[1-]"), HasSubstr("number was expected"));
  EXPECT_THAT(error_of("n[a]"), HasSubstr("number was expected"));
  EXPECT_THAT(error_of("n[1234567890123456789]"), HasSubstr("18 digits"));
  EXPECT_THAT(error_of("n[0-99999999]"), HasSubstr("more than 1000000 names"));
  EXPECT_THAT(error_of("n[1-2000][1-2000]"), HasSubstr("more than 1000000 names"));
  EXPECT_THAT(error_of("n[1-9],m[1-9]", {.names = 10}), HasSubstr("more than 10 names"));
  EXPECT_THAT(error_of("abcdef", {.bytes = 3}), HasSubstr("6 bytes"));
  EXPECT_THAT(error_of(std::string(300, 'x')), HasSubstr("longer than 255"));
  EXPECT_THAT(error_of("x[000000000000000001-999999999999999999]"), HasSubstr("more than"));
}

TEST(Hostlist, CountsAndContainsWithoutExpanding) {
  const Hostlist list = Hostlist::parse("rack[1-100]-gpu[001-100],login,x[1-2]3");
  EXPECT_EQ(list.count(), 10003u);
  EXPECT_TRUE(list.contains("rack7-gpu042"));
  EXPECT_TRUE(list.contains("login"));
  EXPECT_TRUE(list.contains("x13"));
  EXPECT_FALSE(list.contains("x12"));
  EXPECT_FALSE(list.contains("rack07-gpu042"));
  EXPECT_FALSE(list.contains("rack7-gpu42"));
  EXPECT_FALSE(list.contains("rack101-gpu001"));
  EXPECT_FALSE(list.contains(""));
  EXPECT_FALSE(Hostlist().contains("a"));
  EXPECT_TRUE(Hostlist::parse("n[1-200]5").contains("n1155"));
}

// The lines are those of scontrol show hostlist, 26.05: it keeps the order and joins neighbours only.
TEST(Hostlist, FormatsAsSlurmDoes) {
  const auto format = [](std::vector<std::string> names) { return format_hostlist(names); };
  EXPECT_EQ(format({}), "");
  EXPECT_EQ(format({"n1"}), "n1");
  EXPECT_EQ(format({"n1", "n2", "n4"}), "n[1-2,4]");
  EXPECT_EQ(format({"n9", "n10", "n11"}), "n[9-11]");
  EXPECT_EQ(format({"n08", "n09", "n10"}), "n[08-10]");
  EXPECT_EQ(format({"n1", "n2", "n5", "a", "b3", "b03"}), "n[1-2,5],a,b[3,03]");
  EXPECT_EQ(format({"rack1-gpu008", "rack1-gpu009", "rack2-gpu008"}), "rack1-gpu[008-009],rack2-gpu008");
  EXPECT_EQ(format({"n3", "n1", "n2"}), "n[3,1-2]");
  EXPECT_EQ(format({"n1", "n1"}), "n[1,1]");
  EXPECT_EQ(format({"login", "login"}), "login,login");
  EXPECT_EQ(format({"n1-ib", "n2-ib"}), "n1-ib,n2-ib");
  EXPECT_EQ(format({"n099", "n100", "n0101"}), "n[099-100,0101]");
  EXPECT_EQ(format({"1", "2"}), "[1-2]");
  EXPECT_EQ(format({"n99", "n100", "n101"}), "n[99-101]");
  EXPECT_EQ(format({"n1", "n01", "n2"}), "n[1,01,2]");
  EXPECT_EQ(format({"a1b2", "a1b3", "a2b2"}), "a1b[2-3],a2b2");
  EXPECT_EQ(format({"n0", "n00", "n000"}), "n[0,00,000]");
  EXPECT_EQ(format({"n9", "n010", "n11"}), "n[9,010,11]");
  EXPECT_EQ(format({"n1", "m1", "n2"}), "n1,m1,n2");
  EXPECT_EQ(format({"n99999999", "n100000000"}), "n[99999999-100000000]");
}

std::string random_name(std::mt19937_64& random) {
  static constexpr std::string_view kLetters = "ab-_.01";
  std::string name;
  const std::size_t length = 1 + random() % 4;
  for (std::size_t i = 0; i < length; ++i) name += kLetters[random() % kLetters.size()];
  if (random() % 4 != 0) {
    const std::string number = std::to_string(random() % 30);
    if (random() % 2 != 0) name.append(random() % 3, '0');
    name += number;
  }
  return name;
}

TEST(Hostlist, WhatIsFormattedExpandsToTheSameNames) {
  const std::uint64_t seed = 20261128;
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> names;
    const std::size_t count = 1 + random() % 12;
    for (std::size_t i = 0; i < count; ++i) {
      // Neighbours often, so that ranges arise and end at widths.
      if (!names.empty() && random() % 2 != 0) {
        std::string next = names.back();
        if (next.back() >= '0' && next.back() < '9') ++next.back();
        names.push_back(next);
      } else {
        names.push_back(random_name(random));
      }
    }
    const std::string text = format_hostlist(names);
    ASSERT_EQ(expand(text), names) << text;
    const Hostlist list = Hostlist::parse(text);
    ASSERT_EQ(list.count(), names.size()) << text;
    for (const std::string& name : names) ASSERT_TRUE(list.contains(name)) << name << " in " << text;
    const std::string other = random_name(random);
    ASSERT_EQ(list.contains(other), std::ranges::find(names, other) != names.end()) << other << " in " << text;
  }
}

}  // namespace
}  // namespace bascule::slurm
