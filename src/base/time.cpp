#include "base/time.hpp"

#include <fmt/format.h>

#include <cstdint>

namespace bascule {

namespace {

constexpr int kLastYear = 2261;
constexpr WallTime kLatest(std::chrono::sys_days(std::chrono::year(2262) / 1 / 2));

// Takes exactly `count` digits; -1 when there are fewer.
int take_digits(std::string_view& text, std::size_t count) noexcept {
  if (text.size() < count) return -1;
  int value = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (text[i] < '0' || text[i] > '9') return -1;
    value = value * 10 + (text[i] - '0');
  }
  text.remove_prefix(count);
  return value;
}

bool take(std::string_view& text, char c) noexcept {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

bool within(int value, int low, int high) noexcept {
  return value >= low && value <= high;
}

std::optional<std::int64_t> take_fraction(std::string_view& text) noexcept {
  if (!take(text, '.')) return 0;
  std::int64_t nanoseconds = 0;
  std::int64_t place = 100'000'000;
  bool any = false;
  for (; !text.empty() && text.front() >= '0' && text.front() <= '9'; text.remove_prefix(1)) {
    nanoseconds += place * (text.front() - '0');
    place /= 10;
    any = true;
  }
  if (!any) return std::nullopt;
  return nanoseconds;
}

std::optional<std::chrono::minutes> take_offset(std::string_view& text) noexcept {
  if (take(text, 'Z')) return std::chrono::minutes(0);
  const bool negative = !text.empty() && text.front() == '-';
  if (!take(text, '-') && !take(text, '+')) return std::nullopt;
  const int hours = take_digits(text, 2);
  if (!take(text, ':')) return std::nullopt;
  const int minutes = take_digits(text, 2);
  if (!within(hours, 0, 23) || !within(minutes, 0, 59)) return std::nullopt;
  const auto offset = std::chrono::hours(hours) + std::chrono::minutes(minutes);
  return negative ? -offset : offset;
}

}  // namespace

std::optional<WallTime> parse_rfc3339(std::string_view text) noexcept {
  const int year = take_digits(text, 4);
  if (!take(text, '-')) return std::nullopt;
  const int month = take_digits(text, 2);
  if (!take(text, '-')) return std::nullopt;
  const int day = take_digits(text, 2);
  if (!take(text, 'T')) return std::nullopt;
  const int hour = take_digits(text, 2);
  if (!take(text, ':')) return std::nullopt;
  const int minute = take_digits(text, 2);
  if (!take(text, ':')) return std::nullopt;
  const int second = take_digits(text, 2);
  if (!within(year, 1678, 9999) || !within(month, 1, 12) || !within(day, 1, 31) || !within(hour, 0, 23) ||
      !within(minute, 0, 59) || !within(second, 0, 59)) {
    return std::nullopt;
  }
  const std::chrono::year_month_day date(std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day)));
  if (!date.ok()) return std::nullopt;
  const auto fraction = take_fraction(text);
  if (!fraction) return std::nullopt;
  const auto offset = take_offset(text);
  if (!offset || !text.empty()) return std::nullopt;
  if (year > kLastYear) return kLatest;
  return WallTime(std::chrono::sys_days(date)) + std::chrono::hours(hour) + std::chrono::minutes(minute) +
         std::chrono::seconds(second) + Duration(*fraction) - *offset;
}

std::string print_rfc3339(WallTime time, int digits) {
  const auto days = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(days);
  const std::chrono::hh_mm_ss clock(time - WallTime(days));
  std::string out = fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", static_cast<int>(date.year()),
                                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                                clock.hours().count(), clock.minutes().count(), clock.seconds().count());
  if (digits > 0) {
    const std::string fraction = fmt::format("{:09}", clock.subseconds().count());
    out += '.';
    out.append(fraction, 0, static_cast<std::size_t>(digits));
  }
  out += 'Z';
  return out;
}

}  // namespace bascule
