// Scheduler and controllers as whole processes with pods that ask for devices by class, killed at seeded moments. At
// every instant: no device is in two claims, no pod is bound without its claim, and a claim's devices are what Slurm
// gave to the pod's job there. At the end: all Jobs complete, and neither a job nor a claim is left.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "bridge/claim_plan.hpp"
#include "bridge/controllers.hpp"
#include "bridge/device_test_support.hpp"
#include "bridge/names.hpp"
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
using ::bascule::testing::SimEnvironment;
using ::testing::HasSubstr;
namespace r = kube::resources;

constexpr std::string_view kGpu = "gpu.example.com";
constexpr std::string_view kCpu = "dra.cpu";

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

Task<> controllers_main(SimEnvironment& self, net::Transport& api, net::Transport& rest, std::stop_token stop) {
  const auto to_api = self.network.connect(self.loop, api);
  const auto to_rest = self.network.connect(self.loop, rest);
  kube::Client client(self.loop, *to_api, {});
  slurm::Client slurm(self.loop, *to_rest, slurm_options());
  Controllers controllers(client, slurm, {.config = test_config(), .instance = "sim"}, nullptr);
  co_await controllers.run(stop);
}

struct World {
  World(std::uint64_t seed, int nodes, int gpus = 4)
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
        controllers(loop, network, [this](SimEnvironment& self, std::stop_token stop) {
          return controllers_main(self, *to_api, *to_rest, std::move(stop));
        }) {
    api.add_resource(kResourceSlices, false);
    api.add_resource(kDeviceClasses, false);
    api.add_resource(kResourceClaims);
    slurm.model().add_partition("slurm-bridge", true);
    for (const DeviceDriver& one : kDeviceDrivers) {
      api.create(kDeviceClasses, testing::make_class(std::string(one.device_class)));
    }
    for (int i = 1; i <= nodes; ++i) add_node("n" + std::to_string(i), gpus);
    cluster.start();
  }
  ~World() {
    scheduler.kill();
    controllers.kill();
    ::bascule::testing::run(loop, cluster.stop());
  }

  void add_node(const std::string& name, int gpus) {
    json::Value node = ::bascule::testing::make_node({.name = name});
    json::at_or_create(node, {"metadata", "labels", names::kExternalNode}) = "true";
    json::at_or_create(node, {"status", "addresses"}) =
        json::Array{json::Object{{"type", "InternalIP"}, {"address", "10.0.0.1"}}};
    api.create(r::kNodes, node);
    // Two slices a pool: both must be there before anything is known.
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
  void add_job(const std::string& name, int pods, const Wants& wants) {
    json::Value spec = pod("x", wants);
    json::Value job = ::bascule::testing::make_job(
        {.name = name,
         .ns = "slurm-bridge",
         .parallelism = pods,
         .backoff_limit = 1000,
         .annotations = {{std::string(names::kJobPrefix) + "exclusive", "false"}},
         .pod = json::Object{{"metadata", json::Object{}}, {"spec", *json::find(spec, {"spec"})}}});
    api.create(r::kJobs, job);
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

  ManualLoop loop;
  ::bascule::testing::FakeApi api;
  ::bascule::testing::FakeCluster cluster;
  ::bascule::testing::FakeSlurm slurm;
  std::unique_ptr<net::Transport> to_api, to_rest;
  ::bascule::testing::SimNetwork network;
  ::bascule::testing::SimProcess scheduler, controllers;
  json::Interner interner;
};

TEST(ClaimSim, PodsGetTheirDevicesAndGiveThemBack) {
  World w(1, 1);
  w.start();
  w.loop.advance(5s);
  ASSERT_NE(w.slurm.model().node("n1"), nullptr);
  EXPECT_EQ(w.slurm.model().node("n1")->view.gres, "gpu:gpu.example.com:4");
  EXPECT_EQ(w.slurm.model().node("n1")->view.cores, 8u);
  w.add_job("gpus", 2, {{kGpu, 2}});
  w.add_job("cpus", 1, {{kCpu, 3}});
  w.loop.advance(2s);
  w.check();
  EXPECT_EQ(w.claims().size(), 3u);
  EXPECT_TRUE(w.run(60s));
  w.loop.advance(10s);
  EXPECT_EQ(w.claims().size(), 0u);
  EXPECT_EQ(w.live_jobs(), 0u);
  w.api.reset_counts();
  w.loop.advance(5min);
  EXPECT_EQ(w.api.write_calls(), 0u);
}

// W41: registering and comparing count the same CPUs, so a node with CPU devices is not made anew again and again.
TEST(ClaimSim, W41NodesWithDevicesRest) {
  World w(2, 2);
  w.start();
  w.loop.advance(5s);
  w.slurm.forget_calls();
  w.loop.advance(10min);
  EXPECT_EQ(w.slurm.calls("POST node"), 0u);
  EXPECT_EQ(w.slurm.calls("DELETE node"), 0u);
  EXPECT_EQ(w.slurm.calls("POST new/node"), 0u);
}

// W34: a pool that is being published is unknown; the node is registered when all of it is there.
TEST(ClaimSim, W34ANodeWaitsForAllItsSlices) {
  World w(3, 1);
  w.api.remove(kResourceSlices, {"", "n1-b"});
  w.start();
  w.loop.advance(20s);
  EXPECT_EQ(w.slurm.model().node("n1"), nullptr);
  w.api.create(kResourceSlices,
               testing::make_slice({.name = "n1-b", .slices = 2, .devices = testing::make_gpus(2, 2)}));
  w.loop.advance(5s);
  EXPECT_NE(w.slurm.model().node("n1"), nullptr);
}

// W32: Slurm counts GPUs there that nobody publishes any more: the pod is not bound, says so, and gives the job back.
TEST(ClaimSim, W32WithoutDevicesThePodIsNotBound) {
  World w(4, 1);
  w.start();
  w.loop.advance(5s);
  w.controllers.kill();
  w.api.remove(kResourceSlices, {"", "n1-b"});
  w.loop.advance(1s);  // the scheduler sees it before the pod, else the job is submitted and given back
  w.api.create(r::kPods, World::pod("p", {{kGpu, 1}}));
  w.loop.advance(20s);
  EXPECT_EQ(w.node_of("p"), "");
  EXPECT_THAT(json::dump(*w.api.get(r::kPods, {"slurm-bridge", "p"})), HasSubstr("has not published all its devices"));
  EXPECT_EQ(w.claims().size(), 0u);
  w.api.create(kResourceSlices,
               testing::make_slice({.name = "n1-b", .slices = 2, .devices = testing::make_gpus(2, 2)}));
  w.loop.advance(10s);
  EXPECT_EQ(w.node_of("p"), "n1");
  w.check();
}

// W33: a binding that fails leaves no claim; one whose answer is lost is repeated with the same claim.
TEST(ClaimSim, W33AFailedBindingLeavesNoClaim) {
  World w(5, 1);
  int binds = 0;
  w.api.set_faults([&](const ::bascule::testing::ApiCall& call) -> ::bascule::testing::ApiFault {
    if (!call.is("create", "pods/binding")) return {};
    if (++binds == 1) return {.kind = ::bascule::testing::ApiFault::Kind::kStatus, .code = 409};
    return {};
  });
  w.start();
  w.loop.advance(5s);
  w.api.create(r::kPods, World::pod("p", {{kGpu, 1}}));
  bool without = false;  // for the second that it waits
  for (int i = 0; i < 100 && binds < 2; ++i) {
    w.loop.advance(50ms);
    without = without || (binds == 1 && w.claims().empty());
    w.check();
  }
  EXPECT_TRUE(without);
  w.loop.advance(2s);
  EXPECT_EQ(w.node_of("p"), "n1");
  EXPECT_EQ(w.claims().size(), 1u);
  w.check();
}

TEST(ClaimSim, AClaimThatSomebodyElseHoldsKeepsItsDevice) {
  World w(6, 1, 2);
  const NamespacedName foreign{"x", "foreign"};
  w.api.create(kResourceClaims, json::Object{{"apiVersion", kResourceClaims.api_version()},
                                             {"kind", "ResourceClaim"},
                                             {"metadata", json::Object{{"name", "foreign"}, {"namespace", "x"}}}});
  const json::Object held{{"request", "r"}, {"driver", "gpu.example.com"}, {"pool", "n1-pool"}, {"device", "gpu-0"}};
  const json::Object devices{{"results", json::Array{held}}};
  w.api.patch(kResourceClaims, foreign,
              json::Object{{"status", json::Object{{"allocation", json::Object{{"devices", devices}}}}}}, "status");
  w.start();
  w.loop.advance(5s);
  w.api.create(r::kPods, World::pod("p", {{kGpu, 2}}));
  w.loop.advance(10s);
  EXPECT_EQ(w.node_of("p"), "");
  EXPECT_THAT(json::dump(*w.api.get(r::kPods, {"slurm-bridge", "p"})), HasSubstr("is held by claim x/foreign"));
  w.api.remove(kResourceClaims, foreign);
  w.loop.advance(60s);
  EXPECT_EQ(w.node_of("p"), "n1");
}

TEST(ClaimSim, DeletedPodsAndCancelledJobsLeaveNoClaim) {
  World w(7, 1);
  w.start();
  w.loop.advance(5s);
  w.api.create(r::kPods, World::pod("a", {{kGpu, 1}}));
  w.api.create(r::kPods, World::pod("b", {{kGpu, 1}}));
  // The scheduler may have read Slurm's nodes just before this one was registered.
  ASSERT_TRUE(w.loop.run_until([&] { return !w.node_of("a").empty() && !w.node_of("b").empty(); }, 60s));
  ASSERT_EQ(w.claims().size(), 2u);
  w.api.remove(r::kPods, {"slurm-bridge", "a"});
  const JobId job = label_of(*kube::decode_pod(json::dump(*w.api.get(r::kPods, {"slurm-bridge", "b"})), w.interner));
  ASSERT_TRUE(w.slurm.model().cancel(w.slurm.now(), job));
  w.loop.advance(60s);
  EXPECT_EQ(w.node_of("a"), "gone");
  EXPECT_EQ(w.node_of("b"), "gone");
  EXPECT_EQ(w.claims().size(), 0u);
  EXPECT_EQ(w.live_jobs(), 0u);
}

// What an administrator deletes by hand stays while its pod may run, and is made anew for one that has no node yet.
TEST(ClaimSim, AClaimInUseCannotBeDeletedByHand) {
  World w(8, 1);
  w.start();
  w.loop.advance(5s);
  w.api.create(r::kPods, World::pod("a", {{kGpu, 1}}));
  w.loop.advance(5s);
  ASSERT_EQ(w.node_of("a"), "n1");
  w.api.remove(kResourceClaims, w.claims().at(0)->meta.key);
  w.loop.advance(5min);
  w.check();
  ASSERT_EQ(w.claims().size(), 1u);
  EXPECT_TRUE(w.claims().at(0)->meta.deleted);
  EXPECT_EQ(w.claims().at(0)->devices.size(), 1u) << "nobody else gets the device meanwhile";
  w.api.remove(r::kPods, {"slurm-bridge", "a"});
  w.loop.advance(60s);
  EXPECT_EQ(w.claims().size(), 0u);
  EXPECT_EQ(w.live_jobs(), 0u);
}

TEST(ClaimSim, AClaimDeletedByHandBeforeTheBindingIsMadeAnew) {
  World w(9, 1);
  bool refuse = true;
  w.api.set_faults([&](const ::bascule::testing::ApiCall& call) -> ::bascule::testing::ApiFault {
    if (!refuse || !call.is("patch", "pods/status")) return {};
    return {.kind = ::bascule::testing::ApiFault::Kind::kStatus, .code = 500};
  });
  w.start();
  w.loop.advance(5s);
  w.api.create(r::kPods, World::pod("a", {{kGpu, 1}}));
  ASSERT_TRUE(w.loop.run_until([&] { return w.claims().size() == 1 && w.claims().at(0)->allocated; }, 10s));
  w.scheduler.kill();
  w.api.remove(kResourceClaims, w.claims().at(0)->meta.key);
  ASSERT_EQ(w.claims().size(), 1u) << "reserved for a pod that is not over";
  refuse = false;
  w.scheduler.start();
  w.loop.advance(20s);
  EXPECT_EQ(w.node_of("a"), "n1");
  w.check();
  ASSERT_EQ(w.claims().size(), 1u);
  EXPECT_FALSE(w.claims().at(0)->meta.deleted);
}

// A pod with its claim and without a node, for as long as patches of `refused` fail.
struct Unbound : World {
  Unbound(std::uint64_t seed, std::string refused) : World(seed, 1) {
    api.set_faults(
        [this, refused = std::move(refused)](const ::bascule::testing::ApiCall& call) -> ::bascule::testing::ApiFault {
          if (!refuse || !call.is("patch", refused)) return {};
          return {.kind = ::bascule::testing::ApiFault::Kind::kStatus, .code = 500};
        });
    start();
    loop.advance(5s);
    api.create(r::kPods, World::pod("a", {{kGpu, 1}}));
    EXPECT_TRUE(loop.run_until([this] { return claims().size() == 1; }, 60s));
    loop.advance(1s);
    EXPECT_EQ(node_of("a"), "");
    EXPECT_EQ(claims().size(), 1u);
  }
  bool refuse = true;
};

TEST(ClaimSim, APodThatIsNeverBoundTakesItsClaimAlong) {
  Unbound w(10, "pods/status");
  ASSERT_TRUE(w.claims().at(0)->allocated);
  w.api.remove(r::kPods, {"slurm-bridge", "a"});
  w.loop.advance(60s);
  EXPECT_EQ(w.node_of("a"), "gone");
  EXPECT_EQ(w.claims().size(), 0u);
  EXPECT_EQ(w.live_jobs(), 0u);
}

TEST(ClaimSim, KilledBetweenCreatingAndAllocatingTheNextOneGoesOn) {
  Unbound w(11, "resourceclaims/status");
  ASSERT_FALSE(w.claims().at(0)->allocated);
  w.scheduler.kill();
  w.refuse = false;
  const Uid first = w.claims().at(0)->meta.uid;
  w.scheduler.start();
  EXPECT_TRUE(w.loop.run_until([&] { return w.node_of("a") == "n1"; }, 60s));
  w.check();
  ASSERT_EQ(w.claims().size(), 1u);
  EXPECT_EQ(w.claims().at(0)->meta.uid, first);
  EXPECT_TRUE(w.claims().at(0)->meta.has_finalizer(kClaimProtection));
}

// As versions before the protection left it.
TEST(ClaimSim, AClaimWithoutProtectionGetsItBeforeTheBinding) {
  Unbound w(12, "resourceclaims/status");
  w.scheduler.kill();
  w.refuse = false;
  w.api.patch(kResourceClaims, w.claims().at(0)->meta.key,
              json::Object{{"metadata", json::Object{{"finalizers", nullptr}}}});
  w.scheduler.start();
  EXPECT_TRUE(w.loop.run_until([&] { return w.node_of("a") == "n1"; }, 60s));
  w.check();
  ASSERT_EQ(w.claims().size(), 1u);
  EXPECT_TRUE(w.claims().at(0)->meta.has_finalizer(kClaimProtection));
}

// Who takes the protection away when nothing of ours runs: Kubernetes' controller of claims.
TEST(ClaimSim, WithoutUsNoClaimOutlivesItsPod) {
  Unbound w(13, "pods/status");
  w.scheduler.kill();
  w.controllers.kill();
  w.api.remove(r::kPods, {"slurm-bridge", "a"});
  w.loop.advance(60s);
  EXPECT_EQ(w.claims().size(), 0u);
}

TEST(ClaimSim, WithoutUsNoClaimOutlivesABoundPod) {
  World w(14, 1);
  w.start();
  w.loop.advance(5s);
  w.api.create(r::kPods, World::pod("a", {{kGpu, 1}}));
  ASSERT_TRUE(w.loop.run_until([&] { return w.node_of("a") == "n1"; }, 60s));
  w.loop.advance(2s);
  w.scheduler.kill();
  w.controllers.kill();
  w.api.patch(r::kPods, {"slurm-bridge", "a"}, json::Object{{"metadata", json::Object{{"finalizers", nullptr}}}});
  w.api.remove(r::kPods, {"slurm-bridge", "a"});
  w.loop.advance(60s);
  EXPECT_EQ(w.node_of("a"), "gone");
  EXPECT_EQ(w.claims().size(), 0u);
  w.start();
  w.loop.advance(60s);
  EXPECT_EQ(w.live_jobs(), 0u);
}

// The answer to the binding is lost, the watch is slow, and the job ends: the pod that still seems to wait is bound.
TEST(ClaimSim, ABindingThatIsNotSeenYetKeepsItsClaim) {
  World w(15, 1);
  bool bound = false;
  w.api.set_faults([&](const ::bascule::testing::ApiCall& call) -> ::bascule::testing::ApiFault {
    if (call.is("watch", "pods")) return {.after = 5s};
    if (bound || !call.is("create", "pods/binding")) return {};
    bound = true;
    return {.kind = ::bascule::testing::ApiFault::Kind::kStatusAfter, .code = 500};
  });
  w.start();
  w.loop.advance(5s);
  w.api.create(r::kPods, World::pod("a", {{kGpu, 1}}));
  ASSERT_TRUE(w.loop.run_until([&] { return bound && w.node_of("a") == "n1"; }, 60s));
  std::vector<JobId> jobs;
  for (const auto& [id, job] : w.slurm.model().jobs()) jobs.push_back(JobId{id});
  for (const JobId job : jobs) ASSERT_TRUE(w.slurm.model().cancel(w.slurm.now(), job));
  for (int i = 0; i < 100; ++i) {
    w.loop.advance(50ms);
    w.check();
  }
  w.loop.advance(2min);
  EXPECT_EQ(w.node_of("a"), "gone");
  EXPECT_EQ(w.claims().size(), 0u);
  EXPECT_EQ(w.live_jobs(), 0u);
}

class ClaimKills : public ::testing::TestWithParam<int> {};

TEST_P(ClaimKills, HealAtAnyMoment) {
  const auto seed = static_cast<std::uint64_t>(GetParam());
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto dice = [&random](int sides) { return static_cast<int>(random() % static_cast<std::uint64_t>(sides)); };
  World w(seed, 2 + dice(3));
  w.start();
  w.loop.advance(5s);
  for (int i = 0; i < 15; ++i) {
    World::Wants wants{{kGpu, 1 + dice(3)}};
    if (dice(3) == 0) wants = {{kCpu, 1 + dice(6)}};
    if (dice(4) == 0) wants[kCpu] = 1 + dice(3);
    w.add_job("j" + std::to_string(i), 1 + dice(3), wants);
  }
  for (int life = 0; life < 4; ++life) {
    ::bascule::testing::SimProcess& victim = dice(3) > 0 ? w.scheduler : w.controllers;
    victim.kill_after(random() % 400);
    w.run(std::chrono::milliseconds(dice(8000)));
    victim.kill();
    if (dice(2) == 0) {  // somebody cancels what runs
      for (const auto& [id, job] : w.slurm.model().jobs()) {
        if (job.view.states.base != slurm::JobState::kRunning) continue;
        (void)w.slurm.model().cancel(w.slurm.now(), JobId{id});
        break;
      }
    }
    const auto claims = w.claims();
    if (dice(2) == 0 && !claims.empty()) {  // or deletes a claim
      w.api.remove(kResourceClaims, claims[static_cast<std::size_t>(dice(static_cast<int>(claims.size())))]->meta.key);
    }
    w.loop.advance(std::chrono::milliseconds(dice(3000)));
    victim.start();
  }
  EXPECT_TRUE(w.run(20min));
  w.loop.advance(90s);
  w.check();
  EXPECT_EQ(w.live_jobs(), 0u);
  EXPECT_EQ(w.claims().size(), 0u);
  w.api.reset_counts();
  w.loop.advance(5min);
  EXPECT_EQ(w.api.write_calls(), 0u);
}
INSTANTIATE_TEST_SUITE_P(Seeds, ClaimKills, ::testing::Range(1, 9));

}  // namespace
}  // namespace bascule::bridge
