#include "operator/nodeset/update.hpp"

#include "operator/nodeset/test_support.hpp"

namespace bascule::op::nodeset {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Update : testing::Test {
  Fixture f{0};
  void max(std::int64_t value, bool percent = false) { f.state.spec.max_unavailable = {value, percent}; }
  PodView& put(int ordinal, bool is_new, bool healthy = true) {
    PodView& pod = f.add(ordinal);
    f.state.spec.replicas = static_cast<std::int32_t>(f.state.pods.size());
    if (!is_new) pod.hash_label = "old";
    pod.ready = healthy;
    return pod;
  }
};

TEST_F(Update, OldOnesWithinMaxUnavailable) {
  max(10, true);
  put(0, true);
  put(1, false);
  EXPECT_THAT(drained(f.plan()), ElementsAre("foo-1"));
  EXPECT_EQ(patched(f.plan(), "foo-1", names::kPodCordonCause), "Update");
  EXPECT_THAT(event_reasons(f.plan()), ElementsAre("RollingUpdate"));
  f.pod(1).hash_label = f.hash;
  EXPECT_THAT(states_written(f.plan()), IsEmpty());
}
TEST_F(Update, NotWhileANewOneIsNotReady) {
  max(1);
  put(0, true, false);
  put(1, false);
  EXPECT_THAT(drained(f.plan()), IsEmpty());
}
TEST_F(Update, OldOnesThatDoNotRunGoAtOnceButCountAsUnavailable) {
  for (const std::int64_t most : {1, 2}) {
    f = Fixture(0);
    max(most);
    put(0, true, false);
    PodView& pending = put(1, false, false);
    pending.phase = PodPhase::kPending;
    pending.node.clear();
    put(2, false);
    f.state.slurm.nodes.erase("foo-1");
    EXPECT_THAT(deleted(f.plan()), ElementsAre("foo-1"));
    EXPECT_THAT(drained(f.plan()), IsEmpty()) << "two of three are unavailable already";
  }
}
TEST_F(Update, NeverWithoutAWord) {
  for (const bool percent : {false, true}) {
    f = Fixture(0);
    max(0, percent);
    put(0, true);
    EXPECT_THAT(f.plan().waits, IsEmpty());
    put(1, false);
    EXPECT_THAT(drained(f.plan()), IsEmpty());
    EXPECT_THAT(f.plan().waits, ElementsAre("maxUnavailable is 0: no pod of an older revision is replaced"));
  }
}
TEST_F(Update, ATerminatingOneHoldsTheBudget) {
  max(1);
  put(0, false).terminating = true;
  put(1, false);
  EXPECT_THAT(drained(f.plan()), IsEmpty());
  f.state.spec.replicas = 1;  // then the terminating one is a remnant of scaling in
  EXPECT_THAT(drained(f.plan()), ElementsAre("foo-1"));
}
TEST_F(Update, HalfOfFour) {
  max(50, true);
  put(0, true, false);
  put(1, false);
  put(2, false);
  put(3, false);
  EXPECT_THAT(drained(f.plan()), ElementsAre("foo-3"));
}
TEST_F(Update, NothingWanted) {
  max(100, true);
  put(0, false);
  f.state.spec.replicas = 0;
  EXPECT_EQ(patched(f.plan(), "foo-0", names::kPodCordonCause), "ScaleIn");
}
TEST_F(Update, OnDeleteWaitsForTheUser) {
  f.state.spec.update = UpdateType::kOnDelete;
  put(0, false);
  put(1, false, false);
  EXPECT_THAT(drained(f.plan()), IsEmpty());
  EXPECT_THAT(deleted(f.plan()), IsEmpty());
}
TEST_F(Update, ADrainNotSeenBackYetCounts) {
  max(1);
  put(0, false);
  put(1, false);
  const Plan first = f.plan();
  ASSERT_THAT(drained(first), ElementsAre("foo-1"));
  for (const Action& action : first.actions) remember(f.memory, action, f.now);
  f.pod(0).deletion_cost = "-5";  // now the other one would go first
  f.now += 1s;
  EXPECT_THAT(drained(f.plan()), IsEmpty());
}
// A bad image, or smaller hosts: Kubernetes calls the pod ready, and Slurm gives it no job.
TEST_F(Update, NotWhileANewOneIsOutOfServiceInSlurm) {
  constexpr const char* kFewer = "gres/gpu count reported lower than configured (0 < 8)";
  const std::pair<const char*, std::string> rows[] = {{"DOWN+INVALID_REG", kFewer},
                                                      {"DOWN+DRAIN+INVALID_REG", kFewer},
                                                      {"IDLE+DRAIN", "bad disk"},
                                                      {"DOWN", ours("pod is terminating")}};
  for (const auto& [states, reason] : rows) {
    f = Fixture(0);
    max(1);
    put(0, true);
    for (int i = 1; i < 4; ++i) put(i, false);
    f.set(0, states, reason);
    const Plan plan = f.plan();
    EXPECT_THAT(drained(plan), IsEmpty()) << states;
    EXPECT_THAT(plan.waits, testing::Contains(testing::HasSubstr("foo-0"))) << states;
    f.set(0, "IDLE");
    EXPECT_THAT(drained(f.plan()), ElementsAre("foo-3")) << states;
  }
}
// What the template before the last one has spoilt goes first, and takes nothing from the budget.
TEST_F(Update, AnOldOneThatSlurmRefusesGoesAtOnceButCountsAsUnavailable) {
  max(1);
  put(0, true);
  put(1, false);
  put(2, false);
  f.set(1, "DOWN+INVALID_REG", "Low RealMemory (reported:1 < 100.00% of configured:2)");
  EXPECT_THAT(drained(f.plan()), ElementsAre("foo-1"));
}
TEST_F(Update, OldOnesThatSlurmHasDownGoFirst) {
  max(1);
  for (int i = 0; i < 3; ++i) put(i, false);
  f.set(1, "DOWN", "Not responding");
  EXPECT_THAT(drained(f.plan()), ElementsAre("foo-1"));
}
TEST_F(Update, NobodyWaitsForWhatAUserHasTakenOut) {
  max(1);
  put(0, true).cordon = "true";
  put(1, false);
  f.set(0, "DOWN+DRAIN", ours("pod slurm/foo-0 was cordoned"));
  EXPECT_THAT(drained(f.plan()), ElementsAre("foo-1"));
}
TEST_F(Update, ScheduledTakesWhatIsUnderTheReservation) {
  f.state.spec.update = UpdateType::kScheduledUpdate;
  for (int i = 0; i < 3; ++i) put(i, false);
  EXPECT_THAT(drained(f.plan()), IsEmpty());
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    f.set(i, "IDLE+MAINTENANCE").reservation = i == 0 ? "SlurmOperatorMaint-foo" : "another";
  }
  EXPECT_THAT(drained(f.plan()), ElementsAre("foo-0"));
  EXPECT_THAT(event_reasons(f.plan()), ElementsAre("Scheduled Update"));
}

}  // namespace
}  // namespace bascule::op::nodeset
