#include "bridge/simulate.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "bridge/device_test_support.hpp"
#include "bridge/names.hpp"

namespace bascule::bridge {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string file(const std::string& name) {
  std::ifstream in(std::string(BASCULE_SOURCE_DIR) + "/" + name);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct SimulateTest : ::testing::Test {
  Simulation run(std::string_view text) { return simulate(read_state(text, {}, interner), interner); }
  std::string fault(std::string_view text) {
    try {
      run(text);
    } catch (const StateFault& error) {
      return error.what();
    }
    return "no fault";
  }
  // "decision pod,pod why" of each.
  static std::vector<std::string> lines(const Simulation& simulation) {
    std::vector<std::string> out;
    for (const SimulatedStep& d : simulation.decisions) out.push_back(d.decision + " " + d.unit + " " + d.reason);
    return out;
  }
  json::Interner interner;
};

constexpr const char* kPod = R"({"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"ml","name":"a","uid":"u-a"},
  "spec":{"schedulerName":"slurm-bridge-scheduler","containers":[]},"status":{"phase":"Pending"}})";
constexpr const char* kNode =
    R"({"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"},"status":{"allocatable":{"cpu":"8","pods":"9"}}})";
constexpr const char* kSlurm = R"({"jobs":{"jobs":[]},"nodes":[{"name":"n1","state":["IDLE"],"partitions":["p"]}]})";

std::string state(const std::string& objects, const std::string& slurm = kSlurm) {
  return R"({"time":"2026-01-31T12:00:00Z","cluster":"c","objects":)" + objects + R"(,"slurm":)" + slurm + "}";
}

// `bascule simulate docs/examples/state.json` prints docs/examples/state.txt.
TEST_F(SimulateTest, TheDocumentedExample) {
  const Simulation simulation = run(file("docs/examples/state.json"));
  EXPECT_EQ(to_text(simulation, false), file("docs/examples/state.txt"));
  EXPECT_EQ(simulation.self.cluster, "c1");
}

TEST_F(SimulateTest, JsonCarriesTheRequest) {
  const json::Value value = to_json(run(file("docs/examples/state.json")));
  const json::Array& decisions = value.at("decisions").as_array();
  const auto submit = std::ranges::find_if(
      decisions, [](const json::Value& d) { return json::string_at(d, {"decision"}) == "submit"; });
  ASSERT_NE(submit, decisions.end());
  EXPECT_EQ(json::string_at(*submit, {"request", "account"}), "physics");
  EXPECT_EQ(json::string_at(*submit, {"unit"}), "pod ml/train-0");
}

TEST_F(SimulateTest, SubmitsWhatNobodyStandsFor) {
  EXPECT_THAT(lines(run(state("[" + std::string(kPod) + "," + kNode + "]"))), ElementsAre("submit pod ml/a "));
}

// Unknown is unknown: a file without Slurm's jobs is not a Slurm without jobs.
TEST_F(SimulateTest, NothingIsDecidedFromWhatTheFileDoesNotSay) {
  EXPECT_THAT(lines(run(state("[" + std::string(kPod) + "]", "{}"))), ElementsAre("wait pod ml/a SlurmUnknown"));
  EXPECT_THAT(lines(run(state("[" + std::string(kPod) + "]", R"({"jobs":[]})"))),
              ElementsAre("wait pod ml/a SlurmUnknown"));
}

TEST_F(SimulateTest, ListsOfKubectlAndOfTheApi) {
  const std::string list = R"({"apiVersion":"v1","kind":"List","items":[)" + std::string(kNode) + "]}";
  const std::string typed = R"({"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"namespace":"ml","name":"a",
    "uid":"u-a"},"spec":{"schedulerName":"slurm-bridge-scheduler","containers":[]}}]})";
  EXPECT_THAT(lines(run(state("[" + list + "," + typed + "]"))), ElementsAre("submit pod ml/a "));
  EXPECT_THAT(lines(run(state(typed))), ElementsAre("wait pod ml/a Unschedulable"));
}

TEST_F(SimulateTest, AnOwnerThatTheFileLacks) {
  const std::string owned =
      R"({"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"ml","name":"a","uid":"u-a","labels":
      {"scheduling.x-k8s.io/pod-group":"ring"}},"spec":{"schedulerName":"slurm-bridge-scheduler","containers":[]}})";
  Simulation simulation = run(state("[" + owned + "]"));
  EXPECT_THAT(lines(simulation), ElementsAre("wait PodGroup ml/ring OwnerUnknown"));
  EXPECT_THAT(simulation.decisions[0].why, HasSubstr("the file has no podgroups of scheduling.x-k8s.io"));
  const std::string other =
      R"({"apiVersion":"scheduling.x-k8s.io/v1alpha1","kind":"PodGroup","metadata":{"namespace":"ml","name":"x"}})";
  simulation = run(state("[" + owned + "," + other + "]"));
  EXPECT_THAT(lines(simulation), ElementsAre("wait PodGroup ml/ring OwnerUnknown"));
  EXPECT_THAT(simulation.decisions[0].why, HasSubstr("does not exist"));
}

// What kubectl was not asked for is unknown, not away.
TEST_F(SimulateTest, AKindThatTheFileHasNothingOfIsUnknown) {
  const auto owned_by = [](const char* api_version, const char* kind) {
    return fmt::format(R"({{"apiVersion":"v1","kind":"Pod","metadata":{{"namespace":"ml","name":"a","uid":"u-a",
      "ownerReferences":[{{"apiVersion":"{}","kind":"{}","name":"o","uid":"u-o","controller":true}}]}},
      "spec":{{"schedulerName":"slurm-bridge-scheduler","containers":[]}}}})",
                       api_version, kind);
  };
  for (const auto& [api_version, kind, resource] :
       {std::tuple{"apps/v1", "ReplicaSet", "replicasets of apps"},
        std::tuple{"apps/v1", "StatefulSet", "statefulsets of apps"}, std::tuple{"batch/v1", "Job", "jobs of batch"}}) {
    const std::string pod = owned_by(api_version, kind);
    const Simulation without = run(state("[" + pod + "," + kNode + "]"));
    EXPECT_THAT(lines(without), ElementsAre("wait pod ml/a OwnerUnknown"));
    EXPECT_THAT(without.decisions[0].why, HasSubstr("the file has no " + std::string(resource))) << kind;
    const std::string other = fmt::format(
        R"({{"apiVersion":"{}","kind":"{}","metadata":{{"namespace":"ml","name":"other","uid":"x"}},"spec":{{}}}})",
        api_version, kind);
    EXPECT_THAT(run(state("[" + pod + "," + kNode + "," + other + "]")).decisions[0].why, HasSubstr("does not exist"));
  }
}

TEST_F(SimulateTest, TheWorkloadOfAGroupIsUnknownWhereTheFileHasNone) {
  const std::string objects =
      std::string(kNode) + R"(,{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"ml","name":"a","uid":"u-a"},
      "spec":{"schedulerName":"slurm-bridge-scheduler","containers":[],"schedulingGroup":{"podGroupName":"g"}}},
      {"apiVersion":"scheduling.k8s.io/v1alpha2","kind":"PodGroup","metadata":{"namespace":"ml","name":"g"},
      "spec":{"podGroupTemplateRef":{"workload":{"workloadName":"w"}}}})";
  const Simulation without = run(state("[" + objects + "]"));
  EXPECT_THAT(without.decisions[0].why, HasSubstr("the file has no workloads of scheduling.k8s.io"));
  const std::string other =
      R"({"apiVersion":"scheduling.k8s.io/v1alpha2","kind":"Workload","metadata":{"namespace":"ml","name":"x"}})";
  EXPECT_THAT(lines(run(state("[" + objects + "," + other + "]"))), ElementsAre("submit PodGroup ml/g "));
}

// A kind of the site's own: the scheduler would read it as far as it may, which the file does not say.
TEST_F(SimulateTest, AnOwnerOfAnyKindThatTheFileHas) {
  const std::string owned =
      R"({"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"ml","name":"a","uid":"u-a","annotations":
      {"slurmjob.slinky.slurm.net/job-name":"pods"},"ownerReferences":[{"apiVersion":"kubeflow.org/v1","kind":
      "PyTorchJob","name":"t","uid":"u-t","controller":true}]},
      "spec":{"schedulerName":"slurm-bridge-scheduler","containers":[]}})";
  const std::string owner =
      R"({"apiVersion":"kubeflow.org/v1","kind":"PyTorchJob","metadata":{"namespace":"ml","name":"t","uid":"u-t",
      "annotations":{"slurmjob.slinky.slurm.net/job-name":"owners"}}})";
  EXPECT_THAT(json::dump(to_json(run(state("[" + owned + "," + kNode + "]")))), HasSubstr(R"("name":"pods")"));
  EXPECT_THAT(json::dump(to_json(run(state("[" + owned + "," + kNode + "," + owner + "]")))),
              HasSubstr(R"("name":"owners")"));
}

// --- volumes and devices ---------------------------------------------------------------------------------------------

constexpr const char* kPodWithClaim =
    R"({"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"ml","name":"a","uid":"u-a"},
  "spec":{"schedulerName":"slurm-bridge-scheduler","containers":[],
          "volumes":[{"name":"d","persistentVolumeClaim":{"claimName":"data"}}]}})";

std::string claim(const std::string& name) {
  return fmt::format(R"({{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{{"namespace":"ml","name":"{}",
    "annotations":{{"pv.kubernetes.io/bind-completed":"yes"}}}},"spec":{{"volumeName":"v"}}}})",
                     name);
}

TEST_F(SimulateTest, AClaimThatIsNotThereIsWaitedFor) {
  const std::string begin = "[" + std::string(kNode) + "," + kPodWithClaim;
  Simulation simulation = run(state(begin + "]"));
  EXPECT_THAT(lines(simulation), ElementsAre("wait pod ml/a SlurmUnknown"));
  EXPECT_THAT(simulation.decisions[0].why, HasSubstr("the file has no PersistentVolumeClaims"));
  simulation = run(state(begin + "," + claim("other") + "]"));
  EXPECT_THAT(lines(simulation), ElementsAre("wait pod ml/a VolumeNotReady"));
  EXPECT_THAT(simulation.decisions[0].why, HasSubstr("PersistentVolumeClaim data does not exist"));
  simulation = run(state(begin + "," + claim("data") + "]"));
  EXPECT_THAT(simulation.decisions[0].why, HasSubstr("PersistentVolumeClaim data is bound to a volume that does not"));
  const std::string volume = R"(,{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"v"},"spec":{
    "nodeAffinity":{"required":{"nodeSelectorTerms":[{"matchExpressions":[
      {"key":"zone","operator":"In","values":["b"]}]}]}}}})";
  EXPECT_THAT(lines(run(state(begin + "," + claim("data") + volume + "]"))), ElementsAre("wait pod ml/a Unschedulable"))
      << "its volume is elsewhere";
  const std::string anywhere = R"(,{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"v"}})";
  EXPECT_THAT(lines(run(state(begin + "," + claim("data") + anywhere + "]"))), ElementsAre("submit pod ml/a "));
}

std::string pod_with_devices(int count) {
  return fmt::format(
      R"({{"apiVersion":"v1","kind":"Pod","metadata":{{"namespace":"ml","name":"a","uid":"u-a"}},
      "spec":{{"schedulerName":"slurm-bridge-scheduler","containers":[{{"name":"m","resources":{{
      "requests":{{"deviceclass.resource.kubernetes.io/gpu.example.com":"{0}"}},
      "limits":{{"deviceclass.resource.kubernetes.io/gpu.example.com":"{0}"}}}}}}]}}}})",
      count);
}
std::string devices() {
  const json::Object gpu_class{{"apiVersion", "resource.k8s.io/v1"},
                               {"kind", "DeviceClass"},
                               {"metadata", json::Object{{"name", "gpu.example.com"}}},
                               {"spec", json::Object{{"selectors", json::Array{json::Object{{
                                                                       "cel",
                                                                       json::Object{{"expression",
                                                                                     "device.driver == "
                                                                                     "'gpu.example.com'"}},
                                                                   }}}}}}};
  return json::dump(gpu_class) + "," +
         json::dump(testing::make_slice({.name = "s", .devices = testing::make_gpus(0, 2)}));
}

TEST_F(SimulateTest, DevicesAreThoseOfTheFile) {
  const std::string begin = "[" + std::string(kNode) + ",";
  const Simulation without = run(state(begin + pod_with_devices(2) + "]"));
  EXPECT_THAT(lines(without), ElementsAre("wait pod ml/a SlurmUnknown"));
  EXPECT_THAT(without.decisions[0].why, HasSubstr("the file has no ResourceSlices"));
  const std::string slurm = R"({"jobs":[],"nodes":[{"name":"n1","partitions":["p"],"gres":"gpu:gpu.example.com:2"}]})";
  EXPECT_THAT(lines(run(state(begin + pod_with_devices(2) + "," + devices() + "]", slurm))),
              ElementsAre("submit pod ml/a "));
  const Simulation few = run(state(begin + pod_with_devices(3) + "," + devices() + "]", slurm));
  EXPECT_THAT(lines(few), ElementsAre("wait pod ml/a Unschedulable"));
  EXPECT_THAT(few.decisions[0].why, HasSubstr("too few devices of class gpu.example.com"));
}

TEST_F(SimulateTest, DevicesOfAJobThatRunsAreThoseOfItsRecord) {
  const auto slurm = [](const std::string& detail) {
    std::string text = R"({"jobs":[{"job_id":7,"job_state":["RUNNING"],"nodes":"n1","flags":["EXTERNAL_JOB"],)" +
                       detail +
                       R"("admin_comment":"{\"pods\":[\"ml/a\"],\"bascule\":{\"v\":1,
      \"bridge\":\"slurm-bridge-scheduler\",\"cluster\":\"c\",\"unit\":\"u-a\",\"spec\":\"0\",
      \"uids\":[\"u-a\"]}}"}],"nodes":[{"name":"n1","partitions":["p"],"gres":"gpu:gpu.example.com:2"}]})";
    std::erase(text, '\n');
    return text;
  };
  const std::string objects = "[" + std::string(kNode) + "," + pod_with_devices(1) + "," + devices() + "]";
  EXPECT_THAT(lines(run(state(objects, slurm(R"json("gres_detail":["gpu:gpu.example.com:1(IDX:1)"],)json")))),
              ElementsAre("mark pod ml/a ", "bind pod ml/a "));
  const Simulation simulation = run(state(objects, slurm("")));
  EXPECT_THAT(lines(simulation), ElementsAre("wait pod ml/a SlurmUnknown"));
  EXPECT_THAT(simulation.decisions[0].why, HasSubstr("the file does not say which devices Slurm job 7 has"));
}

// A bind takes its room from the units after it.
TEST_F(SimulateTest, OneNodeIsNotFilledTwice) {
  std::string pods;
  std::string jobs;
  for (const char* id : {"1", "2"}) {
    pods += fmt::format(R"({{"apiVersion":"v1","kind":"Pod","metadata":{{"namespace":"ml","name":"p{0}","uid":"u{0}"}},
      "spec":{{"schedulerName":"slurm-bridge-scheduler","containers":[{{"name":"m","resources":{{"requests":{{"cpu":"5"}}
      }}}}]}}}},)",
                        id);
    jobs += fmt::format(R"({}{{"job_id":{},"job_state":["RUNNING"],"nodes":"n1","flags":["EXTERNAL_JOB"],
      "admin_comment":"{{\"pods\":[\"ml/p{}\"],\"bascule\":{{\"v\":1,\"bridge\":\"slurm-bridge-scheduler\",
      \"cluster\":\"c\",\"unit\":\"u{}\",\"spec\":\"0\",\"uids\":[\"u{}\"]}}}}"}})",
                        jobs.empty() ? "" : ",", id, id, id, id);
    std::erase(jobs, '\n');
  }
  const Simulation simulation =
      run(state("[" + pods + kNode + "]", R"({"jobs":[)" + jobs + R"(],"nodes":[{"name":"n1","partitions":["p"]}]})"));
  EXPECT_THAT(lines(simulation),
              ElementsAre("mark pod ml/p1 ", "bind pod ml/p1 ", "mark pod ml/p2 ", "wait pod ml/p2 NodeRefused"));
}

TEST_F(SimulateTest, FaultsNameThePlace) {
  EXPECT_THAT(fault("no: [state"), HasSubstr("neither JSON nor YAML"));
  EXPECT_THAT(fault("[]"), HasSubstr("expected objects and slurm"));
  EXPECT_THAT(fault(R"({"pods":[]})"), HasSubstr("unknown key \"pods\"; expected are time, config"));
  EXPECT_THAT(fault(R"({"slurm":{"job":[]}})"), HasSubstr("slurm: unknown key \"job\""));
  EXPECT_THAT(fault(R"({"time":"noon"})"), HasSubstr("time: expected a time like"));
  EXPECT_THAT(fault(R"({"objects":[{"kind":"Pod"}]})"), HasSubstr("objects[0] has no kind or no metadata.name"));
  EXPECT_THAT(fault(R"({"objects":[7]})"), HasSubstr("objects[0] is no object of Kubernetes"));
  EXPECT_THAT(fault(R"({"objects":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}]})"),
              HasSubstr("objects[0] is a Pod without metadata.uid"));
  EXPECT_THAT(fault(state("[" + std::string(kPod) + "," + kPod + "]")), HasSubstr("u-a came before"));
  EXPECT_THAT(fault(R"({"slurm":{"jobs":[{"name":"x"}]}})"), HasSubstr("slurm.jobs: "));
  EXPECT_THAT(fault(R"({"slurm":{"nodes":{}}})"), HasSubstr("slurm.nodes: expected slurmrestd's answer"));
  EXPECT_THAT(fault(R"({"objects":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","uid":"u"},"spec":3}]})"),
              HasSubstr("objects[0], Pod \"a\": "));
  EXPECT_THAT(fault(R"({"objects":[{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j","annotations":
      {"slurmjob.slinky.slurm.net/timelimit":60}}}]})"),
              HasSubstr("objects[0], Job \"j\": "))
      << "YAML makes a number of it";
  EXPECT_THROW(run(R"({"config":{"partitoin":"p"}})"), ConfigFaults);
}

TEST_F(SimulateTest, YamlIsReadToo) {
  EXPECT_THAT(lines(run("objects: []\nslurm: {jobs: [], nodes: []}\n")), ElementsAre());
}

// The cluster's name is taken from evidence only: a record that names a pod by its UID.
TEST_F(SimulateTest, TheClusterIsKnownByItsRecords) {
  const std::string job = R"({"job_id":7,"job_state":["PENDING"],"flags":["EXTERNAL_JOB"],"admin_comment":
    "{\"pods\":[\"ml/a\"],\"bascule\":{\"v\":1,\"bridge\":\"slurm-bridge-scheduler\",\"cluster\":\"far\",\"unit\":\"u-a\",\"spec\":\"0\",\"uids\":[\"u-a\"]}}"})";
  const std::string text = R"({"objects":[)" + std::string(kPod) + R"(],"slurm":{"jobs":[)" + job + R"(],"nodes":[]}})";
  const Simulation simulation = run(text);
  EXPECT_EQ(simulation.self.cluster, "far");
  EXPECT_EQ(simulation.decisions.at(0).job, JobId{7});
}

}  // namespace
}  // namespace bascule::bridge
