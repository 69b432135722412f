// A31: a configuration that slurmctld does not take is said where its owner looks.
#include "operator/reconcile/config_taken.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "json/yaml.hpp"
#include "operator/api/resources.hpp"
#include "testing/run.hpp"

namespace bascule::op::reconcile {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const WallTime kNow = std::chrono::sys_days(std::chrono::year(2026) / 5 / 1);

TEST(ConfigTaken, A31_IsSaidWhenItLasts) {
  ConfigMemory memory;
  const auto look = [&](std::string_view wanted, RunningConfig running, Duration at, bool said = false) {
    return judge_config(memory, wanted, running, said, kNow + at);
  };
  ConfigVerdict verdict = look("a", RunningConfig::kWanted, 0s);
  EXPECT_FALSE(verdict.refused);
  EXPECT_FALSE(verdict.again) << "at rest nobody is asked";
  verdict = look("b", RunningConfig::kOther, 1h);
  EXPECT_FALSE(verdict.refused) << "kubelet brings it within two minutes";
  EXPECT_TRUE(verdict.again);
  EXPECT_FALSE(look("b", RunningConfig::kOther, 1h + 179s).refused);
  EXPECT_TRUE(look("b", RunningConfig::kOther, 1h + 180s).refused);
  EXPECT_FALSE(look("b", RunningConfig::kUnknown, 1h + 190s).refused) << "who does not answer has refused nothing";
  EXPECT_TRUE(look("b", RunningConfig::kUnknown, 1h + 190s, true).refused) << "what was said holds";
  EXPECT_TRUE(look("c", RunningConfig::kOther, 1h + 200s, true).refused) << "until slurmctld runs what is wanted";
  verdict = look("c", RunningConfig::kWanted, 1h + 210s, true);
  EXPECT_FALSE(verdict.refused);
  EXPECT_FALSE(verdict.again);
  verdict = look("d", RunningConfig::kUntold, 2h, true);
  EXPECT_FALSE(verdict.refused);
  EXPECT_FALSE(verdict.again) << "a Slurm that does not tell is not asked again";
}

TEST(ConfigTaken, AClockPutBackBeginsAnew) {
  ConfigMemory memory;
  EXPECT_FALSE(judge_config(memory, "a", RunningConfig::kOther, false, kNow).refused);
  EXPECT_FALSE(judge_config(memory, "a", RunningConfig::kOther, false, kNow - 1h).refused);
  EXPECT_TRUE(judge_config(memory, "a", RunningConfig::kOther, false, kNow - 57min).refused);
}

struct WatchTest : ::testing::Test {
  static Task<RunningConfig> answer(WatchTest& self) {
    ++self.asked;
    co_return self.running;
  }
  Plan look(std::string digest, WallTime now, std::string_view status = "{}") {
    auto object = std::make_shared<kube::DynamicObject>();
    object->meta.key = {"slurm", "main"};
    object->value = json::Object{{"status", json::parse_yaml(status)}};
    Plan plan;
    plan.config_digest = std::move(digest);
    again = testing::run(loop, watch.look(object, plan, now, {}));
    return plan;
  }

  ManualLoop loop;
  RunningConfig running = RunningConfig::kWanted;
  int asked = 0;
  std::optional<Duration> again;
  ConfigWatch watch{[this](NamespacedName, std::string, std::stop_token) { return answer(*this); }};
};

TEST_F(WatchTest, A31_TheFaultNamesWhereTheReasonIs) {
  EXPECT_THAT(look("a", kNow).faults, IsEmpty());
  look("a", kNow + 1h);
  EXPECT_EQ(asked, 1) << "what runs is not asked for again";
  running = RunningConfig::kOther;
  EXPECT_THAT(look("b", kNow + 2h).faults, IsEmpty());
  EXPECT_EQ(again, 10s);
  const Plan plan = look("b", kNow + 2h + 3min);
  ASSERT_THAT(plan.faults, SizeIs(1));
  EXPECT_EQ(plan.faults[0].reason, "ConfigNotTaken");
  EXPECT_THAT(plan.faults[0].sentence, HasSubstr("`bascule explain controller/main -n slurm` and the log of container "
                                                 "reconfigure of pod main-controller-0 say why"));
  // Another process, which has its own word before it.
  ConfigWatch second{[this](NamespacedName, std::string, std::stop_token) { return answer(*this); }};
  std::swap(watch, second);
  const std::string status =
      "{conditions: [{type: Degraded, status: 'True', message: \"" + plan.faults[0].sentence + "\"}]}";
  EXPECT_THAT(look("b", kNow + 3h, status).faults, SizeIs(1));
  EXPECT_THAT(look("b", kNow + 3h).faults, IsEmpty());
}

TEST_F(WatchTest, WhatIsNotReconfiguredInPlaceIsNotAskedFor) {
  look("", kNow);
  EXPECT_EQ(asked, 0);
  EXPECT_FALSE(again);
}

}  // namespace
}  // namespace bascule::op::reconcile
