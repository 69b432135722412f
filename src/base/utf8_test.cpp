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

}  // namespace
}  // namespace bascule
