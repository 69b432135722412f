#include "kube/condition.hpp"

#include <gtest/gtest.h>

namespace bascule::kube {
namespace {

TEST(Condition, IsFoundByTypeAndHoldsOnlyWhenTrue) {
  const json::Value status = json::parse(
      R"({"conditions":[7,{"type":"Ready","status":"True"},{"type":"Stale","status":"Unknown"},{"status":"True"}]})");
  const json::Array* list = json::array_at(status, {"conditions"});
  EXPECT_TRUE(holds(find_condition(list, "Ready")));
  ASSERT_NE(find_condition(list, "Stale"), nullptr);
  EXPECT_FALSE(holds(find_condition(list, "Stale")));
  EXPECT_EQ(find_condition(list, "Gone"), nullptr);
  EXPECT_FALSE(holds(nullptr));
  EXPECT_EQ(find_condition(nullptr, "Ready"), nullptr);
}

}  // namespace
}  // namespace bascule::kube
