#include "operator/reconcile/jobs_at_risk.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bascule::op::reconcile {
namespace {

using ::testing::HasSubstr;
using Nodes = std::optional<std::vector<slurm::Node>>;

slurm::Node node(slurm::NodeState state, std::string feature) {
  slurm::Node out;
  out.states.base = state;
  out.features = {"x", std::move(feature)};
  return out;
}

TEST(JobsAtRisk, SlurmsOwnWordCountsAndNotTheStatus) {
  const std::vector<SetAtRisk> sets{{"cpu", "cpu", 2, 0}, {"gpu", "big", 2, 2}};
  const Nodes nodes{{node(slurm::NodeState::kMixed, "cpu"), node(slurm::NodeState::kAllocated, "cpu"),
                     node(slurm::NodeState::kIdle, "big"), node(slurm::NodeState::kAllocated, "bridge")}};
  EXPECT_THAT(jobs_at_risk(sets, nodes).value_or(""), HasSubstr("while 2 of its Slurm nodes run jobs (NodeSets: cpu)"));
  EXPECT_EQ(jobs_at_risk(sets, Nodes{std::vector<slurm::Node>{}}), std::nullopt) << "the status was of an older time";
}

TEST(JobsAtRisk, WithoutAnAnswerTheLastKnownIsSaidOrThatNothingIsKnown) {
  EXPECT_THAT(jobs_at_risk({{"cpu", "cpu", 2, 1}}, std::nullopt).value_or(""),
              HasSubstr("while 1 of its Slurm nodes run, by the last that was seen, jobs (NodeSets: cpu)"));
  EXPECT_THAT(jobs_at_risk({{"cpu", "cpu", 2, 0}}, std::nullopt).value_or(""),
              HasSubstr("slurmctld does not say whether its Slurm nodes run jobs (NodeSets: cpu)"));
  EXPECT_EQ(jobs_at_risk({{"cpu", "cpu", 0, 0}}, std::nullopt), std::nullopt) << "no workers, no jobs";
  EXPECT_EQ(jobs_at_risk({}, std::nullopt), std::nullopt);
}

}  // namespace
}  // namespace bascule::op::reconcile
