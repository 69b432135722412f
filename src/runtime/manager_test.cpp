#include "runtime/manager.hpp"

#include <gtest/gtest.h>

#include <random>

#include "base/manual_loop.hpp"
#include "testing/run.hpp"

namespace bascule::runtime {
namespace {

using namespace std::chrono_literals;

struct ManagerTest : ::testing::Test {
  struct Times {
    Duration start = 1s, stop = 1s;
    bool start_throws = false, stop_throws = false;
    bool standby = false;
  };

  static Task<> start(ManagerTest& t, std::string name, Times times, std::stop_token stop) {
    t.happened += "+" + name;
    const bool slept = co_await sleep_for(t.loop, times.start, stop);
    if (!slept) t.happened += "!";
    if (times.start_throws) throw std::runtime_error(name + " is broken");
  }
  static Task<> stop_part(ManagerTest& t, std::string name, Times times) {
    co_await sleep_for(t.loop, times.stop, {});
    t.happened += "-" + name;
    if (times.stop_throws) throw std::runtime_error("no");
  }
  static Task<> run_part(ManagerTest& t, std::string name, Duration lasts, bool throws, std::stop_token stop) {
    t.happened += "(" + name;
    co_await sleep_for(t.loop, lasts, stop);
    t.happened += ")" + name;
    if (throws) throw std::runtime_error(name + " failed");
  }
  Manager::Part part(std::string name, Times times) {
    return {.name = name,
            .start = [this, name, times](std::stop_token s) { return start(*this, name, times, std::move(s)); },
            .stop = [this, name, times] { return stop_part(*this, name, times); },
            .standby = times.standby};
  }
  Manager::Part part(std::string name) { return part(std::move(name), Times()); }
  Manager::Part runner(std::string name, Duration lasts, bool throws = false) {
    return {.name = name, .run = [this, name, lasts, throws](std::stop_token s) {
              return run_part(*this, name, lasts, throws, std::move(s));
            }};
  }
  void begin() {
    spawn(gate, [](ManagerTest& t) -> Task<> {
      try {
        co_await t.manager.run(t.stop.get_token());
      } catch (const std::exception& error) {
        t.failure = error.what();
      }
      t.ended = true;
    }(*this));
  }
  ~ManagerTest() override {
    stop.request_stop();
    loop.advance(1h);
    testing::run(loop, gate.close());
  }

  ManualLoop loop;
  Gate gate{loop};
  std::stop_source stop;
  std::string happened, overdue, failure;
  bool ended = false;
  Manager manager{loop, {.grace = 10s, .overdue = [this](const std::string& part) { overdue += part; }}};
};

TEST_F(ManagerTest, StartsInOrderAndStopsInReverse) {
  for (const char* name : {"a", "b"}) manager.add(part(name));
  manager.add(runner("r", 1h));
  manager.add(part("c"));
  begin();
  EXPECT_EQ(happened, "+a") << "b waits until a stands";
  loop.advance(5s);
  EXPECT_EQ(happened, "+a+b(r+c");
  EXPECT_FALSE(ended);
  stop.request_stop();
  loop.advance(5s);
  EXPECT_EQ(happened, "+a+b(r+c-c)r-b-a");
  EXPECT_TRUE(ended);
  EXPECT_EQ(failure, "");
  EXPECT_EQ(overdue, "");
}

TEST_F(ManagerTest, StopsWhatWasStarted) {
  for (const char* name : {"a", "b", "c"}) manager.add(part(name));
  begin();
  loop.advance(1500ms);
  stop.request_stop();
  loop.advance(5s);
  EXPECT_EQ(happened, "+a+b!-b-a");
  EXPECT_TRUE(ended);
}

TEST_F(ManagerTest, AStartThatFailsEndsTheProcess) {
  manager.add(part("a"));
  manager.add(part("b", {.start_throws = true, .stop_throws = true}));
  manager.add(part("c"));
  begin();
  loop.advance(10s);
  EXPECT_EQ(happened, "+a+b-b-a");
  EXPECT_EQ(failure, "b is broken");
}

TEST_F(ManagerTest, ARunThatEndsEndsTheProcess) {
  manager.add(part("a"));
  manager.add(runner("r", 3s));
  begin();
  loop.advance(10s);
  EXPECT_EQ(happened, "+a(r)r-a");
  EXPECT_TRUE(ended);
  EXPECT_EQ(failure, "");
}

TEST_F(ManagerTest, ARunThatFailsEndsTheProcess) {
  manager.add(runner("r", 3s, true));
  manager.add(part("a"));
  begin();
  loop.advance(10s);
  EXPECT_EQ(happened, "(r+a)r-a");
  EXPECT_EQ(failure, "r failed");
}

TEST_F(ManagerTest, ErrorsOfWhatIsToldToStopAreNoNews) {
  manager.add(runner("r", 1h, true));
  begin();
  stop.request_stop();
  loop.advance(1s);
  EXPECT_TRUE(ended);
  EXPECT_EQ(failure, "");
}

TEST_F(ManagerTest, SaysWhatItWaitsFor) {
  manager.add(part("caches"));
  manager.add(part("lease", {.start = 10s, .standby = true}));
  manager.add(part("controllers"));
  EXPECT_EQ(manager.unready(), "not started");
  begin();
  EXPECT_EQ(manager.unready(), "waiting for caches");
  loop.advance(5s);
  EXPECT_FALSE(manager.unready()) << "a standby is ready";
  loop.advance(6500ms);
  EXPECT_EQ(manager.unready(), "waiting for controllers");
  loop.advance(1s);
  EXPECT_FALSE(manager.unready());
  manager.end();
  EXPECT_EQ(manager.unready(), "stopping");
}

TEST_F(ManagerTest, SaysWhichPartDoesNotStop) {
  manager.add(part("a"));
  manager.add(part("slow", {.stop = 1min}));
  manager.add(part("b"));
  begin();
  loop.advance(5s);
  stop.request_stop();
  loop.advance(9s);
  EXPECT_EQ(overdue, "");
  loop.advance(2s);
  EXPECT_EQ(overdue, "slow");
  EXPECT_FALSE(ended);
}

TEST_F(ManagerTest, NothingIsStartedOnceStopped) {
  manager.add(part("a"));
  stop.request_stop();
  begin();
  loop.advance(1s);
  EXPECT_EQ(happened, "");
  EXPECT_TRUE(ended);
}

// Whenever it is told to stop, and whatever fails: what was begun is stopped once, in the reverse order.
TEST_F(ManagerTest, AnyMoment) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    ManualLoop world;
    std::string begun, stopped;
    bool done = false;
    {
      Manager parts(world);
      Gate running(world);
      std::stop_source quit;
      for (char name = 'a'; name < 'g'; ++name) {
        const Duration takes = std::chrono::milliseconds(random() % 20);
        const bool throws = random() % 12 == 0;
        parts.add({.name = std::string(1, name),
                   .start =
                       [&world, &begun, name, takes, throws](std::stop_token s) {
                         begun += name;
                         return [](Loop& l, Duration d, bool t, std::stop_token st) -> Task<> {
                           co_await sleep_for(l, d, st);
                           if (t) throw std::runtime_error("no");
                         }(world, takes, throws, std::move(s));
                       },
                   .stop =
                       [&world, &stopped, name, takes] {
                         stopped += name;
                         return [](Loop& l, Duration d) -> Task<> { co_await sleep_for(l, d, {}); }(world, takes);
                       }});
      }
      spawn(running, [](Manager& m, std::stop_token s, bool& d) -> Task<> {
        try {
          co_await m.run(std::move(s));
        } catch (const std::runtime_error& e) {
          EXPECT_STREQ(e.what(), "no");
        }
        d = true;
      }(parts, quit.get_token(), done));
      world.advance(std::chrono::milliseconds(random() % 80));
      quit.request_stop();
      world.advance(1s);
      testing::run(world, running.close());
    }
    EXPECT_TRUE(done);
    EXPECT_EQ(std::string(stopped.rbegin(), stopped.rend()), begun);
    EXPECT_TRUE(world.idle()) << "no timer is left";
  }
}

}  // namespace
}  // namespace bascule::runtime
