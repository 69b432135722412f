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
