// A namespace that is deleted whole, with all its pods in every state: nothing new can be made in it, and nothing of
// the bridge may hold what is in it. Scheduler and pod sync as whole processes in simulated time.
#include <fmt/format.h>

#include "bridge/bridge_sim_test.hpp"

namespace bascule::bridge {
namespace {

constexpr const char* kNs = "slurm-bridge";

struct NamespaceEnds : ::testing::TestWithParam<unsigned> {
  // What the API server does from the moment on when a namespace is deleted: it refuses whatever would be made there,
  // bindings and events too.
  void end_namespace() {
    ending = true;
    for (const kube::Resource& resource : {r::kJobs, kPodGroups, r::kPods}) doomed.push_back(resource);
    std::ranges::shuffle(doomed, random);
  }
  // What the namespace controller does, now and again.
  void sweep() {
    for (const kube::Resource& resource : doomed) {
      for (const json::Value& object : w.api.list(resource)) {
        const NamespacedName key{kNs, std::string(json::string_at(object, {"metadata", "name"}))};
        if (json::find(object, {"metadata", "deletionTimestamp"}) == nullptr) w.api.remove(resource, key);
      }
    }
  }
  std::size_t left() {
    std::size_t count = 0;
    for (const kube::Resource& resource : doomed) count += w.api.list(resource).size();
    return count;
  }

  std::mt19937 random{GetParam()};
  World w{GetParam(), 4, 1h};
  bool ending = false;
  std::vector<kube::Resource> doomed;
};

TEST_P(NamespaceEnds, NothingStays) {
  w.api.set_faults([this](const testing::ApiCall& call) {
    testing::ApiFault fault;
    if (ending && call.verb == "create" && call.key.ns == kNs) {
      fault.kind = testing::ApiFault::Kind::kStatus;
      fault.code = 403;
    }
    return fault;
  });
  w.scheduler.start();
  w.loop.advance(1ms);
  w.pod_sync.start();
  w.add_gang("running", 2, 2, {}, "8");
  w.add_job("single", 2);
  w.loop.advance(std::chrono::milliseconds(random() % 3000));
  w.add_gang("waiting", 3, 3, {}, "8");
  w.add_gang("small", 1, 2);
  w.add_job("queued", 3);
  w.loop.advance(std::chrono::milliseconds(random() % 5000));
  const bool silent = random() % 3 == 0;
  if (silent) w.slurm.stop_controller();
  end_namespace();
  for (int i = 0; i < 30; ++i) {
    if (i % 5 == 0) sweep();
    if (i == 4 && random() % 2 == 0) {
      w.scheduler.kill();
      w.scheduler.start();
      w.pod_sync.kill();
      w.pod_sync.start();
    }
    w.loop.advance(5s);
    if (i == 8 && silent) w.slurm.start_controller();
  }
  EXPECT_EQ(left(), 0u);
  EXPECT_EQ(w.live_jobs(), 0u);
}

// Pods that were given no job have nothing that keeps them.
TEST(GangEnds, WhileItsGroupIsRead) {
  World w(61, 2, 1h);
  Duration slow{};
  w.api.set_faults([&](const testing::ApiCall& call) {
    testing::ApiFault fault;
    if (call.is("get", "podgroups")) fault.after = slow;
    return fault;
  });
  w.scheduler.start();
  w.loop.advance(1ms);
  w.pod_sync.start();
  w.add_group("small", 2);
  const NamespacedName key{kNs, "p"};
  w.api.create(r::kPods, testing::make_pod({.name = key.name,
                                            .ns = kNs,
                                            .scheduler = "slurm-bridge-scheduler",
                                            .labels = {{std::string(names::kPodGroup), "small"}}}));
  w.loop.advance(40s);  // what was read of the group is no longer remembered
  slow = 2s;
  w.api.patch(r::kPods, key, json::Object{{"metadata", json::Object{{"annotations", json::Object{{"touched", "1"}}}}}});
  w.loop.advance(1s);
  w.api.remove(r::kPods, key);
  w.loop.advance(5s);
  EXPECT_FALSE(w.api.get(r::kPods, key));
  slow = {};
  w.add_job("next", 1);
  w.loop.advance(10s);
  EXPECT_EQ(w.pods_on_nodes().size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, NamespaceEnds, ::testing::Range(1u, 13u));

}  // namespace
}  // namespace bascule::bridge
