// What once let a pod wait for ever although there was a place for it.
#include "bridge/bridge_sim_test.hpp"

namespace bascule::bridge {
namespace {

std::string reason_of(World& w, const std::string& pod) {
  const auto seen = w.api.get(r::kPods, {"slurm-bridge", pod});
  return seen ? json::dump(*json::find(*seen, {"status"})) : "it is gone";
}

void add_pod(World& w, const std::string& name, json::Object labels = {}, std::string cpu = "1") {
  w.api.create(r::kPods, testing::make_pod({.name = name,
                                            .ns = "slurm-bridge",
                                            .scheduler = "slurm-bridge-scheduler",
                                            .cpu = std::move(cpu),
                                            .labels = std::move(labels)}));
}

// The waiting job ends and is purged while no scheduler runs, and nobody submits another that would pass its id.
TEST(Stall, AWaitingPodWhoseJobIsGoneGetsAnother) {
  World w(21, 1, 1h);
  w.scheduler.start();
  w.pod_sync.start();
  w.hold_nodes(1);
  add_pod(w, "p");
  w.loop.advance(20s);
  ASSERT_EQ(w.live_jobs(), 2u);
  w.scheduler.kill();
  w.pod_sync.kill();
  for (const std::uint32_t id : {1u, 2u}) ASSERT_TRUE(w.slurm.model().cancel(w.slurm.now(), JobId{id}));
  w.loop.advance(20min);
  ASSERT_EQ(w.slurm.model().job(JobId{2}), nullptr);
  w.scheduler.start();
  w.pod_sync.start();
  EXPECT_TRUE(w.loop.run_until([&] { return w.pods_on_nodes().size() == 1; }, 2min)) << reason_of(w, "p");
}

// Slurm packs by what it knows, and chooses the node that somebody else has filled each time anew.
TEST(Stall, AJobThatWasGivenBackIsNotGivenTheSameNodeForEver) {
  World w(22, 2, 1h);
  w.api.create(r::kPods, testing::make_pod({.name = "theirs", .ns = "slurm-bridge", .cpu = "8", .node = "n1"}));
  w.scheduler.start();
  w.pod_sync.start();
  add_pod(w, "p", {}, "4");
  w.loop.advance(10s);
  const auto placed = [&] {
    return json::string_at(*w.api.get(r::kPods, {"slurm-bridge", "p"}), {"spec", "nodeName"}) == "n2";
  };
  EXPECT_TRUE(w.loop.run_until(placed, 2min)) << reason_of(w, "p");
}

// It has the name of one that was there a moment ago.
TEST(Stall, AGroupMadeAnewIsReadAnew) {
  World w(23, 2, 1h);
  w.scheduler.start();
  w.pod_sync.start();
  w.hold_nodes(2);
  w.add_group("g", 1);
  const json::Object in_group{{std::string(names::kPodGroup), "g"}};
  add_pod(w, "first", in_group);
  w.loop.advance(5s);
  ASSERT_EQ(w.live_jobs(), 2u);
  w.api.remove(kPodGroups, {"slurm-bridge", "g"});
  w.add_group("g", 2);
  json::Value gated = testing::make_pod(
      {.name = "gated", .ns = "slurm-bridge", .scheduler = "slurm-bridge-scheduler", .labels = in_group});
  json::at_or_create(gated, {"spec", "schedulingGates"}) = json::Array{json::Object{{"name", "later"}}};
  w.api.create(r::kPods, std::move(gated));  // one of the group is there all the time
  w.api.remove(r::kPods, {"slurm-bridge", "first"});
  w.loop.advance(5s);
  add_pod(w, "third", in_group);
  w.loop.advance(15s);
  EXPECT_EQ(w.live_jobs(), 1u);
  EXPECT_THAT(reason_of(w, "third"), ::testing::HasSubstr("InsufficientPods"));
}

}  // namespace
}  // namespace bascule::bridge
