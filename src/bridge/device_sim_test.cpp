// Devices that come and go, and claims that cannot be written: what becomes of the nodes in Slurm, and of the jobs.
#include "bridge/claim_sim_test.hpp"

namespace bascule::bridge {
namespace {

using namespace claim_world;
using ::testing::HasSubstr;

// A kubelet that starts deletes the slices of its node, and the drivers publish them again a little later.
TEST(DeviceSim, DevicesThatVanishForAMomentLeaveTheNodeAlone) {
  World w(16, 1);
  w.start();
  w.loop.advance(5s);
  w.slurm.forget_calls();
  w.unpublish("n1");
  w.loop.advance(5s);
  w.publish("n1");
  w.loop.advance(15min);
  EXPECT_EQ(w.node_writes(), 0u);
}

TEST(DeviceSim, DevicesThatStayAwayMakeTheNodeAnew) {
  World w(17, 1);
  w.start();
  w.loop.advance(5s);
  w.slurm.forget_calls();
  w.unpublish("n1");
  w.loop.advance(9min);
  EXPECT_EQ(w.node_writes(), 0u);
  w.loop.advance(2min);
  ASSERT_NE(w.slurm.model().node("n1"), nullptr);
  EXPECT_EQ(w.slurm.model().node("n1")->view.gres, "");
}

// As a chart that is installed anew does.
TEST(DeviceSim, AClassThatIsMadeAnewLeavesTheNodesAlone) {
  World w(18, 2);
  w.start();
  w.loop.advance(5s);
  w.slurm.forget_calls();
  for (const std::string_view name : {kGpu, kCpu}) w.api.remove(kDeviceClasses, {"", std::string(name)});
  w.loop.advance(30s);
  for (const std::string_view name : {kGpu, kCpu}) w.api.create(kDeviceClasses, testing::make_class(std::string(name)));
  w.loop.advance(15min);
  EXPECT_EQ(w.node_writes(), 0u);
}

TEST(DeviceSim, DevicesThatAreServedLaterAreFound) {
  World w(19, 1);
  w.serves_devices = false;
  w.start();
  w.loop.advance(30s);
  ASSERT_NE(w.slurm.model().node("n1"), nullptr);
  EXPECT_EQ(w.slurm.model().node("n1")->view.gres, "");
  w.serves_devices = true;
  w.loop.advance(2min);
  ASSERT_NE(w.slurm.model().node("n1"), nullptr);
  EXPECT_EQ(w.slurm.model().node("n1")->view.gres, "gpu:gpu.example.com:4");
}

// Claims are written slowly, and Slurm ends the job meanwhile: the node may be somebody else's by now.
TEST(DeviceSim, ThePodOfAJobThatEndsWhileItsClaimIsWrittenIsNotBound) {
  World w(20, 1);
  int patches = 0;
  w.api.set_faults([&](const ::bascule::testing::ApiCall& call) -> ::bascule::testing::ApiFault {
    if (!call.is("patch", "resourceclaims/status") || ++patches > 1) return {};
    return {.before = 5s};
  });
  w.start();
  w.loop.advance(5s);
  w.api.create(r::kPods, World::pod("a", {{kGpu, 1}}));
  ASSERT_TRUE(w.loop.run_until([&] { return patches > 0; }, 60s));
  const JobId first = w.job_named_by("a");
  ASSERT_TRUE(w.slurm.model().cancel(w.slurm.now(), first));
  for (int i = 0; i < 600 && w.node_of("a").empty(); ++i) w.loop.advance(100ms);
  EXPECT_EQ(w.node_of("a"), "n1");
  EXPECT_NE(w.job_named_by("a"), first);
  w.check();
}

// By a quota or a policy: the pod says so, and its GPUs are not held for ever.
TEST(DeviceSim, AClaimThatIsRefusedGivesTheJobBack) {
  World w(21, 1);
  bool refuse = true;
  w.api.set_faults([&](const ::bascule::testing::ApiCall& call) -> ::bascule::testing::ApiFault {
    if (!refuse || !call.is("create", "resourceclaims")) return {};
    return {.kind = ::bascule::testing::ApiFault::Kind::kStatus, .code = 403};
  });
  w.start();
  w.loop.advance(5s);
  w.api.create(r::kPods, World::pod("a", {{kGpu, 1}}));
  w.loop.advance(10s);
  const JobId first = w.job_named_by("a");
  EXPECT_THAT(w.text_of("a"), HasSubstr("KubernetesRefused"));
  EXPECT_FALSE(w.over(first));
  w.loop.advance(30s);
  EXPECT_TRUE(w.over(first));
  refuse = false;
  w.loop.advance(2min);
  EXPECT_EQ(w.node_of("a"), "n1");
  w.check();
}

// The ledger keeps its devices from others, so nothing else waits for it: neither the node nor the pod's object. What
// only fails is tried for a while: devices had better be free before Slurm gives them to others.
TEST(DeviceSim, AClaimThatMayNotBeRemovedHoldsNoNode) {
  for (const int code : {403, 500}) {
    World w(25, 1);
    bool refuse = false;
    w.api.set_faults([&](const ::bascule::testing::ApiCall& call) -> ::bascule::testing::ApiFault {
      if (!refuse || !call.is("patch", "resourceclaims")) return {};
      return {.kind = ::bascule::testing::ApiFault::Kind::kStatus, .code = code};
    });
    w.start();
    w.loop.advance(5s);
    w.api.create(r::kPods, World::pod("a", {{kGpu, 1}}));
    ASSERT_TRUE(w.loop.run_until([&] { return w.node_of("a") == "n1"; }, 60s));
    w.loop.advance(5s);
    const JobId job = w.job_named_by("a");
    refuse = true;
    w.cluster.set_claim_controller(false);  // it is refused as well
    w.api.remove(r::kPods, {"slurm-bridge", "a"});
    w.loop.advance(20s);
    EXPECT_EQ(w.over(job), code == 403);
    w.loop.advance(40s);
    EXPECT_TRUE(w.over(job)) << code;
    EXPECT_EQ(w.node_of("a"), "gone") << code;
    EXPECT_EQ(w.claims().size(), 1u);
    refuse = false;
    w.cluster.set_claim_controller(true);
    w.loop.advance(1s);
    EXPECT_EQ(w.claims().size(), 0u);
  }
}

TEST(DeviceSim, AClaimThatIsInTheWayForLongGivesTheJobBack) {
  World w(22, 1);
  w.api.create(r::kPods, World::pod("a", {{kGpu, 1}}));
  const NamespacedName key = claim_key(*kube::decode_pod(w.text_of("a"), w.interner));
  w.api.create(kResourceClaims, json::Object{{"apiVersion", kResourceClaims.api_version()},
                                             {"kind", "ResourceClaim"},
                                             {"metadata", json::Object{{"name", key.name}, {"namespace", key.ns}}}});
  w.start();
  w.loop.advance(1min);
  const JobId first = w.job_named_by("a");
  EXPECT_THAT(w.text_of("a"), HasSubstr("is not this bridge's; delete it"));
  w.loop.advance(8min);
  EXPECT_FALSE(w.over(first));
  w.loop.advance(3min);
  EXPECT_TRUE(w.over(first));
  w.api.remove(kResourceClaims, key);
  w.loop.advance(3min);
  EXPECT_EQ(w.node_of("a"), "n1");
  w.check();
}

TEST(DeviceSim, AJobWhoseDevicesSlurmDoesNotTellIsGivenBack) {
  World w(23, 1);
  bool refuse = true;
  w.slurm.set_faults([&](const net::ServerRequest& request) -> ::bascule::testing::FakeSlurmFault {
    if (!refuse || request.target.find("resources/") == std::string::npos) return {};
    return {.kind = ::bascule::testing::FakeSlurmFault::Kind::kRefused};
  });
  w.start();
  w.loop.advance(5s);
  w.api.create(r::kPods, World::pod("a", {{kGpu, 1}}));
  w.loop.advance(10s);
  const JobId first = w.job_named_by("a");
  EXPECT_THAT(w.text_of("a"), HasSubstr("Slurm does not say what it holds"));
  EXPECT_FALSE(w.over(first));
  w.loop.advance(30s);
  EXPECT_TRUE(w.over(first));
  refuse = false;
  w.loop.advance(2min);
  EXPECT_EQ(w.node_of("a"), "n1");
}

// A gateway that has lost slurmrestd answers for it: that is no word of Slurm.
TEST(DeviceSim, AnAnswerThatIsNotSlurmsCostsNoJob) {
  World w(25, 1);
  bool away = true;
  w.slurm.set_faults([&](const net::ServerRequest& request) -> ::bascule::testing::FakeSlurmFault {
    if (!away || request.target.find("resources/") == std::string::npos) return {};
    return {.kind = ::bascule::testing::FakeSlurmFault::Kind::kHtml404};
  });
  w.start();
  w.loop.advance(5s);
  w.api.create(r::kPods, World::pod("a", {{kGpu, 1}}));
  w.loop.advance(1min);
  const JobId first = w.job_named_by("a");
  EXPECT_THAT(w.text_of("a"), HasSubstr("waiting for what it holds"));
  EXPECT_FALSE(w.over(first));
  away = false;
  w.loop.advance(10s);
  EXPECT_EQ(w.node_of("a"), "n1");
  EXPECT_EQ(w.job_named_by("a"), first);
}

// Slurm counts four there and three are published: an index would mean another device, so no job is sent there.
TEST(DeviceSim, ANodeThatCountsOtherDevicesIsNotAskedFor) {
  World w(24, 2);
  w.start();
  w.loop.advance(5s);
  w.controllers.kill();
  w.api.remove(kResourceSlices, {"", "n1-a"});
  w.api.remove(kResourceSlices, {"", "n1-b"});
  w.api.create(kResourceSlices, testing::make_slice({.name = "n1-d", .devices = testing::make_gpus(0, 3)}));
  w.loop.advance(3s);
  w.api.create(r::kPods, World::pod("a", {{kGpu, 1}}));
  w.loop.advance(10s);
  EXPECT_EQ(w.node_of("a"), "n2");
  EXPECT_EQ(w.slurm.model().submitted(), 1u);
}

}  // namespace
}  // namespace bascule::bridge
