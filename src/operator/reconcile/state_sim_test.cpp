// The whole operator and what slurmctld's state hangs on: its pods, its claim.
#include "operator/reconcile/operator_sim_world_test.hpp"

namespace bascule::op::reconcile::test {
namespace {

// Its pods are slurmctld: they go on, and the new one takes them over.
TEST(StateSim, A30_S42_AStatefulSetThatIsMadeAnewLeavesItsPods) {
  World w(30);
  w.process.start();
  w.whole_cluster();
  w.settle();
  const json::Value before = w.get(kStatefulSets, "slurm-controller");
  const std::string uid(json::string_at(before, {"metadata", "uid"}));
  json::Value pod = json::parse_yaml(
      "{apiVersion: v1, kind: Pod, metadata: {name: x-0, namespace: slurm}, spec: {containers: [{name: a, image: "
      "a}]}}");
  json::at_or_create(pod, {"metadata", "ownerReferences"}) = json::Array{
      json::Object{{"apiVersion", "apps/v1"}, {"kind", "StatefulSet"}, {"name", "slurm-controller"}, {"uid", uid}}};
  w.api.create(kube::resources::kPods, std::move(pod));
  // Garbage collection takes its time.
  w.patch(kStatefulSets, "slurm-controller", "{metadata: {finalizers: [wait]}, spec: {serviceName: other}}");
  w.loop.advance(1s);
  const json::Value going = w.get(kStatefulSets, "slurm-controller");
  EXPECT_NE(json::string_at(going, {"metadata", "deletionTimestamp"}), "");
  w.api.reset_counts();
  w.settle(10s);
  EXPECT_EQ(w.api.calls("patch", "statefulsets") + w.api.calls("delete", "statefulsets"), 0u);
  EXPECT_THAT(w.ready(kControllers, "slurm"), HasSubstr("StatefulSet slurm-controller is being deleted"));
  w.patch(kStatefulSets, "slurm-controller", "{metadata: {finalizers: null}}");
  w.settle();
  const json::Value after = w.get(kStatefulSets, "slurm-controller");
  EXPECT_NE(json::string_at(after, {"metadata", "uid"}), uid);
  EXPECT_EQ(json::string_at(after, {"spec", "serviceName"}), json::string_at(before, {"spec", "serviceName"}));
  EXPECT_TRUE(w.api.get(kube::resources::kPods, {"slurm", "x-0"}));
  EXPECT_EQ(w.ready(kControllers, "slurm"), "True ");
}

// Without the webhook, or made after the Controller.
TEST(StateSim, AClaimThatSeveralSlurmctldsCannotShareIsAFault) {
  World w(31);
  w.whole_cluster();
  w.patch(kControllers, "slurm", "{spec: {ha: {enabled: true}, persistence: {existingClaim: state}}}");
  w.process.start();
  w.settle();
  EXPECT_THAT(w.ready(kControllers, "slurm"), ::testing::Not(HasSubstr("claim state")));
  const auto claim = [](std::string_view mode) {
    return json::parse_yaml(
        fmt::format("{{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {{name: state, namespace: "
                    "slurm}}, spec: {{accessModes: [{}]}}}}",
                    mode));
  };
  w.api.create(kClaims, claim("ReadWriteOnce"));
  w.settle(2min);
  EXPECT_THAT(w.ready(kControllers, "slurm"), HasSubstr("False claim state, named in spec.persistence.existingClaim"));
  w.api.reset_counts();
  w.settle(10min);
  EXPECT_LE(w.api.calls("get", "persistentvolumeclaims"), 11u);
  w.api.erase(kClaims, {"slurm", "state"});
  w.api.create(kClaims, claim("ReadWriteMany"));
  w.settle(2min);
  EXPECT_THAT(w.ready(kControllers, "slurm"), ::testing::Not(HasSubstr("claim state")));
}

}  // namespace
}  // namespace bascule::op::reconcile::test
