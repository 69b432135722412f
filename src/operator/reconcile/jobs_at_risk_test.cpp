#include "operator/reconcile/jobs_at_risk.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bascule::op::reconcile {
namespace {

using ::testing::HasSubstr;
using Nodes = std::optional<NodesNow>;

slurm::Node node(slurm::NodeState state, std::string feature) {
  slurm::Node out;
  out.states.base = state;
  out.features = {"x", std::move(feature)};
  return out;
}

TEST(JobsAtRisk, SlurmsOwnWordCountsAndNotTheStatus) {
  const std::vector<SetAtRisk> sets{{"cpu", "cpu", 2, 0}, {"gpu", "big", 2, 2}};
  slurm::Node external = node(slurm::NodeState::kAllocated, "bridge");
  external.states = slurm::parse_node_states({"ALLOCATED", "EXTERNAL"});
  const Nodes nodes = nodes_now({node(slurm::NodeState::kMixed, "cpu"), node(slurm::NodeState::kAllocated, "cpu"),
                                 node(slurm::NodeState::kIdle, "big"), external},
                                std::nullopt);
  EXPECT_THAT(jobs_at_risk(sets, nodes).value_or(""), HasSubstr("while 2 of its Slurm nodes run jobs (NodeSets: cpu)"));
  EXPECT_EQ(jobs_at_risk(sets, Nodes(NodesNow{})), std::nullopt) << "the status was of an older time";
}

// Workers of a NodeSet that has gone, or has another hostname now.
TEST(JobsAtRisk, NodesOfNoNodeSetCountUnlessSlurmctldStays) {
  const Nodes nodes =
      nodes_now({node(slurm::NodeState::kMixed, "cpu"), node(slurm::NodeState::kAllocated, "old")}, std::nullopt);
  EXPECT_THAT(jobs_at_risk({{"cpu", "cpu", 1, 0}}, nodes).value_or(""),
              HasSubstr("while 2 of its Slurm nodes run jobs (NodeSets: cpu, none that is there)"));
  EXPECT_THAT(jobs_at_risk({}, nodes).value_or(""), HasSubstr("while 2 of its Slurm nodes run jobs"));
  EXPECT_THAT(jobs_at_risk({{"cpu", "cpu", 1, 0}}, nodes, true).value_or(""),
              HasSubstr("while 1 of its Slurm nodes run jobs (NodeSets: cpu)"));
}

// scontrol suspend makes their node IDLE.
TEST(JobsAtRisk, SuspendedJobsCount) {
  slurm::Node idle = node(slurm::NodeState::kIdle, "cpu");
  idle.name = "cpu-0";
  slurm::Job job;
  job.states.base = slurm::JobState::kSuspended;
  job.nodes = "cpu-[0-1]";
  EXPECT_THAT(jobs_at_risk({{"cpu", "cpu", 2, 0}}, nodes_now({idle}, std::vector{job})).value_or(""),
              HasSubstr("while 1 of its Slurm nodes run jobs"));
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
