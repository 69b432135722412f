#include "base/base64.hpp"

#include <gtest/gtest.h>

namespace bascule {
namespace {

TEST(Base64, there_and_back) {
  std::string bytes;
  for (int i = 0; i < 70; ++i) {
    EXPECT_EQ(base64_decode(base64_encode(bytes)), bytes);
    bytes += static_cast<char>(i * 37);
  }
  EXPECT_EQ(base64_encode("any carnal pleas"), "YW55IGNhcm5hbCBwbGVhcw==");
  EXPECT_EQ(base64_decode("YW55\nIGNh\n"), "any ca");
  for (const char* bad : {"A", "A===", "AA=A", "AAA", "====", "A*AA", "-_AA"}) EXPECT_FALSE(base64_decode(bad)) << bad;
}

TEST(Base64, for_urls) {
  EXPECT_EQ(base64url_encode("\xfb\xef\xff?"), "--__Pw");
  EXPECT_EQ(base64url_encode(""), "");
  for (const std::string bytes : {"", "a", "ab", "abc", "\xfb\xef\xff?"}) {
    EXPECT_EQ(base64url_decode(base64url_encode(bytes)), bytes);
  }
  for (const char* bad : {"A", "A*AA", "AAAAA"}) EXPECT_FALSE(base64url_decode(bad)) << bad;
}

}  // namespace
}  // namespace bascule
