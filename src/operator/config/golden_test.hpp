// Golden files: what a builder made once and a person has read. BASCULE_GOLDEN=write in the environment writes them
// anew.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "json/value.hpp"

namespace bascule::op::test {

// `path` is below src/operator.
inline void expect_golden(const std::string& path, const std::string& text) {
  const std::string file = std::string(BASCULE_SOURCE_DIR) + "/src/operator/" + path;
  const char* mode = std::getenv("BASCULE_GOLDEN");
  if (mode && std::string_view(mode) == "write") {
    std::ofstream(file) << text;
    return;
  }
  std::ifstream in(file);
  const std::string expected{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  EXPECT_EQ(text, expected) << "golden file " << file << "; BASCULE_GOLDEN=write makes it anew";
}

// JSON to be read: whatever fits on a line stands on one.
inline void print_readable(const json::Value& value, std::size_t indent, std::string& out) {
  constexpr std::size_t kWidth = 120;
  const std::string flat = json::dump(value);
  if (!value.is_structured() || indent + flat.size() <= kWidth || flat.size() <= 2) {
    out += flat;
    return;
  }
  const bool object = value.is_object();
  out += object ? "{\n" : "[\n";
  bool first = true;
  const auto line = [&](std::string_view key, const json::Value& item) {
    if (!first) out += ",\n";
    first = false;
    out.append(indent + 2, ' ');
    if (object) out += json::dump(json::Value(key)) + ": ";
    print_readable(item, indent + 2, out);
  };
  if (object) {
    for (const auto& [key, item] : value.get_object()) line(key, item);
  } else {
    for (const json::Value& item : value.get_array()) line({}, item);
  }
  out += '\n';
  out.append(indent, ' ');
  out += object ? '}' : ']';
}

inline std::string readable(const json::Value& value) {
  std::string text;
  print_readable(value, 0, text);
  return text + '\n';
}

}  // namespace bascule::op::test
