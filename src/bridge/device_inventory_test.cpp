#include "bridge/device_inventory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bridge/device_selector.hpp"
#include "bridge/device_test_support.hpp"

namespace bascule::bridge {
namespace {

using namespace bascule::bridge::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Inventory : ::testing::Test {
  json::Interner interner;
  std::vector<SlicePtr> slices;
  std::map<std::string, ClassPtr, std::less<>> classes;
  DeviceDrivers drivers;

  Inventory() { add_classes(); }
  void add_classes() {
    for (const DeviceDriver& one : drivers.all()) {
      for (const std::string& name : one.classes) add_class(name);
    }
  }
  void add_class(const std::string& name, const std::string& selector = {}) {
    classes[name] = device_class(name, interner, selector);
  }
  void add(const SliceSpec& spec) { slices.push_back(slice(spec, interner)); }
  void add_cpus(const std::vector<CpuSpec>& cpus) {
    add({.name = "c", .driver = "dra.cpu", .pool = "cpus", .devices = make_cpus(cpus)});
  }
  NodeDevices read() const { return devices_of(slices, classes, drivers); }
  static std::vector<std::vector<std::int64_t>> cores(const NodeDevices& devices) {
    std::vector<std::vector<std::int64_t>> out;
    for (const auto& core : devices.cpus.cpus) {
      auto& numbers = out.emplace_back();
      for (const NumberedDevice& cpu : core) numbers.push_back(cpu.number);
    }
    return out;
  }
};

TEST_F(Inventory, NoSliceNoDevices) {
  EXPECT_EQ(read().unknown, "");
  EXPECT_EQ(gres_of(read()), "");
  EXPECT_EQ(gres_conf_of(read()), "");
}

TEST_F(Inventory, GpusInOrderOfTheirNumbers) {
  json::Array devices = make_gpus(2, 2);
  for (const json::Value& one : make_gpus(0, 2)) devices.push_back(one);
  add({.name = "a", .devices = devices});
  EXPECT_EQ(gres_of(read()), "gpu:gpu.example.com:4");
  EXPECT_EQ(gres_conf_of(read()), "count=4,name=gpu,type=gpu.example.com,file=gpu-0,file=gpu-1,file=gpu-2,file=gpu-3");
  EXPECT_EQ(read().gpus.at("gpu.example.com").front().id.pool, "n1-pool");
}

TEST_F(Inventory, DevicesOfAClassThatArePartsOfTheSameHardwareAreAProblem) {
  json::Array devices = make_gpus(0, 2);
  for (json::Value& one : devices) {
    one.as_object()["consumesCounters"] = json::Array{json::Object{{"counterSet", "board"}}};
  }
  add({.name = "a", .devices = devices});
  EXPECT_EQ(gres_of(read()), "");
  EXPECT_THAT(read().problems.at("gpu.example.com"), HasSubstr("gpu-0 and gpu-1 are parts of the same hardware"));
}

TEST_F(Inventory, NvidiaByNameAndOtherNamesPassedOver) {
  json::Array devices;
  for (const char* name : {"gpu-10", "gpu-2", "gpu-0-mig-1g-0", "gpu-x"})
    devices.push_back(json::Object{{"name", name}});
  add({.name = "a", .driver = "gpu.nvidia.com", .devices = devices});
  EXPECT_EQ(gres_conf_of(read()), "count=2,name=gpu,type=gpu.nvidia.com,file=gpu-2,file=gpu-10");
}

// W34: several slices of a pool are one pool, two pools and two drivers stand beside each other.
TEST_F(Inventory, W34AllSlicesOfAPoolCount) {
  add({.name = "a", .slices = 2, .devices = make_gpus(0, 4)});
  add({.name = "b", .slices = 2, .devices = make_gpus(4, 4)});
  add({.name = "c", .pool = "more", .devices = make_gpus(8, 1)});
  json::Array nvidia{json::Object{{"name", "gpu-0"}}};
  add({.name = "d", .driver = "gpu.nvidia.com", .devices = nvidia});
  EXPECT_EQ(gres_of(read()), "gpu:gpu.example.com:9,gpu:gpu.nvidia.com:1");
  EXPECT_THAT(gres_conf_of(read()), HasSubstr("file=gpu-8+count=1,name=gpu,type=gpu.nvidia.com,file=gpu-0"));
}

TEST_F(Inventory, W34IncompletePoolIsUnknownNotSmaller) {
  add({.name = "a", .slices = 2, .devices = make_gpus(0, 4)});
  EXPECT_THAT(read().unknown, HasSubstr("1 of the 2 ResourceSlices"));
}

TEST_F(Inventory, W34OnlyTheHighestGenerationCounts) {
  add({.name = "old1", .generation = 1, .slices = 2, .devices = make_gpus(0, 4)});
  add({.name = "new", .generation = 2, .slices = 1, .devices = make_gpus(0, 3)});
  add({.name = "old2", .generation = 1, .slices = 2, .devices = make_gpus(4, 4)});
  EXPECT_EQ(gres_of(read()), "gpu:gpu.example.com:3");
  add({.name = "newer", .generation = 3, .slices = 2, .devices = make_gpus(0, 3)});
  EXPECT_NE(read().unknown, "");
}

TEST_F(Inventory, ForeignDriversArePassedOver) {
  add({.name = "a", .driver = "net.example.com", .slices = 5});
  EXPECT_EQ(read().unknown, "");
}

TEST_F(Inventory, TwoDevicesOfOneNumberAreAProblemOfTheirClass) {
  add({.name = "a", .devices = make_gpus(0, 2)});
  add({.name = "b", .pool = "other", .devices = make_gpus(1, 1)});
  EXPECT_THAT(read().problems.at("gpu.example.com"), HasSubstr("have the number 1"));
  EXPECT_TRUE(read().gpus.empty());
}

TEST_F(Inventory, AClassThatDoesNotExistIsAProblem) {
  classes.clear();
  add({.name = "a", .devices = make_gpus(0, 2)});
  EXPECT_THAT(read().problems.at("gpu.example.com"), HasSubstr("no DeviceClass"));
}

// W36: a class takes what its selectors admit, and says when they cannot be decided.
TEST_F(Inventory, W36SelectorsOfTheClassDecide) {
  add_class("gpu.example.com", "device.driver == 'gpu.example.com' && device.attributes['gpu.example.com'].index < 2");
  add({.name = "a", .devices = make_gpus(0, 4)});
  EXPECT_EQ(gres_of(read()), "gpu:gpu.example.com:2");
  add_class("gpu.example.com", "device.capacity['gpu.example.com'].memory.compareTo(quantity('1Gi')) > 0");
  EXPECT_THAT(read().problems.at("gpu.example.com"), HasSubstr("cannot be decided"));
}

json::Object with_attribute(const std::string& name, const std::string& attribute, int value) {
  return json::Object{{"name", name}, {"attributes", json::Object{{attribute, json::Object{{"int", value}}}}}};
}

// W36: a driver that the configuration names is counted as those that ship with the bridge.
TEST_F(Inventory, W36AConfiguredDriverIsCounted) {
  drivers.put({.driver = "fpga.example.org", .classes = {"fpga.example.org"}, .number_attribute = "slot"});
  add_classes();
  const json::Array boards{with_attribute("board-b", "slot", 7), with_attribute("board-a", "slot", 2)};
  add({.name = "f", .driver = "fpga.example.org", .devices = boards});
  add({.name = "a", .devices = make_gpus(0, 1)});
  EXPECT_EQ(gres_of(read()), "gpu:fpga.example.org:2,gpu:gpu.example.com:1");
  EXPECT_THAT(gres_conf_of(read()), HasSubstr("type=fpga.example.org,file=board-a,file=board-b"));
  RegisteredDevices before{"gpu:fpga.example.org:3", 0};
  EXPECT_THAT(fewer_than(before, read(), drivers), HasSubstr("2 of the 3 devices of class fpga.example.org"));
  EXPECT_EQ(fewer_than(before, read(), DeviceDrivers{}), "") << "what the configuration names no more may go at once";
}

TEST_F(Inventory, W36AnEntryTakesThePlaceOfTheDriverOfItsName) {
  drivers.put({.driver = "gpu.example.com", .classes = {"big"}, .name_prefix = "gpu-"});
  add_classes();
  add({.name = "a", .devices = make_gpus(0, 2)});
  EXPECT_EQ(gres_of(read()), "gpu:big:2");
}

TEST_F(Inventory, W36AttributesOfCpusAreTheDrivers) {
  drivers.put({.driver = "cpu.example.org",
               .classes = {"cores"},
               .kind = DeviceKind::kCpu,
               .number_attribute = "example.org/id",
               .core_attribute = "core",
               .socket_attribute = "socket"});
  EXPECT_EQ(drivers.named("dra.cpu"), nullptr) << "a node's CPUs are counted once";
  add_classes();
  json::Array cpus;
  for (int i = 0; i < 4; ++i) {
    cpus.push_back(json::Object{{"name", "c" + std::to_string(i)},
                                {"attributes", json::Object{{"example.org/id", json::Object{{"int", i}}},
                                                            {"core", json::Object{{"int", i % 2}}},
                                                            {"socket", json::Object{{"int", 0}}}}}});
  }
  add({.name = "c", .driver = "cpu.example.org", .devices = cpus});
  EXPECT_THAT(cores(read()), ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3)));
  EXPECT_EQ(read().count("cores"), 4u);
  EXPECT_EQ(read().count("dra.cpu"), 0u);
}

// W36: one driver may have several classes, as long as no device is of two.
TEST_F(Inventory, W36ClassesOfOneDriverPartItsDevices) {
  drivers.put({.driver = "gpu.example.com", .classes = {"low", "high"}, .number_attribute = "index"});
  add_class("low", "device.attributes['gpu.example.com'].index < 2");
  add_class("high", "device.attributes['gpu.example.com'].index >= 2");
  add({.name = "a", .devices = make_gpus(0, 3)});
  EXPECT_EQ(gres_of(read()), "gpu:high:1,gpu:low:2");
  add_class("high", "device.attributes['gpu.example.com'].index >= 1");
  EXPECT_EQ(gres_of(read()), "");
  EXPECT_THAT(read().problems.at("high"), HasSubstr("device gpu-1 is of class low too"));
  EXPECT_THAT(read().problems.at("low"), HasSubstr("of class high too"));
}

TEST_F(Inventory, CoresInSlurmsOrder) {
  add_cpus({{0, 0, 0}, {1, 0, 1}, {2, 0, 2}, {3, 0, 3}});
  EXPECT_THAT(cores(read()), ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2), ElementsAre(3)));
  EXPECT_EQ(read().cpus.sockets, 4u);
  slices.clear();
  add_cpus({{0, 0, 0}, {1, 0, 0}, {2, 1, 0}, {3, 1, 0}});
  EXPECT_THAT(cores(read()), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  slices.clear();
  add_cpus({{0, 0, 0}, {1, 1, 0}, {2, 0, 0}, {3, 1, 0}});
  EXPECT_THAT(cores(read()), ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3)));
  EXPECT_EQ(read().cpus.threads, 2u);
  EXPECT_EQ(read().cpus.count(), 4u);
}

// W45: sockets are shown where they are alike; where cores differ, one count holds for all: single cores.
TEST_F(Inventory, W45SocketsAndUnlikeCores) {
  add_cpus({{0, 0, 0}, {1, 1, 0}, {2, 0, 1}, {3, 1, 1}});
  EXPECT_EQ(read().cpus.sockets, 2u);
  EXPECT_EQ(read().cpus.cores, 2u);
  slices.clear();
  add_cpus({{0, 0, 0}, {1, 0, 0}, {2, 1, 0}, {3, 2, 0, 3}});
  const NodeDevices devices = read();
  EXPECT_THAT(cores(devices), ElementsAre(ElementsAre(0, 1), ElementsAre(2))) << "efficient cores are left out";
  EXPECT_EQ(devices.cpus.sockets, 1u);
  EXPECT_EQ(devices.cpus.threads, 1u);
  EXPECT_EQ(devices.cpus.count(), 2u);
}

TEST_F(Inventory, ACpuWithoutItsAttributesIsAProblem) {
  add({.name = "c", .driver = "dra.cpu", .devices = json::Array{json::Object{{"name", "cpu0"}}}});
  EXPECT_THAT(read().problems.at("dra.cpu"), HasSubstr("lacks cpuID"));
}

TEST(NormalGres, WithoutSocketsAndOrder) {
  EXPECT_EQ(normal_gres("gpu:b:1(S:0,1),gpu:a:2"), "gpu:a:2,gpu:b:1");
  EXPECT_EQ(normal_gres(""), "");
  EXPECT_EQ(normal_gres("(null)"), "");
}

TEST(GresCount, ByTypeAndBeforeIt) {
  const std::string_view gres = "gpu:2,gpu:a:1(S:0,1),shard:8,gpu:b,gpu:c:4(S:0)";
  EXPECT_EQ(gres_count(gres, "c"), 4u);
  EXPECT_EQ(gres_index(gres, "c"), 4u);
  EXPECT_EQ(gres_count(gres, "b"), 1u);
  EXPECT_EQ(gres_index(gres, "b"), 3u);
  EXPECT_EQ(gres_count(gres, "d"), 0u);
}

struct SelectorCase {
  const char* text;
  std::optional<bool> wanted;
};
class Selector : public ::testing::TestWithParam<SelectorCase> {};
TEST_P(Selector, Decides) {
  const Device device{"gpu-1",
                      {{"d/index", DeviceAttribute(std::int64_t{1})},
                       {"d/model", DeviceAttribute(std::string("A100"))},
                       {"d/mig", DeviceAttribute(false)}}};
  EXPECT_EQ(selects(GetParam().text, "d", device), GetParam().wanted) << GetParam().text;
}
INSTANTIATE_TEST_SUITE_P(
    Cases, Selector,
    ::testing::Values(SelectorCase{"device.driver == 'd'", true}, SelectorCase{"device.driver != \"d\"", false},
                      SelectorCase{"device.attributes['d'].index in [0,1]", true},
                      SelectorCase{"device.attributes['d'].index in [0, 2]", false},
                      SelectorCase{"device.attributes['d'].index >= 1 && !(device.attributes['d'].mig)", true},
                      SelectorCase{"device.attributes['d'].model == 'H100' || device.attributes['d'].index == 1", true},
                      SelectorCase{"device.attributes['d'].absent == 1", std::nullopt},
                      SelectorCase{"device.driver == 'x' && device.attributes['d'].absent == 1", false},
                      SelectorCase{"device.attributes['d'].absent == 1 || true", true},
                      SelectorCase{"!device.attributes['d'].mig", true},
                      SelectorCase{"device.attributes['d'].index", std::nullopt},
                      SelectorCase{"device.attributes['d'].model.startsWith('A')", std::nullopt},
                      SelectorCase{"device.attributes['d'].index == '1'", std::nullopt}, SelectorCase{"", std::nullopt},
                      SelectorCase{"true true", std::nullopt}, SelectorCase{"(true", std::nullopt},
                      SelectorCase{"device.driver == 'd\\'", std::nullopt}, SelectorCase{"1.5 < 2", std::nullopt}));

TEST(SelectorBounds, DeepTextIsUndecided) {
  const Device device;
  EXPECT_EQ(selects(std::string(5'000, '(') + "true" + std::string(5'000, ')'), "d", device), std::nullopt);
  EXPECT_EQ(selects(std::string(5'000, '!') + "true", "d", device), std::nullopt);
  EXPECT_EQ(selects(std::string(9'000, '['), "d", device), std::nullopt);
}

}  // namespace
}  // namespace bascule::bridge
