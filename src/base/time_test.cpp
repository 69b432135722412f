#include "base/time.hpp"

#include <gmock/gmock.h>

#include <random>

namespace bascule {
namespace {

using namespace std::chrono_literals;
using std::chrono::sys_days;
using std::chrono::year;

constexpr WallTime kMay = WallTime(sys_days(year(2024) / 5 / 17)) + 8h + 9min + 10s;

TEST(Time, ReadsWhatKubernetesWrites) {
  EXPECT_EQ(parse_rfc3339("2024-05-17T08:09:10Z"), kMay);
  EXPECT_EQ(parse_rfc3339("2024-05-17T08:09:10.123456Z"), kMay + 123456us);
  EXPECT_EQ(parse_rfc3339("2024-05-17T08:09:10.000000Z"), kMay);
  EXPECT_EQ(parse_rfc3339("1970-01-01T00:00:00Z"), WallTime());
  EXPECT_EQ(parse_rfc3339("1969-12-31T23:59:59.5Z"), WallTime(-500ms));
  EXPECT_EQ(parse_rfc3339("2000-02-29T23:59:59Z"), WallTime(sys_days(year(2000) / 3 / 1)) - 1s);
}

TEST(Time, ReadsAnyFractionDownToANanosecond) {
  EXPECT_EQ(parse_rfc3339("2024-05-17T08:09:10.1Z"), kMay + 100ms);
  EXPECT_EQ(parse_rfc3339("2024-05-17T08:09:10.000000001Z"), kMay + 1ns);
  EXPECT_EQ(parse_rfc3339("2024-05-17T08:09:10.9999999999999999999999999999Z"), kMay + 999'999'999ns);
  EXPECT_EQ(parse_rfc3339("2024-05-17T08:09:10." + std::string(10'000, '1') + "Z"), kMay + 111'111'111ns);
}

TEST(Time, ReadsOffsets) {
  EXPECT_EQ(parse_rfc3339("2024-05-17T10:09:10+02:00"), kMay);
  EXPECT_EQ(parse_rfc3339("2024-05-17T02:39:10-05:30"), kMay);
  EXPECT_EQ(parse_rfc3339("2024-05-17T08:09:10+00:00"), kMay);
  EXPECT_EQ(parse_rfc3339("2024-05-17T08:09:10-00:00"), kMay);
  EXPECT_EQ(parse_rfc3339("2024-05-18T08:08:10.25+23:59"), kMay + 250ms);
  EXPECT_EQ(parse_rfc3339("2023-12-31T23:00:00-01:00"), WallTime(sys_days(year(2024) / 1 / 1)));
}

TEST(Time, RefusesWhatIsNone) {
  for (const char* text : {
           "",
           "2024",
           "2024-05-17",
           "2024-05-17T08:09:10",
           "2024-05-17T08:09Z",
           "2024-05-17T08:09:10Z ",
           " 2024-05-17T08:09:10Z",
           "2024-05-17T08:09:10ZZ",
           "2024-05-17t08:09:10z",
           "2024-05-17 08:09:10Z",
           "2024-5-17T08:09:10Z",
           "24-05-17T08:09:10Z",
           "02024-05-17T08:09:10Z",
           "-024-05-17T08:09:10Z",
           "2024-+5-17T08:09:10Z",
           "2024/05/17T08:09:10Z",
           "2024-05-17T08:09:10.Z",
           "2024-05-17T08:09:10,5Z",
           "2024-05-17T08:09:10.5",
           "2024-05-17T08:09:10.-5Z",
           "2024-05-17T08:09:10+0200",
           "2024-05-17T08:09:10+02",
           "2024-05-17T08:09:10+2:00",
           "2024-05-17T08:09:10+02:0",
           "2024-05-17T08:09:10+02:00Z",
           "2024-05-17T08:09:10+-2:00",
           "2024-05-17T08:09:10UTC",
       }) {
    EXPECT_FALSE(parse_rfc3339(text)) << text;
  }
  EXPECT_FALSE(parse_rfc3339(std::string_view("2024-05-17T08:09:10Z\0", 21)));
}

TEST(Time, RefusesDaysAndTimesThatAreNone) {
  for (const char* text : {
           "2024-00-17T08:09:10Z",
           "2024-13-17T08:09:10Z",
           "2024-05-00T08:09:10Z",
           "2024-05-32T08:09:10Z",
           "2024-04-31T08:09:10Z",
           "2023-02-29T08:09:10Z",
           "1900-02-29T08:09:10Z",
           "2024-05-17T24:00:00Z",
           "2024-05-17T08:60:10Z",
           "2016-12-31T23:59:60Z",
           "2024-05-17T08:09:10+24:00",
           "2024-05-17T08:09:10+02:60",
       }) {
    EXPECT_FALSE(parse_rfc3339(text)) << text;
  }
}

TEST(Time, KnowsOnlyWhatWallTimeHolds) {
  EXPECT_FALSE(parse_rfc3339("0001-01-01T00:00:00Z")) << "Go's zero time";
  EXPECT_FALSE(parse_rfc3339("1677-12-31T23:59:59Z"));
  const auto first = parse_rfc3339("1678-01-01T00:00:00+23:59");
  const auto last = parse_rfc3339("2261-12-31T23:59:59.999999999-23:59");
  ASSERT_TRUE(first && last);
  EXPECT_EQ(print_rfc3339(*first), "1677-12-31T00:01:00Z");
  EXPECT_EQ(print_rfc3339(*last, 9), "2262-01-01T23:58:59.999999999Z");
}

// A time that is so far off is still one: of a pod with a grace of 250 years, of a token that does not expire.
TEST(Time, ALaterTimeIsTheLastThereIs) {
  for (const char* text : {"2262-01-01T00:00:00Z", "2280-01-01T00:00:00+23:59", "9999-12-31T23:59:59.999999Z"}) {
    const auto last = parse_rfc3339(text);
    ASSERT_TRUE(last) << text;
    EXPECT_GT(*last, *parse_rfc3339("2261-12-31T23:59:59.999999999-23:59")) << text;
    EXPECT_EQ(*last + std::chrono::days(30) - std::chrono::days(30), *last) << "and can be counted with";
    EXPECT_EQ(parse_rfc3339(print_rfc3339(*last)), last);
  }
  EXPECT_FALSE(parse_rfc3339("2280-02-30T00:00:00Z"));
  EXPECT_FALSE(parse_rfc3339("2280-01-01T00:00:00"));
}

TEST(Time, WritesWhatKubernetesReads) {
  EXPECT_EQ(print_rfc3339(kMay), "2024-05-17T08:09:10Z");
  EXPECT_EQ(print_rfc3339(kMay, 6), "2024-05-17T08:09:10.000000Z");
  EXPECT_EQ(print_rfc3339(kMay + 123456789ns), "2024-05-17T08:09:10Z") << "cut, not rounded";
  EXPECT_EQ(print_rfc3339(kMay + 123456789ns, 1), "2024-05-17T08:09:10.1Z");
  EXPECT_EQ(print_rfc3339(kMay + 123456789ns, 6), "2024-05-17T08:09:10.123456Z");
  EXPECT_EQ(print_rfc3339(kMay + 123456789ns, 9), "2024-05-17T08:09:10.123456789Z");
  EXPECT_EQ(print_rfc3339(WallTime(-1ns), 6), "1969-12-31T23:59:59.999999Z") << "cut towards the past";
  EXPECT_EQ(print_rfc3339(WallTime()), "1970-01-01T00:00:00Z");
}

TEST(Time, WhatIsWrittenIsRead) {
  std::mt19937_64 random(20260102);
  std::uniform_int_distribution<std::int64_t> any(-9'200'000'000'000'000'000, 9'200'000'000'000'000'000);
  for (int i = 0; i < 20'000; ++i) {
    const WallTime time(Duration(any(random)));
    ASSERT_EQ(parse_rfc3339(print_rfc3339(time, 9)), time) << time.time_since_epoch().count();
    ASSERT_EQ(parse_rfc3339(print_rfc3339(time, 6)), std::chrono::floor<std::chrono::microseconds>(time));
    ASSERT_EQ(parse_rfc3339(print_rfc3339(time)), std::chrono::floor<std::chrono::seconds>(time));
  }
}

// Any change of one character is refused or is another text of a real time.
TEST(Time, NoChangeOfACharacterDoesHarm) {
  std::mt19937 random(3);
  const std::string good = "2024-05-17T08:09:10.123456789+02:00";
  for (int i = 0; i < 20'000; ++i) {
    std::string text = good;
    text[random() % text.size()] = static_cast<char>(random() % 256);
    if (random() % 4 == 0) text.resize(random() % text.size());
    const auto time = parse_rfc3339(text);
    if (time) ASSERT_EQ(parse_rfc3339(print_rfc3339(*time, 9)), time) << text;
  }
}

TEST(Time, SecondsSince1970) {
  EXPECT_EQ(epoch_seconds(WallTime()), 0);
  EXPECT_EQ(epoch_seconds(kMay + 999ms), 1'715'933'350);
}

}  // namespace
}  // namespace bascule
