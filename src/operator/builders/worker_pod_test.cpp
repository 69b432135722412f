#include "operator/builders/worker.hpp"

#include <gtest/gtest.h>

#include "operator/config/golden_test.hpp"
#include "operator/config/sample_test.hpp"

namespace bascule::op {
namespace {

using test::controller;
using test::expect_golden;
using test::node_set;
using test::readable;

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
