#include "base/duration.hpp"

#include <gmock/gmock.h>

#include <random>

namespace bascule {
namespace {

using namespace std::chrono_literals;

TEST(DurationText, Reads) {
  EXPECT_EQ(parse_duration("0"), 0ns);
  EXPECT_EQ(parse_duration("-0"), 0ns);
  EXPECT_EQ(parse_duration("0s"), 0ns);
  EXPECT_EQ(parse_duration("5s"), 5s);
  EXPECT_EQ(parse_duration("250ms"), 250ms);
  EXPECT_EQ(parse_duration("7ns"), 7ns);
  EXPECT_EQ(parse_duration("7us"), 7us);
  EXPECT_EQ(parse_duration("7\u00b5s"), 7us);
  EXPECT_EQ(parse_duration("7\u03bcs"), 7us);
  EXPECT_EQ(parse_duration("1h2m3.5s"), 1h + 2min + 3500ms);
  EXPECT_EQ(parse_duration("90m"), 90min);
  EXPECT_EQ(parse_duration("-1.5h"), -90min);
  EXPECT_EQ(parse_duration("+1.5h"), 90min);
  EXPECT_EQ(parse_duration(".5s"), 500ms);
  EXPECT_EQ(parse_duration("5.s"), 5s);
  EXPECT_EQ(parse_duration("3s1h3s"), 1h + 6s) << "any order, any unit more than once";
  EXPECT_EQ(parse_duration("1.0000000019s"), 1s + 1ns) << "below a nanosecond nothing counts";
  EXPECT_EQ(parse_duration("0.3333333333333333333h"), 20min);
  EXPECT_EQ(parse_duration("0.100000000000000000000h"), 6min);
  EXPECT_EQ(parse_duration("0.999999999999s"), 999'999'999ns);
  EXPECT_EQ(parse_duration("0." + std::string(5'000, '9') + "s"), 1s) << "through floating point, as in Go";
}

TEST(DurationText, RefusesWhatIsNone) {
  for (const char* text : {"",        "3",        "-",    "s",    ".",    "-.",    ".s",     "+.s",    "1x", "1",
                           "1.5",     "1 s",      " 1s",  "1s ",  "--1s", "+-1s",  "1s-1s",  "1e3s",   "1d", "1H",
                           "1\u00b5", "1\u00b5m", "0x1s", "1,5s", "inf",  "\xb5s", "1\xb5s", "1.2.3s", "1ss"}) {
    EXPECT_FALSE(parse_duration(text)) << text;
  }
  EXPECT_FALSE(parse_duration(std::string_view("1s\0", 3)));
}

TEST(DurationText, RefusesWhatIsTooLong) {
  EXPECT_EQ(parse_duration("9223372036854775807ns"), Duration::max());
  EXPECT_EQ(parse_duration("-9223372036854775808ns"), Duration::min());
  EXPECT_EQ(parse_duration("2562047h47m16.854775807s"), Duration::max());
  EXPECT_EQ(parse_duration("-2562047h47m16.854775808s"), Duration::min());
  for (const char* text :
       {"9223372036854775808ns", "-9223372036854775809ns", "2562047h47m16.854775808s", "-2562047h47m16.854775809s",
        "2562048h", "9223372036854775.808us", "3000000h", "92233720368547758070ns", "9223372036854775807ns1ns",
        "99999999999999999999h", "9223372036854775808s", "-9223372036854775808ns1ns"}) {
    EXPECT_FALSE(parse_duration(text)) << text;
  }
}

TEST(DurationText, Writes) {
  EXPECT_EQ(print_duration(0ns), "0s");
  EXPECT_EQ(print_duration(1ns), "1ns");
  EXPECT_EQ(print_duration(1100ns), "1.1\u00b5s");
  EXPECT_EQ(print_duration(2200us), "2.2ms");
  EXPECT_EQ(print_duration(3300ms), "3.3s");
  EXPECT_EQ(print_duration(999'999'999ns), "999.999999ms");
  EXPECT_EQ(print_duration(1min), "1m0s");
  EXPECT_EQ(print_duration(1h), "1h0m0s");
  EXPECT_EQ(print_duration(4min + 5s + 1ms), "4m5.001s");
  EXPECT_EQ(print_duration(5h + 6min + 7s + 1ms), "5h6m7.001s");
  EXPECT_EQ(print_duration(-(8min + 1ns)), "-8m0.000000001s");
  EXPECT_EQ(print_duration(Duration::max()), "2562047h47m16.854775807s");
  EXPECT_EQ(print_duration(Duration::min()), "-2562047h47m16.854775808s");
}

TEST(DurationText, WhatIsWrittenIsRead) {
  std::mt19937_64 random(20260103);
  for (int i = 0; i < 20'000; ++i) {
    // Every length is as likely as any other.
    const Duration duration(static_cast<std::int64_t>(random()) >> (random() % 64));
    ASSERT_EQ(parse_duration(print_duration(duration)), duration) << duration.count();
  }
}

TEST(DurationText, NoTextDoesHarm) {
  std::mt19937 random(5);
  constexpr std::string_view kAlphabet = "0123456789.+-nsumh\xc2\xb5";
  std::size_t good = 0;
  for (int i = 0; i < 50'000; ++i) {
    std::string text;
    for (std::size_t length = random() % 12; length > 0; --length) text += kAlphabet[random() % kAlphabet.size()];
    const auto duration = parse_duration(text);
    if (!duration) continue;
    ++good;
    ASSERT_EQ(parse_duration(print_duration(*duration)), duration) << text;
  }
  EXPECT_GT(good, 100u);
}

}  // namespace
}  // namespace bascule
