// Scheduler and controllers as whole processes with pods that ask for devices by class, killed at seeded moments. At
// every instant: no device is in two claims, no pod is bound without its claim, and a claim's devices are what Slurm
// gave to the pod's job there. At the end: all Jobs complete, and neither a job nor a claim is left.
#include "bridge/claim_sim_test.hpp"

#include <random>

namespace bascule::bridge {
namespace {

using namespace claim_world;
using ::testing::HasSubstr;

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
  EXPECT_EQ(w.node_writes(), 0u);
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

// kube-scheduler may let another pod use a claim by its name: its devices are in use as long as that one runs.
TEST(ClaimSim, AClaimThatAnotherPodUsesOutlivesItsOwn) {
  World w(17, 1, 1);
  w.start();
  w.loop.advance(5s);
  w.api.create(r::kPods, World::pod("a", {{kGpu, 1}}));
  ASSERT_TRUE(w.loop.run_until([&] { return w.node_of("a") == "n1"; }, 60s));
  const NamespacedName claim = w.claims().at(0)->meta.key;
  w.api.create(r::kPods,
               ::bascule::testing::make_pod(
                   {.name = "q", .ns = "slurm-bridge", .node = "n1", .annotations = {{"fake/run-for", "forever"}}}));
  json::Array users = *json::array_at(*w.api.get(kResourceClaims, claim), {"status", "reservedFor"});
  users.push_back(
      json::Object{{"resource", "pods"},
                   {"name", "q"},
                   {"uid", json::string_at(*w.api.get(r::kPods, {"slurm-bridge", "q"}), {"metadata", "uid"})}});
  w.api.patch(kResourceClaims, claim, json::Object{{"status", json::Object{{"reservedFor", users}}}}, "status");
  w.api.remove(r::kPods, {"slurm-bridge", "a"});
  w.loop.advance(30s);
  EXPECT_EQ(w.live_jobs(), 0u) << "the node is Slurm's again";
  ASSERT_EQ(w.claims().size(), 1u);
  EXPECT_TRUE(w.claims().at(0)->allocated);
  w.api.create(r::kPods, World::pod("b", {{kGpu, 1}}));
  w.loop.advance(30s);
  EXPECT_EQ(w.node_of("b"), "");
  EXPECT_THAT(w.text_of("b"), HasSubstr("is held by claim " + claim.str()));
  w.api.remove(r::kPods, {"slurm-bridge", "q"});
  EXPECT_TRUE(w.loop.run_until([&] { return w.node_of("b") == "n1"; }, 5min)) << w.text_of("b");
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

// The claim of the pod's earlier job stands for other devices than the next one gives: that cannot be used.
TEST(ClaimSim, AClaimThatMayNotBeRemovedGivesTheNextJobBack) {
  Unbound w(16, "pods/status");
  w.api.set_faults([&w](const ::bascule::testing::ApiCall& call) -> ::bascule::testing::ApiFault {
    if (!w.refuse || !call.is("patch", "resourceclaims")) return {};
    return {.kind = ::bascule::testing::ApiFault::Kind::kStatus, .code = 403};
  });
  const JobId first = w.job_named_by("a");
  ASSERT_TRUE(w.slurm.model().cancel(w.slurm.now(), first));
  ASSERT_TRUE(w.loop.run_until([&] { return w.job_named_by("a") != first; }, 60s));
  const JobId second = w.job_named_by("a");
  w.loop.advance(20s);
  EXPECT_FALSE(w.over(second));
  EXPECT_THAT(w.text_of("a"), HasSubstr("KubernetesRefused"));
  w.loop.advance(20s);
  EXPECT_TRUE(w.over(second));
  w.refuse = false;
  EXPECT_TRUE(w.loop.run_until([&] { return w.node_of("a") == "n1"; }, 3min)) << w.text_of("a");
  w.check();
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

// W36: a driver that only the configuration names is registered by the controllers and given by the scheduler.
TEST(ClaimSim, W36DevicesOfAConfiguredDriver) {
  World w(18, 0);
  w.add_node("f1");
  json::Array boards;
  for (int i = 0; i < 2; ++i) boards.push_back(json::Object{{"name", "board-" + std::to_string(i)}});
  w.api.create(
      kResourceSlices,
      testing::make_slice({.name = "f1-a", .node = "f1", .driver = std::string(kFpga), .devices = std::move(boards)}));
  w.start();
  w.loop.advance(5s);
  ASSERT_NE(w.slurm.model().node("f1"), nullptr);
  EXPECT_EQ(w.slurm.model().node("f1")->view.gres, "gpu:fpga.example.org:2");
  w.add_job("boards", 2, {{kFpga, 1}});
  w.loop.advance(3s);
  w.check();
  EXPECT_EQ(w.claims().size(), 2u);
  EXPECT_TRUE(w.run(60s));
}

// W18: members of a gang share nodes, each with devices of its own.
TEST(ClaimSim, W18MembersOfAGangShareANodesDevices) {
  World w(19, 2);
  w.start();
  w.loop.advance(5s);
  w.add_gang("gang", 5, {{kGpu, 1}, {kCpu, 1}});
  w.loop.advance(3s);
  w.check();
  std::map<std::string, std::size_t> nodes;
  for (const json::Value& pod : w.api.list(r::kPods)) ++nodes[std::string(json::string_at(pod, {"spec", "nodeName"}))];
  EXPECT_THAT(nodes, ::testing::ElementsAre(std::pair("n1", 4u), std::pair("n2", 1u)));
  EXPECT_EQ(w.slurm.model().submitted(), 1u);
  EXPECT_EQ(w.claims().size(), 5u);
  EXPECT_TRUE(w.run(2min));
  w.loop.advance(10s);
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
    const std::string name = "j" + std::to_string(i);
    // Gangs of a size that two nodes have room for.
    i % 5 == 4 ? w.add_gang(name, 2 + dice(3), {{kGpu, 1}, {kCpu, 1}}) : w.add_job(name, 1 + dice(3), wants);
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
