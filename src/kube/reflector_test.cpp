#include "kube/reflector.hpp"

#include <gtest/gtest.h>

namespace bascule::kube {
namespace {

using namespace std::chrono_literals;
using Kind = ReflectorCore::Request::Kind;

struct ReflectorBook : testing::Test {
  TimePoint now{1h};
  ReflectorCore core{500, 42};

  ReflectorCore::Request next() { return core.next(now); }
  ReflectorCore::Request after_wait() {
    auto request = next();
    if (request.kind == Kind::kWait) {
      now = request.until;
      request = next();
    }
    return request;
  }
  Duration wait() {
    const auto request = next();
    return request.kind == Kind::kWait ? request.until - now : Duration::zero();
  }
  static json::ListMeta meta(std::string version, std::string token = "") {
    json::ListMeta out;
    out.resource_version = std::move(version);
    out.continue_token = std::move(token);
    return out;
  }
  void to_watch() {
    after_wait();
    core.page_done(meta("100"), now);
    after_wait();
    core.watch_opened(now);
  }
};

TEST_F(ReflectorBook, first_list_may_be_old_and_goes_page_by_page) {
  auto list = next();
  EXPECT_EQ(list.kind, Kind::kList);
  EXPECT_TRUE(list.first_page);
  EXPECT_EQ(list.resource_version, "0");
  EXPECT_EQ(list.limit, 500U);
  EXPECT_FALSE(core.page_done(meta("100", "more"), now));
  list = next();
  EXPECT_EQ(list.continue_token, "more");
  EXPECT_EQ(list.resource_version, "");
  EXPECT_FALSE(list.first_page);
  EXPECT_TRUE(core.page_done(meta("100"), now));
  const auto watch = next();
  EXPECT_EQ(watch.kind, Kind::kWatch);
  EXPECT_EQ(watch.resource_version, "100");
  EXPECT_GE(watch.timeout, 5min);
  EXPECT_LE(watch.timeout, 10min);
}

TEST_F(ReflectorBook, a_list_that_expires_between_pages_starts_again_and_at_last_without_pages) {
  next();
  core.page_done(meta("100", "more"), now);
  next();
  core.list_failed(ReflectorFailure::kExpired, false, {}, now);
  auto list = after_wait();
  EXPECT_TRUE(list.first_page);
  EXPECT_EQ(list.resource_version, "");
  EXPECT_EQ(list.limit, 500U);
  core.page_done(meta("200", "more"), now);
  next();
  core.list_failed(ReflectorFailure::kExpired, true, {}, now);
  list = after_wait();
  EXPECT_TRUE(list.first_page);
  EXPECT_EQ(list.limit, 0U);
}

TEST_F(ReflectorBook, a_page_that_fails_is_asked_for_again) {
  next();
  core.page_done(meta("100", "more"), now);
  next();
  core.list_failed(ReflectorFailure::kFailed, true, {}, now);
  EXPECT_GE(wait(), 800ms);
  const auto list = after_wait();
  EXPECT_EQ(list.continue_token, "more");
  EXPECT_FALSE(list.first_page);
}

TEST_F(ReflectorBook, what_was_taken_of_a_broken_list_is_not_followed_by_older_data) {
  next();
  core.list_failed(ReflectorFailure::kFailed, false, {}, now);
  EXPECT_EQ(after_wait().resource_version, "0");
  core.list_failed(ReflectorFailure::kFailed, true, {}, now);
  EXPECT_EQ(after_wait().resource_version, "");
}

TEST_F(ReflectorBook, a_cut_watch_resumes_at_once_where_it_was) {
  to_watch();
  EXPECT_TRUE(core.watch_event("101", now));
  EXPECT_TRUE(core.watch_bookmark("150", now));
  core.watch_failed(ReflectorFailure::kFailed, {}, now);
  EXPECT_LE(wait(), 200ms);
  const auto watch = after_wait();
  EXPECT_EQ(watch.kind, Kind::kWatch);
  EXPECT_EQ(watch.resource_version, "150");
}

TEST_F(ReflectorBook, repetitions_and_the_past_are_told) {
  to_watch();
  EXPECT_FALSE(core.watch_event("100", now));
  EXPECT_FALSE(core.watch_event("99", now));
  EXPECT_TRUE(core.watch_event("101", now));
  EXPECT_FALSE(core.watch_event("101", now));
  EXPECT_TRUE(core.watch_bookmark("101", now));
  EXPECT_FALSE(core.watch_bookmark("12", now));
  EXPECT_EQ(core.resource_version(), "101");
}

TEST_F(ReflectorBook, expired_lists_the_most_recent) {
  to_watch();
  core.watch_event("101", now);
  core.watch_failed(ReflectorFailure::kExpired, {}, now);
  const auto list = after_wait();
  EXPECT_EQ(list.kind, Kind::kList);
  EXPECT_EQ(list.resource_version, "");
  EXPECT_TRUE(list.first_page);
}

TEST_F(ReflectorBook, good_lists_and_expired_watches_do_not_go_round_fast) {
  Duration waited{};
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(after_wait().kind, Kind::kList);
    core.page_done(meta("100"), now);
    ASSERT_EQ(after_wait().kind, Kind::kWatch);
    core.watch_failed(ReflectorFailure::kExpired, {}, now);
    waited += wait();
  }
  EXPECT_GT(waited, 5min);
}

TEST_F(ReflectorBook, failures_back_off_to_half_a_minute_and_then_list) {
  to_watch();
  std::vector<Duration> waits;
  Kind kind = Kind::kWatch;
  for (int i = 0; i < 12; ++i) {
    core.watch_failed(ReflectorFailure::kFailed, {}, now);
    waits.push_back(wait());
    kind = after_wait().kind;
    if (kind == Kind::kList) break;
  }
  EXPECT_EQ(kind, Kind::kList);
  EXPECT_GE(waits.front(), 800ms);
  EXPECT_LE(waits.front(), 1200ms);
  EXPECT_GT(waits.back(), waits.front() * 8);
  for (int i = 0; i < 10; ++i) {
    core.list_failed(ReflectorFailure::kFailed, false, {}, now);
    EXPECT_LE(wait(), 30s);
    EXPECT_EQ(after_wait().resource_version, "100") << "not older than what was seen";
  }
  EXPECT_GT((core.list_failed(ReflectorFailure::kFailed, false, {}, now), wait()), 19s);
  after_wait();
  core.list_failed(ReflectorFailure::kBusy, false, 30s, now);
  EXPECT_EQ(wait(), 30s);
}

// A proxy says so in the API server's place, with a page of its own.
TEST_F(ReflectorBook, no_pause_that_a_server_asks_for_is_longer_than_half_a_minute) {
  core.list_failed(ReflectorFailure::kBusy, false, 1h, now);
  EXPECT_EQ(wait(), 30s);
  to_watch();
  core.watch_failed(ReflectorFailure::kBusy, 1h, now);
  EXPECT_EQ(wait(), 30s);
  to_watch();
  core.watch_event("101", now);
  core.watch_failed(ReflectorFailure::kBusy, 1h, now);
  EXPECT_EQ(wait(), 30s) << "a watch that worked";
}

TEST_F(ReflectorBook, a_server_that_is_away_is_tried_each_five_seconds_and_gone_on_with_where_it_was) {
  to_watch();
  EXPECT_FALSE(core.cut(now));
  const TimePoint gone = now;
  while (now - gone < 4min) {
    core.watch_failed(ReflectorFailure::kUnreachable, {}, now);
    EXPECT_TRUE(core.cut(now));
    EXPECT_LE(wait(), 5s);
    const auto again = after_wait();
    ASSERT_EQ(again.kind, Kind::kWatch);
    EXPECT_EQ(again.resource_version, "100");
  }
  EXPECT_GT(core.failures(), 40u);
  core.watch_failed(ReflectorFailure::kExpired, {}, now);
  EXPECT_LE(wait(), 1200ms) << "it is back, and remembers nothing";
  EXPECT_EQ(after_wait().kind, Kind::kList);
  core.page_done(meta("200"), now);
  EXPECT_FALSE(core.cut(now));
  next();
  core.watch_opened(now);
  core.watch_failed(ReflectorFailure::kUnreachable, {}, now);
  after_wait();
  core.watch_opened(now);
  EXPECT_TRUE(core.cut(now)) << "it has not said what was missed";
  EXPECT_FALSE(core.cut(now + 2s));
  core.watch_event("201", now);
  EXPECT_FALSE(core.cut(now));
}

TEST_F(ReflectorBook, a_watch_closed_at_once_without_a_word_has_failed) {
  to_watch();
  core.watch_ended(now);
  EXPECT_GE(wait(), 800ms);
  to_watch();
  now += 20s;
  core.watch_ended(now);
  EXPECT_EQ(wait(), 0s);
}

TEST_F(ReflectorBook, a_watch_that_tells_only_the_past_has_failed) {
  to_watch();
  core.watch_event("99", now);
  core.watch_ended(now);
  EXPECT_GE(wait(), 800ms);
}

TEST_F(ReflectorBook, silence_kills_a_watch) {
  after_wait();
  core.page_done(meta("100"), now);
  const auto watch = after_wait();
  core.watch_opened(now);
  EXPECT_EQ(core.dead_at(), now + watch.timeout + 30s);
  core.watch_event("101", now + 1s);
  EXPECT_EQ(core.dead_at(), now + watch.timeout + 30s) << "no bookmarks, no hurry";
  core.watch_bookmark("102", now + 60s);
  EXPECT_EQ(core.dead_at(), now + 60s + 3min);
  core.watch_event("103", now + 70s);
  EXPECT_EQ(core.dead_at(), now + 70s + 3min);
}

// The server is behind what was seen, and may not know it: it sends what is newer than the version asked for alone.
TEST_F(ReflectorBook, a_watch_silent_for_its_whole_life_is_followed_by_a_list) {
  to_watch();
  now += 5min;
  core.watch_ended(now);
  const auto list = next();
  EXPECT_EQ(list.kind, Kind::kList);
  EXPECT_EQ(list.resource_version, "100") << "not older than what was seen";
  EXPECT_TRUE(list.first_page);
  core.list_failed(ReflectorFailure::kVersionTooLarge, false, {}, now);
  EXPECT_EQ(after_wait().resource_version, "") << "the most recent there is";
  EXPECT_TRUE(core.page_done(meta("40"), now));
  EXPECT_EQ(next().resource_version, "40");
}

TEST_F(ReflectorBook, a_bookmark_or_an_event_is_enough_to_resume_without_a_list) {
  to_watch();
  now += 4min;
  core.watch_bookmark("101", now);
  now += 4min;
  core.watch_ended(now);
  EXPECT_EQ(next().kind, Kind::kWatch);
  core.watch_opened(now);
  now += 30s;
  core.watch_event("102", now);
  now += 4min;
  core.watch_ended(now);
  EXPECT_EQ(next().kind, Kind::kWatch);
}

TEST_F(ReflectorBook, silence_counts_over_watches_that_are_cut) {
  to_watch();
  for (int minute = 1; minute < 5; ++minute) {
    now += 1min;
    core.watch_failed(ReflectorFailure::kFailed, {}, now);
    ASSERT_EQ(after_wait().kind, Kind::kWatch) << minute;
    core.watch_opened(now);
  }
  now += 1min;
  core.watch_failed(ReflectorFailure::kFailed, {}, now);
  const auto list = after_wait();
  EXPECT_EQ(list.kind, Kind::kList);
  EXPECT_EQ(list.resource_version, "100");
}

TEST(Versions, are_compared_as_numbers) {
  EXPECT_TRUE(older_version("9", "10"));
  EXPECT_FALSE(older_version("10", "9"));
  EXPECT_FALSE(older_version("10", "10"));
  EXPECT_TRUE(older_version("10", "11"));
  EXPECT_FALSE(older_version("", "1"));
  EXPECT_FALSE(older_version("a", "b"));
}

}  // namespace
}  // namespace bascule::kube
