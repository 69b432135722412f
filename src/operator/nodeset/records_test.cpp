#include "operator/nodeset/records.hpp"

#include "operator/nodeset/pod_status.hpp"
#include "operator/nodeset/test_support.hpp"

namespace bascule::op::nodeset {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Records, Text) {
  EXPECT_EQ(print_record({}), R"({"namespace":"","podName":"","node":""})");
  const PodRecord full{"ns", "foo-0", "k0", "foo", "uid"};
  EXPECT_EQ(print_record(full),
            R"({"namespace":"ns","podName":"foo-0","node":"k0","nodeSetName":"foo","nodeSetUID":"uid"})");
  EXPECT_EQ(parse_record(print_record(full)), full);
  EXPECT_EQ(parse_record(R"( { "podName" : "p" , "later" : "x" } )"),
            (PodRecord{.ns = "", .pod = "p", .node = "", .nodeset = "", .nodeset_uid = ""}));
  EXPECT_EQ(parse_record("{}"), PodRecord{});
  for (const char* bad :
       {"", "text", "{", R"({"a")", R"({"a":1})", R"({"a":"b"} x)", R"({"a":"\u0041"})", R"({"a":"b",})"}) {
    EXPECT_FALSE(parse_record(bad)) << bad;
  }
}

TEST(Records, Defunct) {
  Spec spec;
  spec.ns = "slurm";
  spec.name = "foo";
  spec.uid = Uid("u");
  const auto defunct = [&](std::string_view states, PodRecord record) {
    SlurmNodeView node = slurm_node("n", states);
    node.comment = print_record(record);
    return is_defunct(spec, node);
  };
  const PodRecord own{"slurm", "foo-0", "k0", "foo", "u"};
  EXPECT_TRUE(defunct("DOWN+NOT_RESPONDING", own));
  EXPECT_FALSE(defunct("DOWN", own));
  EXPECT_FALSE(defunct("IDLE+NOT_RESPONDING", own));
  EXPECT_FALSE(defunct("DOWN+NOT_RESPONDING", {"slurm", "foo-0", "k0", "foo", "of an earlier NodeSet"}));
  EXPECT_FALSE(defunct("DOWN+NOT_RESPONDING", {"slurm", "foo-0", "k0", "bar", "u"}));
  EXPECT_FALSE(defunct("DOWN+NOT_RESPONDING", {"other", "foo-0", "k0", "foo", "u"}));
  EXPECT_FALSE(defunct("DOWN+NOT_RESPONDING", {"slurm", "", "k0", "foo", "u"}));
  EXPECT_FALSE(defunct("DOWN+NOT_RESPONDING", {"slurm", "foo-0", "k0", "foo", ""}));
  EXPECT_FALSE(is_defunct(spec, slurm_node("n", "DOWN+NOT_RESPONDING")));
}

std::vector<std::string> pruned(const Plan& plan) {
  std::vector<std::string> names;
  for (const DeleteSlurmNode& what : all_of<DeleteSlurmNode>(plan)) names.push_back(what.node);
  return names;
}

struct Pruning : testing::Test {
  Fixture f{1};
  Pruning() {
    Spec& spec = f.state.spec;
    spec.mode = ScalingMode::kDaemonSet;
    spec.prune_records = true;
    f.state.pods.clear();
    f.state.nodes.clear();
    f.state.slurm.nodes.clear();
    defunct("h1", "foo-x", "k1");
  }
  void defunct(std::string name, std::string pod, std::string node) {
    SlurmNodeView& record = f.state.slurm.nodes[name] = slurm_node(name, "DOWN+NOT_RESPONDING");
    record.comment = print_record({"slurm", std::move(pod), std::move(node), "foo", "u"});
  }
};

TEST_F(Pruning, PodAndNodeGone) {
  EXPECT_THAT(pruned(f.plan()), ElementsAre("h1"));
}
TEST_F(Pruning, PodExists) {
  PodView& pod = f.add(0);
  pod.name = "foo-x";
  EXPECT_THAT(pruned(f.plan()), IsEmpty());
}
TEST_F(Pruning, NodeExistsAndHasThisHostname) {
  f.state.nodes["k1"].name = "k1";
  f.state.nodes["k1"].hostname_override = "h1";
  EXPECT_THAT(pruned(f.plan()), IsEmpty());
  f.state.nodes["k1"].hostname_override = "h2";
  EXPECT_THAT(pruned(f.plan()), ElementsAre("h1"));
}
TEST_F(Pruning, OnlyWhenAskedAndWhenSlurmIsKnown) {
  f.state.spec.prune_records = false;
  EXPECT_THAT(pruned(f.plan()), IsEmpty());
  f.state.spec.prune_records = true;
  f.state.slurm.known = false;
  EXPECT_THAT(pruned(f.plan()), IsEmpty());
}
TEST_F(Pruning, NotWithJobs) {
  f.state.slurm.nodes["h1"].has_jobs = true;
  EXPECT_THAT(pruned(f.plan()), IsEmpty());
}
// slurmctld ends such a job, waiting or running, when it next starts or is reconfigured.
TEST_F(Pruning, NotWhileAJobRequiresTheNode) {
  f.state.slurm.nodes["h1"].required_by = JobId{7};
  const Plan plan = f.plan();
  EXPECT_THAT(pruned(plan), IsEmpty());
  EXPECT_THAT(plan.waits, testing::Contains(testing::HasSubstr("until job 7, which requires it by name")));
  // So does the end of the NodeSet, for a while: it would leave the record to nobody.
  f.state.spec.deleted = f.now;
  f.state.spec.has_drain_finalizer = true;
  EXPECT_THAT(all_of<SetFinalizer>(f.plan()), IsEmpty());
  f.now += std::chrono::minutes(10);
  EXPECT_EQ(all_of<SetFinalizer>(f.plan()).size(), 1u);
}

TEST(Records, W43_RecordsOfScaledInPodsArePruned) {
  Fixture f(2);
  f.state.spec.prune_records = true;
  SlurmNodeView& gone = f.state.slurm.nodes["foo-2"] = slurm_node("foo-2", "DOWN+DRAIN+NOT_RESPONDING");
  gone.comment = print_record({"slurm", "foo-2", "k2", "foo", "u"});
  EXPECT_THAT(pruned(f.plan()), ElementsAre("foo-2"));
  f.state.spec.replicas = 3;  // it is about to be made again
  EXPECT_THAT(pruned(f.plan()), IsEmpty());
}

// On the host's network a pod has the name of its node: elsewhere it is another.
TEST(Records, ARecordThatAPodHasLeftIsPruned) {
  Fixture f(1);
  f.state.spec.prune_records = true;
  SlurmNodeView& left = f.state.slurm.nodes["k7"] = slurm_node("k7", "DOWN+NOT_RESPONDING");
  left.comment = print_record({"slurm", "foo-0", "k7", "foo", "u"});
  EXPECT_THAT(pruned(f.plan()), ElementsAre("k7"));
  f.pod(0).node.clear();
  EXPECT_THAT(pruned(f.plan()), IsEmpty()) << "it may come back there";
}

TEST(Records, AFreshAnswerIsAskedBeforeANodeIsDeleted) {
  SlurmNodeView node = slurm_node("n", "DOWN+NOT_RESPONDING");
  node.comment = "c";
  EXPECT_TRUE(may_prune({"n", "c"}, &node));
  EXPECT_FALSE(may_prune({"n", "c"}, nullptr));
  EXPECT_FALSE(may_prune({"n", "another pod"}, &node));
  node.has_jobs = true;
  EXPECT_FALSE(may_prune({"n", "c"}, &node));
}

TEST(Records, Features) {
  using List = std::vector<std::string>;
  EXPECT_EQ(with_features({"foo"}, {"a100"}), (List{"foo", "k8s/a100"}));
  EXPECT_EQ(with_features({"foo", "k8s/old"}, {"new"}), (List{"foo", "k8s/new"}));
  EXPECT_EQ(with_features({"foo", "k8s/old"}, {}), List{"foo"});
  EXPECT_EQ(with_features({"foo", "mig=on", "mig=off", "k8s/old"}, {"nn-a"}),
            (List{"foo", "k8s/nn-a", "mig=off", "mig=on"}));
  EXPECT_EQ(list_items(" b, a ,,b, location=us-east-2 "), (List{"a", "b", "location=us-east-2"}));
  EXPECT_EQ(list_items(""), List{});
}

TEST(Records, TopologyAndFeaturesOfTheNodeReachSlurm) {
  Fixture f(2);
  f.state.nodes["k0"].topology = "topo-switch:s2";
  f.state.nodes["k0"].features = "a100";
  f.node(0).features = f.node(0).active_features = {"foo"};
  Plan plan = f.plan();
  const auto writes = all_of<WriteSlurmNode>(plan);
  ASSERT_EQ(writes.size(), 2) << text_of(plan);
  EXPECT_EQ(writes[0].topology, "topo-switch:s2");
  EXPECT_EQ(writes[1].features, (std::vector<std::string>{"foo", "k8s/a100"}));
  EXPECT_EQ(patched(plan, "foo-0", names::kTopologySpec), "") << "not before Slurm was told";
  for (const Action& action : plan.actions) remember(f.memory, action, f.now);
  f.node(0).features = f.node(0).active_features = {"foo", "k8s/a100"};
  f.node(0).topology = "as Slurm spells it";
  f.now = f.state.slurm.as_of = kNow + 5s;
  plan = f.plan();
  EXPECT_EQ(patched(plan, "foo-0", names::kTopologySpec), "topo-switch:s2") << text_of(plan);
  f.pod(0).topology = "topo-switch:s2";
  EXPECT_TRUE(f.plan().at_rest()) << text_of(f.plan());
}

// The binding wrote the new node's topology into the pod, and slurmd starts with it; Slurm keeps what it knows of a
// node.
TEST(Records, APodThatMovedTellsSlurmItsTopologyOnce) {
  Fixture f(1);
  f.state.nodes["k0"].topology = f.pod(0).topology = "topo:s2";
  f.node(0).topology = "topo:s1";
  f.node(0).comment = print_record({"slurm", "foo-0", "k7", "foo", "u"});
  const auto told = [&] {
    std::vector<std::string> all;
    const Plan plan = f.plan();
    for (const Action& action : plan.actions) {
      const auto* write = std::get_if<WriteSlurmNode>(&action.what);
      if (write != nullptr && write->topology) all.push_back(*write->topology);
      remember(f.memory, action, f.now);
    }
    return all;
  };
  EXPECT_THAT(told(), ElementsAre("topo:s2"));
  f.node(0).topology = "as Slurm spells it";
  f.node(0).comment = print_record(record_of(f.state.spec, f.pod(0)));
  for (int i = 0; i < 40; ++i) {
    f.now = f.state.slurm.as_of = f.now + 30s;
    EXPECT_THAT(told(), IsEmpty());
  }
  f.pod(0).uid = Uid("another");
  EXPECT_THAT(told(), ElementsAre("topo:s2"));
}

TEST(Records, ANodeThatNamesNoTopologyLeavesSlurms) {
  Fixture f(1);
  f.node(0).topology = "topo:s1";
  EXPECT_TRUE(f.plan().at_rest()) << text_of(f.plan());
}

}  // namespace
}  // namespace bascule::op::nodeset
