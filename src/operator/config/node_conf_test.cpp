#include "operator/config/node_conf.hpp"

#include <gtest/gtest.h>

#include "operator/config/sample_test.hpp"

namespace bascule::op {
namespace {

std::string argument(std::string_view extra, std::string_view hostname = "") {
  NodeSet set = test::node_set("gpu");
  set.extra_conf = extra;
  set.pod_template.spec = json::Object{{"hostname", hostname}};
  return node_conf(set).argument;
}

TEST(NodeOptionsTest, WordsWithValues) {
  EXPECT_TRUE(parse_node_options("")->empty());
  const auto options = parse_node_options("  Weight=10\tfeature=a,b\n FEATURE=c Features=d CPUs=1 ");
  ASSERT_TRUE(options);
  ASSERT_EQ(options->size(), 4U);
  EXPECT_EQ((*options)[1].key, "feature");  // A6: spelled as the user did
  EXPECT_EQ((*options)[1].values, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ((*options)[2].key, "Features");
  EXPECT_EQ((*options)[3].key, "CPUs");
}

TEST(NodeOptionsTest, FaultsNameTheWord) {
  EXPECT_EQ(parse_node_options("Feature=a Weight10").error(),
            "spec.extraConf: \"Weight10\" is no Key=Value; write it as in Weight=10 Features=a,b");
  EXPECT_FALSE(parse_node_options("=5"));
  EXPECT_FALSE(parse_node_options("Reason='x'"));
}

TEST(NodeConfTest, Argument) {
  EXPECT_EQ(argument(""), "'Features=gpu Topology=$(SLINKY_TOPOLOGY)'");
  EXPECT_EQ(argument("Weight=10 feature=a"), "'Features=a,gpu Topology=$(SLINKY_TOPOLOGY) Weight=10'");
  EXPECT_EQ(argument("Topology=default:s1 Weight=10"), "'Features=gpu Topology=default:s1 Weight=10'");
  EXPECT_EQ(argument("Features=b,a,gpu Feature=c Gres=gpu:1,gpu:2"),
            "'Features=a,b,c,gpu Gres=gpu:1,gpu:2 Topology=$(SLINKY_TOPOLOGY)'");
  EXPECT_EQ(argument("", "foo-"), "'Features=foo Topology=$(SLINKY_TOPOLOGY)'");
}

TEST(NodeConfTest, OnePieceWithoutShell) {
  // A13: what the user writes is data for the kubelet and for a shell.
  EXPECT_EQ(argument("Reason=$(SLURM_JWT)`x`$HOME"),
            "'Features=gpu Reason=$$(SLURM_JWT)`x`$$HOME Topology=$(SLINKY_TOPOLOGY)'");
  const std::string text = argument("Weight=10 Comment=\"a\"");
  EXPECT_EQ(std::ranges::count(text, '\''), 2);
}

TEST(NodeConfTest, FaultyExtraConfIsLeftOutAndSaid) {
  NodeSet set = test::node_set("gpu", "extraConf: Feature=a Weight10");
  const NodeConf conf = node_conf(set);
  EXPECT_EQ(conf.argument, "'Features=gpu Topology=$(SLINKY_TOPOLOGY)'");
  EXPECT_TRUE(conf.fault);
  EXPECT_EQ(node_features(set), std::vector<std::string>{"gpu"});
}

TEST(TopologyTest, OnlyWhatSlurmWrites) {
  EXPECT_TRUE(is_topology(""));
  EXPECT_TRUE(is_topology("topo-switch:s2,topo-block:b2.1_x/y"));
  EXPECT_FALSE(is_topology("a'; reboot; '"));
  EXPECT_FALSE(is_topology("a b"));
  EXPECT_FALSE(is_topology("$(id)"));
}

}  // namespace
}  // namespace bascule::op
