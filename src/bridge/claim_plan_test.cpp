#include "bridge/claim_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bridge/device_test_support.hpp"
#include "bridge/names.hpp"
#include "testing/objects.hpp"

namespace bascule::bridge {
namespace {

using namespace bascule::bridge::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Claims : ::testing::Test {
  json::Interner interner;
  static DeviceDrivers drivers() {
    DeviceDrivers all;
    all.put({.driver = "fpga.example.org", .classes = {"fpga"}, .number_attribute = "example.org/slot"});
    return all;
  }
  DeviceLedger ledger{"slurm-bridge-scheduler", drivers()};
  JobLayout layout{100, {{.node = "s1", .sockets = 1, .cores_per_socket = 2, .core_bitmap = "0x3", .gres = {}}}, true};

  Claims() {
    for (const DeviceDriver& one : ledger.drivers().all()) {
      for (const std::string& name : one.classes) ledger.on_class(nullptr, device_class(name, interner));
    }
    ledger.set_unknown({});
  }
  void add(const SliceSpec& spec) { ledger.on_slice(nullptr, slice(spec, interner)); }
  void add_gpus(int count) { add({.name = "g", .devices = make_gpus(0, count)}); }
  void add_cpus() {
    add({.name = "c", .driver = "dra.cpu", .devices = make_cpus({{0, 0, 0}, {1, 0, 0}, {2, 1, 0}, {3, 1, 0}})});
  }
  void give(std::uint64_t count, const std::string& index, const std::string& type = "gpu.example.com") {
    layout.nodes[0].gres.push_back({"gpu", type, index, count});
  }
  using Wants = std::vector<std::pair<std::string, int>>;
  // One container for each.
  PodPtr pod(const std::string& name, const Wants& wants, bool init = false) {
    json::Value value = ::bascule::testing::make_pod({.name = name, .ns = "ns"});
    json::at_or_create(value, {"metadata", "uid"}) = "uid-" + name;
    json::Array containers;
    for (std::size_t i = 0; i < wants.size(); ++i) {
      json::Object limits{{std::string(names::kDeviceClassPrefix) + wants[i].first, std::to_string(wants[i].second)}};
      containers.push_back(json::Object{{"name", "c" + std::to_string(i)},
                                        {"resources", json::Object{{"requests", limits}, {"limits", limits}}}});
    }
    if (init) {
      json::at_or_create(value, {"spec", "initContainers"}) = json::Array{containers.front()};
      json::at_or_create(value, {"spec", "initContainers"}).as_array()[0].as_object()["name"] = "i";
    }
    json::at_or_create(value, {"spec", "containers"}) = std::move(containers);
    return kube::decode_pod(json::dump(value), interner);
  }
  std::expected<WantedClaim, std::string> plan(const PodPtr& pod, const std::vector<DeviceId>& beside = {}) {
    auto claim = judge(pod, beside);
    if (claim) return std::move(*claim);
    return std::unexpected(std::move(claim.error().why));
  }
  bool passes(const PodPtr& pod) { return judge(pod).error().passing; }
  std::expected<WantedClaim, ClaimProblem> judge(const PodPtr& pod, const std::vector<DeviceId>& beside = {}) {
    const std::set<DeviceId> taken(beside.begin(), beside.end());
    if (slurm.gres.empty()) slurm.gres = gres_of(ledger.on("n1"));
    const Placement at{JobId{7}, "n1", "s1", slurm_known ? &slurm : nullptr};
    return plan_claim(*pod, at, layout, ledger, taken);
  }
  static std::vector<std::string> names_of(const WantedClaim& claim) {
    std::vector<std::string> out;
    for (const DeviceId& device : claim.devices()) out.push_back(device.name);
    return out;
  }
  // As the server shows it once it is written.
  ClaimPtr written(const WantedClaim& claim, bool allocated = true) {
    json::Value object = claim_object(claim, "slurm-bridge-scheduler");
    json::at_or_create(object, {"metadata", "uid"}) = "claim-" + claim.key.name;
    if (allocated) object.as_object()["status"] = claim_status(claim, "2026-01-01T00:00:00Z");
    return decode_claim(json::dump(object), interner);
  }
  slurm::Node slurm;  // with GRES for what is published, unless a test says others
  bool slurm_known = true;
};

TEST_F(Claims, TheVeryDevicesThatSlurmGave) {
  add_gpus(4);
  give(2, "1,3");
  const auto claim = plan(pod("p", {{"gpu.example.com", 2}}));
  ASSERT_TRUE(claim) << claim.error();
  EXPECT_THAT(names_of(*claim), ElementsAre("gpu-1", "gpu-3"));
  EXPECT_EQ(claim->devices().front().pool, "n1-pool");
  EXPECT_EQ(claim->requests.front().name, "gpu");
  EXPECT_EQ(claim->requests.front().selector, "device.attributes['gpu.example.com'].index in [1,3]");
  ASSERT_EQ(claim->mappings.size(), 1u);
  EXPECT_EQ(claim->mappings.front().container, "c0");
  EXPECT_EQ(claim->mappings.front().resource, "deviceclass.resource.kubernetes.io/gpu.example.com");
}

// W36: of a driver that the configuration names, too.
TEST_F(Claims, W36DevicesOfAConfiguredDriver) {
  json::Array boards;
  for (int i : {4, 2}) {
    boards.push_back(json::Object{{"name", "board-" + std::to_string(i)},
                                  {"attributes", json::Object{{"example.org/slot", json::Object{{"int", i}}}}}});
  }
  add({.name = "f", .driver = "fpga.example.org", .devices = boards});
  give(1, "1", "fpga");
  const auto claim = plan(pod("p", {{"fpga", 1}}));
  ASSERT_TRUE(claim) << claim.error();
  EXPECT_THAT(names_of(*claim), ElementsAre("board-4"));
  EXPECT_EQ(claim->requests.front().device_class, "fpga");
  EXPECT_EQ(claim->requests.front().selector, "device.attributes['example.org'].slot in [4]");
}

// An exclusive job has all GPUs of its node; the pod gets what it asked for.
TEST_F(Claims, NoMoreThanAskedFor) {
  add_gpus(4);
  give(4, "0-3");
  EXPECT_THAT(names_of(*plan(pod("p", {{"gpu.example.com", 1}}))), ElementsAre("gpu-0"));
}

TEST_F(Claims, TheIndexIsThePlaceAmongTheDevicesThatAreThere) {
  json::Array devices = make_gpus(0, 1);
  devices.push_back(make_gpus(5, 1)[0]);
  add({.name = "g", .devices = devices});
  give(1, "1");
  EXPECT_THAT(names_of(*plan(pod("p", {{"gpu.example.com", 1}}))), ElementsAre("gpu-5"));
}

// W32: no GRES, no devices, no binding; and the sentence says why.
TEST_F(Claims, W32WithoutGresThereIsNoClaim) {
  add_gpus(4);
  const PodPtr asks = pod("p", {{"gpu.example.com", 2}});
  EXPECT_THAT(plan(asks).error(), HasSubstr("Slurm job 7 has no gres/gpu:gpu.example.com there"));
  give(1, "0");
  EXPECT_THAT(plan(asks).error(), HasSubstr("asks for 2 of class gpu.example.com, and Slurm job 7 has 1"));
  layout.nodes[0].gres.clear();
  give(2, "");
  EXPECT_THAT(plan(asks).error(), HasSubstr("does not say which"));
  layout.nodes[0].gres.clear();
  give(2, "0-1", "other");
  EXPECT_THAT(plan(asks).error(), HasSubstr("no gres/gpu:gpu.example.com"));
  layout.nodes[0].gres.clear();
  give(2, "3-4");
  EXPECT_THAT(plan(asks).error(), HasSubstr("gave index 4"));
  layout.nodes[0].node = "other";
  EXPECT_THAT(plan(asks).error(), HasSubstr("names no resources"));
}

TEST_F(Claims, BothSidesMustCountTheSameDevices) {
  add_gpus(4);
  give(1, "0");
  slurm.gres = "gpu:gpu.example.com:8(S:0)";
  EXPECT_THAT(plan(pod("p", {{"gpu.example.com", 1}})).error(), HasSubstr("4 devices of class"));
  slurm.gres = "gpu:gpu.example.com:4(S:0)";
  EXPECT_TRUE(plan(pod("p", {{"gpu.example.com", 1}})));
}

// A kubelet or a driver that starts anew takes its devices away for some seconds: that is no word about the job.
TEST_F(Claims, WhatIsAwayOrNotKnownYetMayPass) {
  const PodPtr asks = pod("p", {{"gpu.example.com", 1}});
  give(1, "0");
  slurm.gres = "gpu:gpu.example.com:4";
  EXPECT_TRUE(passes(asks)) << "none is published";
  add_gpus(2);
  EXPECT_TRUE(passes(asks)) << "some are published";
  slurm.gres = "gpu:gpu.example.com:1";
  EXPECT_FALSE(passes(asks)) << "more than Slurm knows of";
  slurm_known = false;
  EXPECT_TRUE(passes(asks));
  slurm_known = true;
  EXPECT_TRUE(passes(pod("c", {{"dra.cpu", 1}})));
  add({.name = "h", .pool = "more", .slices = 2, .devices = make_gpus(2, 2)});
  EXPECT_TRUE(passes(asks)) << "a pool is being published";
  ledger.set_unknown("nothing was read");
  EXPECT_TRUE(passes(asks));
}

TEST_F(Claims, AnIndexMeansNothingWhileSlurmsCountIsNotKnown) {
  add_gpus(4);
  give(1, "0");
  slurm_known = false;
  EXPECT_THAT(plan(pod("p", {{"gpu.example.com", 1}})).error(), HasSubstr("Slurm's node is not known yet"));
}

// They keep their place, so that the index of the others means the same.
TEST_F(Claims, TaintedDevicesAreNotGiven) {
  json::Array devices = make_gpus(0, 3);
  const auto taint = [](const char* effect) {
    return json::Array{json::Object{{"key", "example.com/broken"}, {"effect", effect}}};
  };
  devices[0].as_object()["taints"] = taint("NoExecute");
  devices[1].as_object()["taints"] = taint("None");  // tells people only
  add({.name = "g", .devices = devices});
  give(1, "0");
  EXPECT_THAT(plan(pod("p", {{"gpu.example.com", 1}})).error(),
              HasSubstr("gpu.example.com/n1-pool/gpu-0 has the taint example.com/broken"));
  layout.nodes[0].gres.clear();
  give(2, "0-1");
  EXPECT_THAT(names_of(*plan(pod("p", {{"gpu.example.com", 1}}))), ElementsAre("gpu-1"));
  EXPECT_EQ(gres_of(ledger.on("n1")), "gpu:gpu.example.com:3");
  const auto why = [&](int count) {
    return ledger.shortage(pod("p", {{"gpu.example.com", count}})->requests, "n1", slurm.gres);
  };
  // Slurm would give the first, which nobody keeps, to each pod in turn.
  EXPECT_EQ(why(1), "has a device of class gpu.example.com with the taint example.com/broken");
  EXPECT_THAT(why(4), HasSubstr("too few devices of class gpu.example.com"));
}

TEST_F(Claims, UnknownDevicesAreWaitedFor) {
  add({.name = "g", .slices = 2, .devices = make_gpus(0, 4)});
  give(1, "0");
  EXPECT_THAT(plan(pod("p", {{"gpu.example.com", 1}})).error(), HasSubstr("1 of the 2 ResourceSlices"));
  ledger.set_unknown("nothing was read");
  EXPECT_THAT(plan(pod("p", {{"gpu.example.com", 1}})).error(), HasSubstr("nothing was read"));
}

// W35: an exclusive job owns all cores; the claim has the CPUs that were asked for.
TEST_F(Claims, W35OnlyTheCpusAskedFor) {
  add_cpus();
  const auto claim = plan(pod("p", {{"dra.cpu", 3}}));
  ASSERT_TRUE(claim) << claim.error();
  EXPECT_THAT(names_of(*claim), ElementsAre("cpu0", "cpu1", "cpu2"));
  EXPECT_EQ(claim->requests.front().selector, "device.attributes['dra.cpu'].cpuID in [0,1,2]");
  layout.nodes[0].core_bitmap = "0x2";
  EXPECT_THAT(names_of(*plan(pod("p", {{"dra.cpu", 2}}))), ElementsAre("cpu2", "cpu3"));
  EXPECT_THAT(plan(pod("p", {{"dra.cpu", 3}})).error(), HasSubstr("has 2 there"));
}

// W18: pods that share a node share a core only where there is no other way.
TEST_F(Claims, W18CoresThatNobodyHasBegunComeFirst) {
  add_cpus();
  const auto first = plan(pod("a", {{"dra.cpu", 1}}));
  EXPECT_THAT(names_of(*first), ElementsAre("cpu0"));
  ledger.on_claim(nullptr, written(*first));
  EXPECT_THAT(names_of(*plan(pod("b", {{"dra.cpu", 1}}))), ElementsAre("cpu2"));
  EXPECT_THAT(names_of(*plan(pod("b", {{"dra.cpu", 3}}))), ElementsAre("cpu1", "cpu2", "cpu3"));
  EXPECT_THAT(names_of(*plan(pod("a", {{"dra.cpu", 1}}))), ElementsAre("cpu0")) << "its own";
}

TEST_F(Claims, CoresMustMeanTheSameOnBothSides) {
  add_cpus();
  layout.nodes[0].cores_per_socket = 4;
  EXPECT_THAT(plan(pod("p", {{"dra.cpu", 1}})).error(), HasSubstr("sockets of 4 cores"));
  layout.nodes[0].cores_per_socket = 2;
  layout.nodes[0].core_bitmap = "0xg";
  EXPECT_THAT(plan(pod("p", {{"dra.cpu", 1}})).error(), HasSubstr("cannot be read"));
  layout.nodes[0].core_bitmap = "0x4";
  EXPECT_THAT(plan(pod("p", {{"dra.cpu", 1}})).error(), HasSubstr("gave core 2"));
  layout.has_cores = false;
  EXPECT_THAT(plan(pod("p", {{"dra.cpu", 1}})).error(), HasSubstr("does not say which cores"));
}

// W19, W34: classes of several drivers in one pod, and one class in several containers.
TEST_F(Claims, SeveralClassesAndContainers) {
  add_gpus(4);
  add_cpus();
  add({.name = "x", .driver = "gpu.nvidia.com", .devices = json::Array{json::Object{{"name", "gpu-0"}}}});
  give(4, "0-3");
  give(1, "4", "gpu.nvidia.com");
  const auto claim =
      plan(pod("p", {{"gpu.example.com", 1}, {"gpu.example.com", 2}, {"gpu.nvidia.com", 1}, {"dra.cpu", 1}}));
  ASSERT_TRUE(claim) << claim.error();
  std::vector<std::string> names;
  for (const auto& mapping : claim->mappings) names.push_back(mapping.container + " " + mapping.request);
  EXPECT_THAT(names, ElementsAre("c3 cpu", "c0 gpu", "c1 gpu-1", "c2 gpu-2"));
  EXPECT_THAT(names_of(*claim), ElementsAre("cpu0", "gpu-0", "gpu-1", "gpu-2", "gpu-0"));
}

// W34: Slurm counts the GPUs of a node through all their types, in the order in which it shows them.
TEST_F(Claims, W34IndicesCountThroughAllTypes) {
  json::Array others = make_gpus(0, 3);
  for (json::Value& one : others) one.as_object().erase("attributes");
  add_gpus(2);
  add({.name = "x", .driver = "gpu.nvidia.com", .devices = std::move(others)});
  give(0, "", "gpu.nvidia.com");  // as it may show a type of which it gave none
  give(2, "2,4", "gpu.nvidia.com");
  EXPECT_THAT(names_of(*plan(pod("p", {{"gpu.nvidia.com", 2}}))), ElementsAre("gpu-0", "gpu-2"));
  layout.nodes[0].gres.clear();
  give(1, "1", "gpu.nvidia.com");
  EXPECT_THAT(plan(pod("p", {{"gpu.nvidia.com", 1}})).error(), HasSubstr("gave index 1 of gres/gpu:gpu.nvidia.com"));
  slurm.gres = "gpu:gpu.nvidia.com:3(S:0-1),gpu:1,gpu:gpu.example.com:2";  // as a slurmd's gres.conf has them
  EXPECT_THAT(names_of(*plan(pod("p", {{"gpu.nvidia.com", 1}}))), ElementsAre("gpu-1"));
  give(1, "5");
  EXPECT_THAT(names_of(*plan(pod("p", {{"gpu.example.com", 1}}))), ElementsAre("gpu-1"));
}

TEST_F(Claims, FaultsOfTheRequestItself) {
  EXPECT_THAT(device_faults(*pod("p", {{"gpu.example.com", 1}, {"gpu.example.com", 1}})), ElementsAre());
  EXPECT_THAT(device_faults(*pod("p", {{"gpu.example.com", 1}}, true)), ElementsAre(HasSubstr("init container i")));
  EXPECT_THAT(device_faults(*pod("p", {{"dra.cpu", 33}})), ElementsAre(HasSubstr("at most 32")));
  // In a namespace that no webhook looks at.
  kube::Pod own = *pod("p", {});
  own.has_resource_claims = true;
  EXPECT_THAT(device_faults(own), ElementsAre(HasSubstr("spec.resourceClaims is not supported")));
}

// With the chart of its driver: that is no fault of the node.
TEST_F(Claims, AClassThatIsMadeAnewMayPass) {
  add_gpus(1);
  give(1, "0");
  ledger.on_class(device_class("gpu.example.com", interner), nullptr);
  EXPECT_THAT(plan(pod("p", {{"gpu.example.com", 1}})).error(), HasSubstr("there is no DeviceClass gpu.example.com"));
  EXPECT_TRUE(passes(pod("p", {{"gpu.example.com", 1}})));
}

// Another driver's class, or no class, names slices of the GPUs that Slurm counts.
TEST_F(Claims, AGpuOfWhichASliceIsInUseIsNotGiven) {
  json::Array devices = make_gpus(0, 2);
  devices.push_back(json::Object{{"name", "slice-of-0"}});
  for (auto& [name, set] : {std::pair(0, "set-0"), {1, "set-1"}, {2, "set-0"}}) {
    devices[name].as_object()["consumesCounters"] = json::Array{json::Object{{"counterSet", set}}};
  }
  add({.name = "g", .devices = devices});
  give(2, "0-1");
  EXPECT_TRUE(plan(pod("p", {{"gpu.example.com", 2}})));
  json::Value theirs = json::Object{
      {"metadata", json::Object{{"name", "theirs"}, {"namespace", "ns"}}},
      {"status",
       json::Object{{"allocation",
                     json::Object{{"devices",
                                   json::Object{{"results", json::Array{json::Object{{"driver", "gpu.example.com"},
                                                                                     {"pool", "n1-pool"},
                                                                                     {"device", "slice-of-0"}}}}}}}}}}};
  ledger.on_claim(nullptr, decode_claim(json::dump(theirs), interner));
  EXPECT_THAT(plan(pod("p", {{"gpu.example.com", 2}})).error(),
              HasSubstr("gpu-0 is a part of the same hardware as slice-of-0, which is held by claim ns/theirs"));
  EXPECT_THAT(names_of(*plan(pod("p", {{"gpu.example.com", 1}}))), ElementsAre("gpu-1"));
}

// No device in two claims: one that is held is passed over, and when none is left the holder is named.
TEST_F(Claims, HeldDevicesArePassedOver) {
  add_gpus(2);
  give(2, "0-1");
  const auto first = plan(pod("a", {{"gpu.example.com", 1}}));
  ledger.on_claim(nullptr, written(*first));
  const auto second = plan(pod("b", {{"gpu.example.com", 1}}));
  EXPECT_THAT(names_of(*second), ElementsAre("gpu-1"));
  EXPECT_THAT(names_of(*plan(pod("a", {{"gpu.example.com", 1}}))), ElementsAre("gpu-0")) << "its own stays";
  EXPECT_THAT(plan(pod("c", {{"gpu.example.com", 2}})).error(), HasSubstr("held by claim ns/a-slurm-"));
  EXPECT_THAT(names_of(*plan(pod("c", {{"gpu.example.com", 1}}), first->devices())), ElementsAre("gpu-1"));
  ledger.on_claim(written(*first), nullptr);
  EXPECT_TRUE(plan(pod("c", {{"gpu.example.com", 2}})));
  ledger.assume(*pod("a", {}), first->devices());
  EXPECT_THAT(names_of(*plan(pod("b", {{"gpu.example.com", 1}}))), ElementsAre("gpu-1"));
  ledger.forget(Uid("uid-a"));
  EXPECT_TRUE(plan(pod("c", {{"gpu.example.com", 2}})));
}

// A claim being written for a pod is not seen yet when the server shows another one of that pod's.
TEST_F(Claims, WhatIsBeingWrittenOutlastsAnEarlierClaim) {
  add_gpus(2);
  give(1, "0");
  const auto earlier = plan(pod("a", {{"gpu.example.com", 1}}));
  layout.nodes[0].gres.clear();
  give(1, "1");
  const auto later = plan(pod("a", {{"gpu.example.com", 1}}));
  ASSERT_THAT(names_of(*later), ElementsAre("gpu-1"));
  ledger.assume(*pod("a", {}), later->devices());
  ledger.on_claim(nullptr, written(*earlier));
  EXPECT_THAT(plan(pod("b", {{"gpu.example.com", 1}})).error(), HasSubstr("a claim that is being written"));
  ledger.on_claim(written(*earlier), written(*later));
  ledger.on_claim(written(*later), nullptr);
  EXPECT_TRUE(plan(pod("b", {{"gpu.example.com", 1}}))) << "it was seen, and it has gone";
}

// W33: the name is the pod's own, and a claim that holds the same stands.
TEST_F(Claims, W33TheClaimIsFoundAgain) {
  add_gpus(4);
  give(2, "0-1");
  const PodPtr asks = pod("p", {{"gpu.example.com", 1}});
  const auto claim = plan(asks);
  EXPECT_EQ(claim->key, claim_key(*asks));
  EXPECT_THAT(claim->key.name, HasSubstr("p-slurm-"));
  const ClaimPtr stands = written(*claim);
  EXPECT_TRUE(stands_for(*stands, *claim));
  EXPECT_TRUE(stands_for(*written(*claim, false), *claim));
  ledger.on_claim(nullptr, stands);
  EXPECT_EQ(ledger.claim_of(*asks), stands);
  EXPECT_EQ(job_of(*stands), JobId{7});
  EXPECT_TRUE(stands_for(*stands, *plan(asks)));
  layout.nodes[0].gres[0].index = "2-3";
  EXPECT_FALSE(stands_for(*stands, *plan(asks)));
  json::Value long_name = ::bascule::testing::make_pod({.name = std::string(253, 'a')});
  EXPECT_LE(claim_key(*kube::decode_pod(json::dump(long_name), interner)).name.size(), 253u);
}

// W53: only what carries our name and a pod as owner is ours.
TEST_F(Claims, W53OnlyOurs) {
  add_gpus(1);
  give(1, "0");
  const auto claim = plan(pod("p", {{"gpu.example.com", 1}}));
  EXPECT_TRUE(ledger.ours(*written(*claim)));
  json::Value other = claim_object(*claim, "another-bridge");
  EXPECT_FALSE(ledger.ours(*decode_claim(json::dump(other), interner)));
  json::Value orphan = claim_object(*claim, "slurm-bridge-scheduler");
  orphan.as_object()["metadata"].as_object().erase("ownerReferences");
  EXPECT_FALSE(ledger.ours(*decode_claim(json::dump(orphan), interner)));
}

TEST_F(Claims, ShortageOfANode) {
  add_gpus(2);
  const auto why = [&](const std::string& name, int count) {
    return ledger.shortage(pod("p", {{name, count}})->requests, "n1", slurm.gres);
  };
  slurm.gres = "gpu:gpu.example.com:2(S:0)";
  EXPECT_EQ(why("gpu.example.com", 2), "");
  EXPECT_THAT(why("gpu.example.com", 3), HasSubstr("too few devices of class gpu.example.com"));
  EXPECT_THAT(why("dra.cpu", 1), HasSubstr("too few"));
  EXPECT_EQ(ledger.shortage(pod("q", {})->requests, "n1", ""), "");
  slurm.gres = "gpu:gpu.example.com:4(S:0)";
  EXPECT_THAT(why("gpu.example.com", 1), HasSubstr("other devices of class gpu.example.com"));
  slurm.gres.clear();
  EXPECT_THAT(why("gpu.example.com", 1), HasSubstr("other devices of class gpu.example.com"));
}

// For Slurm versions without resources/: what the job record says of its GRES.
TEST_F(Claims, LayoutFromTheJobRecord) {
  slurm::Job job;
  job.start_time = 5;
  job.nodes = "s[1-3]";
  job.gres_detail = {"gpu:gpu.example.com:3(IDX:0,2-3)", "gpu:h100(CNT:3)", "gpu:a:1(IDX:0),gpu:b:2(IDX:1-2)"};
  const JobLayout read = layout_of(job);
  ASSERT_EQ(read.nodes.size(), 3u);
  EXPECT_EQ(read.nodes[0].gres[0].type, "gpu.example.com");
  EXPECT_EQ(read.nodes[0].gres[0].index, "0,2-3");
  EXPECT_EQ(read.nodes[0].gres[0].count, 3u);
  EXPECT_EQ(read.nodes[1].gres[0].type, "h100");
  EXPECT_EQ(read.nodes[1].gres[0].index, "");
  ASSERT_EQ(read.nodes[2].gres.size(), 2u);
  EXPECT_EQ(read.nodes[2].gres[1].type, "b");
  job.gres_detail = {"junk", "gpu:(IDX", "gpu:x(IDX:1)", "more"};
  for (const auto& node : layout_of(job).nodes) {
    for (const auto& gres : node.gres) EXPECT_EQ(gres.name, "gpu");
  }
}

}  // namespace
}  // namespace bascule::bridge
