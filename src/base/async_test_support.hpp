// What the tests of base/async share: tasks that note what becomes of them, on a loop whose time the test moves.
#pragma once

#include <gmock/gmock.h>

#include <stop_token>
#include <string>
#include <vector>

#include "base/async.hpp"
#include "base/manual_loop.hpp"

namespace bascule {

using namespace std::chrono_literals;

// Begins a task whose frame the test destroys when it likes.
inline Task<> hold(Task<> task) {
  task.start();
  return task;
}

struct AsyncTest : testing::Test {
  ManualLoop loop;
  std::stop_source stop;
  std::vector<std::string> log;

  Task<> note_sleep(std::string name, Duration duration, std::stop_token token) {
    const bool slept = co_await sleep_for(loop, duration, token);
    log.push_back(name + (slept ? " slept" : " stopped"));
  }
  Task<> note_bell(Bell& bell, std::string name, std::stop_token token, TimePoint deadline = TimePoint::max()) {
    const bool news = co_await bell.wait(token, deadline);
    log.push_back(name + (news ? " news" : " none"));
  }
  Task<> note_permit(Semaphore& semaphore, std::string name, Duration work, std::stop_token token,
                     TimePoint deadline = TimePoint::max()) {
    const Semaphore::Permit permit = co_await semaphore.acquire(token, deadline);
    log.push_back(name + (permit ? " in" : " out"));
    if (permit) (void)co_await sleep_for(loop, work, std::stop_token());
  }
  Task<> note_close(Gate& gate) {
    co_await gate.close();
    log.emplace_back("closed");
  }
  // Waits for the gate as an owner must.
  void close(Gate& gate) {
    bool closed = false;
    Gate outer(loop);
    spawn(outer, [](Gate& g, bool& done) -> Task<> {
      co_await g.close();
      done = true;
    }(gate, closed));
    EXPECT_TRUE(loop.run_until([&] { return closed; }, 24h));
  }
};

}  // namespace bascule
