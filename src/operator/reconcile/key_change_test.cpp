#include "operator/reconcile/key_change.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/api/resources.hpp"

namespace bascule::op::reconcile {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

Plan plan_with(KeyWait wait) {
  Plan plan;
  plan.add(kConfigMaps, nullptr);
  plan.add(kStatefulSets, nullptr);
  plan.wait("another");
  plan.config_digest = "digest";
  plan.key_wait = std::move(wait);
  return plan;
}

TEST(HoldKeyTest, SlurmctldsOwnWordDecidesAndTheStatusesOnlyWithoutIt) {
  const KeyWait wait{.rule = "the key has changed", .workers = true, .jobs_seen = true};
  const auto said = [](const KeyWait& of, NodesStand stand) {
    Plan plan = plan_with(of);
    const bool held = hold_key(plan, stand);
    EXPECT_THAT(plan.children, SizeIs(held ? 1 : 2));
    EXPECT_EQ(plan.config_digest.empty(), held) << "slurmctld does not take it meanwhile";
    return held ? plan.waits.front().sentence : std::string();
  };
  EXPECT_EQ(said(wait, NodesStand::kClear), "");
  EXPECT_THAT(said(wait, NodesStand::kAsked), HasSubstr("the key has changed. slurmctld is being asked"));
  EXPECT_THAT(said(wait, NodesStand::kOpen),
              HasSubstr("drain them, or set the Controller's annotation controller.slinky.slurm.net/take-slurm-key"));
  EXPECT_THAT(said(wait, NodesStand::kUnknown), HasSubstr("not known whether jobs run, as they did by the last"));
  EXPECT_THAT(said({.rule = "x", .workers = true}, NodesStand::kUnknown), Not(HasSubstr("by the last")));
  EXPECT_EQ(said({.rule = "x", .jobs_seen = true}, NodesStand::kUnknown), "") << "no worker is there to lose";
  EXPECT_THAT(said({.rule = "x"}, NodesStand::kOpen), HasSubstr("drain")) << "slurmctld says they are";
}

// slurmdbd hears one key.
TEST(HoldKeyTest, ControllersOfOneAccountingTakeAKeyTogether) {
  const KeyWait wait{.rule = "the key has changed", .workers = true};
  Plan plan = plan_with(wait);
  EXPECT_TRUE(hold_key(plan, NodesStand::kClear, {"a", "b"}));
  EXPECT_THAT(plan.waits.front().sentence,
              HasSubstr("those of Controller a, b, which has the same Accounting, are not or not known to be"));
  EXPECT_THAT(plan.children, SizeIs(1));
  plan = plan_with(wait);
  EXPECT_TRUE(hold_key(plan, NodesStand::kOpen, {"a"}));
  EXPECT_THAT(plan.waits.front().sentence, HasSubstr("drain them")) << "its own first";
}

// slurmctld gets both together, and until then takes no token that was signed with the new one.
TEST(HoldKeyTest, AJwtKeyThatChangesMeanwhileIsSaid) {
  Plan plan = plan_with({.rule = "the key has changed", .jwt = true, .workers = true, .jobs_seen = true});
  EXPECT_TRUE(hold_key(plan, NodesStand::kUnknown));
  EXPECT_THAT(plan.waits.front().sentence, HasSubstr("it refuses all new tokens until then"));
  EXPECT_THAT(plan.waits.front().sentence, HasSubstr("It is not known whether jobs run"));
  EXPECT_THAT(plan.waits.front().sentence, HasSubstr("or put the old JWT key back until then"));
}

}  // namespace
}  // namespace bascule::op::reconcile
