// Civil time as Kubernetes writes it (RFC 3339, UTC): metav1.Time in seconds, metav1.MicroTime in microseconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/loop.hpp"

namespace bascule {

// RFC 3339 with any offset; digits below a nanosecond are dropped. nullopt: not such a text, not a real day or time
// (leap seconds are none, as in Go), or before 1678, which WallTime cannot hold: Go's zero time is no time. What is
// later than 2261, which it cannot hold either, is the beginning of 2262: there is room to add three months.
std::optional<WallTime> parse_rfc3339(std::string_view text) noexcept;

// In UTC with `digits` (0 to 9) of a second's fraction, cut: 0 is metav1.Time, 6 is metav1.MicroTime.
std::string print_rfc3339(WallTime time, int digits = 0);

// Whole seconds since 1970, as Slurm counts.
inline std::int64_t epoch_seconds(WallTime time) noexcept {
  return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
}

}  // namespace bascule
