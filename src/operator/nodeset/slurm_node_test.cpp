#include "operator/nodeset/slurm_node.hpp"

#include "base/time.hpp"
#include "operator/nodeset/test_support.hpp"

namespace bascule::op::nodeset {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

TEST(SlurmNode, DrainDrainedUnresponsive) {
  struct Row {
    std::string_view states, reason;
    bool drain, drained, unresponsive;
  };
  const Row rows[] = {
      {"IDLE", "", false, false, false},
      {"MIXED", "", false, false, false},
      {"DRAIN", "", true, true, false},
      {"IDLE+DRAIN", "", true, true, false},
      {"MIXED+DRAIN", "", true, false, false},
      {"ALLOCATED+DRAIN", "", true, false, false},
      {"DOWN+DRAIN", "", true, true, false},
      {"IDLE+DRAIN+COMPLETING", "", true, false, false},
      {"IDLE+DRAIN+UNDRAIN", "", true, false, false},
      {"DOWN+NOT_RESPONDING", "", false, false, false},
      {"DOWN", "Not responding", false, false, true},
      {"DOWN", "Not responding to ping", false, false, true},
      {"DOWN", "other text", false, false, false},
  };
  for (const Row& row : rows) {
    const SlurmNodeView node = slurm_node("n", row.states, std::string(row.reason));
    EXPECT_EQ(is_drain(node), row.drain) << row.states;
    EXPECT_EQ(is_drained(node), row.drained) << row.states;
    EXPECT_EQ(is_down_unresponsive(node), row.unresponsive) << row.states << row.reason;
  }
}

TEST(SlurmNode, WhoseReason) {
  const auto node = [](std::string reason) { return slurm_node("n", "IDLE+DRAIN", std::move(reason)); };
  EXPECT_TRUE(is_reason_ours(node("")));
  EXPECT_TRUE(is_reason_ours(node("slurm-operator: x")));
  EXPECT_FALSE(is_reason_ours(node("slurm-operator:x")));
  EXPECT_FALSE(is_reason_ours(node("bad disk")));
  // Whose drain: one without a reason may be anybody's.
  EXPECT_FALSE(is_drained_by_us(node("")));
  EXPECT_TRUE(is_drained_by_us(node("slurm-operator: x")));
  EXPECT_TRUE(is_held_by_others(node("")));
  EXPECT_TRUE(is_held_by_others(slurm_node("n", "DOWN", "bad disk")));
  EXPECT_FALSE(is_held_by_others(slurm_node("n", "IDLE", "left over")));
  EXPECT_FALSE(is_held_by_others(slurm_node("n", "DOWN", "slurm-operator: x")));
}

TEST(SlurmNode, JobsInTheTableMakeADrainedNodeBusy) {
  SlurmNodeView node = slurm_node("n", "IDLE+DRAIN", ours("x"));
  EXPECT_TRUE(is_clear(node));
  node.has_jobs = true;  // suspended jobs leave the node IDLE
  EXPECT_FALSE(is_clear(node));
  EXPECT_TRUE(is_busy(node));
  EXPECT_FALSE(is_clear(slurm_node("n", "UNKNOWN+DRAIN", ours("x"))));
}

TEST(SlurmNode, MakeDrain) {
  struct Row {
    std::string_view states, reason;
    std::string written;  // empty: nothing
  };
  const Row rows[] = {
      {"IDLE", "", "slurm-operator: y"},
      {"IDLE+DRAIN", "already drained", ""},
      {"IDLE+DRAIN", "", ""},
      {"IDLE+DRAIN", "slurm-operator: y", ""},
      {"IDLE+DRAIN", "slurm-operator: older", "slurm-operator: y"},
      {"IDLE", "x", "slurm-operator: y; before: x"},
      {"DOWN", "x", "slurm-operator: y; before: x"},
      {"DOWN+DRAIN", "slurm-operator: older; before: x", "slurm-operator: y; before: x"},
      {"IDLE+DRAIN+UNDRAIN", "x", "slurm-operator: y; before: x"},
  };
  for (const Row& row : rows) {
    const auto write = make_drain(slurm_node("n", row.states, std::string(row.reason)), "y");
    ASSERT_EQ(write.has_value(), !row.written.empty()) << row.states << row.reason;
    if (!write) continue;
    EXPECT_EQ(write->state, "DRAIN");
    EXPECT_EQ(write->reason, row.written);
    EXPECT_EQ(write->expects_reason, row.reason);
  }
}

TEST(SlurmNode, MakeUndrain) {
  EXPECT_FALSE(make_undrain(slurm_node("n", "IDLE")));
  EXPECT_FALSE(make_undrain(slurm_node("n", "IDLE+DRAIN+UNDRAIN", ours("x"))));
  EXPECT_FALSE(make_undrain(slurm_node("n", "IDLE+DRAIN", "bad disk")));
  EXPECT_FALSE(make_undrain(slurm_node("n", "IDLE+DRAIN")));
  EXPECT_EQ(make_undrain(slurm_node("n", "IDLE+DRAIN", ours("x")))->reason, "");
  EXPECT_EQ(make_undrain(slurm_node("n", "DOWN+DRAIN", ours("x; before: bad disk")))->reason, "bad disk");
  EXPECT_FALSE(make_undrain(slurm_node("n", "DOWN+DRAIN", ours("pod is terminating")))) << "the mark would be lost";
}

TEST(SlurmNode, ResumeOnlyWhatOurOwnHookPutDown) {
  Fixture f(1);
  PodView& pod = f.pod(0);
  SlurmNodeView node = slurm_node("n", "DOWN+DRAIN", ours("pod is terminating"));
  node.reason_since = pod.ready_since - 10s;
  const auto resume_due = [](const SlurmNodeView& of, const PodView& by, WallTime seen) {
    return nodeset::resume_due(of, by, seen, false);
  };
  EXPECT_EQ(resume_due(node, pod, f.now), f.now);
  EXPECT_EQ(make_resume(node).state, "RESUME");
  // By the clocks it is this pod that ends; but not when it goes on for longer than it could.
  node.reason_since = pod.ready_since + 30s;
  pod.grace = 2min;
  EXPECT_EQ(resume_due(node, pod, f.now), f.now + 150s);
  node.reason_since = pod.ready_since - 10s;
  node.reason = ours("x; before: bad disk");
  EXPECT_FALSE(resume_due(node, pod, f.now));
  node.reason = "bad disk";
  EXPECT_FALSE(resume_due(node, pod, f.now));
  // Drained and wanted again before it came back: the drain has hidden when the hook ran.
  node = slurm_node("n", "DOWN+DRAIN", ours("pod slurm/foo-0 waits to be updated"));
  node.reason_since = pod.ready_since + 10s;
  EXPECT_EQ(resume_due(node, pod, f.now), f.now + 30s);
  node = slurm_node("n", "DOWN+NOT_RESPONDING", ours("x"));
  EXPECT_FALSE(resume_due(node, pod, f.now));
}

std::vector<std::string> types(const SlurmNodeView& node) {
  std::vector<std::string> all;
  for (const PodCondition& condition : conditions_of(node)) {
    all.push_back(condition.type.substr(names::kPodConditionPrefix.size()));
    EXPECT_EQ(condition.message, node.reason);
  }
  return all;
}

TEST(SlurmNode, ConditionsAndCounts) {
  const std::pair<std::string_view, std::vector<std::string>> rows[] = {
      {"ALLOCATED+COMPLETING", {"Allocated", "Completing"}},
      {"DOWN+DRAIN", {"Down", "Drain"}},
      {"ERROR+FAIL", {"Error", "Fail"}},
      {"FUTURE+INVALID", {"Future", "Invalid"}},
      {"FUTURE+INVALID_REG", {"Future", "InvalidReg"}},
      {"IDLE+MAINTENANCE", {"Idle", "Maintenance"}},
      {"MIXED+NOT_RESPONDING", {"Mixed", "NotResponding"}},
      {"UNKNOWN+UNDRAIN", {"Unknown", "Undrain"}},
  };
  NodeCounts counts;
  for (const auto& [states, wanted] : rows) {
    const SlurmNodeView node = slurm_node("n", states, "R");
    EXPECT_EQ(types(node), wanted) << states;
    count(counts, node);
  }
  const NodeCounts wanted{.total = 8,
                          .allocated = 1,
                          .down = 1,
                          .error = 1,
                          .future = 2,
                          .idle = 1,
                          .mixed = 1,
                          .unknown = 1,
                          .completing = 1,
                          .drain = 1,
                          .fail = 1,
                          .invalid = 1,
                          .invalid_reg = 1,
                          .maintenance = 1,
                          .not_responding = 1,
                          .undrain = 1};
  EXPECT_EQ(counts, wanted);
}

TEST(SlurmNode, PredicatesOnConditions) {
  struct Row {
    std::vector<std::string> types;
    bool busy, drain, drained, draining;
  };
  const Row rows[] = {
      {{"Drain", "Idle"}, false, true, true, false},
      {{"Drain", "Down"}, false, true, true, false},
      {{"Drain", "Allocated"}, true, true, false, true},
      {{"Drain", "Mixed"}, true, true, false, true},
      {{"Mixed"}, true, false, false, false},
      {{"Completing"}, true, false, false, false},
      {{"Idle"}, false, false, false, false},
      {{"Undrain"}, false, false, false, false},
      {{"Drain", "Undrain"}, false, false, false, false},
  };
  for (const Row& row : rows) {
    std::vector<PodCondition> conditions;
    for (const std::string& type : row.types) {
      conditions.push_back({fmt::format("{}{}", names::kPodConditionPrefix, type), "", {}});
    }
    EXPECT_EQ(conditions_busy(conditions), row.busy) << row.types.front();
    EXPECT_EQ(conditions_drain(conditions), row.drain) << row.types.front();
    EXPECT_EQ(conditions_drained(conditions), row.drained) << row.types.front();
    EXPECT_EQ(conditions_draining(conditions), row.draining) << row.types.front();
  }
}

slurm::Job job(std::uint32_t id, slurm::JobState state, std::string nodes, std::optional<std::uint32_t> minutes) {
  slurm::Job made;
  made.id = JobId{id};
  made.states.base = state;
  made.nodes = std::move(nodes);
  made.time_limit = minutes;
  made.start_time = epoch_seconds(kNow);
  return made;
}

TEST(SlurmNode, DeadlinesAreTheLatestEnd) {
  using slurm::JobState;
  const std::vector<slurm::Job> jobs = {
      job(1, JobState::kRunning, "foo-0", 30),   job(2, JobState::kRunning, "foo-[0-1]", 45),
      job(3, JobState::kRunning, "foo-1", 60),   job(4, JobState::kCompleted, "foo-2", 600),
      job(5, JobState::kSuspended, "foo-3", 10), job(6, JobState::kRunning, "foo-4", slurm::kInfinite),
  };
  const Works works = work_of(jobs);
  EXPECT_EQ(works.nodes.at("foo-0").deadline, kNow + 45min);
  EXPECT_EQ(works.nodes.at("foo-1").deadline, kNow + 60min);
  EXPECT_FALSE(works.nodes.contains("foo-2"));
  EXPECT_TRUE(works.nodes.at("foo-3").has_jobs) << "a suspended job dies with its node too";
  EXPECT_FALSE(works.nodes.at("foo-3").deadline);
  EXPECT_EQ(works.nodes.at("foo-4").deadline, kNever);
}

TEST(SlurmNode, W38_OneUnreadableJobDoesNotHideTheOthers) {
  const std::vector<slurm::Job> jobs = {job(1, slurm::JobState::kRunning, "foo-[0", 30),
                                        job(2, slurm::JobState::kRunning, "foo-1", std::nullopt)};
  const Works works = work_of(jobs);
  EXPECT_THAT(works.faults, ElementsAre(testing::HasSubstr("job 1")));
  EXPECT_EQ(works.nodes.at("foo-1").deadline, kNever) << "no limit is no end, not zero minutes";
}

TEST(SlurmNode, ReasonsFromPeople) {
  EXPECT_EQ(sanitize_reason("a\r\tb"), "a  b");
  EXPECT_EQ(sanitize_reason(std::string_view("bad\0\7reason", 11)), "badreason");
  EXPECT_EQ(sanitize_reason("\x1b[31m"), "[31m");
  EXPECT_EQ(sanitize_reason("  d\xc3\xa9\xc3\xa0 "), "d\xc3\xa9\xc3\xa0");
  EXPECT_EQ(sanitize_reason(std::string(306, 'a')), std::string(256, 'a'));
  std::string accents;
  for (int i = 0; i < 300; ++i) accents += "\xc3\xa9";
  EXPECT_THAT(sanitize_reason(accents), SizeIs(512));
  EXPECT_EQ(sanitize_reason(" \n "), "unknown");
}

// "; before: " is our own: it would be read as somebody else's reason, and written behind itself for ever.
TEST(SlurmNode, AReasonWithOurOwnWordsIsWrittenOnce) {
  SlurmNodeView node = slurm_node("n", "IDLE");
  const std::string reason = sanitize_reason("new fans; before: old ones");
  const auto first = make_drain(node, reason);
  ASSERT_TRUE(first);
  node = slurm_node("n", "IDLE+DRAIN", *first->reason);
  EXPECT_FALSE(make_drain(node, reason));
  EXPECT_EQ(make_undrain(node)->reason, "");
}

}  // namespace
}  // namespace bascule::op::nodeset
