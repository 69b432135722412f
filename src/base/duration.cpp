#include "base/duration.hpp"

#include <cstdint>
#include <limits>

namespace bascule {

namespace {

struct Unit {
  std::string_view name;
  std::uint64_t nanoseconds;
};
// µ is written as the micro sign (U+00B5) or as the Greek letter (U+03BC).
constexpr Unit kUnits[] = {
    {"ns", 1},         {"us", 1'000},        {"\u00b5s", 1'000},       {"\u03bcs", 1'000},
    {"ms", 1'000'000}, {"s", 1'000'000'000}, {"m", 60'000'000'000ull}, {"h", 3'600'000'000'000ull},
};

// The magnitude of the smallest duration.
constexpr std::uint64_t kLimit = std::uint64_t{1} << 63;

bool digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

// Takes digits off `text`; false beyond kLimit.
bool take_whole(std::string_view& text, std::uint64_t& value) noexcept {
  for (; !text.empty() && digit(text.front()); text.remove_prefix(1)) {
    if (value > kLimit / 10) return false;
    value = value * 10 + static_cast<std::uint64_t>(text.front() - '0');
    if (value > kLimit) return false;
  }
  return true;
}

// Takes the digits after a point; those that no longer fit do not matter.
void take_fraction(std::string_view& text, std::uint64_t& value, double& scale) noexcept {
  bool full = false;
  for (; !text.empty() && digit(text.front()); text.remove_prefix(1)) {
    if (full) continue;
    if (value > (kLimit - 1) / 10) {
      full = true;
      continue;
    }
    const std::uint64_t next = value * 10 + static_cast<std::uint64_t>(text.front() - '0');
    if (next > kLimit) {
      full = true;
      continue;
    }
    value = next;
    scale *= 10;
  }
}

// One number with its unit, in nanoseconds.
std::optional<std::uint64_t> take_part(std::string_view& text) noexcept {
  std::uint64_t whole = 0;
  std::uint64_t fraction = 0;
  double scale = 1;
  const std::size_t before = text.size();
  if (!take_whole(text, whole)) return std::nullopt;
  bool digits = text.size() != before;
  if (!text.empty() && text.front() == '.') {
    text.remove_prefix(1);
    const std::size_t start = text.size();
    take_fraction(text, fraction, scale);
    digits = digits || text.size() != start;
  }
  if (!digits) return std::nullopt;

  const std::string_view name = text.substr(0, text.find_first_of(".0123456789"));
  for (const Unit& unit : kUnits) {
    if (unit.name != name) continue;
    text.remove_prefix(name.size());
    if (whole > kLimit / unit.nanoseconds) return std::nullopt;
    std::uint64_t part = whole * unit.nanoseconds;
    if (fraction > 0) {
      part +=
          static_cast<std::uint64_t>(static_cast<double>(fraction) * (static_cast<double>(unit.nanoseconds) / scale));
    }
    if (part > kLimit) return std::nullopt;
    return part;
  }
  return std::nullopt;
}

// `value` without its last `digits` decimals, which go behind a point in front of what is in `out` already; zeros at
// the end are left out. `out` grows to the left.
std::uint64_t prepend_fraction(std::string& out, std::uint64_t value, int digits) {
  bool print = false;
  for (int i = 0; i < digits; ++i) {
    const auto last = static_cast<char>('0' + value % 10);
    print = print || last != '0';
    if (print) out.insert(out.begin(), last);
    value /= 10;
  }
  if (print) out.insert(out.begin(), '.');
  return value;
}

}  // namespace

std::optional<Duration> parse_duration(std::string_view text) noexcept {
  bool negative = false;
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) {
    negative = text.front() == '-';
    text.remove_prefix(1);
  }
  if (text == "0") return Duration{};
  if (text.empty()) return std::nullopt;
  std::uint64_t total = 0;
  while (!text.empty()) {
    const auto part = take_part(text);
    if (!part) return std::nullopt;
    total += *part;
    if (total > kLimit) return std::nullopt;
  }
  if (negative) return Duration(static_cast<std::int64_t>(~total + 1));
  if (total == kLimit) return std::nullopt;
  return Duration(static_cast<std::int64_t>(total));
}

std::string print_duration(Duration duration) {
  const bool negative = duration < Duration::zero();
  std::uint64_t left = static_cast<std::uint64_t>(duration.count());
  if (negative) left = ~left + 1;
  if (left == 0) return "0s";

  std::string out;
  if (left < 1'000) {
    out = std::to_string(left) + "ns";
  } else if (left < 1'000'000'000) {
    out = left < 1'000'000 ? "\u00b5s" : "ms";
    const std::uint64_t whole = prepend_fraction(out, left, left < 1'000'000 ? 3 : 6);
    out.insert(0, std::to_string(whole));
  } else {
    out = "s";
    std::uint64_t whole = prepend_fraction(out, left, 9);
    out.insert(0, std::to_string(whole % 60));
    whole /= 60;
    if (whole > 0) {
      out.insert(0, std::to_string(whole % 60) + "m");
      whole /= 60;
      if (whole > 0) out.insert(0, std::to_string(whole) + "h");
    }
  }
  return negative ? "-" + out : out;
}

}  // namespace bascule
