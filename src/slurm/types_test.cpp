#include "slurm/types.hpp"

#include <gmock/gmock.h>

namespace bascule::slurm {
namespace {

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> out;
  while (true) {
    const std::size_t plus = text.find('+');
    out.push_back(text.substr(0, plus));
    if (plus == std::string_view::npos) return out;
    text.remove_prefix(plus + 1);
  }
}

TEST(JobStates, ParsedWordsPrintTheSame) {
  for (const auto* text : {"PENDING", "RUNNING+CONFIGURING", "CANCELLED+COMPLETING", "COMPLETED", "UNKNOWN",
                           "RUNNING+SIGNALING+STAGE_OUT", "OUT_OF_MEMORY", "PENDING+OTHER"}) {
    EXPECT_EQ(print(parse_job_states(words(text))), text);
  }
}

TEST(JobStates, AWordFromTheFutureIsNoState) {
  const JobStates states = parse_job_states({"HIBERNATING"});
  EXPECT_EQ(states.base, JobState::kUnknown);
  EXPECT_TRUE(states.has(JobFlag::kOther));
  EXPECT_FALSE(states.ended());
}

TEST(JobStates, EndedIsTerminalWithoutRequeue) {
  EXPECT_TRUE(parse_job_states({"CANCELLED", "COMPLETING"}).ended());
  EXPECT_TRUE(parse_job_states({"TIMEOUT"}).ended());
  EXPECT_FALSE(parse_job_states({"RUNNING"}).ended());
  EXPECT_FALSE(parse_job_states({"SUSPENDED"}).ended());
  EXPECT_FALSE(parse_job_states({"NODE_FAIL", "REQUEUED"}).ended());
  EXPECT_FALSE(parse_job_states({}).ended());
}

TEST(NodeStates, ParsedWordsPrintTheSame) {
  for (const auto* text : {"IDLE+DRAIN+DYNAMIC_NORM+EXTERNAL", "MIXED+NOT_RESPONDING", "UNKNOWN+DRAIN+INVALID_REG",
                           "DOWN", "ALLOCATED+COMPLETING"}) {
    EXPECT_EQ(print(parse_node_states(words(text))), text);
  }
  EXPECT_EQ(print(parse_node_states({"IDLE", "EXTERNAL", "DRAIN"})), "IDLE+DRAIN+EXTERNAL");
  EXPECT_TRUE(parse_node_states({"IDLE", "REBOOT_REQUESTED"}).has(NodeFlag::kRebooting));
  EXPECT_EQ(parse_node_states({"DRAIN", "IDLE"}).base, NodeState::kIdle);
}

}  // namespace
}  // namespace bascule::slurm
