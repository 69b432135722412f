#include "base/text_table.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace bascule {

namespace {

bool continues(char c) noexcept {
  return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}

std::size_t characters(std::string_view text) noexcept {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return !continues(c); }));
}

}  // namespace

std::string plain_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    // C1 controls are U+0080 to U+009F: c2 80 to c2 9f.
    const bool c1 =
        c == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0 && continues(text[i + 1]);
    if (c1) ++i;
    out += c1 || c < 0x20 || c == 0x7f ? '?' : text[i];
  }
  return out;
}

std::string cut_text(std::string_view text, std::size_t limit) {
  if (characters(text) <= limit) return std::string(text);
  std::size_t at = 0;
  for (std::size_t seen = 0; at < text.size(); ++at) {
    if (!continues(text[at]) && ++seen == limit) break;
  }
  return std::string(text.substr(0, at)) + "…";
}

void TextTable::add(std::vector<Cell> cells) {
  BASCULE_CHECK(cells.size() == head_.size(), "a row has a cell for every column");
  for (Cell& cell : cells) cell.text = cell.text.empty() ? "-" : plain_text(cell.text);
  rows_.push_back(std::move(cells));
}

std::string TextTable::str(bool colours, std::string_view indent) const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < head_.size(); ++i) {
    std::size_t width = characters(head_[i]);
    for (const auto& row : rows_) width = std::max(width, characters(row[i].text));
    widths.push_back(width);
  }
  std::string out;
  const auto put = [&](std::size_t column, std::string_view text, std::string_view paint) {
    if (column == 0) out += indent;
    const bool painted = colours && !paint.empty();
    if (painted) out += paint;
    out += text;
    if (painted) out += colour::kPlain;
    const bool last = column + 1 == head_.size();
    out += last ? std::string("\n") : std::string(widths[column] - characters(text) + 2, ' ');
  };
  for (std::size_t i = 0; i < head_.size(); ++i) put(i, head_[i], colour::kBold);
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) put(i, row[i].text, row[i].colour);
  }
  return out;
}

}  // namespace bascule
