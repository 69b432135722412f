// A small scheduler made of the real client and informer, killed again and again while Jobs flow: every Job completes,
// and at rest nothing is written.
#include <gtest/gtest.h>

#include <random>

#include "kube/client.hpp"
#include "kube/informer.hpp"
#include "net/loopback.hpp"
#include "testing/fake_api.hpp"
#include "testing/fake_cluster.hpp"
#include "testing/objects.hpp"
#include "testing/process.hpp"
#include "testing/run.hpp"

namespace bascule::testing {
namespace {

using namespace std::chrono_literals;
namespace r = kube::resources;

Task<> bind_pods(kube::Client& client, kube::Informer<kube::Pod>& pods, std::stop_token stop) {
  std::vector<NamespacedName> unbound;
  pods.for_each([&](const auto& pod) {
    if (!pod->bound() && !pod->deleting()) unbound.push_back(pod->meta.key);
  });
  for (const NamespacedName& key : unbound) {
    try {
      co_await client.create_sub(r::kPods, key, "binding", make_binding(key.name, "n1"), stop);
    } catch (const kube::Error&) {
      // Bound already, gone, or no answer: the next look tells.
    }
  }
}

Task<> scheduler(SimEnvironment& self, net::Transport& far, std::stop_token stop) {
  const auto transport = self.network.connect(self.loop, far);
  kube::Client client(self.loop, *transport, {});
  json::Interner interner;
  kube::Informer<kube::Pod> pods(client, {.resource = r::kPods, .seed = 1}, kube::decode_pod, interner);
  pods.start();
  try {
    if (co_await pods.wait_synced(stop, TimePoint::max())) {
      while (!stop.stop_requested()) {
        co_await bind_pods(client, pods, stop);
        co_await sleep_for(self.loop, 200ms, stop);
      }
    }
  } catch (const net::Error&) {
    // Stopped in mid-call.
  }
  co_await pods.stop();
}

TEST(ProcessKube, ASchedulerIsKilledAtAnyMoment) {
  int kills = 0;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(seed);
    ManualLoop world;
    FakeApi api(world, {.seed = seed});
    FakeCluster cluster(api, {.pod_run = 2s});
    const auto far = net::make_loopback(world, api.handler());
    SimNetwork network(world, {.seed = seed});
    std::mt19937_64 random(seed);
    api.create(r::kNodes, make_node({.name = "n1"}));
    cluster.start();
    SimProcess process(world, network, [&](SimEnvironment& self, std::stop_token stop) {
      return scheduler(self, *far, std::move(stop));
    });
    for (int i = 0; i < 10; ++i) {
      api.create(r::kJobs, make_job({.name = "j" + std::to_string(i), .parallelism = 2, .completions = 4}));
    }
    for (int life = 0; life < 10; ++life) {
      process.start();
      process.kill_after(random() % 60);
      world.run_until([&] { return !process.running(); }, 10s);
      kills += !process.running();
      process.kill();
      world.advance(std::chrono::milliseconds(random() % 500));
    }
    process.start();
    world.advance(2min);
    for (const json::Value& job : api.list(r::kJobs)) {
      EXPECT_EQ(json::int_at(job, {"status", "succeeded"}), 4) << json::dump(job);
    }
    EXPECT_EQ(api.count(r::kPods), 40u);
    api.reset_counts();
    world.advance(10min);
    EXPECT_EQ(api.write_calls(), 0u);
    process.terminate();
    world.advance(10s);
    EXPECT_FALSE(process.running());
    run(world, cluster.stop());
  }
  EXPECT_GT(kills, 30);
}

}  // namespace
}  // namespace bascule::testing
