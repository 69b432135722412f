#include "runtime/controller.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "base/log.hpp"
#include "base/manual_loop.hpp"
#include "runtime/metrics.hpp"
#include "testing/run.hpp"

namespace bascule::runtime {
namespace {

using namespace std::chrono_literals;

// Counts what runs; each reconcile takes `takes` and then does what `end` says.
struct ControllerTest : ::testing::Test {
  void make(std::size_t workers = 4) {
    controller.emplace(
        loop, ControllerOptions{.name = "test", .workers = workers, .timeout = 10s},
        [this](std::string key, std::stop_token stop) { return reconcile(*this, std::move(key), std::move(stop)); },
        &metrics);
    controller->start();
  }
  static Task<Result> reconcile(ControllerTest& t, std::string key, std::stop_token stop) {
    ++t.runs[key];
    EXPECT_EQ(++t.running[key], 1) << "one at a time a key";
    t.most = std::max(t.most, ++t.at_once);
    const bool slept = co_await sleep_for(t.loop, t.takes, stop);
    t.stopped += !slept;
    --t.running[key];
    --t.at_once;
    co_return t.end ? t.end(key) : Result{};
  }
  ~ControllerTest() override {
    if (controller) testing::run(loop, controller->stop());
  }

  ManualLoop loop;
  Metrics metrics;
  std::optional<Controller> controller;
  std::map<std::string, int> runs, running;
  int at_once = 0, most = 0, stopped = 0;
  Duration takes = 1ms;
  std::function<Result(const std::string&)> end;
};

TEST_F(ControllerTest, AddedTwiceRunsOnce) {
  make();
  controller->add("a");
  controller->add("a");
  EXPECT_EQ(runs["a"], 0) << "nothing starts inside add()";
  loop.advance(1s);
  EXPECT_EQ(runs["a"], 1);
}

TEST_F(ControllerTest, PausesAreAsLongAsItsOwnerSays) {
  int runs_of_one = 0;
  Controller one(
      loop, ControllerOptions{.name = "one", .pauses = {.longest = 30s}},
      [&](const std::string&, const std::stop_token&) -> Task<Result> {
        ++runs_of_one;
        throw std::runtime_error("no");
      },
      nullptr);
  one.start();
  one.add("a");
  loop.advance(20min);
  const int before = runs_of_one;
  loop.advance(30s);
  EXPECT_EQ(runs_of_one, before + 1);
  testing::run(loop, one.stop());
}

TEST_F(ControllerTest, AddedWhileItRunsRunsAgain) {
  make();
  takes = 1s;
  controller->add("a");
  loop.advance(500ms);
  controller->add("a");
  controller->add("a");
  loop.advance(5s);
  EXPECT_EQ(runs["a"], 2);
}

TEST_F(ControllerTest, NoMoreThanTheWorkers) {
  make(3);
  takes = 1s;
  for (int i = 0; i < 10; ++i) controller->add(std::to_string(i));
  loop.advance(10s);
  EXPECT_EQ(most, 3);
  EXPECT_EQ(runs.size(), 10u);
}

TEST_F(ControllerTest, FirstComesFirst) {
  make(1);
  takes = 1s;
  for (const char* key : {"a", "b", "c"}) controller->add(key);
  controller->add_first("x");
  loop.advance(500ms);
  EXPECT_EQ(runs["x"], 1);
  EXPECT_EQ(runs.count("a"), 0u);
}

// What people wait for does not stand behind a sweep over everything.
TEST_F(ControllerTest, WaitingAndRunningKeysMoveUp) {
  make(1);
  takes = 1s;
  for (const char* key : {"a", "b", "c", "x", "y"}) controller->add(key);
  loop.advance(500ms);
  controller->add_first("x");
  controller->add_first("a");  // runs now: again right after x
  controller->add_first("y");
  loop.advance(3s);
  EXPECT_EQ(runs["x"], 1);
  EXPECT_EQ(runs["y"], 1);
  EXPECT_EQ(runs["a"], 2);
  EXPECT_EQ(runs.count("b"), 0u);
  loop.advance(10s);
  EXPECT_EQ(runs["b"], 1);
  EXPECT_EQ(runs["x"], 1);
}

TEST_F(ControllerTest, FailuresComeBackEverLater) {
  make();
  takes = 0ms;
  end = [](const std::string&) -> Result { throw std::runtime_error("no"); };
  controller->add("a");
  loop.advance(1s);
  const int early = runs["a"];
  EXPECT_GE(early, 6);
  EXPECT_LE(early, 10);
  loop.advance(10s);
  EXPECT_LE(runs["a"], early + 5);
  end = nullptr;
  loop.advance(1h);
  const int done = runs["a"];
  loop.advance(1h);
  EXPECT_EQ(runs["a"], done);
}

// They come back together, in the same order.
TEST_F(ControllerTest, EachKeyThatFailsIsInTheLog) {
  const log::Capture log(log::Level::kWarning, log::Format::kText, &loop);
  make();
  end = [](const std::string& key) -> Result { throw std::runtime_error(key == "last" ? "Y" : "X"); };
  for (int i = 0; i < 100; ++i) controller->add(fmt::format("key-{}.", i));
  controller->add("last");
  loop.advance(1s);
  EXPECT_LE(log.lines().size(), 32u) << "a bounded number at once";
  loop.advance(3min);
  for (int i = 0; i < 100; ++i) EXPECT_GE(log.count(fmt::format("key=key-{}.", i)), 1u) << i;
  EXPECT_GE(log.count("key=last why=Y"), 1u);
  EXPECT_GE(log.count("suppressed=1"), 1u);
  const std::size_t before = log.lines().size();
  loop.advance(10min);
  EXPECT_LE(log.lines().size(), before + 600);
}

TEST_F(ControllerTest, AKeyThatFailsOnIsToldOncePerMinuteAndEachNewReasonAtOnce) {
  const log::Capture log(log::Level::kWarning, log::Format::kText, &loop);
  make();
  std::string why = "first";
  end = [&](const std::string&) -> Result { throw std::runtime_error(why); };
  controller->add("a");
  loop.advance(50s);
  EXPECT_EQ(log.lines().size(), 1u);
  why = "second";
  controller->add("a");
  loop.advance(1s);
  EXPECT_EQ(log.count("why=second"), 1u);
  loop.advance(10min);
  EXPECT_GE(log.lines().size(), 6u);
  EXPECT_LE(log.lines().size(), 13u);
}

TEST_F(ControllerTest, ComesAgainWhenAskedTo) {
  make();
  end = [](const std::string&) { return Result{10s}; };
  controller->add("a");
  loop.advance(35s);
  EXPECT_EQ(runs["a"], 4);
}

TEST_F(ControllerTest, TheEarlierOfTwoDelaysCounts) {
  make();
  controller->add_after("a", 10s);
  controller->add_after("a", 2s);
  controller->add_after("a", 20s);
  loop.advance(3s);
  EXPECT_EQ(runs["a"], 1);
  loop.advance(30s);
  EXPECT_EQ(runs["a"], 1);
}

TEST_F(ControllerTest, SlowWorkIsToldToStop) {
  make();
  takes = 1h;
  controller->add("a");
  loop.advance(11s);
  EXPECT_EQ(stopped, 1);
}

TEST_F(ControllerTest, StopWaitsForWhatRuns) {
  make();
  takes = 1h;
  controller->add("a");
  loop.advance(1s);
  testing::run(loop, controller->stop());
  EXPECT_EQ(stopped, 1);
  EXPECT_EQ(at_once, 0);
  controller.reset();
}

TEST_F(ControllerTest, AnyExceptionIsAFailure) {
  make();
  end = [](const std::string&) -> Result { throw 42; };
  controller->add("a");
  loop.advance(100ms);
  EXPECT_GE(runs["a"], 3);
  end = nullptr;
  loop.advance(1s);
  const int done = runs["a"];
  loop.advance(1h);
  EXPECT_EQ(runs["a"], done);
}

TEST_F(ControllerTest, DestroyedWhileNothingRuns) {
  make();
  controller->add_after("a", 1s);
  loop.advance(10ms);
  controller->add("b");  // its beginning is posted
  controller.reset();
  loop.advance(10s);
  EXPECT_TRUE(runs.empty());
  EXPECT_TRUE(loop.idle()) << "no timer is left";
}

using ControllerDeathTest = ControllerTest;
TEST_F(ControllerDeathTest, DestroyedWhileAReconcileRuns) {
  make();
  takes = 1h;
  controller->add("a");
  loop.advance(1s);
  EXPECT_DEATH(controller.reset(), "stop.. it first");
}

TEST_F(ControllerTest, WaitsForStart) {
  make();
  controller.emplace(
      loop, ControllerOptions{.name = "test"},
      [this](std::string key, std::stop_token stop) { return reconcile(*this, std::move(key), std::move(stop)); },
      nullptr);
  controller->add("a");
  controller->add_after("b", 1s);
  loop.advance(10s);
  EXPECT_TRUE(runs.empty());
  controller->start();
  loop.advance(10ms);
  EXPECT_EQ(runs.size(), 2u);
}

// Work that never waits and asks for itself again must not keep the loop from everything else.
TEST_F(ControllerTest, BusyKeysLeaveTheLoopToOthers) {
  bool stop_it = false;
  controller.emplace(
      loop, ControllerOptions{.name = "test"},
      [this, &stop_it](std::string key, std::stop_token) -> Task<Result> {
        if (!stop_it) controller->add(key);
        ++runs[key];
        return [](Result result) -> Task<Result> { co_return result; }(Result{});
      },
      nullptr);
  controller->start();
  controller->add("a");
  loop.post([&stop_it] { stop_it = true; });
  loop.run_ready();
  EXPECT_LE(runs["a"], 3);
}

// Whatever is added, in whatever order: nothing is lost, nothing runs twice at once.
TEST_F(ControllerTest, RandomWorkIsAllDone) {
  std::mt19937_64 random(7);
  make(5);
  std::map<std::string, int> added;
  takes = 3ms;
  for (int i = 0; i < 5000; ++i) {
    const std::string key = std::to_string(random() % 40);
    switch (random() % 3) {
      case 0:
        controller->add(key);
        break;
      case 1:
        controller->add_first(key);
        break;
      default:
        controller->add_after(key, std::chrono::milliseconds(random() % 20));
    }
    ++added[key];
    if (random() % 4 == 0) loop.advance(std::chrono::milliseconds(random() % 5));
  }
  loop.advance(10s);
  EXPECT_EQ(controller->waiting(), 0u);
  EXPECT_LE(most, 5);
  for (const auto& [key, count] : added) EXPECT_GE(runs[key], 1) << key;
}

TEST_F(ControllerTest, CountsUnderTheNamesOfControllerRuntime) {
  make(3);
  takes = 2s;
  end = [](const std::string& key) -> Result {
    if (key == "fails") throw std::runtime_error("no");
    if (key == "panics") throw 42;
    return key == "again" ? Result{1h} : Result{};
  };
  const auto has = [this](std::string_view line) {
    const std::string text = "\n" + metrics.text();
    EXPECT_NE(text.find("\n" + std::string(line) + "\n"), std::string::npos) << line << " is not in" << text;
  };
  has(R"(controller_runtime_reconcile_total{controller="test",result="success"} 0)");
  has(R"(controller_runtime_max_concurrent_reconciles{controller="test"} 3)");
  for (const char* key : {"a", "again", "fails", "panics"}) controller->add(key);
  controller->add_first("first");
  has(R"(workqueue_depth{controller="test",name="test",priority="0"} 4)");
  has(R"(workqueue_depth{controller="test",name="test",priority="1"} 1)");
  loop.advance(1s);
  has(R"(workqueue_depth{controller="test",name="test",priority="0"} 2)");
  has(R"(controller_runtime_active_workers{controller="test"} 3)");
  has(R"(workqueue_unfinished_work_seconds{controller="test",name="test"} 3)");
  has(R"(workqueue_longest_running_processor_seconds{controller="test",name="test"} 1)");
  loop.advance(3001ms);
  has(R"(controller_runtime_reconcile_total{controller="test",result="success"} 2)");
  has(R"(controller_runtime_reconcile_total{controller="test",result="requeue_after"} 1)");
  has(R"(controller_runtime_reconcile_total{controller="test",result="error"} 2)");
  has(R"(controller_runtime_reconcile_errors_total{controller="test"} 2)");
  has(R"(controller_runtime_reconcile_panics_total{controller="test"} 1)");
  has(R"(controller_runtime_reconcile_time_seconds_count{controller="test"} 5)");
  has(R"(controller_runtime_reconcile_time_seconds_bucket{controller="test",le="1.75"} 0)");
  has(R"(controller_runtime_reconcile_time_seconds_bucket{controller="test",le="2"} 5)");
  has(R"(workqueue_adds_total{controller="test",name="test"} 5)");
  has(R"(workqueue_retries_total{controller="test",name="test"} 3)");
  has(R"(workqueue_work_duration_seconds_sum{controller="test",name="test"} 10)");
  has(R"(workqueue_queue_duration_seconds_bucket{controller="test",name="test",le="1e-08"} 3)");
  has(R"(workqueue_queue_duration_seconds_count{controller="test",name="test"} 5)");
  takes = 1h;
  loop.advance(15s);
  has(R"(controller_runtime_reconcile_timeouts_total{controller="test"} 2)");
  testing::run(loop, controller->stop());
  controller.reset();
  metrics.text();
}

}  // namespace
}  // namespace bascule::runtime
