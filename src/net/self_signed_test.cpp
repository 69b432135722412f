#include "net/self_signed.hpp"

#include <gtest/gtest.h>

#include "net/tls.hpp"

namespace bascule::net {
namespace {

TEST(SelfSigned, ServesAndIsAnotherEachTime) {
  const WallTime now = WallTime(std::chrono::sys_days(std::chrono::year(2026) / 5 / 1));
  const SelfSigned one = make_self_signed("localhost", now);
  EXPECT_NE(one.key, make_self_signed("localhost", now).key);
  EXPECT_NO_THROW(make_tls_context({.certificate = one.certificate, .key = one.key, .server = true}));
}

TEST(SelfSigned, ANameThatIsNoneIsRefused) {
  EXPECT_THROW(make_self_signed(std::string(500, 'x'), WallTime{}), std::runtime_error);
}

}  // namespace
}  // namespace bascule::net
