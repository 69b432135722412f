// Gangs whose members share nodes and ask for devices by class (W18): how many go to which node follows the devices
// that Slurm gave there, and no device is given twice.
#include "bridge/device_test_support.hpp"
#include "bridge/gang_plan_test.hpp"

namespace bascule::bridge {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::string_view kGpu = "gpu.example.com";
constexpr std::string_view kGpuResource = "deviceclass.resource.kubernetes.io/gpu.example.com";

// What Slurm gave on one node: whole cores of two CPUs, and the indices of GPUs.
struct Given {
  std::string node;
  std::uint32_t cpus = 0;
  std::string index;
  std::uint64_t count = 0;
};

struct DeviceGangTest : GangTest {
  DeviceGangTest() {
    view.root->annotations = {{interner("slurmjob.slinky.slurm.net/exclusive"), interner("false")}};
    view.root->gang->minimum = 4;
    ledger.on_class(nullptr, testing::device_class(std::string(kGpu), interner));
    for (const char* name : {"n1", "n2", "n3"}) {
      ledger.on_slice(nullptr,
                      testing::slice({.name = name, .node = name, .devices = testing::make_gpus(0, 4)}, interner));
      auto record = std::make_shared<slurm::Node>(*nodes.slurm_node(name));
      record->gres = "gpu:gpu.example.com:4";
      nodes.on_slurm_node(nullptr, record);
    }
    ledger.set_unknown({});
    nodes.set_devices(&ledger);
  }
  ~DeviceGangTest() override { nodes.set_devices(nullptr); }

  std::shared_ptr<kube::Pod> add_pod(const std::string& name, int gpus = 1) {
    const auto pod = GangTest::add_pod(name);
    if (gpus == 0) return pod;
    pod->device_requests = {{interner("main"), interner(kGpuResource), gpus}};
    pod->requests = pod->limits = {{interner(kGpuResource), Quantity(gpus)}};
    return pod;
  }
  std::shared_ptr<kube::Pod> add_member(const std::string& name) {
    auto pod = add_pod(name);
    mark(*pod, 7);
    return pod;
  }
  // Job 7 of these pods, one GPU each, runs there.
  void run_job(std::vector<std::string> pods, const std::vector<Given>& given) {
    std::string hosts;
    JobLayout layout{100, {}, true};
    std::vector<std::uint32_t> cpus;
    for (const Given& one : given) {
      hosts += (hosts.empty() ? "" : ",") + one.node;
      cpus.push_back(one.cpus);
      layout.nodes.push_back(
          {.node = one.node, .core_bitmap = {}, .gres = {{"gpu", std::string(kGpu), one.index, one.count}}});
    }
    add_job(7, slurm::JobState::kRunning, std::move(pods), hosts);
    auto job = std::make_shared<slurm::Job>(*view.jobs.back().job);
    job->node_cpus = std::move(cpus);
    job->start_time = 100;
    view.jobs.back().job = job;
    view.jobs.back().record.cpus = 1;
    view.jobs.back().record.task = TaskSize{.cpus = 1, .gres = "gres/gpu:gpu.example.com=1"};
    memory.layouts.insert_or_assign(JobId{7}, std::move(layout));
  }
  // Its claim for these devices of that node stands.
  ClaimPtr claim(const kube::Pod& pod, const std::string& node, const std::vector<int>& gpus) {
    WantedClaim wanted{
        claim_key(pod), pod.meta.key, pod.meta.uid, JobId{7}, node, {{"gpu", std::string(kGpu), "", {}}}, {}};
    for (const int gpu : gpus)
      wanted.requests[0].devices.push_back({std::string(kGpu), node + "-pool", "gpu-" + std::to_string(gpu)});
    json::Value object = claim_object(wanted, "slurm-bridge-scheduler");
    object.as_object()["status"] = claim_status(wanted, "2026-01-01T00:00:00Z");
    ClaimPtr made = decode_claim(json::dump(object), interner);
    ledger.on_claim(nullptr, made);
    return made;
  }
  // "POD@NODE:DEVICE".
  static std::vector<std::string> given(const UnitPlan& plan) {
    std::vector<std::string> out;
    for (const UnitPlan::Bind& bind : plan.binds) {
      std::string text = bind.pod->meta.key.name + "@" + bind.node->meta.key.name;
      if (bind.device_claim) {
        for (const DeviceId& device : bind.device_claim->devices()) text += ":" + device.name;
      }
      out.push_back(std::move(text));
    }
    return out;
  }
  DeviceLedger ledger{"slurm-bridge-scheduler"};
};

TEST_F(DeviceGangTest, W18AsksForDevicesOfEachTask) {
  for (const char* name : {"w-1", "w-2", "w-3"}) add_pod(name);
  add_pod("w-4", 2);
  const UnitPlan p = plan();
  ASSERT_TRUE(p.submit);
  EXPECT_EQ(p.submit->tasks, 4u);
  EXPECT_EQ(p.submit->nodes, slurm::NodeCount(1, 4));
  EXPECT_EQ(p.submit->tres_per_task, "gres/gpu:gpu.example.com=2") << "of the largest";
  EXPECT_FALSE(p.submit->tres_per_node || p.submit->tasks_per_node);
  EXPECT_EQ(parse_record(*p.submit->admin_comment)->task->gres, "gres/gpu:gpu.example.com=2");
}

TEST_F(DeviceGangTest, W18MembersOfANodeGetDevicesOfTheirOwn) {
  for (const char* name : {"w-1", "w-2", "w-3", "w-4"}) add_member(name);
  run_job({"w-1", "w-2", "w-3", "w-4"}, {{"n1", 4, "0-3", 4}});
  EXPECT_THAT(given(plan()), ElementsAre("w-1@n1:gpu-0", "w-2@n1:gpu-1", "w-3@n1:gpu-2", "w-4@n1:gpu-3"));
}

// Three tasks of one CPU hold two cores, and so does one task on a node whose cores are larger: CPUs do not tell.
TEST_F(DeviceGangTest, W18PlacesFollowTheDevicesOfEachNode) {
  for (const char* name : {"w-1", "w-2", "w-3", "w-4"}) add_member(name);
  run_job({"w-1", "w-2", "w-3", "w-4"}, {{"n1", 4, "1-3", 3}, {"n2", 4, "2", 1}});
  EXPECT_THAT(given(plan()), ElementsAre("w-1@n1:gpu-1", "w-2@n1:gpu-2", "w-3@n1:gpu-3", "w-4@n2:gpu-2"));
  memory.layouts.clear();
  UnitPlan p = plan();
  EXPECT_THAT(p.layouts, ElementsAre(JobId{7})) << "asked first";
  EXPECT_TRUE(p.binds.empty() && !p.submit && p.cancels.empty());
  memory.layouts[JobId{7}] = {99, {{.node = "n1", .core_bitmap = {}, .gres = {}}}, true};
  p = plan();
  EXPECT_THAT(p.layouts, ElementsAre(JobId{7})) << "of an earlier start";
  EXPECT_TRUE(p.binds.empty() && !p.submit && p.cancels.empty());
}

// A member that asks for none has a place like the others', whose devices lie idle.
TEST_F(DeviceGangTest, W18WhoAsksForNoneTakesAPlaceToo) {
  mark(*add_pod("w-0", 0), 7);
  for (const char* name : {"w-1", "w-2", "w-3"}) add_member(name);
  run_job({"w-0", "w-1", "w-2", "w-3"}, {{"n1", 4, "0-1", 2}, {"n2", 4, "0-1", 2}});
  EXPECT_THAT(given(plan()), ElementsAre("w-0@n1", "w-1@n1:gpu-0", "w-2@n2:gpu-0", "w-3@n2:gpu-1"));
}

TEST_F(DeviceGangTest, W18FewerDevicesThanTasksAreToldAndTheJobGivenBack) {
  for (const char* name : {"w-1", "w-2", "w-3", "w-4"}) add_member(name);
  run_job({"w-1", "w-2", "w-3", "w-4"}, {{"n1", 2, "0-1", 2}, {"n2", 2, "0", 1}});
  UnitPlan p = plan();
  EXPECT_TRUE(p.binds.empty() && p.cancels.empty());
  EXPECT_FALSE(p.submit) << "nobody is left over";
  EXPECT_THAT(p.waiting.at(0).message, HasSubstr("Slurm job 7 has 0 there that are free"));
  now = view.jobs[0].confirmed_at = now + kMisfitPatience;
  p = plan();
  EXPECT_EQ(p.cancels.size(), 1u);
  EXPECT_TRUE(memory.refused.contains("n2"));
}

TEST_F(DeviceGangTest, W18AClaimKeepsItsMemberOnItsNode) {
  std::map<std::string, std::shared_ptr<kube::Pod>> pods;
  for (const char* name : {"w-0", "w-1", "w-2", "w-3"}) pods[name] = add_member(name);
  run_job({"w-0", "w-1", "w-2", "w-3"}, {{"n1", 2, "0-1", 2}, {"n2", 2, "2-3", 2}});
  // Written before a restart, when w-0 was not there yet.
  claim(*pods["w-1"], "n1", {0});
  claim(*pods["w-2"], "n1", {1});
  claim(*pods["w-3"], "n2", {3});
  EXPECT_THAT(given(plan()), ElementsAre("w-0@n2:gpu-2", "w-1@n1:gpu-0", "w-2@n1:gpu-1", "w-3@n2:gpu-3"));
  bind(*pods["w-2"], 7, "n1");
  EXPECT_THAT(given(plan()), ElementsAre("w-0@n2:gpu-2", "w-1@n1:gpu-0", "w-3@n2:gpu-3"));
}

TEST_F(DeviceGangTest, W18TheNextMemberGetsTheDevicesOfALostOne) {
  std::vector<std::shared_ptr<kube::Pod>> pods;
  for (const char* name : {"w-1", "w-2", "w-3", "w-4"}) pods.push_back(add_member(name));
  run_job({"w-1", "w-2", "w-3", "w-4"}, {{"n1", 4, "0-2", 3}, {"n2", 4, "1", 1}});
  std::vector<ClaimPtr> claims;
  for (int i = 0; i < 4; ++i) {
    const std::string node = i < 3 ? "n1" : "n2";
    bind(*pods[static_cast<std::size_t>(i)], 7, node);
    claims.push_back(claim(*pods[static_cast<std::size_t>(i)], node, {i < 3 ? i : 1}));
  }
  pods[1]->phase = kube::PodPhase::kFailed;
  const auto next = add_pod("w-5");
  UnitPlan p = plan();
  EXPECT_TRUE(p.marks.size() == 1 && p.binds.empty() && !p.submit) << "it goes to the job that has a place";
  EXPECT_THAT(p.waiting.at(0).message, HasSubstr("is held by claim ns/w-2-slurm-"));
  mark(*next, 7);
  ledger.on_claim(claims[1], nullptr);
  EXPECT_THAT(given(plan()), ElementsAre("w-5@n1:gpu-1"));
  memory.layouts.clear();  // this process is another
  EXPECT_THAT(plan().layouts, ElementsAre(JobId{7}));
}

TEST_F(DeviceGangTest, W18ALaterMemberThatAsksForMoreGetsAJobOfItsOwn) {
  std::vector<std::shared_ptr<kube::Pod>> pods;
  for (const char* name : {"w-1", "w-2", "w-3"}) pods.push_back(add_member(name));
  view.root->gang->minimum = 1;
  run_job({"w-1", "w-2", "w-3", "w-4"}, {{"n1", 4, "0-3", 4}});
  for (int i = 0; i < 3; ++i) {
    bind(*pods[static_cast<std::size_t>(i)], 7, "n1");
    claim(*pods[static_cast<std::size_t>(i)], "n1", {i});
  }
  add_pod("w-5", 2);
  const UnitPlan p = plan();
  ASSERT_TRUE(p.submit);
  EXPECT_EQ(p.submit->tres_per_task, "gres/gpu:gpu.example.com=2");
}

// --- how many tasks the devices of a node are for --------------------------------------------------------------------

TEST(TasksWithDevices, ByTheScarcestClass) {
  const JobLayout layout{
      0,
      {{.node = "n1", .core_bitmap = {}, .gres = {{"gpu", "a", "0-4", 5}, {"gpu", "b", "0", 1}, {"gpu", "b", "1", 1}}}},
      true};
  const auto tasks = [&layout](const char* gres, const char* node = "n1") {
    return tasks_with_devices(TaskSize{.cpus = 1, .gres = gres}, layout, node);
  };
  EXPECT_EQ(tasks("gres/gpu:a=2"), 2u);
  EXPECT_EQ(tasks("gres/gpu:a=1,gres/gpu:b=2"), 1u);
  EXPECT_EQ(tasks("gres/gpu:c=1"), 0u);
  EXPECT_EQ(tasks("gres/gpu:a=1", "n2"), 0u);
  EXPECT_EQ(tasks(""), std::nullopt);
  EXPECT_EQ(tasks("gres/gpu=2"), std::nullopt);
  EXPECT_EQ(tasks("gres/gpu:a:2,gres/gpu:a=x,gres/gpu:a=0"), std::nullopt);
}

// A member that is there holds devices of the job, seen or not.
TEST_F(DeviceGangTest, W18NothingIsGivenBesideAMemberWhoseClaimIsNotSeen) {
  view.root->gang->minimum = 2;
  const auto one = add_member("w-1");
  const auto two = add_member("w-2");
  run_job({"w-1", "w-2"}, {{"n1", 2, "0-1", 2}});
  bind(*two, 7, "n1");
  EXPECT_THAT(plan().binds, IsEmpty());
  ledger.on_claim(nullptr, claim(*two, "n1", {0}));
  EXPECT_EQ(plan().binds.size(), 1U);
}

}  // namespace
}  // namespace bascule::bridge
