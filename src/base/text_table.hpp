// Text for people's terminals: columns that align, and nothing in them that could command the terminal. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace bascule {

// Control characters (of ASCII and C1) become '?': names and comments are other people's.
std::string plain_text(std::string_view text);

// At most `limit` characters, the last one "…" when something was cut.
std::string cut_text(std::string_view text, std::size_t limit);

namespace colour {
inline constexpr std::string_view kBold = "\x1b[1m";
inline constexpr std::string_view kGreen = "\x1b[32m";
inline constexpr std::string_view kYellow = "\x1b[33m";
inline constexpr std::string_view kRed = "\x1b[31m";
inline constexpr std::string_view kPlain = "\x1b[0m";
}  // namespace colour

class TextTable final {
 public:
  struct Cell {
    std::string text;
    std::string_view colour = {};  // of colour::; empty: none
    Cell(std::string t, std::string_view c = {}) : text(std::move(t)), colour(c) {}
    Cell(const char* t) : text(t) {}
  };
  explicit TextTable(std::vector<std::string> head) : head_(std::move(head)) {}
  // As many cells as the head has. An empty cell is shown as "-".
  void add(std::vector<Cell> cells);
  bool empty() const noexcept { return rows_.empty(); }
  // One line a row, the head first; `indent` before each.
  std::string str(bool colours, std::string_view indent = {}) const;

 private:
  std::vector<std::string> head_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace bascule
