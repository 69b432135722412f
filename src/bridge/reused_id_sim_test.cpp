// A slurmctld that was killed has lost the jobs of its last seconds and gives their ids to others: what we do to "our"
// job must not hit theirs, and what we know of it gives nobody a node.
#include "bridge/bridge_sim_test.hpp"

namespace bascule::bridge {
namespace {

// With both processes, and pods that run on.
struct Running : World {
  Running(std::uint64_t seed, int nodes) : World(seed, nodes, 1h) {
    scheduler.start();
    pod_sync.start();
  }
};

void add_pod(World& w, const std::string& name) {
  w.api.create(r::kPods, testing::make_pod({.name = name,
                                            .ns = "slurm-bridge",
                                            .scheduler = "slurm-bridge-scheduler",
                                            .annotations = {{"fake/run-for", "forever"}}}));
}

std::string node_of(World& w, const std::string& pod) {
  const auto seen = w.api.get(r::kPods, {"slurm-bridge", pod});
  return seen ? std::string(json::string_at(*seen, {"spec", "nodeName"})) : "it is gone";
}

void restart_without_state(World& w) {
  w.slurm.stop_controller();
  w.loop.advance(20ms);
  w.slurm.model().lose_state(w.slurm.now(), true, true);
  w.slurm.start_controller();
}

slurm::JobDescription of_whole_node() {
  slurm::JobDescription job;
  job.nodes = 1;
  job.exclusive = true;
  return job;
}

// The pod's job had not been in any table yet, so that nothing but its comment tells it from the other.
TEST(ReusedId, AUsersJobIsNotTakenForOneJustSubmitted) {
  for (const bool deleted : {false, true}) {
    Running w(31, 2);
    w.hold_nodes(2);
    w.loop.advance(1min);
    add_pod(w, "p");
    w.loop.advance(1s);
    ASSERT_EQ(w.live_jobs(), 2u);
    restart_without_state(w);
    w.hold_nodes(1);
    ASSERT_EQ(w.slurm.submit(of_whole_node()), JobId{2});
    if (deleted) w.api.remove(r::kPods, {"slurm-bridge", "p"});
    w.loop.advance(3min);
    ASSERT_NE(w.slurm.model().job(JobId{2}), nullptr);
    EXPECT_EQ(w.slurm.model().job(JobId{2})->view.states.base, slurm::JobState::kRunning);
    EXPECT_EQ(w.slurm.model().job(JobId{2})->view.admin_comment, "");
    EXPECT_EQ(node_of(w, "p"), deleted ? "it is gone" : "");
    EXPECT_EQ(w.live_jobs(), deleted ? 2u : 3u);
  }
}

// Two clusters share one Slurm, and the bridge of the other one has got the id.
TEST(ReusedId, AJobOfAnotherClustersBridgeIsNotWaitedFor) {
  Running w(39, 2);
  w.hold_nodes(2);
  w.loop.advance(1min);
  add_pod(w, "p");
  w.loop.advance(1s);
  ASSERT_EQ(w.live_jobs(), 2u);
  restart_without_state(w);
  slurm::JobDescription theirs = of_whole_node();
  theirs.admin_comment = print_record(
      {test_config().scheduler_name, "other", Uid("u"), "0123456789abcdef", {{"ns", "theirs"}}, {Uid("u")}, false});
  w.hold_nodes(1);
  ASSERT_EQ(w.slurm.submit(std::move(theirs)), JobId{2});
  w.loop.advance(1min);
  EXPECT_EQ(w.slurm.model().job(JobId{2})->view.states.base, slurm::JobState::kRunning);
  const auto* anew = w.slurm.model().job(JobId{3});
  ASSERT_NE(anew, nullptr);
  const auto record = parse_record(anew->view.admin_comment);
  ASSERT_TRUE(record && !record->pods.empty());
  EXPECT_EQ(record->pods.front().name, "p");
}

// Its pod went while slurmctld was away, so the cancel is the first thing that it is asked for.
TEST(ReusedId, AUsersJobIsNotCancelledForAPodThatWentMeanwhile) {
  Running w(32, 2);
  w.hold_nodes(2);
  add_pod(w, "p");
  w.loop.advance(2min);
  w.slurm.stop_controller();
  w.loop.advance(30s);
  w.api.remove(r::kPods, {"slurm-bridge", "p"});
  w.loop.advance(30s);
  w.slurm.model().lose_state(w.slurm.now(), true, true);
  w.slurm.start_controller();
  w.hold_nodes(2);
  ASSERT_EQ(w.slurm.submit(of_whole_node()), JobId{2});
  w.loop.advance(3min);
  EXPECT_EQ(w.slurm.model().job(JobId{2})->view.states.base, slurm::JobState::kPending);
  EXPECT_EQ(node_of(w, "p"), "it is gone");
}

// Nor for one that goes when a table has lacked its job, and before that is believed.
TEST(ReusedId, AUsersJobIsNotCancelledForAJobThatTheLastTableLacked) {
  for (Duration after = 500ms; after < 10s; after += 500ms) {
    Running w(32, 2);
    w.hold_nodes(2);
    add_pod(w, "p");
    w.loop.advance(2min);
    restart_without_state(w);
    w.loop.advance(after);
    w.hold_nodes(2);
    if (w.slurm.submit(of_whole_node()) != JobId{2}) continue;  // the pod has another by now
    w.api.remove(r::kPods, {"slurm-bridge", "p"});
    w.loop.advance(3min);
    EXPECT_EQ(w.slurm.model().job(JobId{2})->view.states.base, slurm::JobState::kPending) << after.count();
    EXPECT_EQ(node_of(w, "p"), "it is gone");
  }
}

// What a pod asks for changes just then: the record of ours would make the job ours.
TEST(ReusedId, AUsersJobIsNotChangedForAPodThatWaits) {
  Running w(32, 2);
  w.hold_nodes(2);
  w.loop.advance(1min);
  add_pod(w, "p");
  w.loop.advance(3s);
  w.slurm.model().lose_state(w.slurm.now(), true, true);
  w.hold_nodes(2);
  ASSERT_EQ(w.slurm.submit(of_whole_node()), JobId{2});
  w.api.patch(r::kPods, {"slurm-bridge", "p"},
              json::Object{{"metadata", json::Object{{"annotations",
                                                      json::Object{{"slurmjob.slinky.slurm.net/timelimit", "9"}}}}}});
  w.loop.advance(3min);
  EXPECT_EQ(w.slurm.model().job(JobId{2})->view.admin_comment, "");
}

// "There is no such job" is no confirmation that it runs.
TEST(ReusedId, AJobThatWentIsNoReasonToBind) {
  Running w(33, 1);
  w.api.create(r::kPods, testing::make_pod({.name = "theirs", .ns = "slurm-bridge", .cpu = "8", .node = "n1"}));
  add_pod(w, "p");
  w.loop.advance(5s);
  ASSERT_EQ(w.live_jobs(), 1u);
  ASSERT_EQ(node_of(w, "p"), "");
  w.slurm.stop_controller();
  w.loop.advance(5s);
  w.slurm.model().lose_state(w.slurm.now(), true, false);
  w.api.remove(r::kPods, {"slurm-bridge", "theirs"});
  w.loop.advance(2s);
  w.slurm.start_controller();
  for (int i = 0; i < 1200 && node_of(w, "p").empty(); ++i) {
    w.loop.advance(50ms);
    w.check();
    ASSERT_FALSE(HasFatalFailure());
  }
  EXPECT_EQ(node_of(w, "p"), "n1");
  EXPECT_EQ(w.live_jobs(), 1u);
}

// slurmctld says of the id that it runs, as before, and before its table is in nobody knows that it is another's.
TEST(ReusedId, AStateAloneConfirmsNothingAfterAnOutage) {
  Running w(36, 2);
  w.api.create(r::kPods, testing::make_pod({.name = "theirs", .ns = "slurm-bridge", .cpu = "8", .node = "n1"}));
  w.api.create(r::kPods, testing::make_pod({.name = "too", .ns = "slurm-bridge", .cpu = "8", .node = "n2"}));
  w.loop.advance(1min);
  add_pod(w, "p");
  w.loop.advance(4s);
  ASSERT_EQ(w.live_jobs(), 1u);
  const std::string node = w.slurm.model().job(JobId{1})->view.nodes;
  w.slurm.stop_controller();
  w.loop.advance(15s);  // it is missed
  w.slurm.model().lose_state(w.slurm.now(), true, true);
  for (const char* pod : {"theirs", "too"}) w.api.remove(r::kPods, {"slurm-bridge", pod});
  slurm::JobDescription theirs = of_whole_node();
  theirs.required_nodes = {node};
  ASSERT_EQ(w.slurm.submit(std::move(theirs)), JobId{1});
  w.slurm.set_faults([](const net::ServerRequest& request) -> testing::FakeSlurmFault {
    if (!request.target.contains("/jobs/") || request.target.contains("/jobs/state")) return {};
    return {.kind = testing::FakeSlurmFault::Kind::kNone, .after = 5s};
  });
  w.slurm.start_controller();
  w.loop.advance(1min);
  EXPECT_NE(node_of(w, "p"), node) << "it is theirs";
  EXPECT_EQ(w.slurm.model().job(JobId{1})->view.states.base, slurm::JobState::kRunning);
}

// The condition SlurmJobKnown.
std::string known(World& w, const std::string& pod) {
  const json::Value seen = *w.api.get(r::kPods, {"slurm-bridge", pod});
  for (const json::Value& one : *json::array_at(seen, {"status", "conditions"})) {
    if (json::string_at(one, {"type"}) == names::kSlurmJobKnown) return std::string(json::string_at(one, {"status"}));
  }
  return "not said";
}

// slurmctld was killed within seconds of the start, has saved the job as one that waits, and starts it elsewhere.
TEST(ReusedId, APodWhoseJobRunsElsewhereIsLeftAndSaysSo) {
  Running w(40, 2);
  add_pod(w, "p");
  w.loop.advance(4s);
  const std::string node = node_of(w, "p");
  ASSERT_FALSE(node.empty());
  EXPECT_EQ(known(w, "p"), "not said");
  w.slurm.stop_controller();
  w.loop.advance(20ms);
  slurm::JobDescription theirs = of_whole_node();
  theirs.required_nodes = {node};
  theirs.priority = 1u << 30;
  ASSERT_EQ(w.slurm.submit(std::move(theirs)), JobId{2});
  w.slurm.model().forget_start(w.slurm.now(), JobId{1});
  w.slurm.start_controller();
  ASSERT_TRUE(w.loop.run_until([&] { return known(w, "p") == "False"; }, 2min));
  EXPECT_NE(w.slurm.model().job(JobId{1})->view.nodes, node);
  w.loop.advance(2min);
  EXPECT_EQ(node_of(w, "p"), node);
  EXPECT_EQ(w.slurm.model().job(JobId{1})->view.states.base, slurm::JobState::kRunning);
  // Slurm gives its node to the next, who is not bound beside it.
  ASSERT_TRUE(w.slurm.model().cancel(w.slurm.now(), JobId{2}));
  add_pod(w, "q");
  w.loop.advance(1min);
  ASSERT_NE(w.slurm.model().job(JobId{3}), nullptr);
  EXPECT_EQ(w.slurm.model().job(JobId{3})->view.nodes, node);
  EXPECT_EQ(node_of(w, "q"), "");
}

// The API server cannot delete it for longer than Slurm remembers ended jobs, and slurmctld was restarted since.
TEST(ReusedId, AJobThatWasSeenToEndEndsItsPodThoughItIsForgotten) {
  Running w(41, 2);
  for (const char* name : {"p", "q"}) add_pod(w, name);
  w.loop.advance(10s);
  ASSERT_FALSE(node_of(w, "p").empty());
  w.slurm.model().restarted(w.slurm.now());
  bool fails = true;
  w.api.set_faults([&fails](const testing::ApiCall& call) -> testing::ApiFault {
    if (!fails || !call.is("delete", "pods")) return {};
    return {.kind = testing::ApiFault::Kind::kStatus, .code = 500};
  });
  const auto ours = parse_record(w.slurm.model().job(JobId{1})->view.admin_comment);
  ASSERT_TRUE(ours);
  const std::string ended = ours->pods.at(0).name, other = ended == "p" ? "q" : "p";
  ASSERT_TRUE(w.slurm.model().cancel(w.slurm.now(), JobId{1}));
  w.loop.advance(20min);
  ASSERT_EQ(w.slurm.model().job(JobId{1}), nullptr);
  ASSERT_NE(node_of(w, ended), "it is gone");
  fails = false;
  w.loop.advance(1min);
  EXPECT_EQ(node_of(w, ended), "it is gone");
  EXPECT_NE(node_of(w, other), "it is gone");
}

// Without the condition its Job would count it as failed: an API server that fails once is asked again.
TEST(ReusedId, APreemptedPodSaysSoThoughTheApiServerFailsOnce) {
  Running w(37, 1);
  add_pod(w, "p");
  w.loop.advance(10s);
  ASSERT_EQ(node_of(w, "p"), "n1");
  int left = 3;
  bool told = false;
  w.api.set_faults([&](const testing::ApiCall& call) -> testing::ApiFault {
    if (call.is("delete", "pods") && call.key.name == "p") {
      told = json::dump(*w.api.get(r::kPods, {"slurm-bridge", "p"})).contains("DisruptionTarget");
    }
    if (!call.is("patch", "pods/status") || left-- <= 0) return {};
    return {.kind = testing::ApiFault::Kind::kStatus, .code = 500};
  });
  w.slurm.model().requeue(w.slurm.now(), JobId{1}, 10s);
  w.loop.advance(20s);
  EXPECT_EQ(node_of(w, "p"), "it is gone");
  EXPECT_TRUE(told);
}

// Slurm has given its node away; an API server that fails or is overloaded is waited for, but not for ever.
TEST(ReusedId, APreemptedPodDoesNotRunOnWhileItsConditionCannotBeWritten) {
  for (const int code : {500, 429}) {
    Running w(38, 1);
    add_pod(w, "p");
    w.loop.advance(10s);
    ASSERT_EQ(node_of(w, "p"), "n1");
    w.api.set_faults([code](const testing::ApiCall& call) -> testing::ApiFault {
      if (!call.is("patch", "pods/status")) return {};
      return {.kind = testing::ApiFault::Kind::kStatus, .code = code};
    });
    w.slurm.model().requeue(w.slurm.now(), JobId{1}, 10s);
    w.loop.advance(20s);
    EXPECT_EQ(node_of(w, "p"), "n1") << code;
    w.loop.advance(1min);
    EXPECT_EQ(node_of(w, "p"), "it is gone") << code;
  }
}

// Whoever reads that Slurm does not know the job may drain the node or delete the pod: that it does must come.
TEST(ReusedId, AJobThatIsKnownAgainIsToldThoughTheApiServerFailsOnce) {
  for (const int code : {500, 403}) {
    Running w(38, 1);
    add_pod(w, "p");
    w.loop.advance(10s);
    ASSERT_EQ(node_of(w, "p"), "n1");
    const std::string comment = w.slurm.model().job(JobId{1})->view.admin_comment;
    restart_without_state(w);
    ASSERT_EQ(w.slurm.submit(of_whole_node()), JobId{1});
    ASSERT_TRUE(w.loop.run_until([&] { return known(w, "p") == "False"; }, 5min));
    std::optional<TimePoint> failed;
    w.api.set_faults([&](const testing::ApiCall& call) -> testing::ApiFault {
      if (!call.is("patch", "pods/status")) return {};
      if (!failed) failed = w.loop.now();
      if (w.loop.now() - *failed > 5s) return {};
      return {.kind = testing::ApiFault::Kind::kStatus, .code = code};
    });
    slurm::JobDescription change;  // somebody has put its state back
    change.admin_comment = comment;
    ASSERT_TRUE(w.slurm.model().update_job(w.slurm.now(), JobId{1}, change));
    w.loop.advance(30s);
    ASSERT_TRUE(failed);
    EXPECT_TRUE(w.loop.run_until([&] { return known(w, "p") == "True"; }, 30s)) << code;
    EXPECT_EQ(node_of(w, "p"), "n1");
  }
}

// A policy of somebody else's that refuses its conditions.
TEST(ReusedId, APodWhoseConditionIsRefusedIsDeletedAllTheSame) {
  Running w(34, 1);
  add_pod(w, "p");
  w.loop.advance(10s);
  ASSERT_EQ(node_of(w, "p"), "n1");
  w.api.set_faults([](const testing::ApiCall& call) -> testing::ApiFault {
    if (!call.is("patch", "pods/status")) return {};
    return {.kind = testing::ApiFault::Kind::kStatus, .code = 403};
  });
  w.slurm.model().requeue(w.slurm.now(), JobId{1}, 10s);
  w.loop.advance(10s);
  EXPECT_EQ(node_of(w, "p"), "it is gone");
}

}  // namespace
}  // namespace bascule::bridge
