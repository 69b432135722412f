// Structured logging: a message that never varies plus keys and values, as Kubernetes components do (logr).
//   log::info("pod bound", {{"pod", key}, {"node", name}});
// One line an entry on stderr, written by one write(2). Usable from any thread. Values longer than kMaxValue bytes are
// cut. Secrets are never logged; log::redact says that there was one.
#pragma once

#include <atomic>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "base/loop.hpp"

namespace bascule::log {

enum class Level : std::uint8_t { kDebug, kInfo, kWarning, kError };
enum class Format : std::uint8_t { kText, kJson };

std::string_view to_string(Level level) noexcept;  // "debug", "info", "warning", "error"
std::optional<Level> parse_level(std::string_view text) noexcept;
std::optional<Format> parse_format(std::string_view text) noexcept;  // "text", "json"

inline constexpr std::size_t kMaxValue = 2048;

template <class T>
concept Viewable = requires(const T& t) {
  { t.view() } -> std::convertible_to<std::string_view>;
};
template <class T>
concept Printable = !Viewable<T> && requires(const T& t) {
  { t.str() } -> std::convertible_to<std::string>;
};

// Text is referred to, not copied: a Value lives no longer than the call that logs it.
class Value final {
 public:
  enum class Kind : std::uint8_t { kText, kOwned, kSigned, kUnsigned, kDouble, kBool, kDuration };

  Value(std::string_view text) : kind_(Kind::kText), text_(text) {}
  Value(const char* text) : Value(std::string_view(text == nullptr ? "" : text)) {}
  Value(const std::string& text) : Value(std::string_view(text)) {}
  Value(const std::exception& error) : Value(std::string_view(error.what())) {}
  Value(bool value) : kind_(Kind::kBool), signed_(value ? 1 : 0) {}
  template <std::signed_integral T>
  Value(T value) : kind_(Kind::kSigned), signed_(value) {}
  template <std::unsigned_integral T>
  Value(T value) : kind_(Kind::kUnsigned), signed_(static_cast<std::int64_t>(value)) {}
  template <std::floating_point T>
  Value(T value) : kind_(Kind::kDouble), double_(static_cast<double>(value)) {}
  // Printed as Go does: 1.5s.
  template <class R, class P>
  Value(std::chrono::duration<R, P> value)
      : kind_(Kind::kDuration), signed_(std::chrono::duration_cast<Duration>(value).count()) {}
  template <Viewable T>
  Value(const T& value) : Value(std::string_view(value.view())) {}
  template <Printable T>
  Value(const T& value) : kind_(Kind::kOwned), owned_(value.str()) {}

  Kind kind() const noexcept { return kind_; }
  std::string_view text() const noexcept { return kind_ == Kind::kOwned ? std::string_view(owned_) : text_; }
  std::int64_t signed_value() const noexcept { return signed_; }
  std::uint64_t unsigned_value() const noexcept { return static_cast<std::uint64_t>(signed_); }
  double double_value() const noexcept { return double_; }

 private:
  Kind kind_;
  std::int64_t signed_ = 0;
  double double_ = 0;
  std::string_view text_;
  std::string owned_;
};

struct Field {
  std::string_view key;
  Value value;
};
using Fields = std::initializer_list<Field>;

namespace detail {
extern std::atomic<Level> threshold;
}

// Entries below `level` are dropped. Starts as text at info.
void configure(Level level, Format format);
inline bool enabled(Level level) noexcept {
  return level >= detail::threshold.load(std::memory_order_relaxed);
}

void write(Level level, std::string_view message, Fields fields = {});
inline void debug(std::string_view message, Fields fields = {}) {
  write(Level::kDebug, message, fields);
}
inline void info(std::string_view message, Fields fields = {}) {
  write(Level::kInfo, message, fields);
}
inline void warning(std::string_view message, Fields fields = {}) {
  write(Level::kWarning, message, fields);
}
inline void error(std::string_view message, Fields fields = {}) {
  write(Level::kError, message, fields);
}

// At most one entry each `every` from this place in the source; the next one tells as "suppressed" how many were
// dropped.
void limited(Level level, Duration every, std::string_view message, Fields fields = {},
             std::source_location where = std::source_location::current());

// "<redacted, 23 bytes>", or "<empty>".
std::string redact(std::string_view secret);

// For tests: takes all entries, in place of stderr, while it lives. Reads the time from `clock` if given. One at a
// time.
class Capture final {
 public:
  explicit Capture(Level level = Level::kDebug, Format format = Format::kText, const Clock* clock = nullptr);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  std::vector<std::string> lines() const;
  // Number of lines that contain `text`.
  std::size_t count(std::string_view text) const;
  void clear();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bascule::log
