// A loop whose time moves only when told: deterministic tests and simulations of whatever runs on a Loop.
#pragma once

#include <deque>
#include <map>

#include "base/loop.hpp"

namespace bascule {

class ManualLoop final : public Loop {
 public:
  // Starts at a fixed instant, so that printed times are the same in every run.
  TimePoint now() const override { return now_; }
  WallTime wall() const override { return wall_start_ + (now_ - TimePoint{}); }
  void post(std::move_only_function<void()> fn) override { ready_.push_back(std::move(fn)); }
  TimerId call_at(TimePoint when, std::move_only_function<void()> fn) override;
  void cancel(TimerId id) noexcept override;

  // Runs what is ready, and what that makes ready; no time passes. Returns how many callbacks ran.
  std::size_t run_ready();
  // Lets time pass, running every timer at its own instant.
  void advance(Duration duration);
  // Advances from timer to timer until `done` is true or `limit` has passed; returns done().
  bool run_until(const std::function<bool()>& done, Duration limit);
  // Moves civil time alone, as an administrator or a time daemon may.
  void step_wall(Duration by) { wall_start_ += by; }
  bool idle() const noexcept { return ready_.empty() && timers_.empty(); }

 private:
  TimePoint now_{std::chrono::hours(1)};
  WallTime wall_start_{std::chrono::sys_days{std::chrono::year{2026} / 1 / 1}};
  std::deque<std::move_only_function<void()>> ready_;
  std::map<std::pair<TimePoint, TimerId>, std::move_only_function<void()>> timers_;
  std::map<TimerId, TimePoint> due_;
  TimerId next_ = 1;
};

}  // namespace bascule
