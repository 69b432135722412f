#include "operator/builders/worker.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/config/golden_test.hpp"
#include "operator/config/sample_test.hpp"

namespace bascule::op {
namespace {

using test::controller;
using test::expect_golden;
using test::node_set;
using test::readable;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

WorkerInput input(const NodeSet& set, const Controller& ctl) {
  return {set, ctl, "cluster.local", "key-hash", "sssd-hash"};
}

TEST(WorkerTest, MinimalPod) {
  const NodeSet set = node_set("gpu");
  const Controller ctl = controller();
  const WorkerIdentity identity{.name = "gpu-0", .hostname = "gpu-0", .index = "0", .revision = "h1"};
  expect_golden("builders/testdata/worker_minimal.golden", readable(worker_pod(input(set, ctl), identity)));
}

TEST(WorkerTest, EverythingInDaemonSetMode) {
  const NodeSet set = node_set("gpu", R"(
scalingMode: DaemonSet
ssh: {enabled: true, extraSshdConfig: Banner none, sssdConfRef: {name: sssd, key: sssd.conf}}
extraConf: Feature=a100 Gres=gpu:8 Weight=10
slurmd: {args: [-v], resources: {limits: {nvidia.com/gpu: 8, memory: 2Gi}}}
logfile: {image: "alpine:3"}
volumeClaimTemplates: [{metadata: {name: scratch}, spec: {resources: {requests: {storage: 1Gi}}}}]
template:
  metadata: {labels: {team: hpc}}
  spec:
    hostname: gpu-
    hostNetwork: true
    tolerations: [{key: gpu, operator: Exists}]
    affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: gpu, operator: Exists}]}]}}}
    volumes: [{name: scratch, emptyDir: {}}]
    containers: [{name: side, image: s}]
)");
  const Controller ctl = controller();
  const WorkerIdentity identity{
      .name = "", .hostname = "n1", .revision = "h1", .node = "n1.example", .topology = "topo-switch:s2"};
  expect_golden("builders/testdata/worker_everything.golden", readable(worker_pod(input(set, ctl), identity)));
}

// Else slurmd calls itself by the host's name: a node of dots, or of another name than Kubernetes', is never found.
TEST(WorkerTest, OnTheHostsNetworkSlurmdIsToldItsName) {
  const Controller ctl = controller();
  const auto slurmd_of = [&](std::string_view spec, std::string hostname) {
    const NodeSet set = node_set("a", spec);
    const json::Value pod = worker_pod(input(set, ctl), {.name = "a-0", .hostname = std::move(hostname)});
    return json::dump(*json::find(pod, {"spec", "containers"}));
  };
  EXPECT_THAT(slurmd_of("{template: {spec: {hostNetwork: true}}}", "a-0"),
              AllOf(HasSubstr(R"x("-N","$(POD_SLURM_NODE)"])x"),
                    HasSubstr(R"({"name":"POD_SLURM_NODE","valueFrom":{"fieldRef":{"fieldPath":"spec.nodeName"}}})")));
  EXPECT_THAT(slurmd_of("{scalingMode: DaemonSet, template: {spec: {hostNetwork: true}}}", "node1"),
              HasSubstr(R"({"name":"POD_SLURM_NODE","value":"node1"})"));
  EXPECT_THAT(slurmd_of("{slurmd: {args: [-N, x]}, template: {spec: {hostNetwork: true}}}", "a-0"),
              Not(HasSubstr("$(POD_SLURM_NODE)")));
  EXPECT_THAT(slurmd_of("{}", "a-0"), Not(HasSubstr(R"("-N")")));
}

TEST(WorkerTest, PinnedPodsKeepTheUsersAffinity) {
  // W11.
  const NodeSet set = node_set("a",
                               "template: {spec: {affinity: {nodeAffinity: "
                               "{requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
                               "[{matchExpressions: [{key: x, operator: Exists}]}, {matchFields: []}]}}}}}");
  const Controller ctl = controller();
  const json::Value pod = worker_pod(input(set, ctl), {.name = "a-0", .hostname = "a-0", .index = "0", .node = "n1"});
  EXPECT_EQ(
      json::dump(*json::find(pod, {"spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution",
                                   "nodeSelectorTerms"})),
      R"([{"matchExpressions":[{"key":"x","operator":"Exists"}],"matchFields":[{"key":"metadata.name",)"
      R"("operator":"In","values":["n1"]}]},{"matchFields":[{"key":"metadata.name","operator":"In","values":["n1"]}]}])");
}

}  // namespace
}  // namespace bascule::op
