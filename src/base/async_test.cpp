#include "base/async.hpp"

#include <memory>
#include <stdexcept>

#include "base/async_test_support.hpp"

namespace bascule {
namespace {

using testing::ElementsAre;

// --- tasks -----------------------------------------------------------------------------------------------------------

Task<int> add(int a, int b) {
  co_return a + b;
}
Task<std::unique_ptr<int>> move_only() {
  co_return std::make_unique<int>(7);
}
Task<int> fail(std::string why) {
  throw std::runtime_error(why);
  co_return 0;
}
Task<> use(int& result, std::string& error) {
  const int sum = co_await add(20, 22);
  const auto owned = co_await move_only();
  result = sum + *owned;
  try {
    (void)co_await fail("no");
  } catch (const std::runtime_error& e) {
    error = e.what();
  }
}

TEST_F(AsyncTest, TasksReturnValuesAndThrow) {
  Gate gate(loop);
  int result = 0;
  std::string error;
  spawn(gate, use(result, error));
  EXPECT_EQ(result, 49);
  EXPECT_EQ(error, "no");
  EXPECT_EQ(gate.count(), 0u);
}

Task<int> deep(int depth) {
  if (depth == 0) co_return 0;
  const int below = co_await deep(depth - 1);
  co_return below + 1;
}
Task<int> ready() {
  co_return 1;
}
Task<> long_and_deep(Loop& loop, int& deepest, int& count) {
  deepest = co_await deep(300'000);
  for (int i = 0; i < 300'000; ++i) count += co_await ready();
  (void)co_await sleep_for(loop, 1s, std::stop_token());
}

TEST_F(AsyncTest, AChainOfAnyLengthUsesNoStack) {
  Gate gate(loop);
  int deepest = 0, count = 0;
  spawn(gate, long_and_deep(loop, deepest, count));
  loop.advance(2s);
  EXPECT_EQ(deepest, 300'000);
  EXPECT_EQ(count, 300'000);
}

TEST_F(AsyncTest, AnUnstartedTaskJustGoes) {
  int result = 0;
  std::string error;
  {
    Task<> task = use(result, error);
    Task<> other = std::move(task);
    task = use(result, error);
  }
  EXPECT_EQ(result, 0);
}

// --- gate ------------------------------------------------------------------------------------------------------------

TEST_F(AsyncTest, AGateWaitsForItsWork) {
  Gate gate(loop), outer(loop);
  spawn(gate, note_sleep("a", 1s, {}));
  spawn(gate, note_sleep("b", 3s, {}));
  EXPECT_EQ(gate.count(), 2u);
  spawn(outer, note_close(gate));
  EXPECT_TRUE(gate.closed());
  spawn(gate, note_sleep("too late", 0s, {}));
  EXPECT_FALSE(gate.enter());
  loop.advance(2s);
  EXPECT_THAT(log, ElementsAre("a slept"));
  loop.advance(2s);
  EXPECT_THAT(log, ElementsAre("a slept", "b slept", "closed"));
}

TEST_F(AsyncTest, ClosingAnEmptyGateDoesNotWait) {
  Gate gate(loop), outer(loop);
  spawn(outer, note_close(gate));
  EXPECT_THAT(log, ElementsAre("closed"));
}

TEST_F(AsyncTest, HoldersMove) {
  Gate gate(loop);
  Gate::Holder a = gate.enter();
  Gate::Holder b = std::move(a);
  EXPECT_EQ(gate.count(), 1u);
  b = gate.enter();
  EXPECT_EQ(gate.count(), 1u);
  b = Gate::Holder();
  EXPECT_EQ(gate.count(), 0u);
}

TEST_F(AsyncTest, AFrameThatWaitsForAGateMayGo) {
  Gate gate(loop);
  Gate::Holder work = gate.enter();
  Task<> closer = hold(note_close(gate));
  closer = Task<>();
  work = Gate::Holder();
  loop.run_ready();
  EXPECT_TRUE(log.empty());
  work = gate.enter();
  EXPECT_FALSE(work);
  // The wake-up may be on its way already.
  Gate other(loop);
  work = other.enter();
  closer = hold(note_close(other));
  work = Gate::Holder();
  closer = Task<>();
  loop.run_ready();
  EXPECT_TRUE(log.empty());
}

TEST_F(AsyncTest, WhatClosesAGateMayGoAndAnotherCloseIt) {
  Gate gate(loop);
  Gate::Holder work = gate.enter();
  Task<> closer = hold(note_close(gate));
  closer = Task<>();
  closer = hold(note_close(gate));
  work = Gate::Holder();
  loop.run_ready();
  EXPECT_THAT(log, ElementsAre("closed"));
}

// --- sleep -----------------------------------------------------------------------------------------------------------

TEST_F(AsyncTest, SleepEndsAtItsTimeOrWhenStopped) {
  Gate gate(loop);
  spawn(gate, note_sleep("in time", 5s, stop.get_token()));
  loop.advance(5s - 1ns);
  EXPECT_TRUE(log.empty());
  loop.advance(1ns);
  EXPECT_THAT(log, ElementsAre("in time slept"));
  log.clear();

  spawn(gate, note_sleep("during", 5s, stop.get_token()));
  loop.advance(1s);
  stop.request_stop();
  EXPECT_TRUE(log.empty()) << "nothing resumes inside request_stop()";
  loop.run_ready();
  EXPECT_THAT(log, ElementsAre("during stopped"));
  log.clear();

  spawn(gate, note_sleep("before", 5s, stop.get_token()));
  EXPECT_THAT(log, ElementsAre("before stopped"));
  EXPECT_TRUE(loop.idle()) << "no timer left behind";
}

TEST_F(AsyncTest, AStopAtTheInstantOfTheTimerIsOneWakeUp) {
  Gate gate(loop);
  spawn(gate, note_sleep("a", 1s, stop.get_token()));
  loop.call_at(loop.now() + 1s, [&] { stop.request_stop(); });
  spawn(gate, note_sleep("b", 1s, stop.get_token()));
  loop.advance(2s);
  EXPECT_THAT(log, ElementsAre("a slept", "b stopped"));
}

TEST_F(AsyncTest, AStopAfterTheEndIsNothing) {
  Gate gate(loop);
  spawn(gate, note_sleep("a", 1s, stop.get_token()));
  loop.advance(1s);
  stop.request_stop();
  loop.run_ready();
  EXPECT_THAT(log, ElementsAre("a slept"));
}

TEST_F(AsyncTest, ASleepingFrameMayGo) {
  Task<> sleeper = hold(note_sleep("a", 1s, stop.get_token()));
  sleeper = Task<>();
  EXPECT_TRUE(loop.idle());
  sleeper = hold(note_sleep("b", 1s, stop.get_token()));
  stop.request_stop();
  sleeper = Task<>();
  loop.advance(2s);
  EXPECT_TRUE(log.empty());
}

// --- bell ------------------------------------------------------------------------------------------------------------

TEST_F(AsyncTest, ABellWakesAllWhoWait) {
  Bell bell(loop);
  Gate gate(loop);
  bell.notify();
  spawn(gate, note_bell(bell, "a", stop.get_token()));
  spawn(gate, note_bell(bell, "b", stop.get_token()));
  spawn(gate, note_bell(bell, "c", {}, loop.now() + 1s));
  loop.run_ready();
  EXPECT_TRUE(log.empty()) << "an earlier notify is no news";
  loop.advance(2s);
  EXPECT_THAT(log, ElementsAre("c none"));
  bell.notify();
  bell.notify();
  stop.request_stop();
  loop.run_ready();
  EXPECT_THAT(log, ElementsAre("c none", "a news", "b news"));
  spawn(gate, note_bell(bell, "d", stop.get_token()));
  EXPECT_EQ(log.back(), "d none");
}

TEST_F(AsyncTest, ABellThatStopsItsWaiters) {
  Bell bell(loop);
  Gate gate(loop);
  spawn(gate, note_bell(bell, "a", stop.get_token()));
  stop.request_stop();
  bell.notify();
  loop.run_ready();
  EXPECT_THAT(log, ElementsAre("a none"));
  EXPECT_TRUE(loop.idle());
}

TEST_F(AsyncTest, AFrameThatWaitsForABellMayGo) {
  auto bell = std::make_unique<Bell>(loop);
  Task<> a = hold(note_bell(*bell, "a", stop.get_token(), loop.now() + 1s));
  Task<> b = hold(note_bell(*bell, "b", stop.get_token()));
  a = Task<>();
  bell->notify();
  b = Task<>();
  bell.reset();
  loop.advance(2s);
  EXPECT_TRUE(log.empty());
}

TEST_F(AsyncTest, ABellMayDieOnceAllWhoWaitAreToBeResumed) {
  auto bell = std::make_unique<Bell>(loop);
  Gate gate(loop);
  spawn(gate, note_bell(*bell, "a", {}));
  spawn(gate, note_bell(*bell, "b", stop.get_token()));
  Task<> gone = hold(note_bell(*bell, "c", {}));
  stop.request_stop();
  bell->notify();
  bell.reset();
  gone = Task<>();
  loop.run_ready();
  EXPECT_THAT(log, ElementsAre("b none", "a news"));

  bell = std::make_unique<Bell>(loop);
  std::stop_source other;
  spawn(gate, note_bell(*bell, "d", other.get_token()));
  other.request_stop();
  bell.reset();
  loop.run_ready();
  EXPECT_EQ(log.back(), "d none");
}

TEST_F(AsyncTest, WhoeverHearsTheBellMayWaitAgain) {
  Bell bell(loop);
  Gate gate(loop);
  int heard = 0;
  spawn(gate, [](Bell& b, int& count, std::stop_token token) -> Task<> {
    while (true) {
      const bool news = co_await b.wait(token);
      if (!news) co_return;
      ++count;
    }
  }(bell, heard, stop.get_token()));
  for (int i = 0; i < 100; ++i) {
    bell.notify();
    loop.run_ready();
  }
  EXPECT_EQ(heard, 100);
  stop.request_stop();
  loop.run_ready();
  EXPECT_EQ(gate.count(), 0u);
}

// --- when_all --------------------------------------------------------------------------------------------------------

Task<> fail_after(Loop& loop, Duration duration, std::string why) {
  (void)co_await sleep_for(loop, duration, std::stop_token());
  throw std::runtime_error(why);
}

TEST_F(AsyncTest, WhenAllWaitsForAllAndThrowsTheFirstGiven) {
  Gate gate(loop);
  std::string error;
  spawn(gate, [](AsyncTest& t, std::string& why) -> Task<> {
    co_await when_all(t.loop, {});
    std::vector<Task<>> tasks;
    tasks.push_back(t.note_sleep("a", 3s, {}));
    tasks.push_back(fail_after(t.loop, 2s, "second"));
    tasks.push_back(fail_after(t.loop, 1s, "third"));
    tasks.push_back(t.note_sleep("b", 0s, t.stop.get_token()));
    try {
      co_await when_all(t.loop, std::move(tasks));
    } catch (const std::runtime_error& e) {
      why = e.what();
    }
    t.log.emplace_back("all");
  }(*this, error));
  loop.advance(10s);
  EXPECT_EQ(error, "second");
  EXPECT_THAT(log, ElementsAre("b slept", "a slept", "all"));
}

TEST_F(AsyncTest, WhenAllEndsWithoutWaitingWhenAllAreDone) {
  Gate gate(loop);
  spawn(gate, [](AsyncTest& t) -> Task<> {
    std::vector<Task<>> tasks;
    int result = 0;
    std::string error;
    for (int i = 0; i < 3; ++i) tasks.push_back(use(result, error));
    co_await when_all(t.loop, std::move(tasks));
    t.log.emplace_back("all");
  }(*this));
  EXPECT_THAT(log, ElementsAre("all"));
  loop.run_ready();
}

TEST_F(AsyncTest, AFrameThatWaitsForAllTakesThemAlong) {
  Semaphore semaphore(loop, 1);
  std::vector<Task<>> tasks;
  tasks.push_back(note_permit(semaphore, "a", 1s, {}));
  tasks.push_back(note_permit(semaphore, "b", 1s, {}));
  tasks.push_back(note_sleep("c", 1s, stop.get_token()));
  Task<> all = hold(when_all(loop, std::move(tasks)));
  all = Task<>();
  loop.advance(5s);
  EXPECT_THAT(log, ElementsAre("a in"));
  EXPECT_TRUE(loop.idle());

  // All have ended, the frame has not been told yet.
  tasks.clear();
  tasks.push_back(note_sleep("d", 1s, {}));
  all = hold(when_all(loop, std::move(tasks)));
  loop.call_at(loop.now() + 1s, [&] { all = Task<>(); });
  loop.advance(2s);
  EXPECT_THAT(log, ElementsAre("a in", "d slept"));
}

TEST_F(AsyncTest, WhatAnEndedTaskHoldsDoesNotWaitForTheOthers) {
  Gate gate(loop);
  Gate::Holder holder = gate.enter();
  std::vector<Task<>> tasks;
  tasks.push_back([](Gate::Holder) -> Task<> { co_return; }(std::move(holder)));
  tasks.push_back(note_sleep("a", 1s, {}));
  const Task<> all = hold(when_all(loop, std::move(tasks)));
  EXPECT_EQ(gate.count(), 0u);
  loop.advance(1s);
}

// --- broken promises -------------------------------------------------------------------------------------------------

using AsyncDeathTest = AsyncTest;

TEST_F(AsyncDeathTest, AGateWithWork) {
  EXPECT_DEATH(
      {
        auto gate = std::make_unique<Gate>(loop);
        const Gate::Holder left = gate->enter();
        gate.reset();
      },
      "a gate dies only after its work has ended");
}

TEST_F(AsyncDeathTest, TwoWhoCloseAGate) {
  EXPECT_DEATH(
      {
        Gate gate(loop);
        const Gate::Holder work = gate.enter();
        const Task<> a = hold(note_close(gate));
        Gate outer(loop);
        spawn(outer, note_close(gate));
      },
      "one caller closes a gate");
}

TEST_F(AsyncDeathTest, AnExceptionOfBackgroundWork) {
  EXPECT_DEATH(
      {
        Gate gate(loop);
        spawn(gate, []() -> Task<> {
          throw std::runtime_error("oops");
          co_return;
        }());
      },
      "oops");
}

TEST_F(AsyncDeathTest, ABellSomebodyWaitsFor) {
  EXPECT_DEATH(
      {
        auto bell = std::make_unique<Bell>(loop);
        const Task<> waiting = hold(note_bell(*bell, "a", {}));
        bell.reset();
      },
      "nobody waits for a bell that dies");
}

}  // namespace
}  // namespace bascule
