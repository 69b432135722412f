// What plans leave as it is for the jobs that run.
#include "operator/reconcile/apply.hpp"
#include "operator/reconcile/test_view.hpp"

namespace bascule::op::reconcile::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const WallTime kNow = std::chrono::sys_days(std::chrono::year(2026) / 11 / 28);

// Made anew over what another Controller has left: the webhook sees a new object only.
TEST(PlanForJobs, ASlurmctldWhoseStateIsElsewhereStaysAsItIs) {
  const std::string base(kController.substr(0, kController.rfind('}')));
  const std::string claim_a = base + ", persistence: {enabled: true, existingClaim: a}}";
  const std::string claim_b = base + ", persistence: {enabled: true, existingClaim: b}}";
  const std::string none = base + ", persistence: {enabled: false}}";
  const std::string other_name = base + ", clusterName: other}";
  const std::pair<std::string, std::string> cases[] = {{claim_a, claim_b},
                                                       {std::string(kController), other_name},
                                                       {std::string(kController), claim_a},
                                                       {claim_a, std::string(kController)},
                                                       {std::string(kController), none},
                                                       {none, std::string(kController)}};
  for (const auto& [before, after] : cases) {
    MapView view = whole_namespace();
    const Plan first = plan_controller(custom(kControllers, "slurm", before), view, kNow);
    view.put(kConfigMaps, child(first, "ConfigMap"));
    view.put(kStatefulSets, stamped(child(first, "StatefulSet")));
    const Plan plan = plan_controller(custom(kControllers, "slurm", after), view, kNow);
    ASSERT_THAT(plan.faults, ::testing::SizeIs(1)) << before << after;
    EXPECT_EQ(plan.faults[0].reason, "StateElsewhere");
    EXPECT_THAT(plan.faults[0].sentence, HasSubstr("would start without its jobs"));
    EXPECT_THAT(children_of(plan), ElementsAre("Service slurm-controller-internal", "Service slurm-controller"));
    EXPECT_THAT(plan_controller(custom(kControllers, "slurm", before), view, kNow).faults, IsEmpty());
  }
}

}  // namespace
}  // namespace bascule::op::reconcile::test
