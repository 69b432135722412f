#include <memory>
#include <random>

#include "base/async_test_support.hpp"

namespace bascule {
namespace {

using testing::ElementsAre;

using SemaphoreTest = AsyncTest;

TEST_F(SemaphoreTest, ASemaphoreIsFirstComeFirstServed) {
  Semaphore semaphore(loop, 2);
  Gate gate(loop);
  for (const char* name : {"a", "b", "c", "d", "e"}) spawn(gate, note_permit(semaphore, name, 1s, {}));
  loop.run_ready();
  EXPECT_THAT(log, ElementsAre("a in", "b in"));
  loop.advance(1s);
  EXPECT_THAT(log, ElementsAre("a in", "b in", "c in", "d in"));
  loop.advance(1s);
  EXPECT_EQ(log.back(), "e in");
  loop.advance(1s);
  EXPECT_TRUE(loop.idle());
}

TEST_F(SemaphoreTest, NobodyOvertakesWhoStandsInLine) {
  Semaphore semaphore(loop, 1);
  Gate gate(loop);
  spawn(gate, note_permit(semaphore, "a", 1s, {}));
  spawn(gate, note_permit(semaphore, "b", 1s, {}));
  // Comes at the very moment the permit comes free, before b has run.
  loop.call_at(loop.now() + 1s, [&] { spawn(gate, note_permit(semaphore, "c", 1s, {})); });
  loop.advance(5s);
  EXPECT_THAT(log, ElementsAre("a in", "b in", "c in"));
}

TEST_F(SemaphoreTest, GivingUpLeavesTheLine) {
  Semaphore semaphore(loop, 1);
  Gate gate(loop);
  spawn(gate, note_permit(semaphore, "a", 10s, {}));
  spawn(gate, note_permit(semaphore, "b", 1s, stop.get_token()));
  spawn(gate, note_permit(semaphore, "c", 1s, {}, loop.now() + 2s));
  spawn(gate, note_permit(semaphore, "d", 1s, {}));
  loop.advance(1s);
  stop.request_stop();
  loop.advance(2s);
  EXPECT_THAT(log, ElementsAre("a in", "b out", "c out"));
  loop.advance(10s);
  EXPECT_EQ(log.back(), "d in");
  EXPECT_TRUE(loop.idle());
}

TEST_F(SemaphoreTest, AStoppedWaiterPassesThePermitOn) {
  Semaphore semaphore(loop, 1);
  Gate gate(loop);
  spawn(gate, note_permit(semaphore, "a", 1s, {}));
  spawn(gate, note_permit(semaphore, "b", 1s, stop.get_token()));
  spawn(gate, note_permit(semaphore, "c", 1s, {}));
  loop.call_at(loop.now() + 1s, [&] { stop.request_stop(); });  // after the permit went to b, before b has run
  loop.advance(5s);
  ASSERT_EQ(log.size(), 3u);
  EXPECT_EQ(log.back(), "c in");
}

TEST_F(SemaphoreTest, AFrameWithAGrantMayGo) {
  Semaphore semaphore(loop, 1);
  Gate gate(loop);
  Task<> a = hold(note_permit(semaphore, "a", 10s, {}));
  Task<> b = hold(note_permit(semaphore, "b", 1s, {}));
  Task<> c = hold(note_permit(semaphore, "c", 1s, {}));
  spawn(gate, note_permit(semaphore, "d", 1s, {}));
  c = Task<>();  // in line
  a = Task<>();  // in possession: b is granted
  b = Task<>();  // granted, not yet run: d is next
  loop.advance(2s);
  EXPECT_THAT(log, ElementsAre("a in", "d in"));
}

// Counts what is posted: nobody is woken who does not get a permit.
class CountingLoop final : public Loop {
 public:
  explicit CountingLoop(ManualLoop& loop) : loop_(loop) {}
  TimePoint now() const override { return loop_.now(); }
  WallTime wall() const override { return loop_.wall(); }
  void post(std::move_only_function<void()> fn) override {
    ++posted;
    loop_.post(std::move(fn));
  }
  TimerId call_at(TimePoint when, std::move_only_function<void()> fn) override {
    return loop_.call_at(when, std::move(fn));
  }
  void cancel(TimerId id) noexcept override { loop_.cancel(id); }
  int posted = 0;

 private:
  ManualLoop& loop_;
};

struct Work {
  int running = 0, most = 0, done = 0;
};

Task<> work_with_permit(Loop& loop, Semaphore& semaphore, Work& work, Duration duration) {
  const Semaphore::Permit permit = co_await semaphore.acquire(std::stop_token());
  work.most = std::max(work.most, ++work.running);
  (void)co_await sleep_for(loop, duration, std::stop_token());
  --work.running;
  ++work.done;
}

TEST_F(SemaphoreTest, EachReleaseWakesOne) {
  CountingLoop counting(loop);
  Semaphore semaphore(counting, 3);
  Gate gate(loop);
  std::mt19937 random(11);
  Work work;
  constexpr int kTasks = 2'000;
  for (int i = 0; i < kTasks; ++i) {
    spawn(gate, work_with_permit(loop, semaphore, work, std::chrono::microseconds(random() % 100)));
  }
  EXPECT_EQ(counting.posted, 0);
  close(gate);
  EXPECT_EQ(work.done, kTasks);
  EXPECT_EQ(work.most, 3);
  EXPECT_EQ(counting.posted, kTasks - 3);
}

// Whatever is stopped, runs out of time or is destroyed at whatever moment: never more than the limit inside, none
// lost.
TEST_F(SemaphoreTest, RandomComingAndGoing) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const int limit = 1 + static_cast<int>(random() % 3);
    auto semaphore = std::make_unique<Semaphore>(loop, static_cast<std::size_t>(limit));
    std::vector<Task<>> tasks(20);
    std::vector<std::stop_source> stops(tasks.size());
    int inside = 0;
    const auto enter = [](ManualLoop& l, Semaphore& s, std::stop_token token, TimePoint deadline, Duration length,
                          int& now) -> Task<> {
      const Semaphore::Permit permit = co_await s.acquire(token, deadline);
      if (!permit) co_return;
      struct Inside {
        int& count;
        explicit Inside(int& c) : count(c) { ++count; }
        ~Inside() { --count; }
      };
      const Inside counted(now);
      (void)co_await sleep_for(l, length, std::stop_token());
    };
    for (int step = 0; step < 100; ++step) {
      const std::size_t at = random() % tasks.size();
      switch (random() % 5) {
        case 0:
        case 1: {
          stops[at] = std::stop_source();
          const TimePoint deadline = random() % 3 == 0 ? loop.now() + Duration(random() % 20) : TimePoint::max();
          const Duration length(random() % 10);
          tasks[at] = hold(enter(loop, *semaphore, stops[at].get_token(), deadline, length, inside));
          break;
        }
        case 2:
          stops[at].request_stop();
          break;
        case 3:
          tasks[at] = Task<>();
          break;
        default:
          loop.advance(Duration(random() % 4));
      }
      ASSERT_LE(inside, limit);
    }
    loop.advance(1s);
    EXPECT_EQ(inside, 0);
    EXPECT_TRUE(loop.idle());
    for (int i = 0; i < limit; ++i)
      tasks[static_cast<std::size_t>(i)] = hold(enter(loop, *semaphore, {}, {}, 1s, inside));
    EXPECT_EQ(inside, limit) << "all permits are back";
    tasks.clear();
    semaphore.reset();  // checks the same
  }
}

using SemaphoreDeathTest = AsyncTest;

TEST_F(SemaphoreDeathTest, ASemaphoreWhosePermitsAreOut) {
  EXPECT_DEATH(
      {
        auto semaphore = std::make_unique<Semaphore>(loop, 1);
        const Task<> held = hold(note_permit(*semaphore, "a", 1s, {}));
        semaphore.reset();
      },
      "a semaphore outlives its permits");
}

}  // namespace
}  // namespace bascule
