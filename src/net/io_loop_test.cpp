#include "net/io_loop.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <thread>
#include <vector>

namespace bascule::net {
namespace {

using namespace std::chrono_literals;

TEST(IoLoop, RunsWhatIsPostedInOrderAndNeverInsideTheCall) {
  IoLoop loop;
  std::vector<int> log;
  loop.post([&] {
    loop.post([&] { log.push_back(3); });
    log.push_back(1);
  });
  loop.post([&] { log.push_back(2); });
  loop.post([&] { loop.post([&] { loop.quit(); }); });
  EXPECT_TRUE(log.empty());
  loop.run();
  EXPECT_EQ(log, (std::vector<int>{1, 2, 3}));
}

TEST(IoLoop, TakesPostsFromOtherThreads) {
  IoLoop loop;
  int sum = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        loop.post([&] {
          if (++sum == 4000) loop.quit();
        });
      }
    });
  }
  loop.run();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum, 4000);
}

TEST(IoLoop, TimersRunInOrderOfTimeThenOfSetting) {
  IoLoop loop;
  const TimePoint now = loop.now();
  std::vector<int> log;
  loop.call_at(now + 4ms, [&] {
    log.push_back(4);
    loop.quit();
  });
  loop.call_at(now + 2ms, [&] { log.push_back(2); });
  loop.call_at(now + 2ms, [&] { log.push_back(3); });
  loop.call_at(now - 1h, [&] { log.push_back(1); });
  loop.run();
  EXPECT_EQ(log, (std::vector<int>{1, 2, 3, 4}));
  EXPECT_GE(loop.now(), now + 4ms);
}

TEST(IoLoop, ACancelledTimerDoesNotRunEvenWhenDue) {
  IoLoop loop;
  const TimePoint now = loop.now();
  bool ran = false;
  Loop::TimerId second = 0;
  loop.call_at(now - 2ms, [&] { loop.cancel(second); });
  second = loop.call_at(now - 1ms, [&] { ran = true; });
  const auto earliest = loop.call_at(now - 3ms, [&] { ran = true; });
  loop.cancel(earliest);
  loop.cancel(earliest);
  loop.cancel(0);
  loop.call_at(now + 3ms, [&] { loop.quit(); });
  loop.run();
  EXPECT_FALSE(ran);
}

TEST(IoLoop, ATimerThatSetsItselfAgainStarvesNobody) {
  IoLoop loop;
  int rounds = 0;
  std::function<void()> again = [&] {
    ++rounds;
    loop.call_at(loop.now() - 1s, [&] { again(); });
  };
  again();
  int posts = 0;
  std::function<void()> post = [&] {
    if (++posts == 100) loop.quit();
    loop.post([&] { post(); });
  };
  post();
  loop.run();
  EXPECT_GT(rounds, 10);
}

TEST(IoLoop, MayBeRunAgainAndDiesWithTimersSet) {
  IoLoop loop;
  loop.quit();
  loop.run();
  bool ran = false;
  loop.post([&] {
    ran = true;
    loop.quit();
  });
  loop.run();
  EXPECT_TRUE(ran);
  // What a timer holds may cancel others while the loop goes away.
  struct Canceller {
    IoLoop& loop;
    Loop::TimerId other;
    ~Canceller() { loop.cancel(other); }
  };
  const auto other = loop.call_at(loop.now() + 1h, [] {});
  loop.call_at(loop.now() + 1h, [held = std::make_shared<Canceller>(loop, other)] {});
}

TEST(IoLoop, SignalsBecomeCalls) {
  IoLoop loop;
  int signals = 0;
  loop.on_terminate([&] {
    if (++signals == 2)
      loop.quit();
    else
      std::raise(SIGINT);
  });
  loop.post([] { std::raise(SIGTERM); });
  loop.run();
  EXPECT_EQ(signals, 2);
}

}  // namespace
}  // namespace bascule::net
