#include "base/log.hpp"

#include <gmock/gmock.h>

#include <stdexcept>
#include <thread>

#include "base/manual_loop.hpp"
#include "base/strong.hpp"

namespace bascule {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Log, TextHasTimeLevelMessageAndFields) {
  const ManualLoop loop;
  const log::Capture capture(log::Level::kDebug, log::Format::kText, &loop);
  const NamespacedName pod{"ns", "a"};
  log::info("pod bound", {{"pod", pod}, {"node", NodeName("n1")}, {"took", 1500ms}, {"job", 7}, {"ok", true}});
  log::warning("odd values",
               {{"text", "two words"}, {"empty", ""}, {"half", 0.5}, {"big", UINT64_MAX}, {"u", "\u00fc"}});
  log::error("failed", {{"error", std::runtime_error("line one\nline \"two\"")}});
  EXPECT_THAT(capture.lines(),
              ElementsAre("2026-01-01T01:00:00.000Z INFO  pod bound pod=ns/a node=n1 took=1.5s job=7 ok=true",
                          "2026-01-01T01:00:00.000Z WARN  odd values text=\"two words\" empty=\"\" half=0.5 "
                          "big=18446744073709551615 u=\"\u00fc\"",
                          "2026-01-01T01:00:00.000Z ERROR failed error=\"line one\\nline \\\"two\\\"\""));
}

TEST(Log, JsonIsOneObjectALine) {
  const ManualLoop loop;
  const log::Capture capture(log::Level::kInfo, log::Format::kJson, &loop);
  log::debug("not shown");
  log::info("said \"so\"", {{"n", -3}, {"f", 1e300 * 1e300}, {"bad", "\xff\x01z"}, {"d", 2s}});
  EXPECT_THAT(capture.lines(),
              ElementsAre(R"({"ts":"2026-01-01T01:00:00.000Z","level":"info","msg":"said \"so\"","n":-3,"f":"inf",)"
                          R"("bad":"\ufffd\u0001z","d":"2s"})"));
}

TEST(Log, LongValuesAreCut) {
  const log::Capture capture;
  log::info("long", {{"v", std::string(log::kMaxValue + 10, 'x')}});
  ASSERT_EQ(capture.lines().size(), 1u);
  EXPECT_THAT(capture.lines()[0], HasSubstr("xx... (10 bytes more)\""));
  EXPECT_LT(capture.lines()[0].size(), log::kMaxValue + 100);
}

TEST(Log, LimitedSaysHowManyWereDropped) {
  ManualLoop loop;
  const log::Capture capture(log::Level::kInfo, log::Format::kText, &loop);
  for (int i = 0; i < 30; ++i) {
    log::limited(log::Level::kWarning, 10s, "slow", {{"i", i}});
    log::limited(log::Level::kDebug, 10s, "below the level");
    loop.advance(1s);
  }
  log::limited(log::Level::kWarning, 10s, "another place");
  const auto lines = capture.lines();
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_THAT(lines[0], HasSubstr("slow i=0"));
  EXPECT_THAT(lines[1], HasSubstr("slow i=10 suppressed=9"));
  EXPECT_THAT(lines[2], HasSubstr("slow i=20 suppressed=9"));
  EXPECT_THAT(lines[3], HasSubstr("another place"));
}

TEST(Log, SecretsAreNotShown) {
  EXPECT_EQ(log::redact("token-abc"), "<redacted, 9 bytes>");
  EXPECT_EQ(log::redact(""), "<empty>");
}

TEST(Log, LevelsAndFormatsByName) {
  EXPECT_EQ(log::parse_level("warning"), log::Level::kWarning);
  EXPECT_EQ(log::parse_level("WARN"), std::nullopt);
  EXPECT_EQ(log::parse_format("json"), log::Format::kJson);
  EXPECT_EQ(log::parse_format("yaml"), std::nullopt);
}

TEST(Log, ThreadsDoNotMixLines) {
  const log::Capture capture;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([t] {
        for (int i = 0; i < 200; ++i) {
          log::info("work", {{"thread", t}, {"i", i}});
          log::limited(log::Level::kInfo, 1h, "once");
        }
      });
    }
  }
  EXPECT_EQ(capture.count("INFO  work thread="), 800u);
  EXPECT_EQ(capture.count("once"), 1u);
}

}  // namespace
}  // namespace bascule
