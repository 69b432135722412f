#include "operator/reconcile/nodes_stand.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bascule::op::reconcile {
namespace {

slurm::Node node(std::vector<std::string_view> states, std::string feature = "gpu") {
  slurm::Node out;
  out.name = "gpu-0";
  out.states = slurm::parse_node_states(states);
  out.features = {"x", std::move(feature)};
  return out;
}

// Between the question and the key minutes may pass: a node that may be given a job is as good as one that runs it.
TEST(NodesStandTest, ANodeIsClearWhenNothingRunsAndNothingCanStart) {
  struct Case {
    std::vector<std::string_view> states;
    NodesStand stand;
  };
  const Case cases[] = {
      {{"IDLE"}, NodesStand::kOpen},
      {{"MIXED"}, NodesStand::kOpen},
      {{"ALLOCATED"}, NodesStand::kOpen},
      {{"UNKNOWN"}, NodesStand::kOpen},
      {{"IDLE", "DRAIN"}, NodesStand::kClear},
      {{"ALLOCATED", "DRAIN"}, NodesStand::kOpen},
      {{"IDLE", "DRAIN", "COMPLETING"}, NodesStand::kOpen},
      {{"IDLE", "DRAIN", "UNDRAIN"}, NodesStand::kOpen},
      {{"DOWN"}, NodesStand::kClear},
      {{"IDLE", "NOT_RESPONDING"}, NodesStand::kClear},
      {{"ALLOCATED", "NOT_RESPONDING"}, NodesStand::kOpen},
  };
  const std::vector<slurm::Job> none;
  for (const Case& one : cases) {
    const slurm::Node of_it = node(one.states);
    EXPECT_EQ(stand_of(nodes_now({of_it}, none)).nodes(), one.stand) << print(of_it.states);
    std::vector<std::string_view> external = one.states;
    external.emplace_back("EXTERNAL");
    EXPECT_EQ(stand_of(nodes_now({node(external)}, none)).nodes(), NodesStand::kClear) << "no slurmd of ours";
  }
  EXPECT_EQ(stand_of(nodes_now({}, none)).nodes(), NodesStand::kClear);
}

TEST(NodesStandTest, OnlyTheJobTableTellsOfSuspendedJobs) {
  const slurm::Node drained = node({"IDLE", "DRAIN"});
  slurm::Job job;
  job.states.base = slurm::JobState::kSuspended;
  job.nodes = "gpu-0";
  EXPECT_EQ(stand_of(nodes_now({drained}, std::vector{job})).nodes(), NodesStand::kOpen);
  EXPECT_EQ(stand_of(nodes_now({drained}, std::nullopt)).nodes(), NodesStand::kUnknown);
  job.nodes = "gpu-[";
  EXPECT_EQ(stand_of(nodes_now({drained}, std::vector{job})).nodes(), NodesStand::kUnknown);
  EXPECT_EQ(stand_of(std::nullopt).nodes(), NodesStand::kUnknown);
}

// A NodeSet may have gone, or have another hostname now.
TEST(NodesStandTest, WhoseANodeIsNowDoesNotMatterAndItsFeaturesSayWhoseItWas) {
  slurm::Job job;
  job.states.base = slurm::JobState::kRunning;
  job.nodes = "gpu-0";
  job.partition = "night";
  const ClusterStand stand = stand_of(nodes_now({node({"MIXED"}, "old")}, std::vector{job}));
  EXPECT_EQ(stand.nodes(), NodesStand::kOpen);
  EXPECT_EQ(stand.of_former("old", {}), NodesStand::kOpen);
  EXPECT_EQ(stand.of_former("gpu", {}), NodesStand::kClear);
  EXPECT_EQ(stand.of_partition("night"), NodesStand::kOpen);
  EXPECT_EQ(stand.of_partition("old"), NodesStand::kClear);
  job.states.base = slurm::JobState::kPending;
  EXPECT_EQ(stand_of(nodes_now({}, std::vector{job})).of_partition("night"), NodesStand::kClear);
  EXPECT_EQ(stand_of(nodes_now({node({"MIXED"}, "old")}, std::nullopt)).of_former("gpu", {}), NodesStand::kUnknown);
  EXPECT_EQ(ClusterStand().of_former("gpu", {}), NodesStand::kAsked);
}

}  // namespace
}  // namespace bascule::op::reconcile
