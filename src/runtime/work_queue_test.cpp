#include "runtime/work_queue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <random>

namespace bascule::runtime {
namespace {

using namespace std::chrono_literals;

struct WorkQueueTest : ::testing::Test {
  WorkQueue queue;
  TimePoint now{1h};

  void add(std::string_view key, Priority priority = Priority::kNormal) { queue.add(key, now, priority); }
  std::string get() {
    const auto work = queue.get(now);
    return work ? std::string(work->key) : "";
  }
  std::string all() {  // keys in the order they are given
    std::string out;
    while (const auto work = queue.get(now)) {
      const std::string key(work->key);
      out += key;
      queue.done(key, now);
    }
    return out;
  }
};

TEST_F(WorkQueueTest, AddedTwiceWaitsOnce) {
  add("a");
  add("b");
  add("a");
  EXPECT_EQ(queue.ready(), 2u);
  EXPECT_EQ(all(), "ab");
  EXPECT_EQ(queue.keys(), 0u) << "nothing is remembered of a key that is done";
}

TEST_F(WorkQueueTest, AddedWhileWorkedOnWaitsForDone) {
  add("a");
  EXPECT_EQ(get(), "a");
  add("a");
  add("a");
  add("b");
  EXPECT_EQ(queue.depth(Priority::kNormal), 2u);
  EXPECT_EQ(queue.ready(), 1u);
  EXPECT_EQ(get(), "b");
  EXPECT_EQ(get(), "") << "never two workers on one key";
  queue.done("a", now);
  EXPECT_EQ(get(), "a");
  queue.done("a", now);
  EXPECT_EQ(get(), "");
  EXPECT_EQ(queue.adds(), 3u);
}

TEST_F(WorkQueueTest, UrgentKeysMoveUpAndKeepTheirOrder) {
  for (const char* key : {"a", "b", "c", "x", "y"}) add(key);
  add("x", Priority::kUrgent);
  add("b", Priority::kUrgent);
  add("x", Priority::kUrgent);
  add("x");
  EXPECT_EQ(queue.depth(Priority::kUrgent), 2u);
  EXPECT_EQ(all(), "xbacy");
}

TEST_F(WorkQueueTest, UrgentAgainIsUrgentAfterDone) {
  for (const char* key : {"a", "b"}) add(key);
  EXPECT_EQ(get(), "a");
  add("a");
  add("a", Priority::kUrgent);
  queue.done("a", now);
  EXPECT_EQ(all(), "ab");
}

TEST_F(WorkQueueTest, AnUrgentVisitIsUrgentOnce) {
  add("a", Priority::kUrgent);
  EXPECT_EQ(get(), "a");
  queue.done("a", now);
  add("b");
  add("a");
  EXPECT_EQ(all(), "ba");
}

TEST_F(WorkQueueTest, TheEarlierDelayCounts) {
  queue.add_after("a", 10s, now);
  queue.add_after("a", 2s, now);
  queue.add_after("a", 20s, now);
  EXPECT_EQ(queue.next_due(), now + 2s);
  EXPECT_EQ(queue.delayed(), 1u);
  EXPECT_EQ(get(), "");
  now += 2s;
  EXPECT_EQ(all(), "a");
  now += 1h;
  EXPECT_EQ(get(), "");
}

TEST_F(WorkQueueTest, NowIsEarlierThanLater) {
  queue.add_after("a", 10s, now);
  add("a");
  EXPECT_EQ(queue.delayed(), 0u);
  queue.add_after("a", 1s, now);
  EXPECT_EQ(queue.delayed(), 0u) << "it waits already";
  EXPECT_EQ(get(), "a");
  queue.add_after("a", 1s, now);
  EXPECT_EQ(queue.delayed(), 1u) << "the visit under way is not the one asked for";
  add("a");
  EXPECT_EQ(queue.delayed(), 0u);
  queue.done("a", now);
  EXPECT_EQ(all(), "a");
  EXPECT_EQ(queue.keys(), 0u);
}

TEST_F(WorkQueueTest, DueWhileWorkedOnWaitsForDone) {
  add("a");
  EXPECT_EQ(get(), "a");
  queue.add_after("a", 1s, now);
  now += 2s;
  EXPECT_EQ(get(), "");
  EXPECT_EQ(queue.delayed(), 0u);
  EXPECT_EQ(queue.done("a", now), 2s);
  EXPECT_EQ(get(), "a");
}

TEST_F(WorkQueueTest, NoDelayIsNow) {
  queue.add_after("a", 0s, now);
  queue.add_after("b", -1s, now);
  EXPECT_EQ(all(), "ab");
  EXPECT_EQ(queue.retries(), 0u);
}

TEST_F(WorkQueueTest, EndlessDelay) {
  queue.add_after("a", Duration::max(), now);
  EXPECT_EQ(queue.next_due(), TimePoint::max());
}

TEST_F(WorkQueueTest, ReadyInTheOrderOfTime) {
  queue.add_after("c", 3s, now);
  queue.add_after("b", 2s, now);
  queue.add_after("e", 3s, now);
  now += 10s;
  add("z");
  EXPECT_EQ(all(), "bcez");
}

TEST_F(WorkQueueTest, PausesDoubleUntilForgotten) {
  for (const Duration pause : std::initializer_list<Duration>{5ms, 10ms, 20ms, 40ms}) {
    EXPECT_EQ(queue.add_failed("a", now), pause);
    now += pause;
    EXPECT_EQ(all(), "a");
  }
  EXPECT_EQ(queue.failures("a"), 4u);
  for (int i = 0; i < 100; ++i) queue.add_failed("a", now);
  EXPECT_EQ(queue.add_failed("a", now), 1000s);
  EXPECT_EQ(queue.failures("b"), 0u);
  queue.forget("a");
  queue.forget("b");
  EXPECT_EQ(queue.add_failed("a", now), 5ms);
}

TEST_F(WorkQueueTest, OnlyFailuresAreRememberedOfIdleKeys) {
  queue.add_failed("a", now);
  now += 1s;
  EXPECT_EQ(all(), "a");
  EXPECT_EQ(queue.keys(), 1u);
  queue.forget("a");
  EXPECT_EQ(queue.keys(), 0u);
}

TEST_F(WorkQueueTest, ShutDownTakesNothingNew) {
  add("a");
  add("b");
  queue.add_after("c", 1s, now);
  EXPECT_EQ(get(), "a");
  add("a");
  queue.shut_down();
  add("d");
  queue.add_after("e", 1s, now);
  queue.add_failed("f", now);
  now += 1h;
  queue.done("a", now);
  EXPECT_EQ(all(), "ba") << "what was ready";
  EXPECT_EQ(queue.keys(), 0u);
  EXPECT_FALSE(queue.next_due());
}

TEST_F(WorkQueueTest, TellsHowLongThingsTake) {
  add("a");
  now += 1s;
  add("b");
  now += 2s;
  EXPECT_EQ(queue.get(now)->waited, 3s);
  now += 5s;
  EXPECT_EQ(queue.get(now)->waited, 7s);
  now += 1s;
  EXPECT_EQ(queue.unfinished(now).total, 7s);
  EXPECT_EQ(queue.unfinished(now).longest, 6s);
  EXPECT_EQ(queue.done("a", now), 6s);
  EXPECT_EQ(queue.unfinished(now).longest, 1s);
  queue.done("b", now);
  EXPECT_EQ(queue.unfinished(now).total, 0s);
}

TEST(WorkQueueDeathTest, DoneWithoutGet) {
  WorkQueue queue;
  queue.add("a", TimePoint{});
  EXPECT_DEATH(queue.done("a", TimePoint{}), "one get");
}

// --- against a model -------------------------------------------------------------------------------------------------

// The contract in the plainest words: lists that are searched.
struct Model {
  struct Key {
    bool running = false;
    std::optional<Priority> again;
    std::optional<std::pair<TimePoint, std::uint64_t>> due;
    std::uint32_t failures = 0;
  };
  std::map<std::string, Key> keys;
  std::list<std::string> ready[kPriorities];
  std::uint64_t order = 0;
  bool shut = false;

  std::list<std::string>& line(Priority p) { return ready[static_cast<std::size_t>(p)]; }
  static bool has(const std::list<std::string>& list, const std::string& key) {
    return std::ranges::find(list, key) != list.end();
  }
  void add_now(const std::string& key, Priority p) {
    Key& k = keys[key];
    k.due.reset();
    if (k.running) {
      k.again = std::max(k.again.value_or(p), p);
    } else if (p == Priority::kUrgent) {
      line(Priority::kNormal).remove(key);
      if (!has(line(p), key)) line(p).push_back(key);
    } else if (!has(line(p), key) && !has(line(Priority::kUrgent), key)) {
      line(p).push_back(key);
    }
  }
  void advance(TimePoint now) {
    std::map<std::pair<TimePoint, std::uint64_t>, std::string> due;
    for (const auto& [key, k] : keys) {
      if (k.due && k.due->first <= now) due.emplace(*k.due, key);
    }
    for (const auto& [when, key] : due) add_now(key, Priority::kNormal);
  }
  void add(const std::string& key, TimePoint now, Priority p) {
    if (shut) return;
    advance(now);
    add_now(key, p);
  }
  void add_after(const std::string& key, Duration delay, TimePoint now) {
    if (shut) return;
    if (delay <= 0s) return add(key, now, Priority::kNormal);
    advance(now);
    Key& k = keys[key];
    if (k.again || has(ready[0], key) || has(ready[1], key)) return;
    if (!k.due || k.due->first > now + delay) k.due = {now + delay, order++};
  }
  Duration add_failed(const std::string& key, TimePoint now) {
    if (shut) return 0s;
    Duration pause = 5ms;
    for (std::uint32_t i = 0; i < keys[key].failures; ++i) pause = std::min<Duration>(pause * 2, 1000s);
    ++keys[key].failures;
    add_after(key, pause, now);
    return pause;
  }
  std::string get(TimePoint now) {
    advance(now);
    for (const Priority p : {Priority::kUrgent, Priority::kNormal}) {
      if (line(p).empty()) continue;
      std::string key = line(p).front();
      line(p).pop_front();
      keys[key].running = true;
      return key;
    }
    return "";
  }
  void done(const std::string& key) {
    Key& k = keys[key];
    k.running = false;
    if (const auto p = std::exchange(k.again, std::nullopt)) line(*p).push_back(key);
  }
  void shut_down() {
    shut = true;
    for (auto& [key, k] : keys) k.due.reset();
  }
  std::size_t remembered() const {
    std::size_t count = 0;
    for (const auto& [key, k] : keys)
      count += k.running || k.due || k.failures > 0 || has(ready[0], key) || has(ready[1], key);
    return count;
  }
  std::optional<TimePoint> next_due() const {
    std::optional<TimePoint> first;
    for (const auto& [key, k] : keys) {
      if (k.due && (!first || k.due->first < *first)) first = k.due->first;
    }
    return first;
  }
};

class WorkQueueModel : public ::testing::TestWithParam<int> {
 protected:
  std::size_t dice(std::size_t sides) { return random_() % sides; }
  std::string any_key() { return "key-" + std::to_string(dice(12)); }

  void step() {
    const std::string key = any_key();
    switch (dice(12)) {
      case 0:
      case 1:
      case 2:
        add(key, Priority::kNormal);
        break;
      case 3:
        add(key, Priority::kUrgent);
        break;
      case 4:
      case 5: {
        const Duration delay = std::chrono::milliseconds(dice(60)) - 5ms;
        queue_.add_after(key, delay, now_);
        model_.add_after(key, delay, now_);
        break;
      }
      case 6:
        now_ += std::chrono::milliseconds(dice(20));
        break;
      case 7:
        queue_.forget(key);
        model_.keys[key].failures = 0;
        break;
      case 8:
      case 9:
        get();
        break;
      default:
        finish();
    }
  }
  void add(const std::string& key, Priority priority) {
    queue_.add(key, now_, priority);
    model_.add(key, now_, priority);
  }
  void get() {
    const auto work = queue_.get(now_);
    const std::string expected = model_.get(now_);
    ASSERT_EQ(work ? std::string(work->key) : "", expected);
    if (!work) return;
    ASSERT_EQ(std::ranges::find(worked_on_, expected), worked_on_.end()) << "two workers on " << expected;
    ASSERT_GE(work->waited, 0s);
    worked_on_.push_back(expected);
  }
  void finish() {
    if (worked_on_.empty()) return;
    const std::size_t which = dice(worked_on_.size());
    const std::string key = worked_on_[which];
    worked_on_.erase(worked_on_.begin() + static_cast<std::ptrdiff_t>(which));
    if (dice(3) == 0) ASSERT_EQ(queue_.add_failed(key, now_), model_.add_failed(key, now_));
    queue_.done(key, now_);
    model_.done(key);
  }
  void compare() {
    ASSERT_EQ(queue_.ready(), model_.ready[0].size() + model_.ready[1].size());
    std::size_t again[kPriorities] = {};
    for (const auto& [key, k] : model_.keys) {
      if (k.again) ++again[static_cast<std::size_t>(*k.again)];
      ASSERT_EQ(queue_.failures(key), std::min(k.failures, 30u));
    }
    for (std::size_t p = 0; p < kPriorities; ++p) {
      ASSERT_EQ(queue_.depth(static_cast<Priority>(p)), model_.ready[p].size() + again[p]);
    }
    ASSERT_EQ(queue_.running(), worked_on_.size());
    ASSERT_EQ(queue_.next_due(), model_.next_due());
    ASSERT_EQ(queue_.keys(), model_.remembered());
  }

  std::mt19937_64 random_{static_cast<std::uint64_t>(GetParam())};
  WorkQueue queue_;
  Model model_;
  TimePoint now_{1h};
  std::vector<std::string> worked_on_;
};

TEST_P(WorkQueueModel, DoesAsTheModelDoes) {
  SCOPED_TRACE("seed " + std::to_string(GetParam()));
  for (int i = 0; i < 600; ++i) {
    step();
    if (!HasFatalFailure()) compare();
    if (HasFatalFailure()) FAIL() << "at step " << i;
  }
  const bool shut = dice(2) == 0;
  if (shut) {
    queue_.shut_down();
    model_.shut_down();
  }
  // Everything ends, and nothing is left behind.
  for (int i = 0; i < 10'000 && (queue_.ready() + queue_.running() + queue_.delayed() > 0); ++i) {
    now_ += 5ms;
    get();
    if (!worked_on_.empty()) {
      queue_.forget(worked_on_.back());
      model_.keys[worked_on_.back()].failures = 0;
      queue_.done(worked_on_.back(), now_);
      model_.done(worked_on_.back());
      worked_on_.pop_back();
    }
    compare();
    if (HasFatalFailure()) FAIL() << "in the end";
  }
  for (const auto& [key, k] : model_.keys) queue_.forget(key);
  EXPECT_EQ(queue_.keys(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, WorkQueueModel, ::testing::Range(1, 101));

}  // namespace
}  // namespace bascule::runtime
