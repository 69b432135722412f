// Configuration as lines. What users wrote stands verbatim.
#pragma once

#include <expected>
#include <string>
#include <string_view>

namespace bascule::op {

class Text final {
 public:
  explicit Text(char separator = '=') : separator_(separator) {}

  // "#" and "### NAME ###".
  Text& heading(std::string_view name);
  Text& set(std::string_view key, std::string_view value);
  Text& raw(std::string_view text);

  bool empty() const noexcept { return text_.empty(); }
  // Ends with a newline unless empty.
  const std::string& str() const noexcept { return text_; }

 private:
  char separator_;
  std::string text_;
};

// `value` as Slurm's parser reads it back: blanks need quotes, '#' and '\' a backslash. The error is what is wrong with
// it, to stand behind its name. Never repeats the value: it may be a password.
// Source: slurm.conf(5), and the parser's rules for a value: quoted without quotes inside, or one word.
std::expected<std::string, std::string> conf_value(std::string_view value);

}  // namespace bascule::op
