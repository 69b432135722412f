// What the API server refuses or is slow about holds up what depends on it, and nothing else.
#include "operator/nodeset/driver_pass.hpp"

#include "kube/condition.hpp"
#include "operator/nodeset/driver_test_world.hpp"

namespace bascule::op::nodeset {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::string_view kClaimed = R"(
volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]
)";

std::string ready_of(DriverWorld& world, const std::string& name) {
  const auto ready = condition_at(*json::find(world.nodeset_of(name), {"status"}), "Ready");
  return ready ? fmt::format("{} {}: {}", ready->is_true, ready->reason, ready->message) : "nothing";
}

std::string uid_of(DriverWorld& world, const std::string& pod) {
  const auto object = world.api.get(r::kPods, {"slurm", pod});
  return object ? std::string(json::string_at(*object, {"metadata", "uid"})) : std::string();
}

// A quota, say.
TEST(NodeSetDriverPass, AClaimThatIsRefusedHoldsUpItsOwnPodAlone) {
  DriverWorld world;
  ASSERT_TRUE(world.runs("foo", 2, kClaimed)) << world.events();
  world.api.set_faults([&](const testing::ApiCall& call) {
    testing::ApiFault fault;
    if (call.is("create", "persistentvolumeclaims")) fault = {.kind = testing::ApiFault::Kind::kStatus, .code = 403};
    return fault;
  });
  world.patch_nodeset("foo", "{spec: {replicas: 3}}");
  world.pass(30s);
  const std::string before = uid_of(world, "foo-0");
  world.api.remove(r::kPods, {"slurm", "foo-0"});
  EXPECT_TRUE(world.until(
      [&] {
        const std::string now = uid_of(world, "foo-0");
        return !now.empty() && now != before;
      },
      1min))
      << world.events();
  EXPECT_FALSE(world.api.get(r::kPods, {"slurm", "foo-2"}));
  EXPECT_THAT(ready_of(world, "foo"), HasSubstr("create claim data-foo-2"));
  world.api.set_faults({});
  EXPECT_TRUE(world.settles("foo", 3, 6min)) << world.events();
}

TEST(NodeSetDriverPass, ARevisionThatIsRefusedHoldsUpWhatNeedsItAlone) {
  DriverWorld world(5);
  ASSERT_TRUE(world.runs("foo", 3)) << world.events();
  world.api.set_faults([&](const testing::ApiCall& call) {
    testing::ApiFault fault;
    if (call.is("create", "controllerrevisions")) fault = {.kind = testing::ApiFault::Kind::kStatus, .code = 403};
    return fault;
  });
  world.patch_nodeset("foo", "{spec: {replicas: 4, slurmd: {image: \"slurmd:26.06\"}}}");
  world.pass(30s);
  const json::Value pod = *world.api.get(r::kPods, {"slurm", "foo-1"});
  const NamespacedName node{"", std::string(json::string_at(pod, {"spec", "nodeName"}))};
  world.api.patch(r::kNodes, node, json::parse(R"({"spec":{"unschedulable":true}})"));
  world.pass(1min);
  const auto drains = [&](const char* name) {
    return world.slurm.model().node(name)->view.states.has(slurm::NodeFlag::kDrain);
  };
  EXPECT_TRUE(drains("foo-1")) << world.events();
  EXPECT_FALSE(drains("foo-0") || drains("foo-2")) << "for what nobody can be updated to";
  EXPECT_EQ(world.pods("foo").size(), 3U);
  world.api.set_faults({});
  world.api.patch(r::kNodes, node, json::parse(R"({"spec":{"unschedulable":null}})"));
  EXPECT_TRUE(world.settles("foo", 4, 6min)) << world.events();
}

// As where the API server quotes a whole pod template.
TEST(NodeSetDriverPass, OfALongRefusalTheBeginningIsSaid) {
  DriverWorld world(5);
  ASSERT_TRUE(world.runs("foo", 3)) << world.events();
  world.api.set_admission([](testing::Admission& asked) -> Task<> {
    if (json::string_at(asked.object, {"kind"}) == "ControllerRevision") {
      throw testing::ApiFailure(422, "Invalid", "data is no good: " + std::string(10'000, 'x'));
    }
    co_return;
  });
  world.patch_nodeset("foo", "{spec: {slurmd: {image: \"slurmd:26.06\"}}}");
  world.pass(1min);
  EXPECT_THAT(ready_of(world, "foo"), HasSubstr("data is no good: xxx"));
  EXPECT_LT(ready_of(world, "foo").size(), 2200);
}

// A webhook on pods/status that hangs.
TEST(NodeSetDriverPass, SlowConditionsOfPodsHoldUpNothing) {
  constexpr int kWorkers = 64;
  DriverWorld world(kWorkers + 1);
  ASSERT_TRUE(world.runs("foo", kWorkers)) << world.events();
  world.pass(10s);
  int begun = 0;
  world.api.set_faults([&](const testing::ApiCall& call) {
    testing::ApiFault fault;
    if (call.is("patch", "pods/status")) {
      fault = {.kind = testing::ApiFault::Kind::kStatus, .code = 500, .before = 10s};
      ++begun;
    }
    return fault;
  });
  for (int i = 0; i < kWorkers; ++i) world.job_on(fmt::format("foo-{}", i), 1h);
  ASSERT_TRUE(world.until([&] { return begun > 0; }, 1min));
  const json::Value pod = *world.api.get(r::kPods, {"slurm", "foo-9"});  // the last one by its name
  const NamespacedName node{"", std::string(json::string_at(pod, {"spec", "nodeName"}))};
  world.api.patch(r::kNodes, node, json::parse(R"({"spec":{"unschedulable":true}})"));
  world.patch_nodeset("foo", fmt::format("{{spec: {{replicas: {}}}}}", kWorkers + 1));
  EXPECT_TRUE(world.until(
      [&] {
        return world.slurm.model().node("foo-9")->view.states.has(slurm::NodeFlag::kDrain) &&
               world.api.get(r::kPods, {"slurm", fmt::format("foo-{}", kWorkers)});
      },
      25s))
      << world.events();
  // Where some are refused for ever the others have their turn.
  world.api.set_faults([&](const testing::ApiCall& call) {
    testing::ApiFault fault;
    if (call.is("patch", "pods/status") && !call.key.name.starts_with("foo-6")) {
      fault = {.kind = testing::ApiFault::Kind::kStatus, .code = 500, .before = 10s};
    }
    return fault;
  });
  EXPECT_TRUE(world.until(
      [&] {
        const json::Value last = *world.api.get(r::kPods, {"slurm", "foo-63"});
        return kube::find_condition(json::array_at(last, {"status", "conditions"}), "SlurmNodeStateMixed") != nullptr;
      },
      5min))
      << ready_of(world, "foo");
  EXPECT_THAT(world.killed_jobs, IsEmpty());
}

// Counts of a Slurm that nobody can ask are old: what goes by them, as the webhook, has to see that.
TEST(NodeSetDriverPass, ThatSlurmIsNotKnownIsAReasonOfItsOwn) {
  DriverWorld world;
  ASSERT_TRUE(world.runs("foo", 2)) << world.events();
  world.pass(10s);
  const json::Value controller = *world.api.get(kControllers, {"slurm", "slurm"});
  world.slurm.stop_controller();
  world.pass(1min);
  EXPECT_THAT(ready_of(world, "foo"), HasSubstr("false SlurmUnknown: 2 of 2 pods are available: Slurm is not known: "));
  world.api.remove(kControllers, {"slurm", "slurm"});
  world.pass(5s);
  EXPECT_THAT(ready_of(world, "foo"), HasSubstr("false ControllerMissing: "));
  world.custom(kControllers, "slurm", json::dump(*json::find(controller, {"spec"})));
  world.pass(2s);
  EXPECT_EQ(world.status("foo", "slurmAllocated"), 0) << "a guess";
  EXPECT_THAT(ready_of(world, "foo"), HasSubstr("false SlurmUnknown: "));
  world.slurm.start_controller();
  EXPECT_TRUE(world.until([&] { return ready_of(world, "foo").starts_with("true AsSpecified"); }, 3min))
      << ready_of(world, "foo");
}

}  // namespace
}  // namespace bascule::op::nodeset
