#include "bridge/bridge_metrics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/manual_loop.hpp"
#include "bridge/node_sync.hpp"
#include "bridge/pod_sync.hpp"
#include "net/loopback.hpp"
#include "testing/fake_api.hpp"
#include "testing/fake_slurm.hpp"

namespace bascule::bridge {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct WaitingPodsTest : ::testing::Test {
  kube::Pod pod(const std::string& reason) {
    kube::Pod pod;
    pod.phase = kube::PodPhase::kPending;
    if (!reason.empty()) {
      pod.scheduled.present = true;
      pod.scheduled.status = interner("False");
      pod.scheduled.reason = interner(reason);
    }
    return pod;
  }
  std::string look(const std::vector<kube::Pod>& pods) {
    waiting.begin();
    for (const kube::Pod& one : pods) waiting.count(one);
    waiting.end();
    return metrics.text();
  }
  json::Interner interner;
  runtime::Metrics metrics;
  WaitingPods waiting{metrics};
};

std::string line(const std::string& reason, int count) {
  return "bascule_bridge_waiting_pods{reason=\"" + reason + "\"} " + std::to_string(count) + "\n";
}

TEST_F(WaitingPodsTest, AreCountedByWhatTheirUserIsTold) {
  const std::string text = look({pod("Unschedulable"), pod("SlurmRefused"), pod("Unschedulable"), pod("")});
  EXPECT_THAT(text, HasSubstr(line("Unschedulable", 2)));
  EXPECT_THAT(text, HasSubstr(line("SlurmRefused", 1)));
  EXPECT_THAT(text, HasSubstr(line("New", 1)));
}

TEST_F(WaitingPodsTest, WhoHasANodeOrIsOverDoesNotWait) {
  kube::Pod bound = pod("Unschedulable"), over = pod("Unschedulable");
  bound.node_name = interner("n1");
  over.phase = kube::PodPhase::kSucceeded;
  EXPECT_THAT(look({bound, over, pod("Unschedulable")}), HasSubstr(line("Unschedulable", 1)));
  EXPECT_THAT(look({bound}), HasSubstr(line("Unschedulable", 0)));
}

TEST_F(WaitingPodsTest, WordsOfStrangersAreBounded) {
  std::vector<kube::Pod> pods;
  for (int i = 0; i < 40; ++i) pods.push_back(pod("Word" + std::to_string(i)));
  const std::string text = look(pods);
  EXPECT_THAT(text, HasSubstr(line("Word0", 1)));
  EXPECT_THAT(text, Not(HasSubstr("Word32")));
  EXPECT_THAT(text, HasSubstr(line("other", 8)));
}

TEST(BridgeCounters, AreThereFromTheStart) {
  runtime::Metrics metrics;
  const SchedulerCounters scheduler(&metrics);
  const PodSyncCounters pods(&metrics);
  const NodeSyncCounters nodes(&metrics);
  scheduler.refused.add();
  for (const char* name : {"bascule_bridge_binds_total 0", "bascule_bridge_submits_total{result=\"refused\"} 1",
                           "bascule_bridge_submits_total{result=\"unknown\"} 0", "bascule_bridge_pods_deleted_total 0",
                           "bascule_bridge_jobs_cancelled_total 0", "bascule_bridge_stranded_nodes_freed_total 0"}) {
    EXPECT_THAT(metrics.text(), HasSubstr(name));
  }
  SchedulerCounters(nullptr).bound.add();
}

// Dashboards made for slurm-bridge filter by these names.
TEST(ControllerMetrics, HaveTheNamesOfSlurmBridges) {
  ManualLoop loop;
  testing::FakeApi api(loop);
  testing::FakeSlurm far(loop);
  const auto to_api = net::make_loopback(loop, api.handler());
  const auto to_slurm = net::make_loopback(loop, far.handler());
  kube::Client kube(loop, *to_api, {});
  slurm::Client slurm(loop, *to_slurm, {});
  json::Interner interner;
  kube::Informer<kube::Pod> pods(kube, {.resource = kube::resources::kPods}, kube::decode_pod, interner);
  kube::Informer<kube::Node> nodes(kube, {.resource = kube::resources::kNodes}, kube::decode_node, interner);
  slurm::ClusterMirror mirror(loop, slurm, {});
  kube::EventRecorder events(kube, "slurm-bridge-controllers", "test");
  runtime::Metrics metrics;
  const Config config;
  const PodSync pod_sync({kube, slurm, pods, mirror, events, &metrics}, {}, 1);
  const NodeSync node_sync({kube, slurm, nodes, mirror, events, &metrics}, config, {}, 1);
  for (const char* name : {"pod-controller", "node-controller"}) {
    EXPECT_THAT(metrics.text(), HasSubstr("controller=\"" + std::string(name) + "\""));
    EXPECT_THAT(metrics.text(), HasSubstr("name=\"" + std::string(name) + "\""));
  }
}

}  // namespace
}  // namespace bascule::bridge
