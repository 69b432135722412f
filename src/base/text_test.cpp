#include "base/text.hpp"

#include <gtest/gtest.h>

namespace bascule {
namespace {

TEST(Text, LettersAreMadeSmall) {
  EXPECT_EQ(lowered("NO_Proxy=\xc3\x84 1"), "no_proxy=\xc3\x84 1");
  EXPECT_EQ(lowered(""), "");
}

TEST(Text, BlanksAndTabsAtTheEndsGo) {
  EXPECT_EQ(trimmed(" \ta b\t "), "a b");
  EXPECT_EQ(trimmed("a"), "a");
  EXPECT_EQ(trimmed(" \t"), "");
  EXPECT_EQ(trimmed(""), "");
}

}  // namespace
}  // namespace bascule
