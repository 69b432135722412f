#include "operator/config/left_lines.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bascule::op {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::string_view kInPlace =
    "#\n### GENERAL ###\nNodeSet=no\n#\n### NODESET & PARTITION ###\nNodeSet=cpu Feature=cpu\nPartitionName=cpu "
    "Nodes=cpu State=UP\nNodeSet=gpu Feature=gpu\nPartitionName=gpu Nodes=gpu MaxTime=60\n#\n### EXTRA CONFIG "
    "###\nPartitionName=theirs Nodes=ALL\n";

std::vector<std::string> left(std::string_view wanted, std::string_view extra = {}) {
  std::vector<std::string> out;
  for (const LeftLine& line : left_lines(kInPlace, wanted, extra)) out.push_back(line.text);
  return out;
}

TEST(LeftLinesTest, OurOwnThatNobodyWantsAnyMore) {
  EXPECT_THAT(left("NodeSet=cpu Feature=cpu\nPartitionName=cpu Nodes=cpu State=DOWN\n"),
              ElementsAre("NodeSet=gpu Feature=gpu", "PartitionName=gpu Nodes=gpu MaxTime=60"));
  EXPECT_THAT(left("NodeSet=cpu Feature=cpu\nNodeSet=gpu Feature=gpu\nPartitionName=gpu Nodes=gpu\n"),
              ElementsAre("PartitionName=cpu Nodes=cpu State=UP"));
  EXPECT_EQ(left("").size(), 4u);
  EXPECT_THAT(left_lines("", "", ""), IsEmpty());
  EXPECT_THAT(left_lines("ClusterName=x\n#\n### NODESET & PARTITION ###\n#\n### EXTRA CONFIG ###\nNodeSet=a\n", "", ""),
              IsEmpty());
}

TEST(LeftLinesTest, TheyStayWhereTheyWere) {
  const std::string_view cpu = "NodeSet=cpu Feature=cpu\nPartitionName=cpu Nodes=cpu State=UP\n";
  const std::string_view gpu = "NodeSet=gpu Feature=gpu\nPartitionName=gpu Nodes=gpu MaxTime=60\n";
  const std::string both = std::string(cpu) + std::string(gpu);
  for (const std::string_view wanted : {cpu, gpu, std::string_view()}) {
    EXPECT_EQ(merged_lines(wanted, left_lines(kInPlace, wanted, "")), both);
  }
  const std::string_view other = "NodeSet=a Feature=a\n";
  EXPECT_EQ(merged_lines(std::string(other) + std::string(cpu), left_lines(kInPlace, cpu, "")),
            std::string(other) + both);
}

// A second line of a name is refused by slurmctld, or overrules the first.
TEST(LeftLinesTest, WhatTheUserSaysHimselfIsNotLeft) {
  EXPECT_THAT(left("NodeSet=cpu Feature=cpu\nPartitionName=cpu Nodes=cpu\n",
                   "nodeset=gpu Feature=gpu\npartitionname=gpu Nodes=gpu"),
              IsEmpty());
}

}  // namespace
}  // namespace bascule::op
