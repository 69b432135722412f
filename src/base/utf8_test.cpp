#include "base/utf8.hpp"

#include <gtest/gtest.h>

namespace bascule {
namespace {

TEST(Utf8, WhatIsWellFormedStays) {
  for (const std::string text : {"", "plain", "jos\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"}) {
    EXPECT_EQ(with_valid_utf8(text), text);
  }
}

TEST(Utf8, AnyOtherByteIsReplaced) {
  EXPECT_EQ(with_valid_utf8("jos\xE9/x"), "jos\xEF\xBF\xBD/x");
  EXPECT_EQ(with_valid_utf8("\xC3"), "\xEF\xBF\xBD") << "cut";
  EXPECT_EQ(with_valid_utf8("\xC0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD") << "too long";
  EXPECT_EQ(with_valid_utf8("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD") << "a surrogate";
}

TEST(Utf8, ACutLeavesNoHalfOfACharacter) {
  for (const std::string text : {"ab", "jos\xC3\xA9", "\xE2\x82\xAC\xE2\x82\xAC", "a\xF0\x9F\x98\x80 b"}) {
    for (std::size_t most = 0; most <= text.size() + 1; ++most) {
      const std::string_view cut = cut_utf8(text, most);
      EXPECT_LE(cut.size(), most);
      EXPECT_GE(cut.size() + 3, std::min(most, text.size()));
      EXPECT_EQ(with_valid_utf8(cut), cut) << most;
    }
  }
  EXPECT_EQ(cut_utf8("jos\xC3\xA9", 5), "jos\xC3\xA9");
  EXPECT_EQ(cut_utf8("jos\xC3\xA9", 4), "jos");
  EXPECT_EQ(cut_utf8(std::string(100, '\x80'), 50).size(), 47u) << "no UTF-8 at all";
}

}  // namespace
}  // namespace bascule
