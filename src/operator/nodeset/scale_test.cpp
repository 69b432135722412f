#include "operator/nodeset/scale.hpp"

#include "operator/nodeset/status.hpp"
#include "operator/nodeset/test_support.hpp"

namespace bascule::op::nodeset {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

TEST(Plan, WhereDaemonsRun) {
  NodeView node;
  EXPECT_EQ(run_on(node), (RunOn{true, true}));
  node.unschedulable = true;
  EXPECT_EQ(run_on(node), (RunOn{true, true}));
  node.untolerated_no_schedule = true;
  EXPECT_EQ(run_on(node), (RunOn{false, true}));
  node.untolerated_no_execute = true;
  EXPECT_EQ(run_on(node), (RunOn{false, false}));
  node = {};
  node.matches = false;
  EXPECT_EQ(run_on(node), (RunOn{false, false}));
}

struct Daemon : testing::Test {
  Fixture f{0};
  Daemon() {
    f.state.spec.mode = ScalingMode::kDaemonSet;
    f.add_daemon("k0");
    f.add_daemon("k1");
    f.rest();
  }
};

TEST_F(Daemon, AtRest) {
  EXPECT_TRUE(f.plan().at_rest()) << text_of(f.plan());
}
TEST_F(Daemon, ANewNodeGetsAPod) {
  f.state.nodes["k2"].name = "k2";
  const auto pods = all_of<CreatePod>(f.plan());
  ASSERT_EQ(pods.size(), 1);
  EXPECT_EQ(pods[0].only_node, "k2");
  f.state.nodes["k2"].untolerated_no_schedule = true;
  EXPECT_THAT(created(f.plan()), IsEmpty());
}
TEST_F(Daemon, ANodeThatNoLongerMatchesIsDrainedFirst) {
  f.state.nodes["k1"].matches = false;
  f.set(1, "ALLOCATED");
  EXPECT_THAT(drained(f.plan()), ElementsAre("k1"));
  f.set(1, "IDLE+DRAIN", ours("x"));
  EXPECT_THAT(deleted(f.plan()), ElementsAre(f.pod(1).name));
  EXPECT_EQ(f.state.status.desired, 2);
}
TEST_F(Daemon, APodThatStaysWhereNoneIsAskedForIsNoneTooMany) {
  f.state.nodes["k1"].untolerated_no_schedule = true;
  Plan plan = f.plan();
  Status status = all_of<WriteStatus>(plan).at(0).status;
  EXPECT_EQ(status.desired, 1);
  EXPECT_EQ(status.replicas, 2);
  EXPECT_TRUE(is_whole(plan, status));
  EXPECT_EQ(asked_for_and_available(plan, status), 1);
  f.pod(0).ready = false;
  plan = f.plan();
  status = all_of<WriteStatus>(plan).at(0).status;
  EXPECT_FALSE(is_whole(plan, status)) << "k1's pod does not stand for k0's";
  EXPECT_EQ(asked_for_and_available(plan, status), 0);
  f.pod(0).ready = true;
  f.pod(1).ready = false;  // its node does not answer
  plan = f.plan();
  EXPECT_TRUE(is_whole(plan, all_of<WriteStatus>(plan).at(0).status));
}
TEST_F(Daemon, APodThatWaitsForANodeThatIsGoneGoes) {
  f.pod(1).node.clear();
  f.state.nodes.erase("k1");
  EXPECT_THAT(deleted(f.plan()), ElementsAre(f.pod(1).name));
}
TEST_F(Daemon, AnotherHostnameIsAnotherPod) {
  f.state.nodes["k1"].hostname_override = "gpu-1";
  EXPECT_THAT(drained(f.plan()), ElementsAre("k1"));
  EXPECT_THAT(event_reasons(f.plan()), Contains("HostnameMismatch"));
}
TEST_F(Daemon, FailedAndSucceededPodsAreReplaced) {
  f.pod(0).phase = PodPhase::kFailed;
  f.pod(1).phase = PodPhase::kSucceeded;
  const Plan plan = f.plan();
  EXPECT_THAT(deleted(plan), UnorderedElementsAre(f.pod(0).name, f.pod(1).name));
  EXPECT_THAT(event_reasons(plan), UnorderedElementsAre("FailedDaemonPod", "SucceededDaemonPod"));
}

}  // namespace
}  // namespace bascule::op::nodeset
