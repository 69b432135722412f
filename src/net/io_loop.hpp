// The event loop of a process: one thread, sockets, timers, signals. It ignores SIGPIPE in the whole process, so that a
// peer that goes away is an error of a call; whoever starts child processes gives them the default back.
#pragma once

#include <functional>
#include <memory>

#include "base/loop.hpp"

namespace bascule::net {

class IoLoop final : public Loop {
 public:
  IoLoop();
  ~IoLoop() override;
  IoLoop(const IoLoop&) = delete;
  IoLoop& operator=(const IoLoop&) = delete;

  TimePoint now() const override;
  WallTime wall() const override;
  void post(std::move_only_function<void()> fn) override;
  TimerId call_at(TimePoint when, std::move_only_function<void()> fn) override;
  void cancel(TimerId id) noexcept override;

  // Runs on the calling thread until quit(); a quit() before it counts. May be run again.
  void run();
  // From any thread.
  void quit();
  // Calls `fn` on the loop for each SIGTERM and SIGINT; the process no longer dies of them.
  void on_terminate(std::function<void()> fn);

  struct Impl;  // seen by this room only
  Impl& impl() noexcept { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace bascule::net
