// The scheduler and the pod sync as whole processes between a fake API server and a fake slurmrestd, in simulated time,
// killed at seeded moments while Jobs flow. After every storm: all Jobs complete, no unit ever held two running jobs,
// no pod was bound without a running job, nothing is left allocated, and at rest nothing is written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "bridge/names.hpp"
#include "bridge/pod_sync.hpp"
#include "bridge/record.hpp"
#include "bridge/scheduler.hpp"
#include "net/loopback.hpp"
#include "slurm/hostlist.hpp"
#include "testing/fake_api.hpp"
#include "testing/fake_cluster.hpp"
#include "testing/fake_slurm.hpp"
#include "testing/objects.hpp"
#include "testing/process.hpp"
#include "testing/run.hpp"

namespace bascule::bridge {
namespace {

using namespace std::chrono_literals;
using testing::SimEnvironment;
namespace r = kube::resources;
const kube::Resource kPodGroups{"scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", true};

Config test_config() {
  Config config;
  config.scheduler_name = "slurm-bridge-scheduler";
  config.slurm_rest_api = "http://slurm";
  config.partition = "slurm-bridge";
  return config;
}

slurm::ClientOptions slurm_options() {
  slurm::ClientOptions options;
  options.token = slurm::fixed_token("token");
  return options;
}

Task<> scheduler_main(SimEnvironment& self, net::Transport& api, net::Transport& rest, std::stop_token stop) {
  const auto to_api = self.network.connect(self.loop, api);
  const auto to_rest = self.network.connect(self.loop, rest);
  kube::Client client(self.loop, *to_api, {});
  slurm::Client slurm(self.loop, *to_rest, slurm_options());
  Scheduler scheduler(client, slurm, {.config = test_config(), .instance = "sim"}, nullptr);
  co_await scheduler.run(stop);
}

Task<> pod_sync_main(SimEnvironment& self, net::Transport& api, net::Transport& rest, std::stop_token stop) {
  const auto to_api = self.network.connect(self.loop, api);
  const auto to_rest = self.network.connect(self.loop, rest);
  kube::Client client(self.loop, *to_api, {});
  slurm::Client slurm(self.loop, *to_rest, slurm_options());
  json::Interner interner;
  kube::Informer<kube::Pod> pods(client, {.resource = r::kPods, .seed = 1}, kube::decode_pod, interner);
  slurm::ClusterMirror mirror(self.loop, slurm, {});
  kube::EventRecorder events(client, "slurm-bridge-controllers", "sim");
  const std::string cluster = co_await cluster_uid(client, stop);
  PodSync sync({client, slurm, pods, mirror, events, nullptr}, {test_config().scheduler_name, cluster}, 8);
  pods.start();
  mirror.start();
  const bool synced = co_await pods.wait_synced(stop, TimePoint::max());
  if (synced) {
    sync.start();
    while (co_await sleep_for(self.loop, 24h, stop)) {
    }
  }
  co_await sync.stop();
  co_await mirror.stop();
  co_await pods.stop();
  co_await events.stop(self.loop.now() + 1s);
}

struct World {
  explicit World(std::uint64_t seed, int nodes)
      : api(loop, {.seed = seed}),
        cluster(api, {.pod_run = 3s}),
        slurm(loop),
        to_api(net::make_loopback(loop, api.handler())),
        to_rest(net::make_loopback(loop, slurm.handler())),
        network(loop, {.seed = seed}),
        scheduler(loop, network,
                  [this](SimEnvironment& self, std::stop_token stop) {
                    return scheduler_main(self, *to_api, *to_rest, std::move(stop));
                  }),
        pod_sync(loop, network, [this](SimEnvironment& self, std::stop_token stop) {
          return pod_sync_main(self, *to_api, *to_rest, std::move(stop));
        }) {
    api.add_resource(kPodGroups);
    slurm.model().add_partition("slurm-bridge", true);
    for (int i = 1; i <= nodes; ++i) {
      const std::string name = "n" + std::to_string(i);
      api.create(r::kNodes, testing::make_node({.name = name}));
      slurm.add_nodes("NodeName=" + name + " NodeAddr=127.0.0.1 State=External CPUs=8 RealMemory=32000");
    }
    cluster.start();
  }
  ~World() {
    scheduler.kill();
    pod_sync.kill();
    testing::run(loop, cluster.stop());
  }

  json::Value pod_template() const {
    json::Value pod =
        testing::make_pod({.name = "x", .ns = "slurm-bridge", .scheduler = "slurm-bridge-scheduler", .cpu = "1"});
    return json::Object{{"metadata", json::Object{}}, {"spec", *json::find(pod, {"spec"})}};
  }
  void add_job(const std::string& name, int pods) {
    api.create(
        r::kJobs,
        testing::make_job(
            {.name = name, .ns = "slurm-bridge", .parallelism = pods, .backoff_limit = 1000, .pod = pod_template()}));
  }
  // A Job whose pods form a gang: `minimum` of them start together.
  void add_gang(const std::string& name, int pods, int minimum) {
    api.create(kPodGroups, json::Object{{"apiVersion", kPodGroups.api_version()},
                                        {"kind", "PodGroup"},
                                        {"metadata", json::Object{{"name", name}, {"namespace", "slurm-bridge"}}},
                                        {"spec", json::Object{{"minMember", minimum}}}});
    json::Value pod = pod_template();
    json::at_or_create(pod, {"metadata", "labels", names::kPodGroup}) = name;
    api.create(
        r::kJobs,
        testing::make_job(
            {.name = name, .ns = "slurm-bridge", .parallelism = pods, .backoff_limit = 1000, .pod = std::move(pod)}));
  }
  bool all_complete() const {
    for (const json::Value& job : api.list(r::kJobs)) {
      if (json::int_at(job, {"status", "succeeded"}).value_or(0) !=
          json::int_at(job, {"spec", "completions"}).value_or(1))
        return false;
    }
    return true;
  }

  // Another user's job that takes whole nodes.
  void hold_nodes(std::uint32_t count) {
    slurm::JobDescription job;
    job.nodes = count;
    job.exclusive = true;
    slurm.submit(std::move(job));
  }

  // What must hold at every instant.
  void check() {
    std::map<std::string, int> running;  // by unit
    for (const auto& [id, job] : slurm.model().jobs()) {
      if (job.view.states.base != slurm::JobState::kRunning) continue;
      const auto record = parse_record(job.view.admin_comment);
      if (record && record->unit == record->uids.front()) ++running[record->unit.str()];
    }
    for (const auto& [unit, count] : running) {
      // A duplicate born of a lost answer may live until it is seen; it never binds (below). A gang may have several.
      EXPECT_LE(count, 2) << unit;
    }
    std::map<std::string, std::set<std::string>> pods_of_job;
    for (const json::Value& pod : api.list(r::kPods)) {
      const std::string node(json::string_at(pod, {"spec", "nodeName"}));
      const std::string_view phase = json::string_at(pod, {"status", "phase"});
      if (node.empty() || phase == "Succeeded" || phase == "Failed") continue;
      const std::string job(json::string_at(pod, {"metadata", "labels", names::kSlurmJobId}));
      ASSERT_FALSE(job.empty()) << json::dump(pod);
      const auto* record = slurm.model().job(JobId{static_cast<std::uint32_t>(std::stoul(job))});
      ASSERT_NE(record, nullptr) << job;
      EXPECT_EQ(record->view.states.base, slurm::JobState::kRunning)
          << "pod on " << node << " without a running job " << job;
      const auto hosts = slurm::expand_hostlist(record->view.nodes);
      EXPECT_TRUE(hosts && std::ranges::count(*hosts, node) == 1) << "job " << job << " has " << record->view.nodes;
      EXPECT_TRUE(pods_of_job[job].insert(node).second) << "two pods of job " << job << " on " << node;
    }
  }
  // Advances in small steps, checking; true when all Jobs are complete.
  bool run(Duration limit) {
    for (Duration done{}; done < limit; done += 250ms) {
      loop.advance(250ms);
      check();
      if (::testing::Test::HasFatalFailure() || all_complete()) break;
    }
    return all_complete();
  }
  std::vector<json::Value> pods_on_nodes() {
    std::vector<json::Value> out;
    for (json::Value& pod : api.list(r::kPods)) {
      if (!json::string_at(pod, {"spec", "nodeName"}).empty()) out.push_back(std::move(pod));
    }
    return out;
  }
  std::size_t live_jobs() {
    std::size_t count = 0;
    for (const auto& [id, job] : slurm.model().jobs()) count += !job.view.states.ended();
    return count;
  }

  ManualLoop loop;
  testing::FakeApi api;
  testing::FakeCluster cluster;
  testing::FakeSlurm slurm;
  std::unique_ptr<net::Transport> to_api, to_rest;
  testing::SimNetwork network;
  testing::SimProcess scheduler, pod_sync;
};

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
  EXPECT_LT(w.slurm.all_calls() / 5, 120u) << "two processes, below 60 a minute each";
  const json::Value pod = w.api.list(r::kPods).front();
  EXPECT_THAT(json::dump(pod), ::testing::ContainsRegex("is PENDING .(Resources|Priority).")) << "Slurm's own word";
}

TEST(BridgeSim, ScancelRemovesTheRunningPod) {
  World w(3, 1);
  w.scheduler.start();
  w.pod_sync.start();
  json::Value pod = testing::make_pod({.name = "p",
                                       .ns = "slurm-bridge",
                                       .scheduler = "slurm-bridge-scheduler",
                                       .annotations = {{"fake/run-for", "forever"}}});
  w.api.create(r::kPods, pod);
  w.loop.advance(10s);
  ASSERT_EQ(json::string_at(*w.api.get(r::kPods, {"slurm-bridge", "p"}), {"spec", "nodeName"}), "n1");
  ASSERT_TRUE(w.slurm.model().cancel(w.slurm.now(), JobId{1}));
  w.loop.advance(60s);
  EXPECT_FALSE(w.api.get(r::kPods, {"slurm-bridge", "p"}));
}

// A controller that has lost its state, or does not answer, stops nobody's pods.
TEST(BridgeSim, LostSlurmStateKillsNoPod) {
  World w(4, 1);
  w.scheduler.start();
  w.pod_sync.start();
  w.api.create(r::kPods, testing::make_pod({.name = "p",
                                            .ns = "slurm-bridge",
                                            .scheduler = "slurm-bridge-scheduler",
                                            .annotations = {{"fake/run-for", "forever"}}}));
  w.loop.advance(10s);
  w.slurm.stop_controller();
  w.loop.advance(2min);
  EXPECT_TRUE(w.api.get(r::kPods, {"slurm-bridge", "p"}));
  w.slurm.model().lose_state(w.slurm.now(), true, true);
  w.slurm.start_controller();
  w.loop.advance(10min);
  EXPECT_TRUE(w.api.get(r::kPods, {"slurm-bridge", "p"}));
}

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
  w.loop.advance(20s);
  EXPECT_EQ(w.live_jobs(), 1u);
  EXPECT_FALSE(w.api.get(r::kPods, {"slurm-bridge", "waits"}));
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
  w.api.create(kPodGroups, json::Object{{"apiVersion", kPodGroups.api_version()},
                                        {"kind", "PodGroup"},
                                        {"metadata", json::Object{{"name", "later"}, {"namespace", "slurm-bridge"}}},
                                        {"spec", json::Object{{"minMember", 1}}}});
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

class Kills : public ::testing::TestWithParam<int> {};

TEST_P(Kills, HealAtAnyMoment) {
  const auto seed = static_cast<std::uint64_t>(GetParam());
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  World w(seed, 4 + static_cast<int>(random() % 5));
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
  w.loop.advance(30s);
  w.check();
  EXPECT_EQ(w.live_jobs(), 0u);
  w.api.reset_counts();
  w.loop.advance(5min);
  EXPECT_EQ(w.api.write_calls(), 0u);
}
INSTANTIATE_TEST_SUITE_P(Seeds, Kills, ::testing::Range(1, 51));

}  // namespace
}  // namespace bascule::bridge
