// The fast reader: walks a JSON text once, in its own order, over simdjson on demand, straight into the caller's
// struct. Costs 2-3 s of compile time an include: only sources that decode include it, never a header.
//
//   json::hot::parse(text, [&](std::string_view key, json::hot::Value value) {
//     if (key == "metadata") value.fields([&](std::string_view key, json::hot::Value value) { ... });
//     else if (key == "spec") ...                        // what is not read is skipped
//   });
//
// Tolerant as Go's decoder is: unknown fields are skipped, null is as good as absent (nullopt, no call). A field of
// another kind throws ShapeError with its path, text that is no JSON throws ParseError. What is skipped is only
// roughly checked. A Value is read at most once, before its callback returns; views live until parse returns.
#pragma once

#include <simdjson.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.hpp"
#include "json/error.hpp"
#include "json/split.hpp"

namespace bascule::json::hot {

static_assert(kPadding >= simdjson::SIMDJSON_PADDING);

// Where a value is, for error sentences; links live on the stack of the callbacks.
struct Place {
  const Place* outer = nullptr;
  std::string_view key;   // empty in a list
  std::size_t index = 0;  // in a list

  Place() = default;
  explicit Place(const Place* from) noexcept : outer(from) {}

  std::string str() const {
    std::string path = outer && outer->outer ? outer->str() : std::string();
    if (!outer) return path;
    if (key.empty()) return path + "[" + std::to_string(index) + "]";
    return path.empty() ? std::string(key) : path + "." + std::string(key);
  }
};

class Value final {
 public:
  Value(simdjson::ondemand::value value, const Place& place) noexcept : value_(value), place_(&place) {}

  bool null() { return type() == simdjson::ondemand::json_type::null; }
  bool is_object() { return type() == simdjson::ondemand::json_type::object; }
  bool is_array() { return type() == simdjson::ondemand::json_type::array; }
  bool is_string() { return type() == simdjson::ondemand::json_type::string; }
  bool is_number() { return type() == simdjson::ondemand::json_type::number; }
  bool is_bool() { return type() == simdjson::ondemand::json_type::boolean; }

  std::optional<std::string_view> string() {
    std::string_view text;
    const auto error = value_.get_string().get(text);
    if (!error) return text;
    if (null()) return std::nullopt;
    fail(error, "a string");
  }

  std::optional<std::int64_t> integer() {
    std::int64_t number = 0;
    if (!value_.get_int64().get(number)) return number;
    if (null()) return std::nullopt;
    // 1.0 and 1e3 are integers to some writers.
    double real = 0;
    const auto error = value_.get_double().get(real);
    if (error || real != std::floor(real) || std::fabs(real) > 9e18) fail(error, "an integer");
    return static_cast<std::int64_t>(real);
  }

  std::optional<double> real() {
    double number = 0;
    const auto error = value_.get_double().get(number);
    if (!error) return number;
    if (null()) return std::nullopt;
    fail(error, "a number");
  }

  std::optional<bool> boolean() {
    bool yes = false;
    const auto error = value_.get_bool().get(yes);
    if (!error) return yes;
    if (null()) return std::nullopt;
    fail(error, "true or false");
  }

  // A string's text, or a number as written: quantities and int-or-string fields.
  std::optional<std::string_view> scalar() {
    switch (type()) {
      case simdjson::ondemand::json_type::string:
        return string();
      case simdjson::ondemand::json_type::number:
        return trimmed(value_.raw_json_token());
      case simdjson::ondemand::json_type::null:
        return std::nullopt;
      default:
        fail(simdjson::INCORRECT_TYPE, "a string or a number");
    }
  }

  // The JSON text of the value as written, for what is kept unread.
  std::string_view raw() {
    std::string_view text;
    simdjson::error_code error = simdjson::SUCCESS;
    switch (type()) {
      case simdjson::ondemand::json_type::object: {
        simdjson::ondemand::object object;
        error = value_.get_object().get(object);
        if (!error) error = object.raw_json().get(text);
        break;
      }
      case simdjson::ondemand::json_type::array: {
        simdjson::ondemand::array array;
        error = value_.get_array().get(array);
        if (!error) error = array.raw_json().get(text);
        break;
      }
      default:
        text = value_.raw_json_token();
    }
    if (error) fail(error, "JSON");
    return trimmed(text);
  }

  // f(std::string_view key, Value value) for each field of an object.
  template <class F>
  void fields(F&& f) {
    simdjson::ondemand::object object;
    if (const auto error = value_.get_object().get(object)) {
      if (null()) return;
      fail(error, "an object");
    }
    each_field(object, *place_, f);
  }

  // f(Value value) for each item of a list.
  template <class F>
  void items(F&& f) {
    simdjson::ondemand::array array;
    if (const auto error = value_.get_array().get(array)) {
      if (null()) return;
      fail(error, "a list");
    }
    Place place(place_);
    for (auto item : array) {
      simdjson::ondemand::value value;
      if (const auto error = item.get(value)) throw simdjson::simdjson_error(error);
      f(Value(value, place));
      ++place.index;
    }
  }

  std::string path() const { return place_->str(); }
  // For a reader that finds a well-formed value senseless.
  [[noreturn]] void refuse(std::string_view expected) const { throw ShapeError(path(), expected); }

  template <class F>
  static void each_field(simdjson::ondemand::object& object, const Place& outer, F&& f) {
    Place place(&outer);
    for (auto field : object) {
      simdjson::ondemand::field pair;
      if (const auto error = std::move(field).get(pair)) throw simdjson::simdjson_error(error);
      if (const auto error = pair.unescaped_key().get(place.key)) throw simdjson::simdjson_error(error);
      f(place.key, Value(pair.value(), place));
    }
  }

 private:
  simdjson::ondemand::json_type type() {
    simdjson::ondemand::json_type type{};
    if (const auto error = value_.type().get(type)) throw simdjson::simdjson_error(error);
    return type;
  }

  static std::string_view trimmed(std::string_view text) noexcept {
    return text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
  }

  [[noreturn]] void fail(simdjson::error_code error, std::string_view expected) const {
    const bool shape = error == simdjson::SUCCESS || error == simdjson::INCORRECT_TYPE ||
                       error == simdjson::NUMBER_ERROR || error == simdjson::NUMBER_OUT_OF_RANGE;
    if (shape) refuse(expected);
    throw simdjson::simdjson_error(error);
  }

  simdjson::ondemand::value value_;
  const Place* place_;
};

// Reuses its buffers from text to text; one text at a time.
class Parser final {
 public:
  // f(std::string_view key, Value value) for each field of the object that `text` is.
  template <class F>
  void parse(std::string_view text, F&& f) {
    buffer_.reserve(text.size() + kPadding);
    buffer_.assign(text);
    parse_padded(buffer_, f);
  }

  // Without the copy: kPadding bytes after `text` must be readable, as behind the views of the splitters.
  template <class F>
  void parse_padded(std::string_view text, F&& f) {
    BASCULE_CHECK(!std::exchange(busy_, true), "a parser reads one text at a time");
    struct Idle {
      bool& busy;
      ~Idle() { busy = false; }
    } idle{busy_};
    try {
      simdjson::ondemand::document document;
      auto error = parser_.iterate(text.data(), text.size(), text.size() + kPadding).get(document);
      simdjson::ondemand::object object;
      if (!error) error = document.get_object().get(object);
      if (error == simdjson::INCORRECT_TYPE) throw ShapeError({}, "an object");
      if (error) throw simdjson::simdjson_error(error);
      Value::each_field(object, Place{}, f);
      if (document.current_location().error() != simdjson::OUT_OF_BOUNDS)
        throw ParseError("not JSON: text after the object", text.size());
    } catch (const simdjson::simdjson_error& error) {
      throw ParseError(std::string("not JSON: ") + error.what(), 0);
    }
  }

 private:
  simdjson::ondemand::parser parser_;
  std::string buffer_;
  bool busy_ = false;
};

inline bool is_utf8(std::string_view text) noexcept {
  return simdjson::validate_utf8(text.data(), text.size());
}

// The parser of this thread.
inline Parser& parser() {
  thread_local Parser parser;
  return parser;
}

template <class F>
void parse(std::string_view text, F&& f) {
  parser().parse(text, f);
}

}  // namespace bascule::json::hot
