#include "bridge/node_table.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "bridge/names.hpp"
#include "bridge/node_facts.hpp"
#include "slurm/hostlist.hpp"

namespace bascule::bridge {
namespace {

struct NodeTableTest : ::testing::Test {
  NodePtr make(const std::string& name, std::string zone = {}) {
    auto node = std::make_shared<kube::Node>();
    node->meta.key = {"", name};
    node->meta.uid = Uid("uid-" + name);
    if (!zone.empty()) node->meta.labels = {{interner("zone"), interner(zone)}};
    node->allocatable = {{interner("cpu"), Quantity(8)}, {interner("pods"), Quantity(2)}};
    return node;
  }
  static NodeTable::SlurmNodePtr make_slurm(const std::string& name, std::vector<std::string> partitions = {"p"}) {
    auto node = std::make_shared<slurm::Node>();
    node->name = name;
    node->partitions = std::move(partitions);
    return node;
  }
  void add(const std::string& name, std::string zone = {}) {
    table.on_node(nullptr, make(name, std::move(zone)));
    table.on_slurm_node(nullptr, make_slurm(name));
  }
  PodPtr pod(std::string zone = {}) {
    auto out = std::make_shared<kube::Pod>();
    out->meta.uid = Uid("pod-" + zone);
    if (!zone.empty()) out->node_selector = {{interner("zone"), interner(zone)}};
    return out;
  }
  json::Interner interner;
  NodeTable table;
};

TEST_F(NodeTableTest, ExcludesWhatDoesNotFitAndLeavesRoomForMore) {
  add("n1", "a");
  add("n2", "b");
  EXPECT_EQ(table.candidates({pod()}, "p").excluded, "") << "nothing is excluded, so what joins later may be used";
  const Candidates a = table.candidates({pod("a")}, "p");
  EXPECT_EQ(a.excluded, "n2");
  EXPECT_EQ(a.usable, 1u);
  add("n3", "a");
  EXPECT_EQ(table.candidates({pod("a")}, "p").usable, 2u) << "looked at again after a change";
}

TEST_F(NodeTableTest, NodesOfOtherPartitionsAreNobodysBusiness) {
  add("n1");
  table.on_node(nullptr, make("n2"));
  table.on_slurm_node(nullptr, make_slurm("n2", {"other"}));
  EXPECT_EQ(table.candidates({pod()}, "p").excluded, "");
  EXPECT_EQ(table.candidates({pod()}, "p").usable, 1u);
  EXPECT_EQ(table.candidates({pod()}, "").usable, 2u) << "no partition named: Slurm's default, not known here";
}

TEST_F(NodeTableTest, AnyOfSeveralPartitionsWillDo) {
  for (const char* name : {"n1", "n2", "n3"}) table.on_node(nullptr, make(name));
  table.on_slurm_node(nullptr, make_slurm("n1", {"gpu"}));
  table.on_slurm_node(nullptr, make_slurm("n2", {"debug", "other"}));
  table.on_slurm_node(nullptr, make_slurm("n3", {"other"}));
  EXPECT_EQ(table.candidates({pod()}, "gpu,debug").usable, 2u);
  EXPECT_EQ(table.candidates({pod()}, "gpu").usable, 1u);
}

TEST_F(NodeTableTest, GpusOfADevicePluginAreCountedOnlyWhereSlurmHasThem) {
  const auto put = [&](const std::string& name, std::string gres, bool external) {
    auto node = std::make_shared<kube::Node>(*make(name));
    node->allocatable.insert(node->allocatable.begin() + 1, {interner("nvidia.com/gpu"), Quantity(8)});
    table.on_node(nullptr, node);
    auto side = std::make_shared<slurm::Node>(*make_slurm(name));
    side->gres = std::move(gres);
    if (external) side->states.flags = static_cast<std::uint32_t>(slurm::NodeFlag::kExternal);
    table.on_slurm_node(nullptr, side);
    return side;
  };
  auto asks = std::make_shared<kube::Pod>(*pod());
  asks->requests = {{interner("nvidia.com/gpu"), Quantity(2)}};
  const auto first = put("n1", "", true);
  EXPECT_TRUE(table.candidates({asks}, "p").uncounted_gpus);
  EXPECT_EQ(table.candidates({asks}, "p").usable, 1u) << "Slurm decides";
  EXPECT_FALSE(table.candidates({pod()}, "p").uncounted_gpus) << "asks for none";
  auto counted = std::make_shared<slurm::Node>(*first);
  counted->gres = "gpu:8";
  table.on_slurm_node(first, counted);
  EXPECT_FALSE(table.candidates({asks}, "p").uncounted_gpus);
  table.on_slurm_node(counted, first);
  EXPECT_TRUE(table.candidates({asks}, "p").uncounted_gpus);
  put("n2", "", false);
  EXPECT_FALSE(table.candidates({asks}, "p").uncounted_gpus) << "slurmd knows";
}

TEST_F(NodeTableTest, SlurmNodesOutsideKubernetesAreExcluded) {
  add("n1");
  table.on_slurm_node(nullptr, make_slurm("hpc1"));
  EXPECT_EQ(table.candidates({pod()}, "p").excluded, "hpc1");
}

// A typo, or a node that takes another's name by its label: a pod must not land on the wrong one.
TEST_F(NodeTableTest, ANameThatTwoNodesHaveIsNobodys) {
  add("n1");
  add("n2");
  const auto named_alike = [this] {
    auto node = std::make_shared<kube::Node>(*make("impostor"));
    node->meta.labels = {{interner(names::kSlurmNodeName), interner("n1")}};
    return NodePtr(node);
  }();
  const NodePtr first = table.by_slurm_name("n1");
  ASSERT_TRUE(first);
  table.on_node(nullptr, named_alike);
  EXPECT_FALSE(table.by_slurm_name("n1"));
  EXPECT_EQ(table.absence("n1"), "is the name in Slurm of several Kubernetes nodes");
  EXPECT_EQ(table.candidates({pod()}, "p").excluded, "n1");
  table.on_node(first, first);  // its next heartbeat
  EXPECT_FALSE(table.by_slurm_name("n1"));
  table.on_node(named_alike, nullptr);
  EXPECT_EQ(table.by_slurm_name("n1"), first);
  EXPECT_EQ(table.candidates({pod()}, "p").excluded, "");
}

// Two clusters with nodes of the same name share one Slurm.
TEST_F(NodeTableTest, AnExternalNodeOfAnotherClusterIsNotOurs) {
  table.set_self({"bridge", "c1"});
  add("n1");
  add("n2");
  const auto marked = [](const std::string& name, const std::string& cluster, bool external = true) {
    auto node = std::make_shared<slurm::Node>(*make_slurm(name));
    if (external) node->states.flags |= static_cast<std::uint32_t>(slurm::NodeFlag::kExternal);
    node->extra = print_mark({"bridge", cluster, {}});
    return NodeTable::SlurmNodePtr(node);
  };
  EXPECT_EQ(table.candidates({pod()}, "p").excluded, "");
  const auto theirs = marked("n1", "c2");
  table.on_slurm_node(make_slurm("n1"), theirs);
  table.on_slurm_node(make_slurm("n2"), marked("n2", "c1"));
  EXPECT_EQ(table.candidates({pod()}, "p").excluded, "n1");
  EXPECT_FALSE(table.by_slurm_name("n1"));
  EXPECT_TRUE(table.by_slurm_name("n2"));
  EXPECT_EQ(table.absence("n1"), "is not a node of this Kubernetes cluster");
  table.on_slurm_node(theirs, marked("n1", "c2", false));
  EXPECT_EQ(table.candidates({pod()}, "p").excluded, "") << "a node with a slurmd may be of both";
  EXPECT_TRUE(table.by_slurm_name("n1"));
}

// The members of a gang share one job: each of its nodes must take any of them.
TEST_F(NodeTableTest, AGangNeedsNodesThatTakeEveryMember) {
  add("n1", "a");
  add("n2", "b");
  EXPECT_EQ(table.candidates({pod("a"), pod()}, "p").excluded, "n2");
  const Candidates none = table.candidates({pod("a"), pod("b")}, "p");
  EXPECT_EQ(none.usable, 0u);
  EXPECT_NE(none.why_none.find("2 nodes: 2 does not match"), std::string::npos) << none.why_none;
}

// Change by change the answers are those of a table made anew.
TEST_F(NodeTableTest, FollowsChangesAsIfLookedAtAnew) {
  std::mt19937 random(7);
  const auto dice = [&random](unsigned n) { return static_cast<int>(random() % n); };
  std::map<std::string, NodePtr> nodes;
  std::map<std::string, NodeTable::SlurmNodePtr> slurm;
  const std::vector<std::vector<PodPtr>> kinds{{pod()}, {pod("a")}, {pod("b")}, {pod("a"), pod("b")}};
  for (int step = 0; step < 3000; ++step) {
    const std::string name = "n" + std::to_string(dice(20));
    if (dice(2) == 0) {
      const NodePtr before = nodes[name];
      const NodePtr after = dice(3) == 0 ? nullptr : make(name, dice(2) == 0 ? "a" : "b");
      if (before || after) table.on_node(before, after);
      nodes[name] = after;
    } else {
      const auto before = slurm[name];
      const auto after = dice(3) == 0 ? nullptr : make_slurm(name, {dice(2) == 0 ? "p" : "q"});
      if (before || after) table.on_slurm_node(before, after);
      slurm[name] = after;
    }
    if (dice(4) != 0) continue;  // classes miss some changes
    NodeTable fresh;
    for (const auto& [key, node] : nodes) {
      if (node) fresh.on_node(nullptr, node);
    }
    for (const auto& [key, node] : slurm) {
      if (node) fresh.on_slurm_node(nullptr, node);
    }
    const std::vector<PodPtr>& kind = kinds[static_cast<std::size_t>(dice(4))];
    const Candidates want = fresh.candidates(kind, "p");
    const Candidates& got = table.candidates(kind, "p");
    ASSERT_EQ(got.excluded, want.excluded) << "step " << step;
    ASSERT_EQ(got.usable, want.usable) << "step " << step;
    ASSERT_EQ(got.why_none, want.why_none) << "step " << step;
  }
}

// W8: by the name in Slurm where it differs.
// Units that wait are looked at in the same order again and again; with a few more classes of pods than are remembered
// only a few are judged anew each time.
TEST_F(NodeTableTest, AClassTooManyCostsAFew) {
  constexpr int kNodes = 10;
  for (int i = 0; i < kNodes; ++i) add("n" + std::to_string(i), "0");
  const auto round = [this] {
    const std::uint64_t before = table.judged();
    for (int i = 0; i < 2'002; ++i) table.candidates({pod(std::to_string(i))}, "p");
    return table.judged() - before;
  };
  round();
  std::uint64_t judged = 0;
  for (int i = 0; i < 10; ++i) judged += round();
  EXPECT_LT(judged, 10u * 100 * kNodes);
}

TEST_F(NodeTableTest, NamesAreTranslated) {
  auto node = std::make_shared<kube::Node>(*make("k1"));
  node->meta.labels = {{interner(names::kSlurmNodeName), interner("s1")}};
  table.on_node(nullptr, node);
  table.on_slurm_node(nullptr, make_slurm("s1"));
  EXPECT_EQ(table.by_slurm_name("s1"), node);
  EXPECT_EQ(table.by_slurm_name("k1"), nullptr);
  EXPECT_EQ(table.candidates({pod()}, "p").usable, 1u);
}

TEST_F(NodeTableTest, HeartbeatsChangeNoAnswer) {
  add("n1");
  const std::uint64_t before = table.generation();
  auto beat = std::make_shared<kube::Node>(*table.by_slurm_name("n1"));
  beat->meta.resource_version = "99";
  beat->ready.status = interner("True");
  table.on_node(table.by_slurm_name("n1"), beat);
  EXPECT_EQ(table.generation(), before);
  auto smaller = std::make_shared<kube::Node>(*beat);
  smaller->allocatable = {};
  table.on_node(beat, smaller);
  EXPECT_GT(table.generation(), before);
}

TEST_F(NodeTableTest, RoomIsCountedWithWhatIsBeingBound) {
  add("n1");
  const NodePtr n1 = table.by_slurm_name("n1");
  const PodPtr first = pod("x");
  const PodPtr second = pod("y");
  auto any = std::make_shared<kube::Pod>();
  any->requests = {{interner("cpu"), Quantity(1)}};
  EXPECT_EQ(table.refusal(*any, *n1, {}), "");
  table.usage().assume(first, "n1", JobId{1}, 0);
  table.usage().assume(second, "n1", JobId{2}, 0);
  EXPECT_NE(table.refusal(*any, *n1, {}).find("pods (limit 2)"), std::string::npos);
  table.usage().forget(second->meta.uid);
  EXPECT_EQ(table.refusal(*any, *n1, {}), "");
  // Seen bound: counted once, not twice.
  auto bound = std::make_shared<kube::Pod>(*first);
  bound->node_name = interner("n1");
  table.on_pod(first, bound);
  EXPECT_EQ(table.refusal(*any, *n1, {}), "");
  auto over = std::make_shared<kube::Pod>(*bound);
  over->phase = kube::PodPhase::kSucceeded;
  table.on_pod(bound, over);
  table.on_pod(over, nullptr);
  EXPECT_EQ(table.usage().shortage(*any, *n1), "");
}

// W47: a pod whose job has ended is on its node still, and so is one that was just bound there.
TEST_F(NodeTableTest, NeighboursArePodsThatHaveNotEnded) {
  add("n1");
  const NodePtr n1 = table.by_slurm_name("n1");
  auto ending = std::make_shared<kube::Pod>();
  ending->meta.key = {"ns", "ending"};
  ending->meta.uid = Uid("ending");
  ending->meta.labels = {{interner("scheduler.slinky.slurm.net/slurm-jobid"), interner("7")}};
  ending->node_name = interner("n1");
  table.on_pod(nullptr, ending);
  table.on_neighbour([](const std::string&, Neighbour& other) {
    EXPECT_EQ(other.job, JobId{7});
    other.hold = Neighbour::Hold::kOver;
  });
  ASSERT_EQ(table.neighbours("n1").size(), 1u);
  EXPECT_EQ(table.neighbours("n1")[0].pod, ending);
  EXPECT_EQ(table.neighbours("n1")[0].hold, Neighbour::Hold::kOver);
  table.on_pod(ending, nullptr);
  EXPECT_TRUE(table.neighbours("n1").empty());
  auto bound = std::make_shared<kube::Pod>(*ending);
  table.usage().assume(ending, "n1", JobId{7}, 2);
  ASSERT_EQ(table.neighbours("n1").size(), 1u);
  EXPECT_EQ(table.neighbours("n1")[0].restarts, 2u);
  table.on_pod(ending, bound);
  EXPECT_EQ(table.neighbours("n1").size(), 1u) << "counted once";
  table.on_pod(bound, nullptr);
  EXPECT_TRUE(table.neighbours("n1").empty());
}

// Anybody may write the label on a pod of another scheduler; Slurm has nothing to say of it.
TEST_F(NodeTableTest, APodOfAnotherSchedulerIsNoNeighbourWhateverItsLabels) {
  table.set_self({"bridge", "c1"});
  add("n1");
  auto one = std::make_shared<kube::Pod>();
  one->meta.uid = Uid("one");
  one->meta.labels = {{interner(names::kSlurmJobId), interner("999999")}};
  one->scheduler_name = interner("default-scheduler");
  one->node_name = interner("n1");
  table.on_pod(nullptr, one);
  EXPECT_TRUE(table.neighbours("n1").empty());
  table.on_pod(nullptr, [&] {
    auto ours = std::make_shared<kube::Pod>(*one);
    ours->meta.uid = Uid("ours");
    ours->scheduler_name = interner("bridge");
    return ours;
  }());
  ASSERT_EQ(table.neighbours("n1").size(), 1u);
  EXPECT_EQ(table.neighbours("n1")[0].pod->meta.uid, Uid("ours"));
  const NodePtr n1 = table.by_slurm_name("n1");
  EXPECT_EQ(table.refusal(*pod(), *n1, {}), "has no room: pods (limit 2)") << "both use the node";
}

// W21: two pods with one host port do not share a node, whoever placed the first.
TEST_F(NodeTableTest, HostPortsAreTakenOnce) {
  add("n1");
  const NodePtr n1 = table.by_slurm_name("n1");
  auto first = std::make_shared<kube::Pod>();
  first->meta.uid = Uid("first");
  first->host_ports = {{8080}, {9090}};
  first->node_name = interner("n1");
  table.on_pod(nullptr, first);
  kube::Pod other;
  other.host_ports = {{9090}};
  EXPECT_EQ(table.refusal(other, *n1, {}), "has no room: host port 9090");
  other.host_ports = {{9091}};
  EXPECT_EQ(table.refusal(other, *n1, {}), "");
  table.on_pod(first, nullptr);
  other.host_ports = {{9090}};
  EXPECT_EQ(table.refusal(other, *n1, {}), "");
}

// As kube-scheduler and the kubelet have it: one number is several ports, and one of no address is of all.
TEST_F(NodeTableTest, HostPortsDifferByProtocolAndAddress) {
  using kube::Protocol;
  add("n1");
  const NodePtr n1 = table.by_slurm_name("n1");
  auto first = std::make_shared<kube::Pod>();
  first->meta.uid = Uid("first");
  first->host_ports = {{8125}, {53, Protocol::kUdp, interner("10.0.0.1")}};
  first->node_name = interner("n1");
  table.on_pod(nullptr, first);
  const auto refusal = [&](kube::HostPort port) {
    kube::Pod other;
    other.host_ports = {std::move(port)};
    return table.refusal(other, *n1, {});
  };
  EXPECT_EQ(refusal({8125, Protocol::kUdp}), "");
  EXPECT_EQ(refusal({8125, Protocol::kTcp, interner("10.0.0.1")}), "has no room: host port 8125");
  EXPECT_EQ(refusal({53, Protocol::kUdp, interner("10.0.0.2")}), "");
  EXPECT_EQ(refusal({53, Protocol::kUdp, interner("10.0.0.1")}), "has no room: host port 53/UDP");
  EXPECT_EQ(refusal({53, Protocol::kUdp}), "has no room: host port 53/UDP");
  EXPECT_EQ(refusal({53}), "");
}

// Autoscaled nodes come and go for months under ever new names.
TEST_F(NodeTableTest, NodesThatComeAndGoLeaveNothingBehind) {
  std::mt19937 random(1);
  std::map<std::string, std::string> zones;
  for (int i = 0; i < 20'000; ++i) {
    if (zones.size() > 20 || (!zones.empty() && random() % 2 == 0)) {
      const auto gone = std::next(zones.begin(), static_cast<std::ptrdiff_t>(random() % zones.size()));
      table.on_node(make(gone->first, gone->second), nullptr);
      table.on_slurm_node(make_slurm(gone->first), nullptr);
      zones.erase(gone);
    } else {
      const std::string name = "cloud-" + std::to_string(i);
      const std::string zone = random() % 2 == 0 ? "a" : "b";
      add(name, zone);
      zones.emplace(name, zone);
    }
    if (random() % 50 != 0) continue;
    const Candidates& a = table.candidates({pod("a")}, "p");
    std::vector<std::string> excluded;
    for (const auto& [name, zone] : zones) {
      if (zone == "b") excluded.push_back(name);
    }
    std::ranges::sort(excluded);
    ASSERT_EQ(a.usable, zones.size() - excluded.size());
    ASSERT_EQ(slurm::expand_hostlist(a.excluded).value_or(std::vector<std::string>{}).size(), excluded.size());
  }
  EXPECT_LE(table.places(), 22u);
}

}  // namespace
}  // namespace bascule::bridge
