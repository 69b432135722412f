#include "base/manual_loop.hpp"

#include <gmock/gmock.h>

#include <random>

namespace bascule {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

TEST(ManualLoop, RunsInOrderAndNeverInsidePost) {
  ManualLoop loop;
  std::vector<int> ran;
  loop.post([&] {
    ran.push_back(1);
    loop.post([&] { ran.push_back(3); });
    ran.push_back(2);
  });
  EXPECT_TRUE(ran.empty());
  EXPECT_EQ(loop.run_ready(), 2u);
  EXPECT_THAT(ran, ElementsAre(1, 2, 3));
  EXPECT_TRUE(loop.idle());
}

TEST(ManualLoop, TimersOfOneInstantRunInTheOrderTheyWereSet) {
  ManualLoop loop;
  const TimePoint start = loop.now();
  std::vector<int> ran;
  const auto note = [&](int id) {
    return [&ran, &loop, start, id] { ran.push_back(id + int((loop.now() - start) / 1s)); };
  };
  loop.call_at(start + 2s, note(30));
  loop.call_at(start + 1s, note(10));
  loop.call_at(start + 2s, note(40));
  loop.call_at(start + 1s, note(20));
  loop.advance(5s);
  EXPECT_THAT(ran, ElementsAre(11, 21, 32, 42));
  EXPECT_EQ(loop.now(), start + 5s);
}

TEST(ManualLoop, APastTimerRunsWithoutTurningTimeBack) {
  ManualLoop loop;
  const TimePoint start = loop.now();
  bool ran = false;
  loop.call_at(start - 10s, [&] { ran = true; });
  EXPECT_FALSE(ran);
  loop.advance(0s);
  EXPECT_TRUE(ran);
  EXPECT_EQ(loop.now(), start);
}

TEST(ManualLoop, CancelledTimersDoNotRun) {
  ManualLoop loop;
  bool ran = false;
  const auto other = loop.call_at(loop.now() + 1s, [&] { ran = true; });
  loop.call_at(loop.now(), [&] { loop.cancel(other); });
  loop.advance(2s);
  EXPECT_FALSE(ran);
  loop.cancel(other);
  loop.cancel(12345);
}

TEST(ManualLoop, RunUntilStopsAtItsLimit) {
  ManualLoop loop;
  const TimePoint start = loop.now();
  int ticks = 0;
  std::function<void()> tick = [&] {
    ++ticks;
    loop.call_at(loop.now() + 1s, [&] { tick(); });
  };
  tick();
  EXPECT_TRUE(loop.run_until([&] { return ticks == 4; }, 1h));
  EXPECT_EQ(loop.now(), start + 3s);
  EXPECT_FALSE(loop.run_until([] { return false; }, 10s));
  EXPECT_EQ(ticks, 14);
  EXPECT_EQ(loop.now(), start + 13s);
}

TEST(ManualLoop, CivilTimeMayJump) {
  ManualLoop loop;
  const TimePoint monotonic = loop.now();
  const WallTime civil = loop.wall();
  loop.step_wall(-2h);
  EXPECT_EQ(loop.now(), monotonic);
  EXPECT_EQ(loop.wall(), civil - 2h);
}

TEST(ManualLoop, ManyTimersFireInTimeOrder) {
  ManualLoop loop;
  std::mt19937 random(7);
  TimePoint last = loop.now();
  std::size_t ran = 0;
  std::vector<Loop::TimerId> ids;
  for (int i = 0; i < 10'000; ++i) {
    ids.push_back(loop.call_at(loop.now() + std::chrono::milliseconds(random() % 5000), [&] {
      EXPECT_GE(loop.now(), last);
      last = loop.now();
      ++ran;
    }));
  }
  for (std::size_t i = 0; i < ids.size(); i += 3) loop.cancel(ids[i]);
  loop.advance(5s);
  EXPECT_EQ(ran, 6666u);
  EXPECT_TRUE(loop.idle());
}

}  // namespace
}  // namespace bascule
