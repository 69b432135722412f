// Scheduler and controllers as whole processes with nodes that have devices and pods that ask for them by class, in
// simulated time, for tests; what must hold at every instant is in World::check().
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "bridge/claim_plan.hpp"
#include "bridge/controllers.hpp"
#include "bridge/device_test_support.hpp"
#include "bridge/names.hpp"
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

namespace bascule::bridge::claim_world {

using namespace std::chrono_literals;
using ::bascule::testing::SimEnvironment;
namespace r = kube::resources;

inline constexpr std::string_view kGpu = "gpu.example.com";
inline constexpr std::string_view kCpu = "dra.cpu";
inline constexpr std::string_view kFpga = "fpga.example.org";  // as the configuration names it
inline const kube::Resource kPodGroups{"scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", true};

inline Config test_config() {
  Config config;
  config.scheduler_name = "slurm-bridge-scheduler";
  config.slurm_rest_api = "http://slurm";
  config.partition = "slurm-bridge";
  config.device_drivers.put({.driver = std::string(kFpga), .classes = {std::string(kFpga)}, .name_prefix = "board-"});
  return config;
}

inline slurm::ClientOptions slurm_options() {
  slurm::ClientOptions options;
  options.token = slurm::fixed_token("token");
  return options;
}

inline Task<> scheduler_main(SimEnvironment& self, net::Transport& api, net::Transport& rest, std::stop_token stop) {
  const auto to_api = self.network.connect(self.loop, api);
  const auto to_rest = self.network.connect(self.loop, rest);
  kube::Client client(self.loop, *to_api, {.user_agent = kSchedulerAgent});
  slurm::Client slurm(self.loop, *to_rest, slurm_options());
  Scheduler scheduler(client, slurm, {.config = test_config(), .instance = "sim"}, nullptr);
  co_await scheduler.run(stop);
}

inline Task<> controllers_main(SimEnvironment& self, net::Transport& api, net::Transport& rest, std::stop_token stop) {
  const auto to_api = self.network.connect(self.loop, api);
  const auto to_rest = self.network.connect(self.loop, rest);
  kube::Client client(self.loop, *to_api, {.user_agent = kControllersAgent});
  slurm::Client slurm(self.loop, *to_rest, slurm_options());
  Controllers controllers(client, slurm, {.config = test_config(), .instance = "sim"}, nullptr);
  co_await controllers.run(stop);
}

struct World {
  World(std::uint64_t seed, int nodes, int gpus = 4)
      : api(loop, {.seed = seed}),
        cluster(api, {.pod_run = 3s}),
        slurm(loop),
        to_api(net::make_loopback(loop, api_handler())),
        to_rest(net::make_loopback(loop, slurm.handler())),
        network(loop, {.seed = seed}),
        scheduler(loop, network,
                  [this](SimEnvironment& self, std::stop_token stop) {
                    return scheduler_main(self, *to_api, *to_rest, std::move(stop));
                  }),
        controllers(loop, network, [this](SimEnvironment& self, std::stop_token stop) {
          return controllers_main(self, *to_api, *to_rest, std::move(stop));
        }) {
    Rights::of_chart().watch(api);
    api.add_resource(kResourceSlices, false);
    api.add_resource(kDeviceClasses, false);
    api.add_resource(kResourceClaims);
    api.add_resource(kPodGroups);
    slurm.model().add_partition("slurm-bridge", true);
    for (const DeviceDriver& one : test_config().device_drivers.all()) {
      for (const std::string& name : one.classes) api.create(kDeviceClasses, testing::make_class(name));
    }
    for (int i = 1; i <= nodes; ++i) {
      add_node("n" + std::to_string(i));
      publish("n" + std::to_string(i), gpus);
    }
    cluster.start();
  }
  ~World() {
    scheduler.kill();
    controllers.kill();
    ::bascule::testing::run(loop, cluster.stop());
  }

  static Task<net::ServerResponse> not_served() { co_return net::ServerResponse{.status = 404}; }
  net::Handler api_handler() {
    return [this, inner = api.handler()](const net::ServerRequest& request, std::stop_token stop) {
      const bool known = serves_devices || !request.target.starts_with("/apis/resource.k8s.io/");
      return known ? inner(request, std::move(stop)) : not_served();
    };
  }
  void add_node(const std::string& name) {
    json::Value node = ::bascule::testing::make_node({.name = name});
    json::at_or_create(node, {"metadata", "labels", names::kExternalNode}) = "true";
    json::at_or_create(node, {"status", "addresses"}) =
        json::Array{json::Object{{"type", "InternalIP"}, {"address", "10.0.0.1"}}};
    api.create(r::kNodes, node);
  }
  // Two slices a pool: both must be there before anything is known.
  void publish(const std::string& name, int gpus = 4) {
    const int half = gpus / 2;
    api.create(
        kResourceSlices,
        testing::make_slice({.name = name + "-a", .node = name, .slices = 2, .devices = testing::make_gpus(0, half)}));
    api.create(kResourceSlices,
               testing::make_slice(
                   {.name = name + "-b", .node = name, .slices = 2, .devices = testing::make_gpus(half, gpus - half)}));
    std::vector<testing::CpuSpec> cpus;
    for (int i = 0; i < 8; ++i) cpus.push_back({i, i, 0});
    api.create(kResourceSlices, testing::make_slice({.name = name + "-c",
                                                     .node = name,
                                                     .driver = std::string(kCpu),
                                                     .pool = name + "-cpus",
                                                     .devices = testing::make_cpus(cpus)}));
  }
  void unpublish(const std::string& name) {
    for (const char* end : {"-a", "-b", "-c"}) api.remove(kResourceSlices, {"", name + end});
  }
  // What changes Slurm's nodes.
  std::size_t node_writes() const {
    return slurm.calls("POST node") + slurm.calls("DELETE node") + slurm.calls("POST new/node");
  }
  void start() {
    scheduler.start();
    controllers.start();
  }

  using Wants = std::map<std::string_view, int>;
  static json::Value pod(const std::string& name, const Wants& wants) {
    json::Value pod = ::bascule::testing::make_pod(
        {.name = name,
         .ns = "slurm-bridge",
         .scheduler = "slurm-bridge-scheduler",
         .annotations = {{std::string(names::kJobPrefix) + "exclusive", "false"}, {"fake/run-for", "forever"}}});
    json::Object amounts{{"memory", "64Mi"}};
    for (const auto& [name_of, count] : wants) {
      amounts[std::string(names::kDeviceClassPrefix) + std::string(name_of)] = std::to_string(count);
    }
    json::at_or_create(pod, {"spec", "containers"}).as_array()[0].as_object()["resources"] =
        json::Object{{"requests", amounts}, {"limits", amounts}};
    json::at_or_create(pod, {"spec", "tolerations"}) = json::Array{json::Object{{"key", names::kManagedNodeTaint},
                                                                                {"operator", "Equal"},
                                                                                {"value", "slurm-bridge-scheduler"},
                                                                                {"effect", "NoExecute"}}};
    return pod;
  }
  void add_job(const std::string& name, int pods, const Wants& wants, json::Object labels = {}) {
    json::Value spec = pod("x", wants);
    json::Value job =
        ::bascule::testing::make_job({.name = name,
                                      .ns = "slurm-bridge",
                                      .parallelism = pods,
                                      .backoff_limit = 1000,
                                      .annotations = {{std::string(names::kJobPrefix) + "exclusive", "false"}},
                                      .pod = json::Object{{"metadata", json::Object{{"labels", std::move(labels)}}},
                                                          {"spec", *json::find(spec, {"spec"})}}});
    api.create(r::kJobs, job);
  }
  // All of its pods start together, and share nodes.
  void add_gang(const std::string& name, int pods, const Wants& wants) {
    const json::Object annotations{{std::string(names::kJobPrefix) + "exclusive", "false"}};
    api.create(kPodGroups,
               json::Object{{"apiVersion", kPodGroups.api_version()},
                            {"kind", "PodGroup"},
                            {"metadata",
                             json::Object{{"name", name}, {"namespace", "slurm-bridge"}, {"annotations", annotations}}},
                            {"spec", json::Object{{"minMember", pods}}}});
    add_job(name, pods, wants, {{std::string(names::kPodGroup), name}});
  }
  bool all_complete() const {
    for (const json::Value& job : api.list(r::kJobs)) {
      if (json::int_at(job, {"status", "succeeded"}).value_or(0) !=
          json::int_at(job, {"spec", "completions"}).value_or(1))
        return false;
    }
    return true;
  }

  std::vector<ClaimPtr> claims() {
    std::vector<ClaimPtr> out;
    for (const json::Value& claim : api.list(kResourceClaims)) out.push_back(decode_claim(json::dump(claim), interner));
    return out;
  }

  // What must hold at every instant.
  void check() {
    std::map<DeviceId, std::string> held;
    std::map<Uid, ClaimPtr> by_pod;
    for (const ClaimPtr& claim : claims()) {
      EXPECT_TRUE(by_pod.emplace(claim->pod, claim).second) << "two claims of pod " << claim->pod_name;
      for (const DeviceId& device : claim->devices) {
        const auto [it, free] = held.emplace(device, claim->meta.key.name);
        EXPECT_TRUE(free) << device.str() << " is in " << it->second << " and in " << claim->meta.key.name;
      }
    }
    for (const json::Value& object : api.list(r::kPods)) {
      const PodPtr pod = kube::decode_pod(json::dump(object), interner);
      if (!pod->bound() || pod->terminal() || !needs_claim(*pod)) continue;
      const auto claim = by_pod.find(pod->meta.uid);
      ASSERT_NE(claim, by_pod.end()) << pod->meta.key.name << " is bound without a claim";
      ASSERT_TRUE(claim->second->allocated);
      EXPECT_EQ(pod->extended_claim, claim->second->meta.key.name);
      EXPECT_EQ(job_of(*claim->second), label_of(*pod));
      check_devices(*pod, *claim->second);
    }
  }
  void check_devices(const kube::Pod& pod, const ResourceClaim& claim) {
    std::int64_t wanted = 0;
    for (const kube::DeviceRequest& one : pod.device_requests) wanted += one.count;
    EXPECT_EQ(static_cast<std::int64_t>(claim.devices.size()), wanted);
    const auto* job = slurm.model().job(label_of(pod));
    ASSERT_NE(job, nullptr);
    if (job->view.states.ended()) return;
    for (const auto& share : job->shares) {
      if (share.node != pod.node_name.view()) continue;
      for (const DeviceId& device : claim.devices) {
        const auto number =
            static_cast<std::uint32_t>(std::stoul(device.name.substr(device.name.find_first_of("0123456789"))));
        const bool cpu = device.driver == kCpu;
        EXPECT_EQ(std::ranges::count(cpu ? share.cores : share.gpus, number), 1) << device.str();
      }
    }
  }
  bool run(Duration limit) {
    for (Duration done{}; done < limit; done += 250ms) {
      loop.advance(250ms);
      check();
      if (::testing::Test::HasFatalFailure() || all_complete()) break;
    }
    return all_complete();
  }
  std::size_t live_jobs() {
    std::size_t count = 0;
    for (const auto& [id, job] : slurm.model().jobs()) count += !job.view.states.ended();
    return count;
  }
  std::string node_of(const std::string& pod) {
    const auto object = api.get(r::kPods, {"slurm-bridge", pod});
    return object ? std::string(json::string_at(*object, {"spec", "nodeName"})) : "gone";
  }
  std::string text_of(const std::string& pod) { return json::dump(*api.get(r::kPods, {"slurm-bridge", pod})); }
  JobId job_named_by(const std::string& pod) { return label_of(*kube::decode_pod(text_of(pod), interner)); }
  bool over(JobId id) { return slurm.model().job(id)->view.states.ended(); }

  ManualLoop loop;
  bool serves_devices = true;
  ::bascule::testing::FakeApi api;
  ::bascule::testing::FakeCluster cluster;
  ::bascule::testing::FakeSlurm slurm;
  std::unique_ptr<net::Transport> to_api, to_rest;
  ::bascule::testing::SimNetwork network;
  ::bascule::testing::SimProcess scheduler, controllers;
  json::Interner interner;
};

}  // namespace bascule::bridge::claim_world
