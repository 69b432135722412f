#include "json/value.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <utility>

namespace bascule::json {
namespace {

constexpr double kTwo63 = 9223372036854775808.0;
constexpr double kTwo64 = 18446744073709551616.0;

void append_escaped(std::string& out, std::string_view text) {
  out.push_back('"');
  std::size_t clean = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    out.append(text, clean, i - clean);
    clean = i + 1;
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        fmt::format_to(std::back_inserter(out), "\\u{:04x}", c);
    }
  }
  out.append(text, clean, text.size() - clean);
  out.push_back('"');
}

template <class... Format>
void append_number(std::string& out, auto number, Format... format) {
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, number, format...).ptr;
  out.append(buffer, end);
}

void append_double(std::string& out, double number) {
  if (!std::isfinite(number)) {
    out += "null";
    return;
  }
  const double size = std::fabs(number);
  const bool plain = size == 0 || (size >= 1e-6 && size < 1e21);
  append_number(out, number, plain ? std::chars_format::fixed : std::chars_format::scientific);
}

class Writer {
 public:
  Writer(std::string& out, bool pretty) : out_(out), pretty_(pretty) {}

  void write(const Value& value) {
    switch (value.kind()) {
      case boost::json::kind::null:
        out_ += "null";
        break;
      case boost::json::kind::bool_:
        out_ += value.get_bool() ? "true" : "false";
        break;
      case boost::json::kind::int64:
        append_number(out_, value.get_int64());
        break;
      case boost::json::kind::uint64:
        append_number(out_, value.get_uint64());
        break;
      case boost::json::kind::double_:
        append_double(out_, value.get_double());
        break;
      case boost::json::kind::string:
        append_escaped(out_, view(value.get_string()));
        break;
      case boost::json::kind::array:
        write_array(value.get_array());
        break;
      case boost::json::kind::object:
        write_object(value.get_object());
        break;
    }
  }

 private:
  void write_array(const Array& array) {
    out_.push_back('[');
    ++depth_;
    bool first = true;
    for (const Value& item : array) {
      separate(first);
      write(item);
    }
    close(first, ']');
  }

  void write_object(const Object& object) {
    out_.push_back('{');
    ++depth_;
    bool first = true;
    for (const auto& [key, item] : object) {
      separate(first);
      append_escaped(out_, key);
      out_ += pretty_ ? ": " : ":";
      write(item);
    }
    close(first, '}');
  }

  void separate(bool& first) {
    if (!std::exchange(first, false)) out_.push_back(',');
    new_line();
  }

  void close(bool empty, char bracket) {
    --depth_;
    if (!empty) new_line();
    out_.push_back(bracket);
  }

  void new_line() {
    if (!pretty_) return;
    out_.push_back('\n');
    out_.append(2 * depth_, ' ');
  }

  std::string& out_;
  bool pretty_;
  std::size_t depth_ = 0;
};

bool equal_numbers(const Value& a, const Value& b) noexcept {
  if (a.is_int64() && b.is_int64()) return a.get_int64() == b.get_int64();
  if (a.is_uint64() && b.is_uint64()) return a.get_uint64() == b.get_uint64();
  if (a.is_double() && b.is_double()) return a.get_double() == b.get_double();
  if (a.is_double()) return equal_numbers(b, a);
  if (b.is_double()) {
    const double d = b.get_double();
    if (d != std::floor(d)) return false;
    if (a.is_int64()) return d >= -kTwo63 && d < kTwo63 && static_cast<std::int64_t>(d) == a.get_int64();
    return d >= 0 && d < kTwo64 && static_cast<std::uint64_t>(d) == a.get_uint64();
  }
  return a.is_int64() ? std::cmp_equal(a.get_int64(), b.get_uint64()) : std::cmp_equal(a.get_uint64(), b.get_int64());
}

}  // namespace

Value parse(std::string_view text, ParseLimits limits) {
  if (text.size() > limits.bytes) {
    throw LimitError(fmt::format("JSON text of {} bytes; at most {} are taken", text.size(), limits.bytes), 0);
  }
  boost::json::parse_options options;
  options.max_depth = limits.depth;
  boost::json::parser parser({}, options);
  boost::json::error_code error;
  std::size_t used = parser.write_some(text.data(), text.size(), error);
  if (!error) {
    used = std::min(text.find_first_not_of(" \t\r\n", used), text.size());
    if (used < text.size()) error = boost::json::error::extra_data;
  }
  if (error == boost::json::error::too_deep) {
    throw LimitError(fmt::format("JSON nested deeper than {} levels at byte {}", limits.depth, used), used);
  }
  if (error) throw ParseError(fmt::format("not JSON: {} at byte {}", error.message(), used), used);
  return parser.release();
}

std::string dump(const Value& value) {
  std::string out;
  Writer(out, false).write(value);
  return out;
}

std::string dump_pretty(const Value& value) {
  std::string out;
  Writer(out, true).write(value);
  out.push_back('\n');
  return out;
}

namespace {

template <class Any>  // Value, const or not
Any* descend(Any& value, Path path) noexcept {
  Any* at = &value;
  for (const std::string_view key : path) {
    auto* object = at->if_object();
    at = object ? object->if_contains(key) : nullptr;
    if (!at) return nullptr;
  }
  return at;
}

}  // namespace

const Value* find(const Value& value, Path path) noexcept {
  return descend(value, path);
}

Value* find(Value& value, Path path) noexcept {
  return descend(value, path);
}

std::string_view string_at(const Value& value, Path path, std::string_view fallback) noexcept {
  const Value* at = find(value, path);
  return at && at->is_string() ? view(at->get_string()) : fallback;
}

std::optional<std::int64_t> int_at(const Value& value, Path path) noexcept {
  const Value* at = find(value, path);
  if (!at) return std::nullopt;
  if (at->is_int64()) return at->get_int64();
  if (at->is_uint64() && std::in_range<std::int64_t>(at->get_uint64())) {
    return static_cast<std::int64_t>(at->get_uint64());
  }
  if (at->is_double()) {
    const double d = at->get_double();
    if (d == std::floor(d) && d >= -kTwo63 && d < kTwo63) return static_cast<std::int64_t>(d);
  }
  return std::nullopt;
}

bool bool_at(const Value& value, Path path, bool fallback) noexcept {
  const Value* at = find(value, path);
  return at && at->is_bool() ? at->get_bool() : fallback;
}

const Array* array_at(const Value& value, Path path) noexcept {
  const Value* at = find(value, path);
  return at ? at->if_array() : nullptr;
}

const Object* object_at(const Value& value, Path path) noexcept {
  const Value* at = find(value, path);
  return at ? at->if_object() : nullptr;
}

Value& at_or_create(Value& value, Path path) {
  Value* at = &value;
  std::string walked;
  for (const std::string_view key : path) {
    if (at->is_null()) at->emplace_object();
    if (!at->is_object()) throw ShapeError(walked, "an object");
    at = &at->get_object()[key];
    if (!walked.empty()) walked.push_back('.');
    walked += key;
  }
  return *at;
}

bool equal(const Value& a, const Value& b) noexcept {
  if (a.is_number() && b.is_number()) return equal_numbers(a, b);
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case boost::json::kind::bool_:
      return a.get_bool() == b.get_bool();
    case boost::json::kind::string:
      return a.get_string() == b.get_string();
    case boost::json::kind::array: {
      const Array& x = a.get_array();
      const Array& y = b.get_array();
      if (x.size() != y.size()) return false;
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (!equal(x[i], y[i])) return false;
      }
      return true;
    }
    case boost::json::kind::object: {
      const Object& x = a.get_object();
      const Object& y = b.get_object();
      if (x.size() != y.size()) return false;
      for (const auto& [key, item] : x) {
        const Value* other = y.if_contains(key);
        if (!other || !equal(item, *other)) return false;
      }
      return true;
    }
    default:
      return true;
  }
}

}  // namespace bascule::json
