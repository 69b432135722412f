#include "operator/nodeset/identity.hpp"

#include <set>

#include "operator/nodeset/test_support.hpp"

namespace bascule::op::nodeset {
namespace {

TEST(Identity, Ordinals) {
  EXPECT_EQ(ordinal_of("foo-0"), 0);
  EXPECT_EQ(ordinal_of("foo-012"), 12);
  EXPECT_EQ(ordinal_of("foo-bar-7"), 7);
  EXPECT_EQ(ordinal_of("foo"), -1);
  EXPECT_EQ(ordinal_of("foo-"), -1);
  EXPECT_EQ(ordinal_of("foo-1a"), -1);
  EXPECT_EQ(ordinal_of("foo-2147483647"), 2147483647);
  EXPECT_EQ(ordinal_of("foo-2147483648"), -1);
  EXPECT_EQ(padded(7, 0), "7");
  EXPECT_EQ(padded(7, 3), "007");
  EXPECT_EQ(padded(1234, 3), "1234");
}

TEST(Identity, SlurmNames) {
  PodView pod;
  pod.name = "foo-1";
  pod.mode_label = "StatefulSet";
  EXPECT_EQ(slurm_name_of(pod), "foo-1");
  pod.hostname = "gpu-1";
  EXPECT_EQ(slurm_name_of(pod), "gpu-1");
  pod.host_network = true;
  EXPECT_EQ(slurm_name_of(pod), "");
  pod.node = "k1";
  EXPECT_EQ(slurm_name_of(pod), "k1");
  pod.mode_label = "DaemonSet";
  EXPECT_EQ(slurm_name_of(pod), "gpu-1");
}

TEST(Identity, HostnamesOfNodes) {
  const auto hostname = [](std::string name, std::optional<std::string> override_with = {}) {
    NodeView node;
    node.name = std::move(name);
    node.hostname_override = std::move(override_with);
    return hostname_of(node);
  };
  EXPECT_EQ(hostname("node-1"), "node-1");
  EXPECT_EQ(hostname("node1.us-west-2.compute.internal"), "node1");
  EXPECT_EQ(hostname("node-1-"), "node-1-");
  EXPECT_EQ(hostname(""), "");
  EXPECT_EQ(hostname("node-1", "custom-hostname"), "custom-hostname");
  EXPECT_EQ(hostname("node-1", ""), "node-1");
  EXPECT_FALSE(hostname_fault("node-1"));
  EXPECT_TRUE(hostname_fault(""));
  EXPECT_TRUE(hostname_fault("node-1-"));
  EXPECT_TRUE(hostname_fault(std::string(64, 'a')));
}

TEST(Identity, WhosePod) {
  Spec spec;
  spec.name = "foo";
  const auto claim = [&](std::string name, Owner owner, bool selected = true, std::string generate_name = {},
                         std::string cluster = {}) {
    PodView pod;
    pod.name = std::move(name);
    pod.generate_name = std::move(generate_name);
    pod.owner = owner;
    pod.selected = selected;
    pod.cluster = std::move(cluster);
    return claiming_of(spec, pod);
  };
  EXPECT_EQ(claim("anything", Owner::kUs), Claiming::kKeep);
  EXPECT_EQ(claim("foo-1", Owner::kUs, false), Claiming::kRelease);
  EXPECT_EQ(claim("foo-1", Owner::kOther), Claiming::kIgnore);
  EXPECT_EQ(claim("foo-gpu-1234", Owner::kNone), Claiming::kIgnore);
  EXPECT_EQ(claim("foo-0", Owner::kNone), Claiming::kAdopt);
  spec.controller = "b";
  EXPECT_EQ(claim("foo-0", Owner::kNone), Claiming::kIgnore) << "its label names no Controller";
  EXPECT_EQ(claim("foo-0", Owner::kNone, true, {}, "a"), Claiming::kIgnore) << "its jobs are another cluster's";
  EXPECT_EQ(claim("foo-0", Owner::kNone, true, {}, "b"), Claiming::kAdopt);
  EXPECT_EQ(claim("foo-0", Owner::kUs, true, {}, "a"), Claiming::kKeep);
  spec.controller.clear();
  EXPECT_EQ(claim("foo-0", Owner::kNone, false), Claiming::kIgnore);
  EXPECT_EQ(claim("unrelated", Owner::kNone), Claiming::kIgnore);
  spec.mode = ScalingMode::kDaemonSet;
  EXPECT_EQ(claim("foo-x1", Owner::kNone, true, "foo-"), Claiming::kAdopt);
  EXPECT_EQ(claim("foo-gpu-x1", Owner::kNone, true, "foo-gpu-"), Claiming::kIgnore);
  spec.deleted = kNow;
  EXPECT_EQ(claim("foo-x1", Owner::kNone, true, "foo-"), Claiming::kIgnore);
  EXPECT_EQ(claim("foo-x1", Owner::kUs, false), Claiming::kIgnore);
}

TEST(Identity, NewPods) {
  Spec spec;
  spec.name = "foo";
  spec.padding = 2;
  spec.claim_templates = {"data"};
  CreatePod pod = make_stateful(spec, {}, 3, "h");
  EXPECT_EQ(pod.name, "foo-03");
  EXPECT_EQ(pod.hostname, "foo-03");
  EXPECT_EQ(pod.labels.at("nodeset.slinky.slurm.net/pod-index"), "03");
  EXPECT_EQ(pod.labels.at("nodeset.slinky.slurm.net/pod-name"), "foo-03");
  EXPECT_EQ(pod.labels.at("controller.kubernetes.io/hash"), "h");
  EXPECT_EQ(pod.claims.at("data"), "data-foo-03");
  EXPECT_FALSE(make_stateful(spec, {}, 3, "").labels.contains("controller.kubernetes.io/hash"));
  spec.template_hostname = "gpu-";
  EXPECT_EQ(make_stateful(spec, {}, 3, "h").hostname, "gpu-03");

  NodeView node;
  node.name = "k1.example.com";
  pod = make_daemon(spec, node, "h");
  EXPECT_EQ(pod.hostname, "k1");
  EXPECT_EQ(pod.only_node, "k1.example.com");
  EXPECT_EQ(pod.generate_name, "foo-");
  EXPECT_EQ(pod.name, make_daemon(spec, node, "other").name) << "a repeated create finds the first one's pod";
  EXPECT_EQ(ordinal_of(pod.name), -1);
  EXPECT_EQ(pod.claims.at("data"), "data-foo-k1");
}

// A label bears a pod's name, and a NodeSet may have as many characters as a label.
TEST(Identity, ADaemonOfANodeSetWithALongNameHasALabel) {
  NodeView node;
  node.name = "k1";
  Spec spec;
  spec.name = std::string(52, 'a');
  EXPECT_EQ(make_daemon(spec, node, "h").name.substr(0, 54), spec.name + "-n") << "as it was";
  std::set<std::string> names;
  for (const char* end : {"b", "c"}) {
    spec.name = std::string(51, 'a') + "-.2345678901" + end;
    const CreatePod pod = make_daemon(spec, node, "h");
    EXPECT_LE(pod.labels.at("nodeset.slinky.slurm.net/pod-name").size(), 63U);
    EXPECT_EQ(pod.name.substr(0, 53), std::string(51, 'a') + "-n");
    EXPECT_EQ(pod.generate_name, spec.name + "-") << "it tells whose orphan a pod is";
    names.insert(pod.name);
    node.name = "k2";
    names.insert(make_daemon(spec, node, "h").name);
    node.name = "k1";
  }
  EXPECT_EQ(names.size(), 4U);
}

TEST(Identity, W21_ClaimsAreFoundAtTheirOldPadding) {
  Spec spec;
  spec.name = "foo";
  spec.padding = 3;
  std::map<std::string, ClaimView> claims;
  claims["data-foo-07"].name = "data-foo-07";
  EXPECT_EQ(claim_for(spec, claims, "data", 7), "data-foo-07");
  EXPECT_EQ(claim_for(spec, claims, "data", 8), "data-foo-008");
  claims["data-foo-007"].name = "data-foo-007";
  EXPECT_EQ(claim_for(spec, claims, "data", 7), "data-foo-007");
  claims["data-foo-bar-8"].name = "data-foo-bar-8";
  EXPECT_EQ(claim_for(spec, claims, "data", 8), "data-foo-008") << "of NodeSet foo-bar";
}

TEST(Identity, LabelsAreMended) {
  Spec spec;
  spec.name = "foo";
  spec.padding = 4;  // newer than the pod
  PodView pod;
  pod.name = "foo-02";
  pod.hostname = "foo-02";
  auto labels = identity_labels(spec, pod);
  EXPECT_EQ(labels.at("nodeset.slinky.slurm.net/pod-index"), "02");
  EXPECT_EQ(labels.at("nodeset.slinky.slurm.net/pod-name"), "foo-02");
  EXPECT_EQ(labels.at("nodeset.slinky.slurm.net/pod-hostname"), "foo-02");
  EXPECT_EQ(labels.at("nodeset.slinky.slurm.net/scaling-mode"), "StatefulSet");
  pod.mode_label = "StatefulSet";
  pod.name_label = pod.hostname_label = "foo-02";
  pod.index_label = "02";
  EXPECT_TRUE(identity_labels(spec, pod).empty());
}

TEST(Identity, W22_HostNetworkPodsAreLabelledWhenTheirNodeIsKnown) {
  Spec spec;
  spec.name = "foo";
  PodView pod;
  pod.name = pod.name_label.emplace("foo-0");
  pod.mode_label = "StatefulSet";
  pod.index_label = "0";
  pod.hostname_label = "foo-0";
  pod.host_network = true;
  EXPECT_TRUE(identity_labels(spec, pod).empty());
  pod.node = "k7";
  EXPECT_EQ(identity_labels(spec, pod).at("nodeset.slinky.slurm.net/pod-hostname"), "k7");
}

}  // namespace
}  // namespace bascule::op::nodeset
