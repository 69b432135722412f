// When something that keeps changing may be written again: a second after the last time, then two, four ... up to a
// limit, and at once after a quiet while. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/loop.hpp"

namespace bascule::bridge {

// Of a unit, pod or node whose reconcile fails again and again: slurm-bridge's scheduler waits 10 s at most.
inline constexpr Duration kLongestPause = std::chrono::seconds(30);

struct Pace {
  TimePoint last{};
  std::uint32_t times = 0;  // with less than `quiet` between them

  void mark(TimePoint at, Duration quiet) {
    times = at - last > quiet ? 1 : times + 1;
    last = at;
  }
  // After the first mark().
  TimePoint next(Duration most) const {
    return last + std::min<Duration>(std::chrono::milliseconds(500) * (1u << std::min(times, 10u)), most);
  }
};

}  // namespace bascule::bridge
