// Durations as Go writes them, which is how Kubernetes configuration and flags do: "1h2m3.5s", "250ms", "0s".
// Source of the rules: documentation of Go's time.ParseDuration and Duration.String.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/loop.hpp"

namespace bascule {

// Numbers with a unit each (ns, us, µs, ms, s, m, h), fractions allowed, one sign in front; "0" needs no unit. Digits
// below a nanosecond are dropped. nullopt: not a duration, or beyond about 292 years.
std::optional<Duration> parse_duration(std::string_view text) noexcept;
std::string print_duration(Duration duration);

}  // namespace bascule
