// The dynamic JSON value: builders, patches, rarely read objects. What is read thousands of times a second goes through
// json/hot.hpp instead. Key order is kept. Not thread-safe, as any container.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "json/error.hpp"

namespace bascule::json {

using Value = boost::json::value;
using Object = boost::json::object;
using Array = boost::json::array;

// Field names from the outside in; arrays are not entered.
using Path = std::initializer_list<std::string_view>;

struct ParseLimits {
  std::size_t depth = 64;
  std::size_t bytes = std::size_t{64} << 20;
};

// Strict RFC 8259, UTF-8 checked; of a repeated key the last wins, as in Go. Integers are exact in int64 and uint64,
// other numbers are double, to one unit in the last place. Throws ParseError, or LimitError.
Value parse(std::string_view text, ParseLimits limits = {});

// Compact, keys in their order. Numbers are written as Go writes them (1, not 1E0), so that the API server can read an
// integral double into an integer field. Infinity and NaN, which JSON cannot say, become null.
std::string dump(const Value& value);
// Two spaces, one field a line, newline at the end.
std::string dump_pretty(const Value& value);

// nullptr when the path is absent or leads through something that is not an object.
const Value* find(const Value& value, Path path) noexcept;
Value* find(Value& value, Path path) noexcept;
// Absent, null or of another kind: the fallback, nullopt, nullptr. The view lives as long as the value is unchanged.
std::string_view string_at(const Value& value, Path path, std::string_view fallback = {}) noexcept;
// Also takes an integral double that fits.
std::optional<std::int64_t> int_at(const Value& value, Path path) noexcept;
bool bool_at(const Value& value, Path path, bool fallback = false) noexcept;
const Array* array_at(const Value& value, Path path) noexcept;
const Object* object_at(const Value& value, Path path) noexcept;
// Makes the missing objects on the way; a new last value is null. Throws ShapeError when something else is in the way.
Value& at_or_create(Value& value, Path path);

inline std::string_view view(const boost::json::string& text) noexcept {
  return {text.data(), text.size()};
}

// Same JSON value: key order does not matter, list order does, 1 == 1u == 1.0.
bool equal(const Value& a, const Value& b) noexcept;

}  // namespace bascule::json
