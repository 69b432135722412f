#include "operator/reconcile/key_change.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/manual_loop.hpp"
#include "operator/api/resources.hpp"
#include "operator/reconcile/key_watch.hpp"

namespace bascule::op::reconcile {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

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
    EXPECT_EQ(stand_of(nodes_now({of_it}, none), {"cpu", "gpu"}), one.stand) << print(of_it.states);
    EXPECT_EQ(stand_of(nodes_now({node(one.states, "bridge")}, none), {"gpu"}), NodesStand::kClear)
        << "not a NodeSet's";
  }
  EXPECT_EQ(stand_of(nodes_now({}, none), {"gpu"}), NodesStand::kClear);
}

TEST(NodesStandTest, OnlyTheJobTableTellsOfSuspendedJobs) {
  const slurm::Node drained = node({"IDLE", "DRAIN"});
  slurm::Job job;
  job.states.base = slurm::JobState::kSuspended;
  job.nodes = "gpu-0";
  EXPECT_EQ(stand_of(nodes_now({drained}, std::vector{job}), {"gpu"}), NodesStand::kOpen);
  EXPECT_EQ(stand_of(nodes_now({drained}, std::nullopt), {"gpu"}), NodesStand::kUnknown);
  job.nodes = "gpu-[";
  EXPECT_EQ(stand_of(nodes_now({drained}, std::vector{job}), {"gpu"}), NodesStand::kUnknown);
  EXPECT_EQ(stand_of(std::nullopt, {"gpu"}), NodesStand::kUnknown);
}

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

// slurmctld gets both together, and until then takes no token that was signed with the new one.
TEST(HoldKeyTest, AJwtKeyThatChangesMeanwhileIsSaid) {
  Plan plan = plan_with({.rule = "the key has changed", .jwt = true, .workers = true, .jobs_seen = true});
  EXPECT_TRUE(hold_key(plan, NodesStand::kUnknown));
  EXPECT_THAT(plan.waits.front().sentence, HasSubstr("it refuses all new tokens until then"));
  EXPECT_THAT(plan.waits.front().sentence, HasSubstr("It is not known whether jobs run"));
  EXPECT_THAT(plan.waits.front().sentence, HasSubstr("or put the old JWT key back until then"));
}

struct Watched {
  ManualLoop loop;
  int asked = 0, woken = 0;
  Duration takes = 1s;
  NodesStand answer = NodesStand::kOpen;
  KeyWatch watch{loop, [this](NamespacedName, std::stop_token stop) { return ask(std::move(stop)); },
                 [this](const NamespacedName&) { ++woken; }};
  NodesStand look() { return watch.look({"slurm", "slurm"}); }
  Task<NodesStand> ask(std::stop_token stop) {
    ++asked;
    co_await sleep_for(loop, takes, stop);
    co_return answer;
  }
};

TEST(KeyWatchTest, AsksAtMostEachTenSecondsAndSaysMeanwhileWhatWasSaidLast) {
  Watched w;
  EXPECT_EQ(w.look(), NodesStand::kAsked);
  EXPECT_EQ(w.look(), NodesStand::kAsked);
  w.loop.advance(1s);
  EXPECT_EQ(w.woken, 1);
  w.takes = 25s;
  for (int second = 0; second < 35; ++second) {
    EXPECT_EQ(w.look(), NodesStand::kOpen) << second;
    w.loop.advance(1s);
  }
  EXPECT_EQ(w.asked, 2) << "after ten seconds, for 25";
  EXPECT_EQ(w.woken, 2);
}

TEST(KeyWatchTest, ThatNothingRunsIsGoodForTenSeconds) {
  Watched w;
  w.answer = NodesStand::kClear;
  w.look();
  w.loop.advance(1s);
  EXPECT_EQ(w.look(), NodesStand::kClear);
  w.loop.advance(10s);
  EXPECT_EQ(w.look(), NodesStand::kAsked);
  w.watch.forget({"slurm", "slurm"});
  w.loop.advance(1s);
  EXPECT_EQ(w.woken, 1) << "nobody wants to know any more";
}

}  // namespace
}  // namespace bascule::op::reconcile
