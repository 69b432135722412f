#include "bridge/owners.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bridge/names.hpp"
#include "bridge/rights_test.hpp"
#include "net/loopback.hpp"
#include "testing/fake_api.hpp"
#include "testing/objects.hpp"
#include "testing/run.hpp"

namespace bascule::bridge {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
namespace r = kube::resources;

const kube::Resource kTrainings{"kubeflow.org", "v1", "pytorchjobs", "PyTorchJob", true};
const kube::Resource kPipelines{"kubeflow.org", "v1", "pipelines", "Pipeline", true};
const kube::Resource kQueues{"example.com", "v1", "queues", "Queue", false};
const std::set<std::string> kTheSites{"kubeflow.org", "example.com"};

struct OwnersTest : ::testing::Test {
  OwnersTest() {
    for (const kube::Resource& one : {kTrainings, kPipelines, kQueues}) api.add_resource(one);
    api.on_call([](const testing::ApiCall& call, std::string_view agent) {
      if (!kTheSites.contains(call.group)) Rights::of_chart().used(agent, call);  // the others are the site's to give
    });
    api.set_faults([this](const testing::ApiCall& call) {
      const bool no = call.verb == "get" && denied.contains(call.resource);
      return no ? testing::ApiFault{.kind = testing::ApiFault::Kind::kStatus, .code = 403} : testing::ApiFault{};
    });
  }

  static json::Array controlled_by(const json::Value& owner) {
    return {json::Object{{"apiVersion", json::string_at(owner, {"apiVersion"})},
                         {"kind", json::string_at(owner, {"kind"})},
                         {"name", json::string_at(owner, {"metadata", "name"})},
                         {"uid", json::string_at(owner, {"metadata", "uid"})},
                         {"controller", true}}};
  }
  // With the annotation account=NAME, and its controller.
  json::Value add(const kube::Resource& resource, const std::string& name, const json::Value& owner = nullptr) {
    json::Object meta{{"name", name}, {"annotations", json::Object{{"slurmjob.slinky.slurm.net/account", name}}}};
    if (resource.namespaced) meta["namespace"] = "ml";
    if (!owner.is_null()) meta["ownerReferences"] = controlled_by(owner);
    return api.create(resource, json::Object{{"apiVersion", resource.api_version()},
                                             {"kind", resource.kind},
                                             {"metadata", std::move(meta)},
                                             {"spec", json::Object{}}});
  }
  PodPtr pod(const json::Value& owner, const std::string& name = "p") {
    json::Value value =
        testing::make_pod({.name = name, .ns = "ml", .annotations = {{"slurmjob.slinky.slurm.net/account", "own"}}});
    json::at_or_create(value, {"metadata", "uid"}) = "uid-" + name;
    if (!owner.is_null()) json::at_or_create(value, {"metadata", "ownerReferences"}) = controlled_by(owner);
    return kube::decode_pod(json::dump(value), interner);
  }
  // Whose account it is, or why not.
  std::string account(const PodPtr& of) {
    const Owners::Found found = testing::run(loop, owners.root_of(of, {}));
    if (const auto* problem = std::get_if<std::string>(&found)) return *problem;
    return std::string(kube::value_or(std::get<Root>(found).annotations, "slurmjob.slinky.slurm.net/account"));
  }

  ManualLoop loop;
  testing::FakeApi api{loop};
  std::set<std::string> denied;  // resources that we have no right on
  std::size_t requests = 0;
  std::unique_ptr<net::Transport> transport =
      net::make_loopback(loop, [this, serve = api.handler()](const net::ServerRequest& request, std::stop_token stop) {
        ++requests;
        return serve(request, std::move(stop));
      });
  kube::Client client{loop, *transport, {.user_agent = kSchedulerAgent}};
  json::Interner interner;
  kube::Informer<kube::Job> jobs{client, {.resource = r::kJobs}, kube::decode_job, interner};
  Owners owners{client, jobs};
};

TEST_F(OwnersTest, APodThatNobodyControlsSpeaksForItself) {
  EXPECT_EQ(account(pod(nullptr)), "own");
}

// Whoever gives us `get` on a kind of his own puts annotations there.
TEST_F(OwnersTest, AControllerOfAnyKindSpeaksWhileItMayBeRead) {
  const json::Value training = add(kTrainings, "training");
  EXPECT_EQ(account(pod(training)), "training");
  const Root root = std::get<Root>(testing::run(loop, owners.root_of(pod(training), {})));
  EXPECT_EQ(root.api_version + " " + root.kind + " " + root.key.str(), "kubeflow.org/v1 PyTorchJob ml/training");
  EXPECT_EQ(account(pod(add(kQueues, "queue"))), "queue") << "of no namespace";
}

TEST_F(OwnersTest, TheHighestThatMayBeReadCounts) {
  const json::Value pipeline = add(kPipelines, "pipeline");
  const json::Value training = add(kTrainings, "training", pipeline);
  EXPECT_EQ(account(pod(training)), "pipeline");
  denied = {"pipelines"};
  EXPECT_EQ(account(pod(training)), "pipeline") << "known for half a minute";
  loop.advance(31s);
  EXPECT_EQ(account(pod(training)), "training");
  const json::Value set = add(r::kReplicaSets, "set", training);
  EXPECT_EQ(account(pod(set)), "training");
}

TEST_F(OwnersTest, AKindThatMayNotBeReadLeavesItToThePod) {
  denied = {"pytorchjobs"};
  const json::Value training = add(kTrainings, "training");
  EXPECT_EQ(account(pod(training)), "own");
  const std::size_t asked = api.calls("get", "pytorchjobs");
  for (int i = 0; i < 10; ++i) EXPECT_EQ(account(pod(add(kTrainings, "t" + std::to_string(i)))), "own");
  EXPECT_EQ(api.calls("get", "pytorchjobs"), asked) << "not once a pod";
  denied.clear();
  loop.advance(31s);
  EXPECT_EQ(account(pod(training)), "training") << "the right was given";
}

TEST_F(OwnersTest, AKindThatNobodyServesLeavesItToThePod) {
  json::Value virtual_one = json::parse(
      R"({"apiVersion":"gone.example.com/v1","kind":"Thing","metadata":{"name":"t","namespace":"ml","uid":"u"}})");
  EXPECT_EQ(account(pod(virtual_one)), "own");
  virtual_one.get_object()["apiVersion"] = "kubeflow.org/v1";
  EXPECT_EQ(account(pod(virtual_one)), "own");
}

// Unknown is unknown.
TEST_F(OwnersTest, WhatShouldBeThereAndIsNotIsNotGuessed) {
  json::Value training = add(kTrainings, "training");
  api.remove(kTrainings, {"ml", "training"});
  EXPECT_EQ(account(pod(training)), "the pod's owner, PyTorchJob ml/training of kubeflow.org/v1, does not exist");
  add(kTrainings, "training");
  EXPECT_EQ(account(pod(training)), "the pod's owner, PyTorchJob ml/training, is another object of that name");
  const json::Value set = add(r::kReplicaSets, "set");
  denied = {"replicasets"};
  EXPECT_THAT(account(pod(set)), HasSubstr("ReplicaSet ml/set of apps/v1, may not be read: "));
  denied.clear();
  api.set_faults([](const testing::ApiCall& call) {
    const bool fails = call.is("get", "pytorchjobs");
    return fails ? testing::ApiFault{.kind = testing::ApiFault::Kind::kStatus, .code = 500} : testing::ApiFault{};
  });
  training = *api.get(kTrainings, {"ml", "training"});
  EXPECT_THAT(account(pod(training)), HasSubstr("cannot be read: "));
}

// A driver that makes its executors: they are one workload, whatever is above.
TEST_F(OwnersTest, APodSpeaksForThePodsItMade) {
  const json::Value training = add(kTrainings, "training");
  json::Value driver = testing::make_pod(
      {.name = "driver", .ns = "ml", .annotations = {{"slurmjob.slinky.slurm.net/account", "driver"}}});
  json::at_or_create(driver, {"metadata", "ownerReferences"}) = controlled_by(training);
  EXPECT_EQ(account(pod(api.create(r::kPods, driver))), "driver");
}

// The scheduler watches Jobs and may not get one.
TEST_F(OwnersTest, AJobAboveTheOwnerSpeaksAsTheOneThatIsWatched) {
  denied = {"jobs"};
  json::Value job =
      testing::make_job({.name = "job", .ns = "ml", .annotations = {{"slurmjob.slinky.slurm.net/account", "job"}}});
  json::at_or_create(job, {"spec", "activeDeadlineSeconds"}) = 600;
  json::at_or_create(job, {"spec", "template", "spec", "resources", "limits", "cpu"}) = "7";
  job = api.create(r::kJobs, job);
  jobs.start();
  loop.advance(1s);
  json::Value driver = testing::make_pod({.name = "driver", .ns = "ml"});
  json::at_or_create(driver, {"metadata", "ownerReferences"}) = controlled_by(job);
  driver = api.create(r::kPods, driver);
  const PodPtr executor = pod(driver);
  EXPECT_EQ(account(executor), "job");
  const Root root = std::get<Root>(testing::run(loop, owners.root_of(executor, {})));
  EXPECT_EQ(root.active_deadline_seconds, 600) << "it ends the driver, and so what that made";
  EXPECT_TRUE(root.fallback_limits.empty()) << "those are of the pods that the Job makes";
  const PodPtr trained = pod(add(kTrainings, "training", job));
  EXPECT_EQ(account(trained), "job");
  EXPECT_FALSE(std::get<Root>(testing::run(loop, owners.root_of(trained, {}))).active_deadline_seconds)
      << "the training goes on when the Job is over";
  json::Value gone = driver;
  gone.get_object()["metadata"].get_object()["name"] = "driver-2";
  gone.get_object()["metadata"].get_object()["ownerReferences"].get_array()[0].get_object()["uid"] = "of-another";
  gone.get_object()["metadata"].get_object().erase("uid");
  gone.get_object()["metadata"].get_object().erase("resourceVersion");
  EXPECT_EQ(account(pod(api.create(r::kPods, gone))), "an owner above the pod's, Job ml/job, is not known yet");
  testing::run(loop, jobs.stop());
}

// The texts are whoever's who may create a pod.
TEST_F(OwnersTest, NobodyIsAskedForAKindThatCannotBe) {
  json::Value owner = json::parse(R"({"kind":"Thing","metadata":{"name":"t","namespace":"ml","uid":"u"}})");
  const std::size_t asked = requests;
  for (const char* version : {"/v1", "x.example.com/"}) {
    owner.get_object()["apiVersion"] = std::string(300, 'x') + version + std::string(300, 'y');
    EXPECT_EQ(account(pod(owner)), "own");
  }
  owner.get_object()["apiVersion"] = "x.example.com/v1";
  owner.get_object()["kind"] = std::string(64, 'K');
  EXPECT_EQ(account(pod(owner)), "own");
  EXPECT_EQ(requests, asked);
}

TEST_F(OwnersTest, ADeploymentIsNotAskedForWhatItsReplicaSetSays) {
  const kube::Resource deployments{"apps", "v1", "deployments", "Deployment", true};
  json::Value deployment =
      json::parse(R"({"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","namespace":"ml","uid":"u"}})");
  EXPECT_EQ(account(pod(add(r::kReplicaSets, "set", deployment))), "set");
  EXPECT_EQ(api.calls("get", "deployments"), 0u);
}

TEST_F(OwnersTest, AChainWithoutEndHasOne) {
  json::Value lower = add(kTrainings, "lower");
  const json::Value upper = add(kTrainings, "upper", lower);
  lower.get_object()["metadata"].get_object()["ownerReferences"] = controlled_by(upper);
  lower = api.update(kTrainings, lower);
  EXPECT_THAT(account(pod(lower)), ::testing::AnyOf("lower", "upper"));
}

// The size of a LeaderWorkerSet may be another than that of a group which was made before; and where workers are made
// only when their leader is ready, none is waited for.
TEST_F(OwnersTest, AGroupOfALeaderWorkerSetIsAsLargeAsItWasMade) {
  const kube::Resource sets{"leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet", true};
  api.add_resource(sets);
  json::Value set = add(sets, "l");
  const auto minimum = [&](const std::string& key, std::string_view size, std::string_view policy) {
    set.get_object()["spec"] =
        json::Object{{"startupPolicy", policy}, {"leaderWorkerTemplate", json::Object{{"size", 8}}}};
    set = api.update(sets, set);
    kube::Pod member = *pod(nullptr);
    member.meta.labels = {{interner(names::kLwsGroupKey), interner(key)}, {interner(names::kLwsName), interner("l")}};
    member.meta.annotations = {};
    if (!size.empty()) {
      member.meta.annotations = {{interner("leaderworkerset.sigs.k8s.io/size"), interner(size)}};
    }
    return std::get<Root>(testing::run(loop, owners.root_of(std::make_shared<kube::Pod>(member), {}))).gang->minimum;
  };
  EXPECT_EQ(minimum("k1", "", "LeaderCreated"), 8u);
  EXPECT_EQ(minimum("k2", "4", "LeaderCreated"), 4u);
  EXPECT_EQ(minimum("k3", "four", "LeaderCreated"), 8u);
  EXPECT_EQ(minimum("k4", "4", "LeaderReady"), 1u);
}

// Each of these is read with the rights of our role.
TEST_F(OwnersTest, EveryGroupAndWhatItWasMadeFromIsRead) {
  const kube::Resource sets{"jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet", true};
  const kube::Resource leaders{"leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet", true};
  const kube::Resource coscheduling{"scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", true};
  const kube::Resource groups{"scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", true};
  const kube::Resource workloads{"scheduling.k8s.io", "v1alpha2", "workloads", "Workload", true};
  for (const kube::Resource& one : {sets, leaders, coscheduling, groups, workloads}) api.add_resource(one);
  jobs.start();
  json::Value job = testing::make_job({.name = "job", .ns = "ml"});
  json::at_or_create(job, {"metadata", "ownerReferences"}) = controlled_by(add(sets, "set"));
  job = api.create(r::kJobs, job);
  loop.advance(1s);
  EXPECT_EQ(account(pod(job)), "set");
  testing::run(loop, jobs.stop());
  EXPECT_EQ(account(pod(add(r::kStatefulSets, "stateful"))), "stateful");
  add(coscheduling, "c");
  add(leaders, "l");
  json::Value group = add(groups, "g");
  group.get_object()["spec"] = json::parse(R"({"podGroupTemplateRef":{"workload":{"workloadName":"w"}}})");
  api.update(groups, group);
  add(workloads, "w");
  kube::Pod member = *pod(nullptr);
  member.scheduling_group = interner("g");
  EXPECT_EQ(account(std::make_shared<kube::Pod>(member)), "w");
  member.scheduling_group = {};
  member.meta.labels = {{interner(names::kPodGroup), interner("c")}};
  EXPECT_EQ(account(std::make_shared<kube::Pod>(member)), "c");
  member.meta.labels = {{interner(names::kLwsGroupKey), interner("k")}, {interner(names::kLwsName), interner("l")}};
  EXPECT_EQ(account(std::make_shared<kube::Pod>(member)), "l");
}

struct CoschedulingTest : OwnersTest {
  CoschedulingTest() { api.add_resource(groups, false); }
  // Of a pod of a PodGroup with this spec and phase.
  Root root(std::string_view spec, std::string_view phase = "") {
    const std::string name = "g" + std::to_string(++count);
    json::Value group = add(groups, name);
    group.get_object()["spec"] = json::parse(spec);
    if (!phase.empty()) group.get_object()["status"] = json::Object{{"phase", phase}};
    api.update(groups, group);
    kube::Pod member = *pod(nullptr);
    member.meta.labels = {{interner(names::kPodGroup), interner(name)}};
    const Owners::Found found = testing::run(loop, owners.root_of(std::make_shared<kube::Pod>(member), {}));
    EXPECT_TRUE(std::holds_alternative<Root>(found));
    return std::get<Root>(found);
  }
  std::string closed(std::string_view phase) { return root(R"({"minMember":2})", phase).gang->closed; }
  const kube::Resource groups{"scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", true};
  int count = 0;
};

TEST_F(CoschedulingTest, ItsMinimumIsOneWhereNoneIsSaid) {
  for (const auto& [spec, minimum] : {std::pair{R"({"minMember":3})", 3u}, std::pair{R"({"minMember":0})", 1u},
                                      std::pair{R"({"minMember":-2})", 1u}, std::pair{"{}", 1u}}) {
    EXPECT_EQ(root(spec).gang->minimum, minimum) << spec;
  }
}

// The others say how many of its members run, and a member that is made anew must be let in.
TEST_F(CoschedulingTest, OneThatHasFailedOrFinishedTakesNobody) {
  EXPECT_EQ(closed("Failed"), "is Failed");
  EXPECT_EQ(closed("Finished"), "is Finished");
  for (const char* open : {"", "Pending", "PreScheduling", "Scheduling", "Scheduled", "Running", "Unknown"}) {
    EXPECT_EQ(closed(open), "") << open;
  }
}

// As slurm-bridge has it: of each member, where its containers do not say.
TEST_F(CoschedulingTest, ItsMinResourcesAreWhatItsPodsAskForByDefault) {
  const Root said = root(R"({"minResources":{"memory":"2Gi","cpu":"1500m","odd":"much","number":3}})");
  ASSERT_EQ(said.fallback_limits.size(), 2u) << "what is no quantity is passed over";
  EXPECT_EQ(kube::amount(said.fallback_limits, "cpu"), *Quantity::parse("1500m"));
  EXPECT_EQ(kube::amount(said.fallback_limits, "memory"), *Quantity::parse("2Gi"));
  EXPECT_TRUE(root("{}").fallback_limits.empty());
}

}  // namespace
}  // namespace bascule::bridge
