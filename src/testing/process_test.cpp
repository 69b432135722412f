// A toy process that makes what is written in a ConfigMap: one pod for each name in `wanted`, each pod labelled
// afterwards. Killed before every single effect it can have, it leaves the same end state.
#include "testing/process.hpp"

#include <gtest/gtest.h>

#include <set>

#include "net/loopback.hpp"
#include "testing/fake_api.hpp"
#include "testing/objects.hpp"
#include "testing/run.hpp"

namespace bascule::testing {
namespace {

using namespace std::chrono_literals;
using json::Value;

constexpr const char* kPods = "/api/v1/namespaces/default/pods";

Task<net::Response> send(net::Transport& to, Loop& loop, std::string method, std::string target,
                         std::string body = {}) {
  net::Request request{
      .method = std::move(method), .target = std::move(target), .headers = {}, .body = std::move(body)};
  if (request.method == "PATCH") request.headers.set("Content-Type", "application/merge-patch+json");
  co_return co_await to.call(std::move(request), {.deadline = loop.now() + 5s});
}

// Level-based: looks, does what is missing, one thing after the other.
Task<> toy(SimEnvironment& self, net::Transport& far, std::stop_token stop) {
  const auto api = self.network.connect(self.loop, far);
  while (!stop.stop_requested()) {
    try {
      for (int i = 0; i < 3; ++i) {
        const std::string name = "toy-" + std::to_string(i);
        const auto made = co_await send(*api, self.loop, "POST", kPods, json::dump(make_pod({.name = name})));
        if (made.status != 201 && made.status != 409) throw std::runtime_error("refused");
        co_await send(*api, self.loop, "PATCH", std::string(kPods) + "/" + name,
                      R"({"metadata":{"labels":{"ok":"1"}}})");
      }
    } catch (const net::Error&) {
    }
    co_await sleep_for(self.loop, 1s, stop);
  }
}

// Counts in an annotation without a precondition on anything it has done before: a kill may count twice.
Task<> blind_counter(SimEnvironment& self, net::Transport& far, int& sent, std::stop_token stop) {
  const auto api = self.network.connect(self.loop, far);
  while (!stop.stop_requested()) {
    try {
      Value pod = make_pod({.name = ""});
      pod.at("metadata").get_object()["generateName"] = "c-";
      ++sent;
      co_await send(*api, self.loop, "POST", kPods, json::dump(pod));
    } catch (const net::Error&) {
    }
    co_await sleep_for(self.loop, 1s, stop);
  }
}

Task<> ticker(SimEnvironment& self, std::vector<TimePoint>& seen, std::stop_token stop) {
  while (co_await sleep_for(self.loop, 1s, stop)) seen.push_back(self.loop.now());
}

Task<> watcher(SimEnvironment& self, net::Transport& far, int& events, std::stop_token stop) {
  const auto api = self.network.connect(self.loop, far);
  try {
    net::Request request{.method = "GET", .target = "/api/v1/pods?watch=1", .headers = {}, .body = {}};
    const auto response = co_await api->open(std::move(request), {.deadline = self.loop.now() + 5s, .stop = stop});
    while (!(co_await response.body->read(self.loop.now() + 1h, stop)).empty()) ++events;
  } catch (const net::Error&) {
  }
}

struct ProcessTest : ::testing::Test {
  ManualLoop world;
  FakeApi api{world};
  std::unique_ptr<net::Transport> far = net::make_loopback(world, api.handler());

  std::size_t done() const { return api.list(kube::resources::kPods, "", "ok=1").size(); }
};

TEST_F(ProcessTest, KilledBeforeEveryEffectItEndsTheSame) {
  std::set<std::size_t> pods_at_death;
  for (std::uint64_t n = 0; n < 60; ++n) {
    ManualLoop loop;
    FakeApi server(loop);
    const auto line = net::make_loopback(loop, server.handler());
    SimNetwork network(loop, {.seed = n});
    SimProcess process(loop, network,
                       [&](SimEnvironment& self, std::stop_token stop) { return toy(self, *line, std::move(stop)); });
    process.start();
    process.kill_after(n);
    loop.advance(20s);
    EXPECT_FALSE(process.running()) << n;
    const auto at_death = server.store().version();
    pods_at_death.insert(server.count(kube::resources::kPods));
    loop.advance(1h);
    EXPECT_EQ(server.store().version(), at_death) << "the dead write nothing";
    process.start();
    loop.advance(5s);
    EXPECT_TRUE(process.running());
    EXPECT_EQ(server.list(kube::resources::kPods, "", "ok=1").size(), 3u) << n;
    EXPECT_EQ(server.count(kube::resources::kPods), 3u);
    process.terminate();
    loop.advance(1s);
    EXPECT_FALSE(process.running());
  }
  EXPECT_EQ(pods_at_death, (std::set<std::size_t>{0, 1, 2, 3})) << "the kills have struck everywhere";
}

TEST_F(ProcessTest, ARequestOnTheWireArrivesOrNot) {
  int arrived = 0;
  int lost = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    ManualLoop loop;
    FakeApi server(loop);
    const auto line = net::make_loopback(loop, server.handler());
    SimNetwork network(loop, {.seed = seed});
    int sent = 0;
    SimProcess process(loop, network, [&](SimEnvironment& self, std::stop_token stop) {
      return blind_counter(self, *line, sent, std::move(stop));
    });
    process.start();
    loop.run_ready();
    EXPECT_EQ(sent, 1);
    process.kill();
    loop.advance(1s);
    ++(server.count(kube::resources::kPods) == 1 ? arrived : lost);
    EXPECT_EQ(sent, 1);
  }
  EXPECT_GT(arrived, 0);
  EXPECT_GT(lost, 0);
}

// Its sender waits for five seconds, or dies on the way.
TEST_F(ProcessTest, ARequestThatNobodyWaitsForMayArriveAllTheSame) {
  for (const bool dies : {false, true}) {
    std::size_t late = 0;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      ManualLoop loop;
      FakeApi server(loop);
      const auto line = net::make_loopback(loop, server.handler());
      SimNetwork network(loop, {.seed = seed, .late = 20s, .late_one_in = 1});
      int sent = 0;
      SimProcess process(loop, network, [&](SimEnvironment& self, std::stop_token stop) {
        return blind_counter(self, *line, sent, std::move(stop));
      });
      process.start();
      loop.advance(dies ? 100ms : 5500ms);
      process.kill();
      const std::size_t before = server.count(kube::resources::kPods);
      loop.advance(20s);
      late += server.count(kube::resources::kPods) - before;
      loop.advance(1h);
      EXPECT_LE(server.count(kube::resources::kPods), static_cast<std::size_t>(sent));  // each once at most
    }
    EXPECT_GT(late, 3u);
  }
}

TEST_F(ProcessTest, ADeadWatcherHangsUp) {
  SimNetwork network(world);
  int events = 0;
  SimProcess process(world, network, [&](SimEnvironment& self, std::stop_token stop) {
    return watcher(self, *far, events, std::move(stop));
  });
  process.start();
  api.create(kube::resources::kPods, make_pod({.name = "a"}));
  world.advance(1s);
  EXPECT_EQ(api.watches(), 1u);
  EXPECT_EQ(events, 1);
  process.kill();
  api.create(kube::resources::kPods, make_pod({.name = "b"}));
  world.advance(1s);
  EXPECT_EQ(events, 1);
  EXPECT_EQ(api.watches(), 0u);
  process.start();
  world.advance(1s);
  EXPECT_EQ(process.lives(), 2);
  EXPECT_EQ(events, 2);
  EXPECT_EQ(api.watches(), 1u);
}

TEST_F(ProcessTest, WhatIsFrozenGoesOnLaterInTheTimeThatItIsThen) {
  SimNetwork network(world);
  std::vector<TimePoint> seen;
  SimProcess process(world, network,
                     [&](SimEnvironment& self, std::stop_token stop) { return ticker(self, seen, std::move(stop)); });
  process.start();
  world.advance(2500ms);
  ASSERT_EQ(seen.size(), 2u);
  process.freeze_after(0);
  world.advance(10s);
  EXPECT_EQ(seen.size(), 2u);
  const TimePoint thawed = world.now();
  process.thaw();
  world.advance(1500ms);
  ASSERT_EQ(seen.size(), 4u);
  EXPECT_EQ(seen.at(2), thawed);
  EXPECT_EQ(seen.at(3), thawed + 1s);
  process.freeze_after(0);
  world.advance(10s);
  process.kill();
  process.start();  // buries the frozen one
  world.advance(1500ms);
  EXPECT_EQ(seen.size(), 5u);
}

}  // namespace
}  // namespace bascule::testing
