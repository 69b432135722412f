#include "bridge/volumes.hpp"

#include <gtest/gtest.h>

#include "bridge/node_table.hpp"

namespace bascule::bridge {
namespace {

// W21: where volumes are decides where a pod may run. One pod with the claim "c", nodes a and b in zones A and B.
struct VolumesTest : ::testing::Test {
  VolumesTest() {
    pod.meta.key = {"ns", "pod"};
    pod.claims = {interner("c")};
    volumes.set_known(true);
    a = node("a", "A");
    b = node("b", "B");
  }
  std::shared_ptr<kube::Node> node(const std::string& name, const std::string& zone) {
    auto made = std::make_shared<kube::Node>();
    made->meta.key = {"", name};
    made->meta.uid = Uid(name);
    made->meta.labels = {{interner("kubernetes.io/hostname"), interner(name)},
                         {interner("topology.kubernetes.io/zone"), interner(zone)}};
    return made;
  }
  ObjectPtr object(const std::string& text) { return kube::decode_dynamic(text, interner); }
  ObjectPtr claim(const std::string& volume = {}, const std::string& storage_class = "fast") {
    const std::string bound = volume.empty() ? "" : R"("pv.kubernetes.io/bind-completed":"yes")";
    const ObjectPtr made =
        object(R"({"metadata":{"namespace":"ns","name":"c","uid":"uc","annotations":{)" + bound +
               R"(}},"spec":{"storageClassName":")" + storage_class + R"(","volumeName":")" + volume +
               R"(","accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"5Gi"}}}})");
    volumes.on_claim(nullptr, made);
    return made;
  }
  ObjectPtr volume(const std::string& name, const std::string& on, const std::string& size = "5Gi",
                   const std::string& more = {}) {
    const ObjectPtr made = object(
        R"({"metadata":{"name":")" + name + R"("},"spec":{"storageClassName":"fast","capacity":{"storage":")" + size +
        R"("},"accessModes":["ReadWriteOnce"],)" + more + R"("nodeAffinity":{"required":{"nodeSelectorTerms":[)" +
        R"({"matchExpressions":[{"key":"kubernetes.io/hostname","operator":"In","values":[")" + on + R"("]}]}]}}}})");
    volumes.on_volume(nullptr, made);
    return made;
  }
  void storage_class(const std::string& provisioner, const std::string& mode = "WaitForFirstConsumer",
                     const std::string& more = {}) {
    volumes.on_class(nullptr, object(R"({"metadata":{"name":"fast"},"provisioner":")" + provisioner +
                                     R"(","volumeBindingMode":")" + mode + R"(")" + more + "}"));
  }
  bool may(const kube::Node& node) const {
    const auto needs = volumes.needs_of(pod);
    return needs.problem.empty() &&
           std::ranges::all_of(needs.alternatives, [&](const auto& terms) { return holds_any(terms, node); });
  }

  json::Interner interner;
  kube::Pod pod;
  Volumes volumes;
  std::shared_ptr<kube::Node> a, b;
};

TEST_F(VolumesTest, ABoundClaimKeepsThePodWithItsVolume) {
  claim("v");
  EXPECT_EQ(volumes.needs_of(pod).problem, "PersistentVolumeClaim c is bound to a volume that does not exist");
  volume("v", "b");
  EXPECT_FALSE(may(*a));
  EXPECT_TRUE(may(*b));
  EXPECT_FALSE(volumes.binding_of(pod, *b).waits);
}

TEST_F(VolumesTest, ZonesOfOldVolumesCount) {
  claim("v");
  volumes.on_volume(nullptr, object(R"({"metadata":{"name":"v","labels":{"topology.kubernetes.io/zone":"A__C"}}})"));
  EXPECT_TRUE(may(*a));
  EXPECT_FALSE(may(*b));
}

TEST_F(VolumesTest, WhatIsNotThereIsSaid) {
  EXPECT_EQ(volumes.needs_of(pod).problem, "PersistentVolumeClaim c does not exist");
  claim();
  EXPECT_EQ(volumes.needs_of(pod).problem, "PersistentVolumeClaim c has no volume yet");
  storage_class("csi.example.com", "Immediate");
  EXPECT_EQ(volumes.needs_of(pod).problem, "PersistentVolumeClaim c has no volume yet");
  volumes.set_known(false);
  EXPECT_EQ(volumes.needs_of(pod).problem, "the claims of the cluster are not known yet");
  pod.claims.clear();
  EXPECT_EQ(volumes.needs_of(pod).problem, "");
}

TEST_F(VolumesTest, AProvisionerIsToldTheNodeWithinItsTopologies) {
  claim();
  storage_class(
      "csi.example.com", "WaitForFirstConsumer",
      R"(,"allowedTopologies":[{"matchLabelExpressions":[{"key":"topology.kubernetes.io/zone","values":["B"]}]}])");
  EXPECT_FALSE(may(*a));
  EXPECT_TRUE(may(*b));
  Volumes::Binding binding = volumes.binding_of(pod, *b);
  EXPECT_TRUE(binding.waits);
  EXPECT_EQ(binding.node, "b");
  ASSERT_EQ(binding.provisions.size(), 1u);
  volumes.on_claim(nullptr,
                   object(R"({"metadata":{"namespace":"ns","name":"c","annotations":)"
                          R"({"volume.kubernetes.io/selected-node":"b"}},"spec":{"storageClassName":"fast"}})"));
  binding = volumes.binding_of(pod, *b);
  EXPECT_TRUE(binding.waits && binding.provisions.empty()) << "told already";
  EXPECT_EQ(volumes.binding_of(pod, *a).provisions.size(), 1u) << "Slurm has chosen another since";
}

// Where a free volume is, is all that it says together.
TEST_F(VolumesTest, AFreeVolumeIsWhereItsAffinityAndItsZoneAre) {
  claim();
  storage_class("kubernetes.io/no-provisioner");
  volumes.on_volume(
      nullptr,
      object(
          R"({"metadata":{"name":"v","labels":{"topology.kubernetes.io/zone":"A"}},"spec":{"storageClassName":"fast",)"
          R"("capacity":{"storage":"5Gi"},"accessModes":["ReadWriteOnce"],"nodeAffinity":{"required":)"
          R"({"nodeSelectorTerms":[{"matchExpressions":[{"key":"disk","operator":"In","values":["x"]}]}]}}}})"));
  EXPECT_FALSE(may(*a));
  EXPECT_FALSE(may(*b));
  a->meta.labels.insert(a->meta.labels.begin(), {interner("disk"), interner("x")});
  b->meta.labels.insert(b->meta.labels.begin(), {interner("disk"), interner("x")});
  EXPECT_TRUE(may(*a));
  EXPECT_FALSE(may(*b)) << "the zone of the volume is A";
}

TEST_F(VolumesTest, LocalVolumesAreTakenWhereTheyAreTheSmallestFirst) {
  claim();
  storage_class("kubernetes.io/no-provisioner");
  EXPECT_NE(volumes.needs_of(pod).problem.find("finds no free volume"), std::string::npos);
  volume("small", "a", "1Gi");
  volume("taken", "a", "5Gi", R"("claimRef":{"namespace":"ns","name":"other","uid":"x"},)");
  EXPECT_NE(volumes.needs_of(pod).problem.find("finds no free volume"), std::string::npos);
  volume("large", "b", "50Gi");
  const ObjectPtr right = volume("right", "b", "6Gi");
  EXPECT_FALSE(may(*a));
  EXPECT_TRUE(may(*b));
  const Volumes::Binding binding = volumes.binding_of(pod, *b);
  ASSERT_EQ(binding.takes.size(), 1u);
  EXPECT_EQ(binding.takes[0].volume->meta.key.name, "right");
  EXPECT_NE(volumes.binding_of(pod, *a).problem, "");
  volumes.on_volume(right, nullptr);
  volume("right", "b", "6Gi", R"("claimRef":{"namespace":"ns","name":"c","uid":"uc"},)");
  const Volumes::Binding given = volumes.binding_of(pod, *b);
  EXPECT_TRUE(given.waits && given.takes.empty()) << "given to the claim already";
}

// Kubernetes binds such a claim by itself, to that volume and no other.
TEST_F(VolumesTest, AClaimThatNamesAVolumeTakesNoOther) {
  storage_class("kubernetes.io/no-provisioner");
  volume("other", "b");
  const auto names = [this](const std::string& volume) {
    volumes.on_claim(nullptr, object(R"({"metadata":{"namespace":"ns","name":"c","uid":"uc"},"spec":{"volumeName":")" +
                                     volume + R"(","storageClassName":"fast","accessModes":["ReadWriteOnce"]}})"));
  };
  names("mine");
  EXPECT_EQ(volumes.needs_of(pod).problem, "PersistentVolumeClaim c has no volume yet: it names mine");
  Volumes::Binding binding = volumes.binding_of(pod, *b);
  EXPECT_TRUE(binding.waits && binding.takes.empty() && binding.problem.empty());
  storage_class("csi.example.com");
  EXPECT_NE(volumes.needs_of(pod).problem, "");
  binding = volumes.binding_of(pod, *b);
  EXPECT_TRUE(binding.waits && binding.provisions.empty() && binding.takes.empty());
  names("");
  EXPECT_EQ(volumes.needs_of(pod).problem, "");
}

TEST_F(VolumesTest, AClaimWithASelectorTakesAVolumeThatMatches) {
  storage_class("kubernetes.io/no-provisioner");
  const auto labelled = [this](const std::string& name, const std::string& on, const std::string& labels,
                               const std::string& more = {}) {
    volumes.on_volume(nullptr, object(R"({"metadata":{"name":")" + name + R"(","labels":{)" + labels +
                                      R"(}},"spec":{"storageClassName":"fast","accessModes":["ReadWriteOnce"],)" +
                                      more + R"("nodeAffinity":{"required":{"nodeSelectorTerms":[)" +
                                      R"({"matchExpressions":[{"key":"kubernetes.io/hostname","operator":"In",)" +
                                      R"("values":[")" + on + R"("]}]}]}}}})"));
  };
  const auto selects = [this](const std::string& selector) {
    volumes.on_claim(nullptr, object(R"({"metadata":{"namespace":"ns","name":"c","uid":"uc"},"spec":{"selector":)" +
                                     selector + R"(,"storageClassName":"fast","accessModes":["ReadWriteOnce"]}})"));
  };
  labelled("on-a", "a", R"("disk":"nvme","tier":"1")");
  labelled("on-b", "b", R"("disk":"sata")");
  const auto places = [&] { return std::pair(may(*a), may(*b)); };
  selects(R"({"matchLabels":{"disk":"nvme"}})");
  EXPECT_EQ(places(), std::pair(true, false));
  ASSERT_EQ(volumes.binding_of(pod, *a).takes.size(), 1u);
  EXPECT_NE(volumes.binding_of(pod, *b).problem, "");
  selects(R"({"matchExpressions":[{"key":"disk","operator":"In","values":["sata","nvme"]},)"
          R"({"key":"tier","operator":"DoesNotExist"}]})");
  EXPECT_EQ(places(), std::pair(false, true));
  selects(R"({"matchExpressions":[{"key":"disk","operator":"NotIn","values":["sata"]},{"key":"disk",)"
          R"("operator":"Exists"}]})");
  EXPECT_EQ(places(), std::pair(true, false));
  selects("{}");
  EXPECT_EQ(places(), std::pair(true, true));
  selects(R"({"matchLabels":{"disk":"tape"}})");
  EXPECT_EQ(volumes.needs_of(pod).problem,
            "PersistentVolumeClaim c finds no free volume of its class that is large enough and matches its selector");
  labelled("given", "b", "", R"("claimRef":{"namespace":"ns","name":"c","uid":"uc"},)");
  EXPECT_EQ(places(), std::pair(false, true)) << "given to the claim, whatever its labels";
}

// The table excludes what the volumes do not allow, and follows them.
TEST_F(VolumesTest, CandidatesFollowTheVolumes) {
  NodeTable table;
  table.volumes().set_known(true);
  for (const auto& one : {a, b}) {
    one->allocatable = {{interner("pods"), Quantity(10)}};
    table.on_node(nullptr, one);
    auto record = std::make_shared<slurm::Node>();
    record->name = one->meta.key.name;
    record->partitions = {"p"};
    table.on_slurm_node(nullptr, record);
  }
  table.volumes().on_claim(nullptr, claim("v"));
  const ObjectPtr on_a = volume("v", "a");
  const ObjectPtr on_b = volume("v", "b");
  const std::vector<PodPtr> pods{std::make_shared<kube::Pod>(pod)};
  table.volumes().on_volume(nullptr, on_a);
  EXPECT_EQ(table.candidates(pods, "p").excluded, "b");
  EXPECT_EQ(table.refusal(pod, *b, {}), "cannot have a volume of the pod");
  table.volumes().on_volume(on_a, on_b);
  EXPECT_EQ(table.candidates(pods, "p").excluded, "a");
  EXPECT_EQ(table.refusal(pod, *b, {}), "");
}

// W21: a driver that attaches two volumes to a node.
struct VolumeLimits : VolumesTest {
  VolumeLimits() {
    for (const char* name : {"v1", "v2", "v3"}) {
      const std::string n(name);
      table.volumes().on_volume(
          nullptr, object(R"({"metadata":{"name":")" + n + R"("},"spec":{"csi":{"driver":"csi.x","volumeHandle":"h)" +
                          n + R"("}}})"));
      table.volumes().on_claim(
          nullptr, object(R"({"metadata":{"namespace":"ns","name":"c)" + n +
                          R"(","annotations":{"pv.kubernetes.io/bind-completed":"yes"}},"spec":{"volumeName":")" + n +
                          R"("}})"));
    }
    table.volumes().set_known(true);
    table.volumes().on_limits = [this](const std::string& name) { table.on_devices(name); };
    table.on_node(nullptr, a);
    auto in_slurm = std::make_shared<slurm::Node>();
    in_slurm->name = "a";
    table.on_slurm_node(nullptr, in_slurm);
    a->allocatable = {{interner("pods"), Quantity(10)}};
  }
  void limit(int count) {
    const ObjectPtr before = csi_node;
    csi_node = object(R"({"metadata":{"name":"a"},"spec":{"drivers":[{"name":"csi.x","allocatable":{"count":)" +
                      std::to_string(count) + "}}]}}");
    table.volumes().on_csi_node(before, csi_node);
  }
  PodPtr with(std::vector<std::string> claims, const std::string& on = {}) {
    auto made = std::make_shared<kube::Pod>();
    made->meta.key = {"ns", "p" + std::to_string(++pods)};
    made->meta.uid = Uid(made->meta.key.name);
    if (!on.empty()) made->node_name = interner(on);
    for (const std::string& claim : claims) made->claims.push_back(interner(claim));
    return made;
  }

  NodeTable table;
  ObjectPtr csi_node;
  int pods = 0;
};

TEST_F(VolumeLimits, APodThatBringsTooManyIsNotSubmitted) {
  const PodPtr three = with({"cv1", "cv2", "cv3"});
  EXPECT_EQ(table.candidates({three}, "").usable, 1u) << "no limit is known";
  limit(2);
  EXPECT_EQ(table.candidates({three}, "").why_none, "1 nodes: 1 cannot have so many volumes of csi.x (limit 2)");
  EXPECT_EQ(table.candidates({with({"cv1", "cv2"})}, "").usable, 1u);
  limit(3);
  EXPECT_EQ(table.candidates({three}, "").usable, 1u);
}

TEST_F(VolumeLimits, WhatIsThereCountsBeforeTheBinding) {
  limit(2);
  table.on_pod(nullptr, with({"cv1", "cv2"}, "a"));
  EXPECT_EQ(table.refusal(*with({"cv2"}), *a, {}), "") << "it is attached already";
  EXPECT_EQ(table.refusal(*with({"cv3"}), *a, {}), "has no room: volumes of csi.x (limit 2)");
  EXPECT_EQ(table.refusal(*with({}), *a, {}), "");
}

// Its pod has gone, and its detaching hangs: the driver would refuse one more.
TEST_F(VolumeLimits, AVolumeThatIsStillAttachedCounts) {
  limit(2);
  const auto attachment = [this](const std::string& name, const std::string& volume) {
    return object(R"({"metadata":{"name":")" + name + R"("},"spec":{"attacher":"csi.x","nodeName":"a","source":{)" +
                  (volume.empty() ? R"("inlineVolumeSpec":{})" : R"("persistentVolumeName":")" + volume + "\"") +
                  "}}}");
  };
  const ObjectPtr of_v1 = attachment("csi-1", "v1");
  const ObjectPtr of_gone = attachment("csi-2", "gone");
  table.volumes().on_attachment(nullptr, of_v1);
  table.volumes().on_attachment(nullptr, of_gone);
  EXPECT_EQ(table.refusal(*with({"cv1"}), *a, {}), "") << "it is attached already";
  EXPECT_EQ(table.refusal(*with({"cv2"}), *a, {}), "has no room: volumes of csi.x (limit 2)");
  table.on_pod(nullptr, with({"cv1"}, "a"));
  table.volumes().on_attachment(of_gone, nullptr);
  EXPECT_EQ(table.refusal(*with({"cv2"}), *a, {}), "") << "that of a pod that is there counts once";
  EXPECT_EQ(table.refusal(*with({}), *a, {}), "");
}

TEST_F(VolumeLimits, PodsBoundTogetherCountTogether) {
  limit(2);
  const std::vector<PodPtr> beside{with({"cv1"}), with({"cv2"})};
  EXPECT_EQ(table.refusal(*with({"cv3"}), *a, {beside.front()}), "");
  EXPECT_EQ(table.refusal(*with({"cv3"}), *a, beside), "has no room: volumes of csi.x (limit 2)");
}

TEST_F(VolumeLimits, AVolumeThatIsNotMadeYetCounts) {
  limit(0);
  table.volumes().on_class(
      nullptr,
      object(R"({"metadata":{"name":"fast"},"provisioner":"csi.x","volumeBindingMode":"WaitForFirstConsumer"})"));
  table.volumes().on_claim(
      nullptr, object(R"({"metadata":{"namespace":"ns","name":"new"},"spec":{"storageClassName":"fast"}})"));
  EXPECT_EQ(table.candidates({with({"new"})}, "").usable, 0u);
}

}  // namespace
}  // namespace bascule::bridge
