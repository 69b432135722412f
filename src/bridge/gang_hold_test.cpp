// What a gang does with nodes that it holds and cannot use at once: jobs whose start slurmctld has lost, hosts that are
// refused, volumes that must be made first.
#include "bridge/gang_plan_test.hpp"

namespace bascule::bridge {
namespace {

using ::testing::HasSubstr;

// Three of four run. Cancelled it would end them, and made smaller it would start without their nodes.
TEST_F(GangTest, AJobWhoseStartIsLostKeepsItsPodsAndItsSize) {
  view.root->gang->minimum = 4;
  for (const auto& [name, host] : {std::pair("a", "n1"), {"b", "n2"}, {"c", "n3"}}) bind(*add_pod(name), 7, host);
  mark(*add_pod("d"), 7);
  for (const std::uint32_t minimum : {4u, 1u}) {
    view.root->gang->minimum = minimum;
    view.jobs.clear();
    add_job(7, slurm::JobState::kPending, {"a", "b", "c", "d"});
    const UnitPlan p = plan();
    EXPECT_TRUE(p.cancels.empty()) << minimum;
    EXPECT_FALSE(p.update) << minimum;
    EXPECT_FALSE(p.submit) << minimum;
    ASSERT_EQ(p.waiting.size(), 1u);
    EXPECT_THAT(p.waiting[0].message, HasSubstr("slurmctld has lost its start"));
  }
}

// Another cause than the one that was waited for has a patience of its own.
TEST_F(GangTest, AHostThatIsRefusedForAnotherCauseIsNotGivenBackAtOnce) {
  view.root->gang->minimum = 1;
  mark(*add_pod("a"), 7);
  add_job(7, slurm::JobState::kRunning, {"a"}, "n1");
  const PodPtr ending = another_on("n1");
  nodes.on_pod(nullptr, ending);
  nodes.on_neighbour([](const std::string&, Neighbour& one) { one.hold = Neighbour::Hold::kOver; });
  EXPECT_TRUE(plan().cancels.empty());
  now += 2 * kMisfitPatience;
  view.jobs[0].confirmed_at = now;
  EXPECT_TRUE(plan().cancels.empty()) << "the end of the other pod is waited for";
  nodes.on_pod(ending, nullptr);
  const NodePtr before = nodes.by_slurm_name("n1");
  auto tainted = std::make_shared<kube::Node>(*before);
  tainted->taints = {{interner("team"), {}, interner("NoSchedule")}};
  nodes.on_node(before, tainted);
  EXPECT_TRUE(plan().cancels.empty());
  now += kMisfitPatience - 1s;
  view.jobs[0].confirmed_at = now;
  EXPECT_TRUE(plan().cancels.empty());
  now += 1s;
  view.jobs[0].confirmed_at = now;
  EXPECT_EQ(plan().cancels.size(), 1u);
}

// Pods that end here and there begin no patience anew for a host that is refused all the time.
TEST_F(GangTest, AHostThatIsRefusedAllTheTimeIsGivenBackWhateverEndsElsewhere) {
  for (const char* name : {"a", "b"}) mark(*add_pod(name), 7);
  add_job(7, slurm::JobState::kRunning, {"a", "b"}, "n1,elsewhere");
  const PodPtr ending = another_on("n1");
  nodes.on_neighbour([](const std::string&, Neighbour& one) { one.hold = Neighbour::Hold::kOver; });
  std::size_t cancels = 0;
  for (Duration passed{}; passed <= kMisfitPatience; passed += 10s, now += 10s) {
    view.jobs[0].confirmed_at = now;
    const bool there = passed / 10s % 2 == 0;
    there ? nodes.on_pod(nullptr, ending) : nodes.on_pod(ending, nullptr);
    cancels += plan().cancels.size();
  }
  EXPECT_EQ(cancels, 1u);
}

// W14: replacements that come while the pods before them still end are a gang of their own.
TEST_F(GangTest, PodsThatAreGoingStartNobody) {
  view.root->gang->minimum = 3;
  for (const auto& [name, host] : {std::pair("a", "n1"), {"b", "n2"}, {"c", "n3"}}) {
    const auto pod = add_pod(name);
    bind(*pod, 7, host);
    pod->meta.deleted = wall;
  }
  add_job(7, slurm::JobState::kRunning, {"a", "b", "c"}, "n[1-4]");
  mark(*add_pod("a2"), 7);
  EXPECT_THAT(bound(plan()), ::testing::IsEmpty()) << "alone on a node that its job has left";
  view.jobs.clear();
  add_job(7, slurm::JobState::kRunning, {"a", "b", "c"}, "n[1-3]");
  EXPECT_FALSE(plan().submit) << "a2 alone is too few";
  for (const char* name : {"b2", "c2"}) add_pod(name);
  const UnitPlan p = plan();
  ASSERT_TRUE(p.submit);
  EXPECT_EQ(p.submit->nodes, slurm::NodeCount(3));
  EXPECT_TRUE(p.cancels.empty());
}

struct GangVolumesTest : GangTest {
  GangVolumesTest() {
    nodes.volumes().set_known(true);
    nodes.volumes().on_class(nullptr, object(R"({"metadata":{"name":"local"},"provisioner":"csi.example.com",)"
                                             R"("volumeBindingMode":"WaitForFirstConsumer"})"));
    for (const std::string name : {"a", "b"}) {
      auto pod = add_pod(name);
      pod->claims = {interner("of-" + name)};
      mark(*pod, 7);
      nodes.volumes().on_claim(
          nullptr, object(R"({"metadata":{"namespace":"ns","name":"of-)" + name + R"(","uid":"u)" + name +
                          R"("},"spec":{"storageClassName":"local",)" + R"("accessModes":["ReadWriteOnce"],)" +
                          R"("resources":{"requests":{"storage":"5Gi"}}}})"));
    }
  }
  ObjectPtr object(const std::string& text) { return kube::decode_dynamic(text, interner); }
};

// Volumes are made where they are used: with some of them on these nodes the gang could start on no others.
TEST_F(GangVolumesTest, NoVolumeIsMadeForAGangThatCannotStartHere) {
  add_job(7, slurm::JobState::kRunning, {"a", "b"}, "n1,elsewhere");
  EXPECT_TRUE(plan().volumes.empty()) << "elsewhere is no node of this cluster";
  view.jobs.clear();
  add_job(7, slurm::JobState::kRunning, {"a", "b"}, "n1,n2");
  EXPECT_EQ(plan().volumes.size(), 2u);
}

// A pod that cannot have what it needs where Slurm placed it leaves the volumes of the others alone.
TEST_F(GangVolumesTest, NoVolumeIsTakenWhereOneIsMissing) {
  nodes.volumes().on_class(nullptr,
                           object(R"({"metadata":{"name":"local"},"provisioner":"kubernetes.io/no-provisioner",)"
                                  R"("volumeBindingMode":"WaitForFirstConsumer"})"));
  for (const std::string host : {"n1", "n2"}) {
    nodes.volumes().on_volume(
        nullptr,
        object(R"({"metadata":{"name":"on-)" + host +
               R"("},"spec":{"storageClassName":"local","capacity":{"storage":"5Gi"},)" +
               R"("accessModes":["ReadWriteOnce"],"nodeAffinity":{"required":{"nodeSelectorTerms":[)" +
               R"({"matchFields":[{"key":"metadata.name","operator":"In","values":[")" + host + R"("]}]}]}}}})"));
  }
  add_job(7, slurm::JobState::kRunning, {"a", "b"}, "n1,n3");
  EXPECT_TRUE(plan().volumes.empty()) << "n3 has none";
  now += kMisfitPatience;
  view.jobs[0].confirmed_at = now;
  EXPECT_EQ(plan().cancels.size(), 1u);
  view.jobs.clear();
  add_job(8, slurm::JobState::kRunning, {"a", "b"}, "n1,n2");
  for (const PodPtr& pod : view.pods) mark(const_cast<kube::Pod&>(*pod), 8);
  EXPECT_EQ(plan().volumes.size(), 2u);
}

TEST_F(GangVolumesTest, NodesWhereVolumesAreNotMadeAreLeftOut) {
  add_job(7, slurm::JobState::kRunning, {"a", "b"}, "n1,n2");
  plan();
  now += kVolumePatience;
  view.jobs[0].confirmed_at = now;
  ASSERT_EQ(plan().cancels.size(), 1u);
  view.jobs.clear();
  const UnitPlan next = plan();
  ASSERT_TRUE(next.submit);
  EXPECT_EQ(next.submit->excluded_nodes, std::vector<std::string>{"n1,n2"});
}

// The host of one that came later is given up alone, and nobody is asked for its volume there any more.
TEST_F(GangVolumesTest, ANodeWhereALatecomersVolumeIsNotMadeIsGivenUp) {
  bind(const_cast<kube::Pod&>(*view.pods[0]), 7, "n1");
  add_job(7, slurm::JobState::kRunning, {"a", "b"}, "n1,n2");
  EXPECT_EQ(plan().volumes.size(), 1u);
  now += kVolumePatience;
  view.jobs[0].confirmed_at = now;
  EXPECT_TRUE(plan().cancels.empty());
  EXPECT_TRUE(memory.given_up.contains({JobId{7}, "n2"}));
  const UnitPlan next = plan();
  EXPECT_TRUE(next.volumes.empty());
  ASSERT_TRUE(next.submit);
  EXPECT_EQ(next.submit->excluded_nodes, std::vector<std::string>{"n2"});
  EXPECT_GT(next.wake.value(), now);
}

// Nothing is given back that slurmctld could not take, and nothing is planned in a circle meanwhile.
TEST_F(GangVolumesTest, VolumesAreWaitedForAtLeisureWhileSlurmIsAway) {
  add_job(7, slurm::JobState::kRunning, {"a", "b"}, "n1,n2");
  plan();
  now += kVolumePatience;
  view.jobs[0].confirmed_at = now;
  slurm.reachable = false;
  for (int i = 0; i < 2; ++i) {
    const UnitPlan p = plan();
    EXPECT_TRUE(p.cancels.empty());
    EXPECT_GE(p.wake.value(), now + 1s);
  }
  slurm.reachable = true;
  EXPECT_EQ(plan().cancels.size(), 1u);
}

}  // namespace
}  // namespace bascule::bridge
