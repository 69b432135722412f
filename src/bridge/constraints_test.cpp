#include "bridge/constraints.hpp"

#include <gtest/gtest.h>

#include "bridge/names.hpp"
#include "json/error.hpp"

namespace bascule::bridge {
namespace {

json::Interner interner;

kube::StringMap map_of(std::vector<std::pair<std::string, std::string>> entries) {
  std::ranges::sort(entries);
  kube::StringMap out;
  for (const auto& [key, value] : entries) out.emplace_back(interner(key), interner(value));
  return out;
}
kube::ResourceList list_of(std::vector<std::pair<std::string, std::string>> entries) {
  std::ranges::sort(entries);
  kube::ResourceList out;
  for (const auto& [name, amount] : entries) out.emplace_back(interner(name), *Quantity::parse(amount));
  return out;
}
kube::Node node_with(std::vector<std::pair<std::string, std::string>> labels) {
  kube::Node node;
  node.meta.key = {"", "n1"};
  node.meta.labels = map_of(std::move(labels));
  node.allocatable = list_of({{"cpu", "8"}, {"memory", "32Gi"}, {"pods", "110"}});
  return node;
}
kube::Pod pod_with_affinity(std::string terms) {
  kube::Pod pod;
  pod.required_node_affinity = interner(R"({"nodeSelectorTerms":)" + terms + "}");
  return pod;
}
std::string why(const kube::Pod& pod, const kube::Node& node, When when = When::kBeforeSubmit) {
  return misfit(constraints_of(pod), node, when);
}

TEST(Constraints, NodeSelectorWantsEveryLabel) {
  kube::Pod pod;
  pod.node_selector = map_of({{"disk", "ssd"}, {"zone", "a"}});
  EXPECT_EQ(why(pod, node_with({{"disk", "ssd"}, {"zone", "a"}, {"more", ""}})), "");
  EXPECT_NE(why(pod, node_with({{"disk", "ssd"}})), "");
  EXPECT_NE(why(pod, node_with({{"disk", "hdd"}, {"zone", "a"}})), "");
}

// Operator by operator, against a node that has the label with value 5, one that has it empty, one that lacks it.
TEST(Constraints, AffinityOperators) {
  struct Case {
    const char* op;
    const char* values;
    bool five, empty, absent;
  };
  const Case cases[] = {
      {"In", R"(["4","5"])", true, false, false},     {"In", "[]", false, false, false},
      {"NotIn", R"(["5"])", false, true, true},       {"Exists", "[]", true, true, false},
      {"DoesNotExist", "[]", false, false, true},     {"Gt", R"(["4"])", true, false, false},
      {"Gt", R"(["5"])", false, false, false},        {"Lt", R"(["6"])", true, false, false},
      {"Gt", R"(["four"])", false, false, false},     {"Gt", R"(["1","2"])", false, false, false},
      {"Resembles", R"(["5"])", false, false, false},  // unknown: never on a guess
  };
  for (const Case& c : cases) {
    const kube::Pod pod = pod_with_affinity(std::string(R"([{"matchExpressions":[{"key":"k","operator":")") + c.op +
                                            R"(","values":)" + c.values + "}]}]");
    EXPECT_EQ(why(pod, node_with({{"k", "5"}})).empty(), c.five) << c.op << c.values;
    EXPECT_EQ(why(pod, node_with({{"k", ""}})).empty(), c.empty) << c.op << c.values;
    EXPECT_EQ(why(pod, node_with({})).empty(), c.absent) << c.op << c.values;
  }
}

// The webhook gives pods the toleration; those that it has not seen get it before they are bound.
TEST(Constraints, TheTaintOfThePodsOwnBridgeKeepsItOffNoNode) {
  kube::Pod pod;
  pod.scheduler_name = interner("slurm-bridge-scheduler");
  kube::Node node = node_with({});
  const auto tainted = [&](const char* value, const char* effect) {
    node.taints = {{interner(names::kManagedNodeTaint), interner(value), interner(effect)}};
    return why(pod, node) + why(pod, node, When::kBeforeBind);
  };
  EXPECT_EQ(tainted("slurm-bridge-scheduler", "NoExecute"), "");
  EXPECT_NE(tainted("slurm-bridge-scheduler", "NoSchedule"), "") << "somebody else's";
  EXPECT_NE(tainted("another-bridge", "NoExecute"), "");
  const auto needs = [&](kube::Toleration toleration) {
    pod.tolerations = {std::move(toleration)};
    return needs_toleration(pod);
  };
  const auto key = interner(names::kManagedNodeTaint);
  EXPECT_TRUE(needs_toleration(pod));
  EXPECT_FALSE(needs({key, interner("slurm-bridge-scheduler"), interner("NoExecute")}));
  EXPECT_FALSE(needs({key, {}, {}, true}));
  EXPECT_FALSE(needs({{}, {}, {}, true}));
  EXPECT_TRUE(needs({key, {}, {}, true, true})) << "for some seconds only";
  EXPECT_TRUE(needs({key, interner("slurm-bridge-scheduler"), interner("NoSchedule")}));
  EXPECT_TRUE(needs({key, interner("another-bridge"), interner("NoExecute")}));
  EXPECT_TRUE(needs({interner("other"), {}, {}, true}));
  // Of several that cover a taint Kubernetes takes the first.
  pod.tolerations = {{{}, {}, {}, true, true}, {key, {}, {}, true}};
  EXPECT_TRUE(needs_toleration(pod));
  std::ranges::reverse(pod.tolerations);
  EXPECT_FALSE(needs_toleration(pod));
}

TEST(Constraints, AnyTermWillDoButAllOfATermMustHold) {
  const kube::Pod pod = pod_with_affinity(
      R"([{"matchExpressions":[{"key":"a","operator":"Exists"},{"key":"b","operator":"Exists"}]},
          {"matchFields":[{"key":"metadata.name","operator":"In","values":["n1"]}],
           "matchExpressions":[{"key":"c","operator":"Exists"}]}])");
  EXPECT_EQ(why(pod, node_with({{"a", ""}, {"b", ""}})), "");
  EXPECT_EQ(why(pod, node_with({{"c", ""}})), "");
  EXPECT_NE(why(pod, node_with({{"a", ""}})), "");
  kube::Node other = node_with({{"c", ""}});
  other.meta.key.name = "n2";
  EXPECT_NE(why(pod, other), "");
}

TEST(Constraints, ATermWithoutAnythingHoldsForNoNode) {
  EXPECT_NE(why(pod_with_affinity("[{}]"), node_with({})), "");
  EXPECT_NE(why(pod_with_affinity("[]"), node_with({})), "");
  EXPECT_NE(why(pod_with_affinity(R"([{"matchFields":[{"key":"spec.x","operator":"Exists"}]}])"), node_with({})), "");
}

TEST(Constraints, TextThatIsNoAffinityIsAnError) {
  kube::Pod pod;
  pod.required_node_affinity = interner("{");
  EXPECT_THROW(constraints_of(pod), json::ParseError);
}

TEST(Constraints, Taints) {
  kube::Node node = node_with({});
  node.taints = {{interner("team"), interner("a"), interner("NoSchedule")}};
  kube::Pod pod;
  EXPECT_NE(why(pod, node).find("has the taint team"), std::string::npos);
  pod.tolerations = {{interner("team"), interner("b"), interner("NoSchedule"), false}};
  EXPECT_NE(why(pod, node), "");
  pod.tolerations = {{interner("team"), interner("a"), interner("NoSchedule"), false}};
  EXPECT_EQ(why(pod, node), "");
  pod.tolerations = {{{}, {}, {}, true}};
  EXPECT_EQ(why(pod, node), "") << "operator Exists without key tolerates all";
  pod.tolerations = {};
  node.taints[0].effect = interner("PreferNoSchedule");
  EXPECT_EQ(why(pod, node), "");
}

// What comes and goes is no property of a node: Slurm hears of it as a drain, and the pod waits.
TEST(Constraints, PassingTaintsCountOnlyBeforeBinding) {
  kube::Node node = node_with({});
  node.taints = {{interner("node.kubernetes.io/not-ready"), interner(""), interner("NoExecute")}};
  EXPECT_EQ(why({}, node, When::kBeforeSubmit), "");
  EXPECT_NE(why({}, node, When::kBeforeBind), "");
}

TEST(Constraints, Size) {
  kube::Pod pod;
  pod.requests = list_of({{"cpu", "8"}, {"memory", "32Gi"}});
  EXPECT_EQ(why(pod, node_with({})), "");
  pod.requests = list_of({{"cpu", "8001m"}});
  EXPECT_EQ(why(pod, node_with({})), "is too small: cpu");
  pod.requests = list_of({{"nvidia.com/gpu", "1"}});
  EXPECT_EQ(why(pod, node_with({})), "is too small: nvidia.com/gpu");
  pod.requests = list_of({{std::string(names::kDeviceClassPrefix) + "gpu.example.com", "1"}});
  EXPECT_EQ(why(pod, node_with({})), "") << "devices by class are Slurm's to count";
}

TEST(Constraints, ClassesDifferExactlyWhereAnAnswerCould) {
  kube::Pod a;
  a.requests = list_of({{"cpu", "1"}});
  kube::Pod b = a;
  b.meta.key = {"ns", "other"};
  b.priority = 7;
  EXPECT_EQ(class_of(a), class_of(b));
  b.node_selector = map_of({{"a", "b"}});
  EXPECT_NE(class_of(a), class_of(b));
  kube::Pod c = a;
  c.node_selector = map_of({{"ab", ""}});
  EXPECT_NE(class_of(b), class_of(c)) << "no two texts run together";
  kube::Pod d = a;
  d.tolerations = {{interner("k"), {}, {}, true}};
  EXPECT_NE(class_of(a), class_of(d));
  kube::Pod e = a;
  e.requests = list_of({{"cpu", "2"}});
  EXPECT_NE(class_of(a), class_of(e));
}

}  // namespace
}  // namespace bascule::bridge
