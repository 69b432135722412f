// Input: a byte that gives the size of pieces, then the body of a list. What the splitter cuts does not depend on the
// pieces; whatever it cuts, the hot reader reads or refuses, and it takes no valid list differently than the parser.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.hpp"
#include "json/hot.hpp"
#include "json/split.hpp"
#include "json/value.hpp"

namespace {

using namespace bascule::json;

void walk(hot::Value value) {
  if (value.is_object()) {
    value.fields([](std::string_view, hot::Value field) { walk(field); });
  } else if (value.is_array()) {
    value.items([](hot::Value item) { walk(item); });
  } else if (value.is_string()) {
    value.string();
  } else if (!value.null()) {
    value.raw();
  }
}

std::optional<std::vector<std::string>> split(std::string_view text, std::size_t size) {
  std::vector<std::string> items;
  ListSplitter splitter({.item_bytes = 4096, .envelope_bytes = 512});
  LineSplitter lines(64);
  bool lines_fit = true;
  try {
    for (std::size_t at = 0; at < text.size(); at += size) {
      const std::vector<char> piece(text.begin() + at, text.begin() + std::min(text.size(), at + size));
      try {
        if (lines_fit) {
          lines.feed({piece.data(), piece.size()});
          while (lines.next()) continue;
        }
      } catch (const LimitError&) {
        lines_fit = false;
      }
      splitter.feed({piece.data(), piece.size()});
      while (const auto item = splitter.next()) {
        try {
          hot::parser().parse_padded(*item, [](std::string_view, hot::Value value) { walk(value); });
        } catch (const ParseError&) {
        } catch (const ShapeError&) {
        }
        items.emplace_back(*item);
      }
    }
    splitter.finish();
  } catch (const ParseError&) {
    return std::nullopt;
  }
  return items;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto whole = split(text, text.size() + 1);
  BASCULE_CHECK(whole == split(text, std::size_t{1} + data[0]), "items do not depend on the pieces");
  try {
    hot::parse(text, [](std::string_view, hot::Value value) { walk(value); });
  } catch (const ParseError&) {
  } catch (const ShapeError&) {
  }
  if (!whole) return 0;
  try {
    const Value list = parse(text);
    const Array* items = array_at(list, {"items"});
    BASCULE_CHECK((items ? items->size() : 0) == whole->size(), "as many items as the parser sees");
    for (std::size_t i = 0; i < whole->size(); ++i) {
      BASCULE_CHECK(equal(parse((*whole)[i]), (*items)[i]), "the same items as the parser's");
    }
  } catch (const ParseError&) {
  }
  return 0;
}
