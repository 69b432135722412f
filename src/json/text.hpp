// A text field as a string of one's own. What is not there is empty.
#pragma once

#include <string>

#include "json/value.hpp"

namespace bascule::json {

inline std::string text_at(const Value& value, Path path) {
  return std::string(string_at(value, path));
}

}  // namespace bascule::json
