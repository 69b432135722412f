// Explanations of nodes against the fake API server.
#include "bridge/explain_node.hpp"

#include "bridge/explain_test.hpp"

namespace bascule::bridge {
namespace {

using ::testing::HasSubstr;

struct ExplainNode : ExplainTest {
  struct Is {
    bool labelled = true, tainted = true, cordoned = false, ready = true;
    std::string reason = {}, message = {};  // of SlurmReady=False
  };
  void node(const Is& is) {
    json::Value value = testing::make_node({.name = "n1", .ready = is.ready});
    if (is.labelled) json::at_or_create(value, {"metadata", "labels", names::kExternalNode}) = "true";
    if (is.tainted) {
      json::at_or_create(value, {"spec", "taints"}) = json::Array{json::Object{
          {"key", names::kManagedNodeTaint}, {"value", "slurm-bridge-scheduler"}, {"effect", "NoExecute"}}};
    }
    if (is.cordoned) json::at_or_create(value, {"spec", "unschedulable"}) = true;
    if (!is.reason.empty()) {
      value.at("status")
          .at("conditions")
          .get_array()
          .push_back(json::Object{
              {"type", "SlurmReady"}, {"status", "False"}, {"reason", is.reason}, {"message", is.message}});
    }
    if (api.get(kube::resources::kNodes, {"", "n1"})) api.remove(kube::resources::kNodes, {"", "n1"});
    json::Value made = api.create(kube::resources::kNodes, value);
    made.get_object()["status"] = value.at("status");
    api.update(kube::resources::kNodes, std::move(made), "status");
  }
  void said(const std::string& minute, const std::string& reason, const std::string& note) {
    api.create(kube::resources::kEvents,
               json::Object{{"apiVersion", "events.k8s.io/v1"},
                            {"kind", "Event"},
                            {"metadata", json::Object{{"namespace", "default"}, {"name", "e" + minute}}},
                            {"eventTime", "2026-01-01T00:" + minute + ":00.000000Z"},
                            {"reason", reason},
                            {"note", note},
                            {"type", "Normal"},
                            {"action", "Syncing"},
                            {"reportingController", "c"},
                            {"reportingInstance", "i"},
                            {"regarding", json::Object{{"kind", "Node"}, {"name", "n1"}}}});
  }
  Explanation explained() { return testing::run(loop, read_node_explanation(client, "n1")); }
  std::string verdict() { return explained().verdict; }
  std::string next() { return explained().next; }
};

TEST_F(ExplainNode, OneThatIsNotThere) {
  try {
    explained();
    FAIL();
  } catch (const NothingToExplain& error) {
    EXPECT_STREQ(error.what(), "there is no node n1");
  }
}

TEST_F(ExplainNode, OneInService) {
  node({});
  said("01", "SlurmRegistering", "registering in Slurm as external node n1");
  const Explanation e = explained();
  EXPECT_EQ(e.verdict, "Slurm may start jobs on the node.");
  EXPECT_THAT(to_text(e, false), HasSubstr("node n1\nSlurm may start jobs on the node.\nNothing to do.\n"));
  EXPECT_EQ(json::string_at(to_json(e), {"node"}), "n1");
  EXPECT_EQ(e.events.size(), 1u);
}

// slurmctld has lost its external nodes; the taint stays.
TEST_F(ExplainNode, OneThatSlurmHasLostAndRefuses) {
  node({});
  said("01", "SlurmRegistering", "registering in Slurm as external node n1");
  said("02", "SlurmRefused", "Slurm says: no partition p");
  EXPECT_EQ(verdict(),
            "Slurm does not have the node, or not as it is wanted, by its last event: Slurm says: no "
            "partition p.");
  EXPECT_THAT(next(), HasSubstr("`scontrol show node n1`"));
  said("03", "SlurmRegistrationWaits", "the node will be registered in Slurm as soon as it is ready");
  EXPECT_THAT(verdict(), HasSubstr("Slurm does not have the node, by its last event: the node will be registered"));
}

// What is refused of a node in service, as a topology that Slurm does not know, takes it from nobody.
TEST_F(ExplainNode, OneInServiceIsNotDenied) {
  node({});
  said("01", "SlurmRegistering", "registering in Slurm as external node n1");
  said("02", "SlurmTopologyInvalid", "annotation topology.slinky.slurm.net/spec: \"x\" is not a topology");
  EXPECT_THAT(verdict(), HasSubstr("or not as it is wanted"));
  said("03", "SlurmNodeUnmarked", "the field extra of Slurm node n1 is in use");
  EXPECT_EQ(verdict(), "Slurm may start jobs on the node.");
}

// A failed epilog behind the text of our undrain.
TEST_F(ExplainNode, OneThatSlurmItselfDrainedIsNotTheBridgesToResume) {
  node({.reason = "Drained",
        .message = "slurm-bridge: corresponding Kubernetes node (n1) is schedulable (cluster c) (slurm)"});
  EXPECT_THAT(next(), HasSubstr("Slurm itself drained it"));
}

TEST_F(ExplainNode, WhoDrainedItSaysWhoResumesIt) {
  node({.reason = "Drained", .message = "disk broken (root)"});
  EXPECT_EQ(verdict(), "Slurm starts nothing on the node: disk broken (root) (Drained).");
  EXPECT_THAT(next(), HasSubstr("`scontrol update nodename=n1 state=resume`"));
  node({.cordoned = true, .reason = "Draining", .message = "slurm-bridge: cordoned (slurm)"});
  EXPECT_EQ(next(), "The bridge resumes it after `kubectl uncordon n1`.");
  node({.ready = false, .reason = "Drained", .message = "slurm-bridge: not ready (slurm)"});
  EXPECT_THAT(next(), HasSubstr("see to its kubelet"));
  node({.reason = "Down", .message = "Not responding (slurm)"});
  EXPECT_THAT(next(), HasSubstr("`scontrol show node n1`"));
  node({.reason = "Maintenance", .message = "without a reason"});
  EXPECT_THAT(next(), HasSubstr("scontrol show reservation"));
}

TEST_F(ExplainNode, OneThatIsNotRegisteredSaysTheNewestReason) {
  node({.tainted = false});
  EXPECT_EQ(verdict(), "The node is to be an external node of Slurm and is none yet.");
  EXPECT_THAT(next(), HasSubstr("the log of the bridge's controllers"));
  said("01", "SlurmRegistrationWaits", "the node will be registered in Slurm as soon as it is ready");
  said("02", "SlurmPartitionUnknown", "Slurm has no partition gpu; create it or correct the annotation");
  said("03", "NodeReady", "kubelet's");
  EXPECT_THAT(verdict(), HasSubstr("is none yet: Slurm has no partition gpu;"));
  EXPECT_THAT(next(), HasSubstr("slurm.conf"));
}

TEST_F(ExplainNode, OneThatNobodySharesSaysHow) {
  node({.labelled = false, .tainted = false});
  EXPECT_EQ(verdict(), "The node is not shared with Slurm.");
  EXPECT_THAT(next(), HasSubstr("scheduler.slinky.slurm.net/external-node=true"));
  said("01", "SlurmTaintWaits", "pod slurm/w-0 of NodeSet slurm/w does not tolerate the taint");
  EXPECT_THAT(verdict(), HasSubstr("Slurm has the node, but it goes without the taint"));
  EXPECT_THAT(next(), HasSubstr("Give the NodeSet the toleration"));
}

}  // namespace
}  // namespace bascule::bridge
