#include "operator/reconcile/watchers.hpp"

#include <gmock/gmock.h>

namespace bascule::op::reconcile {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Watchers, WhatIsNoLongerLookedAtNoLongerConcerns) {
  Watchers watchers;
  watchers.begin("r");
  watchers.note("r", "a");
  watchers.note("r", "b");
  watchers.finish("r");
  watchers.note("q", "a");
  EXPECT_THAT(watchers.of("a"), ElementsAre("q", "r"));
  watchers.begin("r");
  watchers.note("r", "c");
  EXPECT_THAT(watchers.of("b"), ElementsAre("r")) << "until the look is over";
  watchers.finish("r");
  EXPECT_THAT(watchers.of("b"), IsEmpty());
  EXPECT_THAT(watchers.of("c"), ElementsAre("r"));
  watchers.forget("r");
  watchers.forget("q");
  EXPECT_EQ(watchers.things(), 0u);
}

TEST(Watchers, ALookThatDidNotEndDropsNothing) {
  Watchers watchers;
  watchers.begin("r");
  watchers.note("r", "a");
  watchers.begin("r");
  watchers.note("r", "b");
  EXPECT_THAT(watchers.of("a"), ElementsAre("r"));
  watchers.finish("r");
  EXPECT_THAT(watchers.of("a"), IsEmpty());
}

}  // namespace
}  // namespace bascule::op::reconcile
