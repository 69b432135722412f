#include "operator/reconcile/name_clash.hpp"

#include <fmt/format.h>

#include "operator/reconcile/test_view.hpp"

namespace bascule::op::reconcile::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const WallTime kNow = std::chrono::sys_days(std::chrono::year(2026) / 11 / 28);

std::string slurm_conf_of(const Plan& plan) {
  return std::string(json::string_at(child(plan, "ConfigMap"), {"data", "slurm.conf"}));
}

// Slurm has one space of names for both, and with a clash in its state slurmctld does not start.
TEST(NameClash, ANodeSetNamedLikeAnothersNodeHasNoLines) {
  MapView view = whole_namespace();
  const json::Value object = custom(kControllers, "slurm", kController);
  const auto add = [&view](std::string_view name, std::string_view more) {
    view.put(kNodeSets, custom(kNodeSets, name,
                               fmt::format("{{controllerRef: {{name: slurm}}, slurmd: {{image: s}}, "
                                           "partition: {{enabled: true}}, {}}}",
                                           more)));
  };
  add("h100", "replicas: 3");
  add("h100-2", "replicas: 1");
  add("h100-3", "replicas: 1");
  Plan plan = plan_controller(object, view, kNow);
  EXPECT_THAT(slurm_conf_of(plan),
              ::testing::AllOf(HasSubstr("NodeSet=h100 "), HasSubstr("NodeSet=h100-3 "), Not(HasSubstr("h100-2"))));
  ASSERT_THAT(plan.faults, ::testing::SizeIs(1));
  EXPECT_EQ(plan.faults[0].reason, "NodeSetNamedLikeNode");
  EXPECT_THAT(plan.faults[0].sentence, HasSubstr("NodeSet h100-2 is called in slurm.conf like node h100-2 of NodeSet "
                                                 "h100"));
  // Where it was first its jobs must not end: the node does not come, and that is said.
  view.put(kConfigMaps, config_map("slurm-config", {{"slurm.conf", "\nNodeSet=h100-2 Feature=h100-2\n"}}));
  plan = plan_controller(object, view, kNow);
  EXPECT_THAT(slurm_conf_of(plan), HasSubstr("PartitionName=h100-2"));
  EXPECT_THAT(plan.faults, ::testing::SizeIs(1));
  add("h100", "replicas: 2");
  EXPECT_THAT(plan_controller(object, view, kNow).faults, IsEmpty());
}

}  // namespace
}  // namespace bascule::op::reconcile::test
