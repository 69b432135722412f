#include "base/log.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "base/check.hpp"
#include "base/duration.hpp"
#include "base/time.hpp"
#include "base/utf8.hpp"

namespace bascule::log {

constinit std::atomic<Level> detail::threshold = Level::kInfo;

namespace {

constinit std::atomic<Format> output_format = Format::kText;

struct Site {
  TimePoint next{};
  std::uint64_t suppressed = 0;
};

// Everything the logging threads share. Never destroyed: others may log while the process ends.
struct Shared {
  std::mutex mutex;
  std::vector<std::string>* capture = nullptr;
  const Clock* clock = nullptr;
  std::map<std::tuple<std::string_view, std::uint32_t, std::uint32_t>, Site> sites;  // as many as the source has
};

Shared& shared() {
  static Shared* const instance = new Shared;
  return *instance;
}

void append_escaped(std::string& out, std::string_view text) {
  while (!text.empty()) {
    const char c = text.front();
    std::size_t used = 1;
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else if (const std::size_t length = utf8_length(text); length == 0) {
      out += "\\ufffd";
    } else {
      out.append(text, 0, length);
      used = length;
    }
    text.remove_prefix(used);
  }
}

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  append_escaped(out, text.substr(0, kMaxValue));
  if (text.size() > kMaxValue) out += fmt::format("... ({} bytes more)", text.size() - kMaxValue);
  out += '"';
}

// A value that a reader and a shell take as one word goes without quotes.
bool plain(std::string_view text) noexcept {
  if (text.empty() || text.size() > kMaxValue) return false;
  for (const char c : text) {
    if (c <= ' ' || c >= 0x7F || c == '"' || c == '=' || c == '\\') return false;
  }
  return true;
}

void append_value(std::string& out, const Value& value, Format format) {
  const auto append_text = [&](std::string_view text) {
    if (format == Format::kText && plain(text)) {
      out += text;
    } else {
      append_quoted(out, text);
    }
  };
  switch (value.kind()) {
    case Value::Kind::kText:
    case Value::Kind::kOwned:
      return append_text(value.text());
    case Value::Kind::kSigned:
      out += fmt::to_string(value.signed_value());
      return;
    case Value::Kind::kUnsigned:
      out += fmt::to_string(value.unsigned_value());
      return;
    case Value::Kind::kDouble:
      if (std::isfinite(value.double_value())) {
        out += fmt::to_string(value.double_value());
      } else {
        append_text(fmt::to_string(value.double_value()));
      }
      return;
    case Value::Kind::kBool:
      out += value.signed_value() != 0 ? "true" : "false";
      return;
    case Value::Kind::kDuration:
      return append_text(print_duration(Duration(value.signed_value())));
  }
}

class Line final {
 public:
  Line(Format format, WallTime time, Level level, std::string_view message) : format_(format) {
    text_.reserve(256);
    if (format == Format::kJson) {
      text_ += fmt::format(R"({{"ts":"{}","level":"{}","msg":)", print_rfc3339(time, 3), to_string(level));
      append_quoted(text_, message);
    } else {
      static constexpr std::string_view kShort[] = {"DEBUG", "INFO ", "WARN ", "ERROR"};
      text_ += fmt::format("{} {} ", print_rfc3339(time, 3), kShort[static_cast<std::size_t>(level)]);
      append_escaped(text_, message.substr(0, kMaxValue));
    }
  }
  void add(std::string_view key, const Value& value) {
    if (format_ == Format::kJson) {
      text_ += ',';
      append_quoted(text_, key);
      text_ += ':';
    } else {
      text_ += ' ';
      text_ += key;
      text_ += '=';
    }
    append_value(text_, value, format_);
  }
  std::string finish() {
    if (format_ == Format::kJson) text_ += '}';
    text_ += '\n';
    return std::move(text_);
  }

 private:
  Format format_;
  std::string text_;
};

void write_stderr(std::string_view line) noexcept {
  while (!line.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // nobody to tell
    line.remove_prefix(static_cast<std::size_t>(written));
  }
}

WallTime wall(const Shared& all) {
  return all.clock != nullptr ? all.clock->wall() : WallTime(std::chrono::system_clock::now());
}

void emit(Level level, std::string_view message, Fields fields, std::uint64_t suppressed) {
  Shared& all = shared();
  const std::lock_guard lock(all.mutex);
  Line line(output_format.load(std::memory_order_relaxed), wall(all), level, message);
  for (const Field& field : fields) line.add(field.key, field.value);
  if (suppressed > 0) line.add("suppressed", suppressed);
  std::string text = line.finish();
  if (all.capture != nullptr) {
    text.pop_back();
    all.capture->push_back(std::move(text));
  } else {
    write_stderr(text);
  }
}

}  // namespace

std::string_view to_string(Level level) noexcept {
  switch (level) {
    case Level::kDebug:
      return "debug";
    case Level::kInfo:
      return "info";
    case Level::kWarning:
      return "warning";
    case Level::kError:
      return "error";
  }
  return "unknown";
}

std::optional<Level> parse_level(std::string_view text) noexcept {
  for (const Level level : {Level::kDebug, Level::kInfo, Level::kWarning, Level::kError}) {
    if (text == to_string(level)) return level;
  }
  return std::nullopt;
}

std::optional<Format> parse_format(std::string_view text) noexcept {
  if (text == "text") return Format::kText;
  if (text == "json") return Format::kJson;
  return std::nullopt;
}

void configure(Level level, Format format) {
  detail::threshold = level;
  output_format = format;
}

void write(Level level, std::string_view message, Fields fields) {
  if (enabled(level)) emit(level, message, fields, 0);
}

void limited(Level level, Duration every, std::string_view message, Fields fields, std::source_location where) {
  if (!enabled(level)) return;
  std::uint64_t suppressed = 0;
  {
    Shared& all = shared();
    const std::lock_guard lock(all.mutex);
    const TimePoint now = all.clock != nullptr ? all.clock->now() : TimePoint(std::chrono::steady_clock::now());
    const auto [it, first] = all.sites.try_emplace({where.file_name(), where.line(), where.column()});
    Site& site = it->second;
    if (!first && now < site.next) {
      ++site.suppressed;
      return;
    }
    suppressed = std::exchange(site.suppressed, 0);
    site.next = now + every;
  }
  emit(level, message, fields, suppressed);
}

std::string redact(std::string_view secret) {
  return secret.empty() ? "<empty>" : fmt::format("<redacted, {} bytes>", secret.size());
}

struct Capture::State {
  std::vector<std::string> lines;
  Level level_before;
  Format format_before;
};

Capture::Capture(Level level, Format format, const Clock* clock)
    : state_(std::make_unique<State>(State{{}, detail::threshold, output_format})) {
  Shared& all = shared();
  const std::lock_guard lock(all.mutex);
  BASCULE_CHECK(all.capture == nullptr, "one capture of the log at a time");
  all.capture = &state_->lines;
  all.clock = clock;
  all.sites.clear();
  configure(level, format);
}

Capture::~Capture() {
  Shared& all = shared();
  const std::lock_guard lock(all.mutex);
  all.capture = nullptr;
  all.clock = nullptr;
  all.sites.clear();
  configure(state_->level_before, state_->format_before);
}

std::vector<std::string> Capture::lines() const {
  const std::lock_guard lock(shared().mutex);
  return state_->lines;
}

std::size_t Capture::count(std::string_view text) const {
  const std::lock_guard lock(shared().mutex);
  std::size_t found = 0;
  for (const std::string& line : state_->lines) found += line.contains(text) ? 1 : 0;
  return found;
}

void Capture::clear() {
  const std::lock_guard lock(shared().mutex);
  state_->lines.clear();
}

}  // namespace bascule::log
