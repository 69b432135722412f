#include "operator/config/text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace bascule::op {

Text& Text::heading(std::string_view name) {
  return raw("#").raw(fmt::format("### {} ###", name));
}

Text& Text::set(std::string_view key, std::string_view value) {
  return raw(fmt::format("{}{}{}", key, separator_, value));
}

Text& Text::raw(std::string_view text) {
  text_ += text;
  text_ += '\n';
  return *this;
}

std::expected<std::string, std::string> conf_value(std::string_view value) {
  if (value.empty()) return std::unexpected("is empty");
  std::string text;
  bool blank = false;
  for (const char c : value) {
    if (static_cast<unsigned char>(c) < ' ' && c != '\t') {
      return std::unexpected("holds a newline or another control character, which a Slurm configuration cannot carry");
    }
    blank = blank || c == ' ' || c == '\t';
    if (c == '#' || c == '\\') text += '\\';
    text += c;
  }
  const bool quotes = value.contains('"');
  if (quotes && (blank || value.front() == '"')) {
    return std::unexpected(
        "holds quotes together with blanks, or begins with one, which a Slurm configuration cannot "
        "carry");
  }
  return blank ? '"' + text + '"' : text;
}

}  // namespace bascule::op
