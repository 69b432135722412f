// Scheduler and pod sync as whole processes between a fake API server and a fake slurmrestd, in simulated time, for
// tests; what must hold at every instant is in World::check().
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "bridge/controllers.hpp"
#include "bridge/names.hpp"
#include "bridge/pod_sync.hpp"
#include "bridge/record.hpp"
#include "bridge/rights_test.hpp"
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

using namespace std::chrono_literals;
using testing::SimEnvironment;
namespace r = kube::resources;
inline const kube::Resource kPodGroups{"scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", true};

inline Config test_config() {
  Config config;
  config.scheduler_name = "slurm-bridge-scheduler";
  config.slurm_rest_api = "http://slurm";
  config.partition = "slurm-bridge";
  return config;
}

inline slurm::ClientOptions slurm_options() {
  slurm::ClientOptions options;
  options.token = slurm::fixed_token("token");
  return options;
}

inline Task<> scheduler_main(SimEnvironment& self, net::Transport& api, net::Transport& rest, std::stop_token stop,
                             runtime::Metrics* metrics = nullptr) {
  const auto to_api = self.network.connect(self.loop, api);
  const auto to_rest = self.network.connect(self.loop, rest);
  kube::Client client(self.loop, *to_api, {.user_agent = kSchedulerAgent});
  slurm::Client slurm(self.loop, *to_rest, slurm_options());
  Scheduler scheduler(client, slurm, {.config = test_config(), .instance = "sim"}, metrics);
  co_await scheduler.run(stop);
}

inline Task<> pod_sync_main(SimEnvironment& self, net::Transport& api, net::Transport& rest,
                            std::function<void()> must_lead, std::stop_token stop) {
  const auto to_api = self.network.connect(self.loop, api);
  const auto to_rest = self.network.connect(self.loop, rest);
  kube::Client client(self.loop, *to_api, {.user_agent = kControllersAgent});
  slurm::Client slurm(self.loop, *to_rest, slurm_options());
  json::Interner interner;
  kube::Informer<kube::Pod> pods(client, {.resource = r::kPods, .seed = 1}, kube::decode_pod, interner);
  kube::Informer<kube::Node> nodes(client, {.resource = r::kNodes, .seed = 2}, kube::decode_node, interner);
  slurm::ClusterMirror mirror(self.loop, slurm, ControllersOptions{}.mirror);
  kube::EventRecorder events(client, "slurm-bridge-controllers", "sim");
  const std::string cluster = co_await cluster_uid(client, stop);
  PodSync sync({client, slurm, pods, mirror, events, nullptr, nullptr, &nodes, std::move(must_lead)},
               {test_config().scheduler_name, cluster}, 8);
  pods.start();
  nodes.start();
  mirror.start();
  bool synced = co_await pods.wait_synced(stop, TimePoint::max());
  synced = synced && co_await nodes.wait_synced(stop, TimePoint::max());
  if (synced) {
    sync.start();
    while (co_await sleep_for(self.loop, 24h, stop)) {
    }
  }
  co_await sync.stop();
  co_await mirror.stop();
  co_await pods.stop();
  co_await nodes.stop();
  co_await events.stop(self.loop.now() + 1s);
}

struct World {
  // `late`: for how long requests may be on the way.
  explicit World(std::uint64_t seed, int nodes, Duration pod_run = 3s, Duration late = {})
      : api(loop, {.seed = seed}),
        cluster(api, {.pod_run = pod_run}),
        slurm(loop),
        to_api(net::make_loopback(loop, api.handler())),
        to_rest(net::make_loopback(loop, slurm.handler())),
        network(loop, {.seed = seed, .late = late}),
        scheduler(loop, network,
                  [this](SimEnvironment& self, std::stop_token stop) {
                    return scheduler_main(self, *to_api, *to_rest, std::move(stop));
                  }),
        pod_sync(loop, network, [this](SimEnvironment& self, std::stop_token stop) {
          const auto must_lead = [this] {
            if (!pod_sync_leads) throw std::runtime_error("another leads");
          };
          return pod_sync_main(self, *to_api, *to_rest, must_lead, std::move(stop));
        }) {
    Rights::of_chart().watch(api);
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

  json::Value pod_template(std::string cpu = "1") const {
    json::Value pod = testing::make_pod(
        {.name = "x", .ns = "slurm-bridge", .scheduler = "slurm-bridge-scheduler", .cpu = std::move(cpu)});
    return json::Object{{"metadata", json::Object{}}, {"spec", *json::find(pod, {"spec"})}};
  }
  void add_job(const std::string& name, int pods) {
    api.create(
        r::kJobs,
        testing::make_job(
            {.name = name, .ns = "slurm-bridge", .parallelism = pods, .backoff_limit = 1000, .pod = pod_template()}));
  }
  void add_group(const std::string& name, int minimum, json::Object annotations = {}) {
    api.create(kPodGroups, json::Object{{"apiVersion", kPodGroups.api_version()},
                                        {"kind", "PodGroup"},
                                        {"metadata", json::Object{{"name", name},
                                                                  {"namespace", "slurm-bridge"},
                                                                  {"annotations", std::move(annotations)}}},
                                        {"spec", json::Object{{"minMember", minimum}}}});
  }
  // A Job whose pods form a gang: `minimum` of them start together.
  void add_gang(const std::string& name, int pods, int minimum, json::Object annotations = {}, std::string cpu = "1") {
    add_group(name, minimum, std::move(annotations));
    json::Value pod = pod_template(cpu);
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
  bool pod_sync_leads = true;
  testing::FakeApi api;
  testing::FakeCluster cluster;
  testing::FakeSlurm slurm;
  std::unique_ptr<net::Transport> to_api, to_rest;
  testing::SimNetwork network;
  testing::SimProcess scheduler, pod_sync;
};

}  // namespace bascule::bridge
