#include "testing/objects.hpp"

#include <gtest/gtest.h>

namespace bascule::testing {
namespace {

TEST(Objects, TheBigPodIsAsBigAsItsName) {
  std::size_t bytes = 0;
  for (int i = 0; i < 100; ++i) bytes += json::dump(make_big_pod(i * 64)).size();
  EXPECT_NEAR(static_cast<double>(bytes) / 100, 7800, 200);
}

}  // namespace
}  // namespace bascule::testing
