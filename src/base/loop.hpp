// Time and the event loop as parameters. Nothing below the composition of a process reads a clock of its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

namespace bascule {

using Duration = std::chrono::nanoseconds;
// Monotonic: deadlines, back-off, ages.
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;
// Civil time (UTC): what is written into objects.
using WallTime = std::chrono::sys_time<Duration>;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
  virtual WallTime wall() const = 0;
};

// One thread runs everything posted to a loop, in order. `post` may be called from any thread; all else only on the
// loop's.
class Loop : public Clock {
 public:
  using TimerId = std::uint64_t;  // never 0

  // Runs `fn` later, never inside this call.
  virtual void post(std::move_only_function<void()> fn) = 0;
  // Runs `fn` at `when` or soon after; timers of one instant run in the order they were set.
  virtual TimerId call_at(TimePoint when, std::move_only_function<void()> fn) = 0;
  // After it returns the timer's `fn` will not run. An unknown or fired id is ignored.
  virtual void cancel(TimerId id) noexcept = 0;
};

}  // namespace bascule
