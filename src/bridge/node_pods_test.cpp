#include "bridge/node_pods.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bridge/names.hpp"

namespace bascule::bridge {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Why = NodePod::Why;

json::Interner interner;

struct NodePodsTest : testing::Test {
  NodePods pods{"bridge"};

  static std::shared_ptr<kube::Pod> pod(const std::string& name, const std::string& node) {
    auto made = std::make_shared<kube::Pod>();
    made->meta.key = {"slurm", name};
    made->node_name = interner(node);
    made->phase = kube::PodPhase::kRunning;
    return made;
  }
  static std::shared_ptr<kube::Pod> worker(const std::string& name, const std::string& node) {
    auto made = pod(name, node);
    made->meta.owners.push_back(
        {interner("slinky.slurm.net/v1beta1"), interner("NodeSet"), interner("gpu"), Uid("u"), true});
    return made;
  }
  static std::shared_ptr<kube::Pod> adrift(const std::string& name, const std::string& node) {
    auto made = pod(name, node);
    made->scheduler_name = interner("bridge");
    made->meta.labels = {{interner(names::kSlurmJobId), interner("7")}};
    made->conditions.emplace_back(interner(names::kSlurmJobKnown),
                                  kube::Condition{true, interner("False"), {}, interner("?")});
    return made;
  }
  static kube::Toleration toleration(const char* key, const char* value, const char* effect, bool exists) {
    return {interner(key), interner(value), interner(effect), exists};
  }
};

TEST_F(NodePodsTest, AWorkerCountsUnlessItToleratesTheTaint) {
  const PodPtr bare = worker("w", "n1");
  EXPECT_THAT(pods.on_pod(nullptr, bare), ElementsAre("n1"));
  EXPECT_EQ(pods.first("n1", Why::kWorker), (NodePod{Why::kWorker, {"slurm", "w"}, "slurm/gpu"}));
  EXPECT_FALSE(pods.first("n1", Why::kAdrift));
  EXPECT_FALSE(pods.first("n2", Why::kWorker));
  const kube::Toleration enough[] = {toleration("slinky.slurm.net/managed-node", "", "NoExecute", true),
                                     toleration("slinky.slurm.net/managed-node", "bridge", "", false),
                                     toleration("", "", "", true)};
  for (const kube::Toleration& one : enough) {
    const auto tolerant = worker("w", "n1");
    tolerant->tolerations.push_back(one);
    EXPECT_THAT(pods.on_pod(bare, tolerant), ElementsAre("n1"));
    EXPECT_FALSE(pods.first("n1", Why::kWorker));
    EXPECT_THAT(pods.on_pod(tolerant, bare), ElementsAre("n1"));
  }
  // Evicted after a while is evicted. Of several that cover a taint Kubernetes takes the first.
  const auto for_a_while = worker("w", "n1");
  for_a_while->tolerations = {toleration("slinky.slurm.net/managed-node", "", "NoExecute", true), enough[2]};
  for_a_while->tolerations.front().limited = true;
  EXPECT_THAT(pods.on_pod(bare, for_a_while), IsEmpty());
  const auto in_front = worker("w", "n1");
  in_front->tolerations = {enough[2], for_a_while->tolerations.front()};
  EXPECT_THAT(pods.on_pod(bare, in_front), ElementsAre("n1"));
  EXPECT_THAT(pods.on_pod(in_front, bare), ElementsAre("n1"));
  const kube::Toleration others[] = {toleration("slinky.slurm.net/managed-node", "another", "NoExecute", false),
                                     toleration("slinky.slurm.net/managed-node", "", "NoSchedule", true),
                                     toleration("nodeset.slinky.slurm.net/worker", "", "NoExecute", true)};
  for (const kube::Toleration& one : others) {
    const auto evicted = worker("w", "n1");
    evicted->tolerations.push_back(one);
    EXPECT_THAT(pods.on_pod(bare, evicted), IsEmpty());
  }
}

TEST_F(NodePodsTest, AWorkerCountsUntilItHasGone) {
  const PodPtr bound = worker("w", "n1");
  const auto waiting = worker("w", "");
  EXPECT_THAT(pods.on_pod(nullptr, waiting), IsEmpty());
  EXPECT_THAT(pods.on_pod(waiting, bound), ElementsAre("n1"));
  const auto going = worker("w", "n1");
  going->meta.deleted = WallTime{};
  EXPECT_THAT(pods.on_pod(bound, going), IsEmpty());
  EXPECT_TRUE(pods.first("n1", Why::kWorker));
  EXPECT_THAT(pods.on_pod(going, nullptr), ElementsAre("n1"));
  EXPECT_FALSE(pods.first("n1", Why::kWorker));
  const auto over = worker("v", "n1");
  over->phase = kube::PodPhase::kFailed;
  EXPECT_THAT(pods.on_pod(nullptr, over), IsEmpty());
  // of one name, and only one of the changes was seen
  EXPECT_THAT(pods.on_pod(nullptr, bound), ElementsAre("n1"));
  EXPECT_THAT(pods.on_pod(bound, worker("w", "n2")), ElementsAre("n1", "n2"));
  EXPECT_FALSE(pods.first("n1", Why::kWorker));
}

TEST_F(NodePodsTest, OthersDoNotCount) {
  const auto foreign = pod("w", "n1");
  foreign->meta.owners.push_back({interner("example.com/v1"), interner("NodeSet"), interner("x"), Uid("u"), true});
  EXPECT_THAT(pods.on_pod(nullptr, foreign), IsEmpty());
  EXPECT_THAT(pods.on_pod(nullptr, pod("p", "n1")), IsEmpty());
}

TEST_F(NodePodsTest, APodOfOursWhoseJobSlurmDoesNotKnowIsAdrift) {
  const PodPtr lost = adrift("b", "n1");
  EXPECT_THAT(pods.on_pod(nullptr, lost), ElementsAre("n1"));
  EXPECT_THAT(pods.on_pod(nullptr, adrift("a", "n1")), ElementsAre("n1"));
  EXPECT_EQ(pods.first("n1", Why::kAdrift), (NodePod{Why::kAdrift, {"slurm", "a"}, "7"}));
  EXPECT_FALSE(pods.first("n1", Why::kWorker));
  EXPECT_THAT(pods.on_pod(adrift("a", "n1"), nullptr), ElementsAre("n1"));
  const auto known = adrift("b", "n1");
  known->conditions.front().second.status = interner("True");
  EXPECT_THAT(pods.on_pod(lost, known), ElementsAre("n1"));
  EXPECT_FALSE(pods.first("n1", Why::kAdrift));
  const auto of_another = adrift("c", "n1");
  of_another->scheduler_name = interner("default-scheduler");
  EXPECT_THAT(pods.on_pod(nullptr, of_another), IsEmpty());
}

}  // namespace
}  // namespace bascule::bridge
