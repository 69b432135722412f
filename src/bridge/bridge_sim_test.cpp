// The scheduler and the pod sync as whole processes between a fake API server and a fake slurmrestd, in simulated time,
// killed at seeded moments while Jobs flow. After every storm: all Jobs complete, no unit ever held two running jobs,
// no pod was bound without a running job, nothing is left allocated, and at rest nothing is written.
#include "bridge/bridge_sim_test.hpp"

namespace bascule::bridge {
namespace {

TEST(BridgeSim, AJobRunsAndLeavesNothing) {
  World w(1, 4);
  w.scheduler.start();
  w.pod_sync.start();
  w.add_job("one", 1);
  w.add_job("four", 4);
  EXPECT_TRUE(w.run(60s));
  w.loop.advance(10s);
  EXPECT_EQ(w.live_jobs(), 0u);
  EXPECT_EQ(w.slurm.model().submitted(), 5u);
  for (const json::Value& pod : w.api.list(r::kPods)) {
    EXPECT_EQ(json::string_at(pod, {"metadata", "annotations", names::kSlurmNode}),
              json::string_at(pod, {"spec", "nodeName"}));
    EXPECT_EQ(json::dump(pod).find(names::kFinalizer), std::string::npos) << json::dump(pod);
  }
}

// W23, W25, W28: pods that wait cost nothing, whatever their number.
TEST(BridgeSim, AtRestNothingIsWrittenAndSlurmIsAskedLittle) {
  World w(2, 1);
  w.scheduler.start();
  w.pod_sync.start();
  w.hold_nodes(1);
  for (int i = 0; i < 50; ++i) w.add_job("wait" + std::to_string(i), 1);
  w.loop.advance(2min);
  w.api.reset_counts();
  w.slurm.forget_calls();
  w.loop.advance(5min);
  EXPECT_EQ(w.api.write_calls(), 0u) << (w.api.writes().empty() ? "" : w.api.writes().back().body);
  EXPECT_LT(w.slurm.all_calls() / 5, 60u) << "both processes together";
  const json::Value pod = w.api.list(r::kPods).front();
  EXPECT_THAT(json::dump(pod), ::testing::ContainsRegex("is PENDING .(Resources|Priority).")) << "Slurm's own word";
}

// W23: where the job runs is asked once, whether it has ended once; other users' jobs cost no question of their own.
TEST(BridgeSim, AJobCostsTwoQuestionsAndTheJobsOfOthersNone) {
  World w(2, 4, 1min);
  w.scheduler.start();
  w.pod_sync.start();
  w.loop.advance(30s);
  w.slurm.forget_calls();
  w.add_job("one", 1);
  EXPECT_TRUE(w.run(90s));
  w.loop.advance(1s);
  EXPECT_EQ(w.live_jobs(), 0u);
  const std::size_t questions = w.slurm.calls("GET job");
  EXPECT_LE(questions, 2u);
  for (std::uint32_t id = 2; id < 12; ++id) {
    w.hold_nodes(1);
    w.loop.advance(7s);
    ASSERT_TRUE(w.slurm.model().cancel(w.slurm.now(), JobId{id}));
    w.loop.advance(7s);
  }
  EXPECT_EQ(w.slurm.calls("GET job"), questions);
}

// Each would else ask about those that were bound before it, at the same time.
TEST(BridgeSim, PodsThatStartTogetherOnOneNodeAskAboutEachOtherNoMoreThanOnce) {
  World w(2, 1, 1min, 20ms);
  w.scheduler.start();
  w.hold_nodes(1);
  for (int i = 0; i < 8; ++i) {
    json::Value job = bascule::testing::make_job(
        {.name = "share" + std::to_string(i), .ns = "slurm-bridge", .parallelism = 1, .pod = w.pod_template()});
    json::at_or_create(job, {"metadata", "annotations", "slurmjob.slinky.slurm.net/exclusive"}) = "false";
    w.api.create(r::kJobs, std::move(job));
  }
  w.loop.advance(30s);
  w.slurm.forget_calls();
  w.loop.run_until([&w] { return w.slurm.calls("GET jobs") > 0; }, 1min);  // the next look is a cheap one
  w.loop.advance(100ms);
  w.slurm.forget_calls();
  ASSERT_TRUE(w.slurm.model().cancel(w.slurm.now(), JobId{1}));
  w.loop.advance(9s);
  for (const json::Value& pod : w.api.list(r::kPods)) EXPECT_EQ(json::string_at(pod, {"spec", "nodeName"}), "n1");
  EXPECT_LE(w.slurm.calls("GET job"), 10u);
}

// The controllers have not heard of the job yet when its pod is over.
TEST(BridgeSim, AShortJobIsGivenBackAtOnce) {
  World w(2, 1, 500ms);
  w.scheduler.start();
  w.pod_sync.start();
  w.loop.advance(10s + 1ms);
  for (int i = 0; i < 5; ++i) {
    w.add_job("short" + std::to_string(i), 1);
    ASSERT_TRUE(w.run(10s));
    w.loop.advance(500ms);
    EXPECT_EQ(w.live_jobs(), 0u) << i;
    w.loop.advance(3s);
  }
}

// W11, W25: a start is noticed by the mirror and wakes the pod at once, also after a long wait.
TEST(BridgeSim, AnAllocationMadeMeanwhileIsUsedAtOnce) {
  World w(12, 1);
  w.scheduler.start();
  w.pod_sync.start();
  w.hold_nodes(1);
  w.loop.advance(1s);
  w.add_job("waits", 1);
  w.loop.advance(30min);
  ASSERT_TRUE(w.slurm.model().cancel(w.slurm.now(), JobId{1}));
  w.loop.advance(3s);
  EXPECT_EQ(w.pods_on_nodes().size(), 1u);
}

// The node of a pod of ours that has ended is another's in a moment: the scheduler looks although it has rested long.
TEST(BridgeSim, WhereAPodOfOursEndsTheNextIsBoundAtOnce) {
  World w(12, 1, 20min);
  w.scheduler.start();
  w.pod_sync.start();
  w.add_job("first", 1);
  w.loop.advance(1min);
  ASSERT_EQ(w.pods_on_nodes().size(), 1u);
  w.add_job("second", 1);
  const auto second_runs = [&] {
    const auto* job = w.slurm.model().job(JobId{2});
    return job != nullptr && job->view.states.base == slurm::JobState::kRunning;
  };
  ASSERT_TRUE(w.loop.run_until(second_runs, 30min));
  const TimePoint begin = w.loop.now();
  ASSERT_TRUE(w.loop.run_until([&] { return w.pods_on_nodes().size() == 2u; }, 10s));
  EXPECT_LE(w.loop.now() - begin, 100ms);
}

// W1: whatever goes wrong with a submit is an answer, never the end of the scheduler.
TEST(BridgeSim, EveryKindOfFailedSubmitIsTriedAgain) {
  using Kind = testing::FakeSlurmFault::Kind;
  World w(13, 8);
  const std::vector<Kind> kinds{Kind::kRefuseConnection, Kind::kHtml404,      Kind::kDoneThen502,
                                Kind::kDoneThenEmpty,    Kind::kDoneThenHalf, Kind::kControllerHung};
  std::size_t next = 0;
  w.slurm.set_faults([&](const net::ServerRequest& request) -> testing::FakeSlurmFault {
    if (request.target.find("job/submit") == std::string::npos || next >= kinds.size()) return {};
    return {.kind = kinds[next++]};
  });
  w.scheduler.start();
  w.pod_sync.start();
  for (int i = 0; i < 6; ++i) w.add_job("j" + std::to_string(i), 1);
  EXPECT_TRUE(w.run(5min));
  EXPECT_EQ(w.slurm.model().submitted(), 6u) << "those whose answer was lost are adopted";
}

// W63: no call waits for ever.
TEST(BridgeSim, SilenceOfSlurmPasses) {
  World w(14, 2);
  bool silent = true;
  w.slurm.set_faults([&](const net::ServerRequest&) -> testing::FakeSlurmFault {
    if (!silent) return {};
    return {.kind = testing::FakeSlurmFault::Kind::kSilence};
  });
  w.scheduler.start();
  w.pod_sync.start();
  w.add_job("j", 1);
  w.loop.advance(5min);
  EXPECT_EQ(w.slurm.model().submitted(), 0u);
  silent = false;
  EXPECT_TRUE(w.run(2min));
}

void add_endless_pod(World& w, const std::string& name) {
  w.api.create(r::kPods, testing::make_pod({.name = name,
                                            .ns = "slurm-bridge",
                                            .scheduler = "slurm-bridge-scheduler",
                                            .annotations = {{"fake/run-for", "forever"}}}));
}

// W54: whoever loses a pod reads why.
TEST(BridgeSim, ScancelRemovesTheRunningPod) {
  World w(3, 1);
  w.scheduler.start();
  w.loop.advance(1ms);  // names of events are made of the time of the start
  w.pod_sync.start();
  add_endless_pod(w, "p");
  w.loop.advance(10s);
  ASSERT_EQ(json::string_at(*w.api.get(r::kPods, {"slurm-bridge", "p"}), {"spec", "nodeName"}), "n1");
  ASSERT_TRUE(w.slurm.model().cancel(w.slurm.now(), JobId{1}));
  w.loop.advance(60s);
  EXPECT_FALSE(w.api.get(r::kPods, {"slurm-bridge", "p"}));
  std::string told;
  for (const json::Value& event : w.api.list({"events.k8s.io", "v1", "events", "Event", true}))
    told += json::dump(event);
  EXPECT_THAT(told, ::testing::HasSubstr("Slurm job 1 is CANCELLED; the pod is deleted"));
}

// A controller that has lost its state, or does not answer, stops nobody's pods: that its jobs had higher ids once
// proves nothing.
TEST(BridgeSim, LostSlurmStateKillsNoPod) {
  World w(4, 3);
  w.scheduler.start();
  w.pod_sync.start();
  for (const char* name : {"p", "q", "r"}) add_endless_pod(w, name);
  w.loop.advance(10s);
  ASSERT_EQ(w.pods_on_nodes().size(), 3u);
  w.slurm.stop_controller();
  w.loop.advance(2min);
  EXPECT_EQ(w.pods_on_nodes().size(), 3u);
  w.slurm.model().lose_state(w.slurm.now(), true, true);
  w.slurm.start_controller();
  w.loop.advance(10min);
  EXPECT_EQ(w.pods_on_nodes().size(), 3u);
}

// ... nor that it lists higher ones later: they were given anew. Whoever starts after that, and never saw the jobs,
// must not be taken in by it either.
TEST(BridgeSim, IdsThatPassThoseOfALostStateKillNoPod) {
  World w(4, 3);
  w.scheduler.start();
  w.pod_sync.start();
  w.loop.advance(10min);
  for (const char* name : {"p", "q", "r"}) add_endless_pod(w, name);
  w.loop.advance(10s);
  ASSERT_EQ(w.pods_on_nodes().size(), 3u);
  const auto told = [&] { return json::dump(*w.api.get(r::kPods, {"slurm-bridge", "p"})); };
  w.slurm.stop_controller();
  w.loop.advance(1min);
  w.slurm.model().lose_state(w.slurm.now(), true, true);
  w.slurm.start_controller();
  w.loop.advance(3min);
  EXPECT_EQ(w.pods_on_nodes().size(), 3u);
  EXPECT_THAT(told(), ::testing::HasSubstr(", which holds this pod's node; the pod is left running"));
  for (int life = 0; life < 3; ++life) {
    for (int i = 0; i < 3; ++i) w.hold_nodes(1);
    for (const auto& [id, job] : std::map(w.slurm.model().jobs())) {
      if (!job.view.states.ended()) (void)w.slurm.model().cancel(w.slurm.now(), JobId{id});
    }
    w.hold_nodes(1);
    w.loop.advance(20min);  // the ended ones are purged
    EXPECT_EQ(w.pods_on_nodes().size(), 3u) << "life " << life;
    EXPECT_THAT(told(), ::testing::HasSubstr("slurmctld was started after the pod was made"));
    w.pod_sync.kill();
    w.loop.advance(10min);
    w.pod_sync.start();
  }
  EXPECT_THAT(told(), ::testing::HasSubstr(names::kSlurmJobKnown));
}

// ... nor does it take another job of that id for theirs: Slurm gives their nodes away, and nobody is bound beside
// them.
TEST(BridgeSim, ALostJobsNodeIsNotGivenAwayWhenItsIdIsAnothers) {
  for (const bool own : {false, true}) {
    World w(4, own ? 1 : 2);
    w.scheduler.start();
    w.pod_sync.start();
    add_endless_pod(w, "p");
    w.loop.advance(10s);
    const auto node_of = [&w](const std::string& pod) {
      return std::string(json::string_at(*w.api.get(r::kPods, {"slurm-bridge", pod}), {"spec", "nodeName"}));
    };
    ASSERT_EQ(node_of("p"), "n1");
    w.slurm.stop_controller();
    w.loop.advance(1min);
    w.slurm.model().lose_state(w.slurm.now(), true, true);
    w.slurm.start_controller();
    if (!own) {
      slurm::JobDescription job;
      job.required_nodes = {"n2"};
      job.exclusive = true;
      ASSERT_EQ(w.slurm.submit(std::move(job)), JobId{1});
    }
    w.loop.advance(1min);
    add_endless_pod(w, "s");
    w.loop.advance(1min);
    const auto* job = w.slurm.model().job(JobId{own ? 1u : 2u});
    ASSERT_NE(job, nullptr);
    ASSERT_EQ(job->view.states.base, slurm::JobState::kRunning);
    ASSERT_EQ(job->view.nodes, "n1");
    EXPECT_EQ(node_of("s"), "") << (own ? "its job has that id" : "somebody's job has that id");
    EXPECT_THAT(json::dump(*w.api.get(r::kPods, {"slurm-bridge", "s"})),
                ::testing::HasSubstr("waits for the end of pod slurm-bridge/p"));
    w.api.remove(r::kPods, {"slurm-bridge", "p"});
    EXPECT_TRUE(w.loop.run_until([&] { return node_of("s") == "n1"; }, 1min));
  }
}

// The job has ended and was forgotten while nobody looked: Slurm gives its node to others.
TEST(BridgeSim, AJobForgottenMeanwhileEndsItsPod) {
  World w(4, 2);
  w.scheduler.start();
  w.pod_sync.start();
  w.loop.advance(10min);
  for (const char* name : {"p", "q"}) add_endless_pod(w, name);
  w.loop.advance(10s);
  ASSERT_EQ(w.pods_on_nodes().size(), 2u);
  w.pod_sync.kill();
  ASSERT_TRUE(w.slurm.model().cancel(w.slurm.now(), JobId{1}));
  w.loop.advance(20min);
  ASSERT_EQ(w.slurm.model().job(JobId{1}), nullptr);
  w.pod_sync.start();
  w.loop.advance(2min);
  EXPECT_EQ(w.pods_on_nodes().size(), 1u);
}

// W52: a deleted pod that was not bound goes as soon as its job is cancelled.
TEST(BridgeSim, DeletedJobFreesItsAllocation) {
  World w(5, 1);
  w.scheduler.start();
  w.pod_sync.start();
  w.hold_nodes(1);
  w.api.create(r::kPods,
               testing::make_pod({.name = "waits", .ns = "slurm-bridge", .scheduler = "slurm-bridge-scheduler"}));
  w.loop.advance(10s);
  EXPECT_EQ(w.live_jobs(), 2u);
  w.api.remove(r::kPods, {"slurm-bridge", "waits"});
  w.loop.advance(2s);
  EXPECT_EQ(w.live_jobs(), 1u);
  EXPECT_FALSE(w.api.get(r::kPods, {"slurm-bridge", "waits"}));
}

// The webhook refuses it, but may be away: a pod that waits moves from one unit to another, and its job is not left.
TEST(BridgeSim, APodThatChangesItsGroupLeavesItsJob) {
  World w(15, 2);
  w.scheduler.start();
  w.pod_sync.start();
  w.hold_nodes(2);
  w.loop.advance(1s);
  add_endless_pod(w, "p");
  w.loop.advance(10s);
  ASSERT_EQ(w.live_jobs(), 2u);
  w.add_group("g", 1);
  const auto set_group = [&w](json::Value group) {
    json::Object labels{{std::string(names::kPodGroup), std::move(group)}};
    w.api.patch(r::kPods, {"slurm-bridge", "p"},
                json::Object{{"metadata", json::Object{{"labels", std::move(labels)}}}});
    w.loop.advance(30s);
  };
  set_group("g");
  EXPECT_EQ(w.live_jobs(), 2u);
  EXPECT_TRUE(w.slurm.model().job(JobId{2})->view.states.ended());
  set_group(nullptr);
  EXPECT_EQ(w.live_jobs(), 2u);
  EXPECT_TRUE(w.slurm.model().job(JobId{3})->view.states.ended());
  ASSERT_TRUE(w.slurm.model().cancel(w.slurm.now(), JobId{1}));
  w.loop.advance(5s);
  ASSERT_EQ(w.pods_on_nodes().size(), 1u);
  w.check();
  set_group("g");  // it runs: its job stays, and ends it
  w.loop.advance(2min);
  EXPECT_EQ(w.pods_on_nodes().size(), 1u);
  w.check();
  ASSERT_TRUE(w.slurm.model().cancel(w.slurm.now(), JobId{4}));
  w.loop.advance(1min);
  EXPECT_TRUE(w.pods_on_nodes().empty());
  EXPECT_EQ(w.live_jobs(), 0u);
}

// A submit whose answer is lost is adopted, not repeated.
TEST(BridgeSim, LostSubmitAnswersAreAdopted) {
  World w(6, 4);
  int lost = 0;
  w.slurm.set_faults([&](const net::ServerRequest& request) -> testing::FakeSlurmFault {
    if (request.target.find("job/submit") == std::string::npos || ++lost % 2 == 0) return {};
    return {.kind = testing::FakeSlurmFault::Kind::kDoneThenSilence};
  });
  w.scheduler.start();
  w.pod_sync.start();
  for (int i = 0; i < 4; ++i) w.add_job("j" + std::to_string(i), 1);
  EXPECT_TRUE(w.run(5min));
  EXPECT_EQ(w.slurm.model().submitted(), 4u);
}

// All or none: a gang waits for all its nodes, and single pods pass it by.
TEST(BridgeSim, AGangStartsTogether) {
  World w(7, 4);
  w.scheduler.start();
  w.pod_sync.start();
  w.hold_nodes(2);
  w.loop.advance(1s);
  w.add_gang("gang", 3, 3);
  w.loop.advance(5s);
  EXPECT_TRUE(w.pods_on_nodes().empty());
  ASSERT_TRUE(w.slurm.model().cancel(w.slurm.now(), JobId{1}));
  w.loop.advance(3s);
  EXPECT_EQ(w.pods_on_nodes().size(), 3u);
  EXPECT_TRUE(w.run(60s));
  w.loop.advance(10s);
  EXPECT_EQ(w.live_jobs(), 0u);
  EXPECT_EQ(w.slurm.model().submitted(), 2u);
}

// W17: an elastic gang starts with its minimum; the rest follows as nodes come free.
TEST(BridgeSim, AnElasticGangStartsWithItsMinimumAndGrows) {
  World w(8, 3);
  w.scheduler.start();
  w.pod_sync.start();
  w.add_gang("gang", 6, 2);
  EXPECT_TRUE(w.run(120s));
  w.loop.advance(10s);
  EXPECT_EQ(w.live_jobs(), 0u);
}

TEST(BridgeSim, AGangWithoutItsGroupWaitsAndSaysSo) {
  World w(9, 4);
  w.scheduler.start();
  w.pod_sync.start();
  json::Value pod = testing::make_pod({.name = "p",
                                       .ns = "slurm-bridge",
                                       .scheduler = "slurm-bridge-scheduler",
                                       .labels = {{std::string(names::kPodGroup), "later"}}});
  w.api.create(r::kPods, pod);
  w.loop.advance(5s);
  EXPECT_EQ(w.slurm.model().submitted(), 0u);
  EXPECT_THAT(json::dump(w.api.list(r::kPods).front()), ::testing::HasSubstr("does not exist"));
  w.add_group("later", 1);
  w.loop.advance(10s);
  EXPECT_EQ(w.slurm.model().submitted(), 1u);
}

// An upgrade from slurm-bridge in place: its jobs are adopted, running and waiting ones, and nothing starts twice.
TEST(BridgeSim, JobsOfSlurmBridgeAreAdopted) {
  World w(10, 2);
  const auto add = [&w](const std::string& name, const std::string& node) {
    slurm::JobDescription job;
    job.nodes = 1;
    job.exclusive = true;
    job.partition = "slurm-bridge";
    job.admin_comment = R"({"pods":["slurm-bridge/)" + name + R"("]})";
    const JobId id = w.slurm.submit(std::move(job));
    w.loop.advance(1s);
    w.api.create(r::kPods, testing::make_pod({.name = name,
                                              .ns = "slurm-bridge",
                                              .scheduler = "slurm-bridge-scheduler",
                                              .node = node,
                                              .labels = {{std::string(names::kSlurmJobId), id.str()}},
                                              .annotations = {{"fake/run-for", "20"}}}));
    return id;
  };
  const JobId first = add("a", "n1");
  const JobId second = add("b", "n2");
  const JobId waits = add("c", "");
  ASSERT_EQ(w.slurm.model().job(first)->view.nodes, "n1");
  ASSERT_EQ(w.slurm.model().job(waits)->view.states.base, slurm::JobState::kPending);
  w.scheduler.start();
  w.pod_sync.start();
  w.loop.advance(5s);
  for (const JobId id : {first, second, waits}) {
    const auto record = parse_record(w.slurm.model().job(id)->view.admin_comment);
    ASSERT_TRUE(record);
    EXPECT_FALSE(record->legacy) << id.str();
  }
  EXPECT_EQ(w.pods_on_nodes().size(), 2u);
  w.loop.advance(60s);
  EXPECT_EQ(w.live_jobs(), 0u) << "given back when their pods are over";
  EXPECT_EQ(w.pods_on_nodes().size(), 3u);
  EXPECT_EQ(w.slurm.model().submitted(), 3u);
}

// W3: what only looks like it is left alone.
TEST(BridgeSim, ForeignJobsWithPodsInTheirCommentAreLeftAlone) {
  World w(11, 1);
  slurm::JobDescription job;
  job.nodes = 1;
  job.admin_comment = R"({"pods":["slurm-bridge/gone"]})";
  const JobId id = w.slurm.submit(std::move(job));
  w.scheduler.start();
  w.pod_sync.start();
  w.loop.advance(2min);
  EXPECT_FALSE(w.slurm.model().job(id)->view.states.ended());
  EXPECT_EQ(w.slurm.model().job(id)->view.admin_comment, R"({"pods":["slurm-bridge/gone"]})");
}

// `late`: for how long what a process sent may be on the way, though it is long dead, or waits no longer.
void kill_and_heal(std::uint64_t seed, Duration late) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  World w(seed, 4 + static_cast<int>(random() % 5), 3s, late);
  for (int i = 0; i < 50; ++i) {
    const std::string name = "j" + std::to_string(i);
    const int pods = 1 + static_cast<int>(random() % 4);
    if (i % 3 == 0) {
      w.add_gang(name, pods, 1 + static_cast<int>(random() % static_cast<std::uint64_t>(pods)));
    } else {
      w.add_job(name, 1 + pods / 3);
    }
  }
  w.scheduler.start();
  w.pod_sync.start();
  for (int life = 0; life < 4; ++life) {
    testing::SimProcess& victim = random() % 2 == 0 ? w.scheduler : w.pod_sync;
    victim.kill_after(random() % 400);
    w.run(std::chrono::milliseconds(random() % 8000));
    victim.kill();
    w.loop.advance(std::chrono::milliseconds(random() % 3000));
    victim.start();
  }
  EXPECT_TRUE(w.run(20min));
  w.loop.advance(30s + 30 * late);  // events are written one after the other
  w.check();
  EXPECT_EQ(w.live_jobs(), 0u);
  w.api.reset_counts();
  w.loop.advance(5min);
  EXPECT_EQ(w.api.write_calls(), 0u);
}

class Kills : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(Kills, HealAtAnyMoment) {
  kill_and_heal(GetParam(), {});
}
// slurmrestd is waited for for 15 s, and slurmctld may act 20 s after that.
TEST_P(Kills, HealAlsoWhereRequestsArriveLate) {
  kill_and_heal(GetParam(), 34s);
}
INSTANTIATE_TEST_SUITE_P(Seeds, Kills, ::testing::Range<std::uint64_t>(1, 21));

}  // namespace
}  // namespace bascule::bridge
