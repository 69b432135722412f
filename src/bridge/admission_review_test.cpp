#include "bridge/admission_review.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bridge/names.hpp"
#include "json/patch.hpp"

namespace bascule::bridge {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr const char* kBridgeAccount = "system:serviceaccount:slinky:slurm-bridge-scheduler";

Config config() {
  Config config;
  config.managed_namespaces = {"hpc"};
  config.trusted_users = default_trusted_users("slinky", config.scheduler_name);
  return config;
}

// A review and the document its texts belong to.
struct Case {
  json::Value document;
  Review review;

  static Case of(std::string_view operation, std::string_view ns, json::Value object, json::Value old_object = nullptr,
                 std::string_view user = "ada", std::string_view sub_resource = "") {
    json::Object request{{"uid", "r-1"},
                         {"kind", {{"group", ""}, {"version", "v1"}, {"kind", "Pod"}}},
                         {"resource", {{"group", ""}, {"version", "v1"}, {"resource", "pods"}}},
                         {"subResource", sub_resource},
                         {"namespace", ns},
                         {"operation", operation},
                         {"userInfo", {{"username", user}, {"groups", {"system:authenticated"}}}},
                         {"object", std::move(object)},
                         {"oldObject", std::move(old_object)}};
    return Case(json::Object{
        {"apiVersion", "admission.k8s.io/v1"}, {"kind", "AdmissionReview"}, {"request", std::move(request)}});
  }
  explicit Case(json::Value value) : document(std::move(value)) {
    auto read = kube::read_admission_review(document);
    if (read) review = *read;
    EXPECT_TRUE(read) << read.error();
  }
};

json::Value pod(std::string_view spec = "{}", std::string_view metadata = "{}") {
  json::Value value = json::parse(fmt::format(R"({{"metadata":{},"spec":{}}})", metadata, spec));
  json::at_or_create(value, {"metadata", "name"}) = "p";
  return value;
}

Verdict mutated(const Case& c) {
  const Config settings = config();
  return mutate(settings, c.review, managed(settings, c.review.ns, nullptr));
}
Verdict validated(const Case& c) {
  const Config settings = config();
  return validate(settings, c.review, managed(settings, c.review.ns, nullptr));
}
// The pod after the webhook.
json::Value result(const Case& c) {
  return json::patched(*c.review.object, mutated(c).patch);
}

std::string created(std::string_view ns, json::Value object) {
  return validated(Case::of("CREATE", ns, std::move(object))).message;
}

// --- mutation --------------------------------------------------------------------------------------------------------

TEST(Mutate, LeavesWhatIsNotHandledAlone) {
  EXPECT_THAT(mutated(Case::of("CREATE", "web", pod(R"({"schedulerName":"default-scheduler"})"))).patch, IsEmpty());
  EXPECT_THAT(mutated(Case::of("CREATE", "web", pod(R"({"schedulerName":"other","nodeName":"n1"})"))).patch, IsEmpty());
  const Config empty;
  const Case c = Case::of("CREATE", "web", json::parse("{}"));
  EXPECT_TRUE(mutate(empty, c.review, managed(empty, "web", nullptr)).allowed);
}

TEST(Mutate, SendsDefaultPodsOfManagedNamespacesToUs) {
  const json::Value after = result(Case::of("CREATE", "hpc", pod(R"({"schedulerName":"default-scheduler"})")));
  EXPECT_EQ(json::string_at(after, {"spec", "schedulerName"}), "slurm-bridge-scheduler");
  const json::Value bare = result(Case::of("CREATE", "hpc", pod("{}")));
  EXPECT_EQ(json::string_at(bare, {"spec", "schedulerName"}), "slurm-bridge-scheduler");
}

TEST(Mutate, KeepsCustomSchedulers) {
  const json::Value after = result(Case::of("CREATE", "hpc", pod(R"({"schedulerName":"other"})")));
  EXPECT_EQ(json::string_at(after, {"spec", "schedulerName"}), "other");
  EXPECT_EQ(json::array_at(after, {"spec", "tolerations"}), nullptr);
}

TEST(Mutate, ClearsTheNodeAtCreationOnly) {
  const char* spec = R"({"schedulerName":"default-scheduler","nodeName":"n1"})";
  EXPECT_EQ(json::find(result(Case::of("CREATE", "hpc", pod(spec))), {"spec", "nodeName"}), nullptr);
  EXPECT_THAT(mutated(Case::of("UPDATE", "hpc", pod(spec), pod(spec))).patch, IsEmpty());
}

// W57
TEST(Mutate, NeverChangesAnExistingPod) {
  const char* spec = R"({"schedulerName":"default-scheduler"})";
  EXPECT_THAT(mutated(Case::of("UPDATE", "hpc", pod(spec), pod(spec))).patch, IsEmpty());
}

TEST(Mutate, AddsTheTolerationOnce) {
  const char* ours = R"({"schedulerName":"slurm-bridge-scheduler"})";
  const json::Value first = result(Case::of("CREATE", "web", pod(ours)));
  const json::Array* tolerations = json::array_at(first, {"spec", "tolerations"});
  ASSERT_NE(tolerations, nullptr);
  ASSERT_THAT(*tolerations, SizeIs(1));
  EXPECT_EQ(json::string_at((*tolerations)[0], {"key"}), "slinky.slurm.net/managed-node");
  EXPECT_EQ(json::string_at((*tolerations)[0], {"value"}), "slurm-bridge-scheduler");
  EXPECT_EQ(json::string_at((*tolerations)[0], {"effect"}), "NoExecute");
  EXPECT_THAT(mutated(Case::of("CREATE", "web", first)).patch, IsEmpty());
}

TEST(Mutate, KeepsOtherTolerations) {
  const json::Value after = result(Case::of("CREATE", "hpc", pod(R"({"tolerations":[{"key":"a","operator":"Exists"},
      {"key":"slinky.slurm.net/managed-node","operator":"Exists","tolerationSeconds":5}]})")));
  const json::Array& tolerations = *json::array_at(after, {"spec", "tolerations"});
  ASSERT_THAT(tolerations, SizeIs(3));
  EXPECT_EQ(json::find(tolerations[0], {"tolerationSeconds"}), nullptr) << "of several for one taint the first counts";
  EXPECT_THAT(mutated(Case::of("CREATE", "hpc", after)).patch, IsEmpty());
}

// W22
TEST(Mutate, LeavesDaemonSetAndMirrorPodsAlone) {
  const char* owned =
      R"({"ownerReferences":[{"apiVersion":"apps/v1","kind":"DaemonSet","name":"d","controller":true}]})";
  EXPECT_THAT(mutated(Case::of("CREATE", "hpc", pod("{}", owned))).patch, IsEmpty());
  EXPECT_TRUE(validated(Case::of("CREATE", "hpc", pod(R"({"topologySpreadConstraints":[{}]})", owned))).allowed);
  // asked for by name
  EXPECT_THAT(mutated(Case::of("CREATE", "hpc", pod(R"({"schedulerName":"slurm-bridge-scheduler"})", owned))).patch,
              SizeIs(1));
  const char* mirror = R"({"annotations":{"kubernetes.io/config.mirror":"x"}})";
  Case kubelets = Case::of("CREATE", "hpc", pod(R"({"nodeName":"n1"})", mirror), nullptr, "system:node:n1");
  kubelets.review.groups = {"system:nodes", "system:authenticated"};
  EXPECT_THAT(mutated(kubelets).patch, IsEmpty());
}

// Whoever may create pods may write the annotation.
TEST(Create, OnlyAKubeletsPodIsAMirror) {
  const json::Value forged = pod(
      R"({"nodeName":"n1","schedulerName":"slurm-bridge-scheduler"})",
      R"({"annotations":{"kubernetes.io/config.mirror":"x"},"labels":{"scheduler.slinky.slurm.net/slurm-jobid":"7"}})");
  EXPECT_THAT(created("hpc", forged), HasSubstr("slurm-jobid"));
  EXPECT_THAT(created("web", forged), HasSubstr("slurm-jobid"));
  EXPECT_EQ(json::find(result(Case::of("CREATE", "hpc", forged)), {"spec", "nodeName"}), nullptr);
  Case kubelets = Case::of("CREATE", "hpc", forged, nullptr, "system:node:n1");
  kubelets.review.groups = {"system:nodes"};
  EXPECT_TRUE(validated(kubelets).allowed);
}

// --- which pods are handled ------------------------------------------------------------------------------------------

TEST(Managed, SelectorReplacesTheList) {
  Config settings = config();
  settings.managed_namespace_selector = LabelSelector{{{"team", "In", {"a"}}, {"web", "DoesNotExist", {}}}};
  const json::Value yes = json::parse(R"({"team":"a"})");
  const json::Value no = json::parse(R"({"team":"a","web":""})");
  EXPECT_EQ(managed(settings, "other", &yes.as_object()), Managed::kYes);
  EXPECT_EQ(managed(settings, "hpc", &no.as_object()), Managed::kNo);
  EXPECT_EQ(managed(settings, "hpc", nullptr), Managed::kUnknown);
  EXPECT_EQ(managed(config(), "hpc", nullptr), Managed::kYes);
}

TEST(Managed, SelectorOperatorsAreThoseOfKubernetes) {
  const json::Value labels = json::parse(R"({"a":"1"})");
  const auto one = [&](LabelRequirement requirement) {
    return matches({{std::move(requirement)}}, labels.as_object());
  };
  EXPECT_TRUE(one({"a", "In", {"0", "1"}}));
  EXPECT_FALSE(one({"b", "In", {"1"}}));
  EXPECT_FALSE(one({"a", "NotIn", {"1"}}));
  EXPECT_TRUE(one({"b", "NotIn", {"1"}}));
  EXPECT_TRUE(one({"a", "Exists", {}}));
  EXPECT_FALSE(one({"a", "DoesNotExist", {}}));
  EXPECT_TRUE(matches({}, labels.as_object()));
}

TEST(Managed, UnknownNamespaceIsRefusedToBeTriedAgain) {
  Config settings = config();
  settings.managed_namespace_selector = LabelSelector{{{"team", "In", {"a"}}}};
  const Case plain = Case::of("CREATE", "hpc", pod());
  EXPECT_TRUE(needs_namespace(settings, plain.review));
  for (const Verdict& decision :
       {mutate(settings, plain.review, Managed::kUnknown), validate(settings, plain.review, Managed::kUnknown)}) {
    EXPECT_FALSE(decision.allowed);
    EXPECT_EQ(decision.code, 503);
    EXPECT_THAT(decision.message, AllOf(HasSubstr("namespace hpc"), HasSubstr("try again")));
  }
  // A pod that names us needs no namespace.
  const Case ours = Case::of("CREATE", "hpc", pod(R"({"schedulerName":"slurm-bridge-scheduler"})"));
  EXPECT_FALSE(needs_namespace(settings, ours.review));
  EXPECT_TRUE(validate(settings, ours.review, Managed::kUnknown).allowed);
}

// --- creation --------------------------------------------------------------------------------------------------------

struct Refusal {
  const char* what;
  json::Value object;
  const char* words;
};

std::vector<Refusal> refusals() {
  const auto with = [](std::string_view resources) {
    return pod(fmt::format(R"({{"containers":[{{"name":"main","resources":{}}}]}})", resources));
  };
  return {
      {"job id", pod("{}", R"({"labels":{"scheduler.slinky.slurm.net/slurm-jobid":"1"}})"), "slurm-jobid"},
      {"node", pod("{}", R"({"annotations":{"slinky.slurm.net/slurm-node":"n"}})"), "slinky.slurm.net/slurm-node"},
      {"state", pod("{}", R"({"annotations":{"scheduler.slinky.slurm.net/slurm-state":"x"}})"), "slurm-state"},
      {"finalizer", pod("{}", R"({"finalizers":["scheduler.slinky.slurm.net/finalizer"]})"), "metadata.finalizers"},
      {"claims", pod(R"({"resourceClaims":[{"name":"c"}]})"), "spec.resourceClaims"},
      {"empty claims", pod(R"({"resourceClaims":[]})"), "spec.resourceClaims"},
      {"spread", pod(R"({"topologySpreadConstraints":[{"maxSkew":1}]})"), "spec.topologySpreadConstraints"},
      {"both cpus", with(R"({"requests":{"cpu":"1","deviceclass.resource.kubernetes.io/dra.cpu":"1"}})"), "together"},
      {"both cpus, init", pod(R"({"initContainers":[{"name":"i","resources":{"requests":{
          "deviceclass.resource.kubernetes.io/dra.cpu":"1"}}}],"containers":[{"name":"m","resources":{"limits":{"cpu":
          "1"}}}]})"),
       "together"},
      {"both cpus, pod level", pod(R"({"resources":{"requests":{"cpu":"1"}},"containers":[{"name":"m","resources":{
          "requests":{"deviceclass.resource.kubernetes.io/dra.cpu":"1"}}}]})"),
       "together"},
      {"class", with(R"({"requests":{"deviceclass.resource.kubernetes.io/tpu.example.com":"1"}})"),
       "container main: device class \"tpu.example.com\""},
      {"init class", pod(R"({"initContainers":[{"name":"i","resources":{"limits":{
          "deviceclass.resource.kubernetes.io/x":"1"}}}]})"),
       "container i: device class \"x\""},
  };
}

TEST(Create, RefusesWhatSlurmCannotHonour) {
  for (const Refusal& refusal : refusals()) {
    SCOPED_TRACE(refusal.what);
    EXPECT_THAT(created("hpc", refusal.object), AllOf(HasSubstr("pod hpc/p: "), HasSubstr(refusal.words)));
    EXPECT_THAT(created("web", refusal.object), IsEmpty());
    json::Value ours = refusal.object;
    json::at_or_create(ours, {"spec", "schedulerName"}) = "slurm-bridge-scheduler";
    EXPECT_THAT(created("web", ours), HasSubstr(refusal.words));
  }
}

// W36: what the configuration names is let in, and no more.
TEST(Create, W36ClassesOfConfiguredDriversAreLetIn) {
  Config config = bridge::config();
  config.device_drivers.put(
      {.driver = "cpu.example.org", .classes = {"cores"}, .kind = DeviceKind::kCpu, .number_attribute = "id"});
  config.device_drivers.put({.driver = "fpga.example.org", .classes = {"fpga"}, .number_attribute = "slot"});
  const auto said = [&config](std::string_view requests) {
    const json::Value asking =
        pod(fmt::format(R"({{"containers":[{{"name":"m","resources":{{"requests":{}}}}}]}})", requests));
    const Case c = Case::of("CREATE", "hpc", asking);
    return validate(config, c.review, Managed::kYes).message;
  };
  EXPECT_THAT(said(R"({"deviceclass.resource.kubernetes.io/fpga":"1"})"), IsEmpty());
  EXPECT_THAT(said(R"({"deviceclass.resource.kubernetes.io/cores":"1","cpu":"1"})"), HasSubstr("together"));
  EXPECT_THAT(said(R"({"deviceclass.resource.kubernetes.io/dra.cpu":"1"})"),
              HasSubstr("use one of gpu.nvidia.com, gpu.example.com, cores, fpga"));
}

TEST(Create, TellsEveryFaultAtOnce) {
  const std::string message = created("hpc", pod(R"({"resourceClaims":[],"topologySpreadConstraints":[{}]})",
                                                 R"({"annotations":{"slurmjob.slinky.slurm.net/timelimit":"1h",
                             "slurmjob.slinky.slurm.net/min-nodes":"x"}})"));
  EXPECT_THAT(message, AllOf(HasSubstr("spec.resourceClaims"), HasSubstr("spec.topologySpreadConstraints"),
                             HasSubstr("timelimit: \"1h\" is not a whole number"), HasSubstr("min-nodes")));
}

TEST(Create, AcceptsTheRest) {
  EXPECT_THAT(created("hpc", pod(R"({"topologySpreadConstraints":[]})")), IsEmpty());
  EXPECT_THAT(created("hpc", pod(R"({"resourceClaims":null})")), IsEmpty());
  EXPECT_THAT(created("web", pod(R"({"schedulerName":"slurm-bridge-scheduler"})")), IsEmpty());
  for (const char* resource :
       {"cpu", "deviceclass.resource.kubernetes.io/dra.cpu", "deviceclass.resource.kubernetes.io/gpu.nvidia.com",
        "deviceclass.resource.kubernetes.io/gpu.example.com", "example.com/gpu", "nvidia.com/gpu"}) {
    EXPECT_THAT(
        created("hpc", pod(fmt::format(R"({{"containers":[{{"name":"m","resources":{{"limits":{{"{}":"1"}}}}}}]}})",
                                       resource))),
        IsEmpty())
        << resource;
  }
}

// The required terms of one kind of affinity, in a pod that has `metadata`.
std::string placed_by_others(std::string_view affinity, std::string_view terms, std::string_view metadata = "{}") {
  return created("hpc", pod(fmt::format(R"({{"affinity":{{"{}":{{"{}":{}}}}}}})", affinity,
                                        "requiredDuringSchedulingIgnoredDuringExecution", terms),
                            metadata));
}
constexpr const char* kByHost = R"([{"topologyKey":"kubernetes.io/hostname"}])";
constexpr const char* kByZone = R"([{"topologyKey":"kubernetes.io/hostname"},{"topologyKey":"zone"}])";

TEST(Create, PlacesByThoseOfOtherPodsAreRefused) {
  const std::string field = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution";
  EXPECT_THAT(placed_by_others("podAffinity", kByHost), AllOf(HasSubstr(field), HasSubstr("remove it")));
  EXPECT_THAT(placed_by_others("podAffinity", "[]"), IsEmpty());
  EXPECT_THAT(placed_by_others("podAntiAffinity", kByZone), HasSubstr("topologyKey kubernetes.io/hostname alone"));
  EXPECT_THAT(created("hpc", pod(R"({"affinity":{"podAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{}]},
      "podAntiAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{}]}}})")),
              IsEmpty());
}

// Each pod of a job that does not share its nodes has one for itself. Whose annotation counts for the pods of a Job the
// scheduler knows.
TEST(Create, AntiAffinityOfHostsHoldsByItselfOnNodesOfOnesOwn) {
  constexpr const char* kShared = R"("annotations":{"slurmjob.slinky.slurm.net/exclusive":"false"})";
  EXPECT_THAT(placed_by_others("podAntiAffinity", kByHost), IsEmpty());
  EXPECT_THAT(placed_by_others("podAntiAffinity", kByHost, fmt::format("{{{}}}", kShared)),
              AllOf(HasSubstr("spec.affinity.podAntiAffinity."), HasSubstr("slurmjob.slinky.slurm.net/exclusive")));
  const std::string owned = fmt::format(
      R"({{{},"ownerReferences":[{{"apiVersion":"batch/v1","kind":"Job","name":"j","controller":true}}]}})", kShared);
  EXPECT_THAT(placed_by_others("podAntiAffinity", kByHost, owned), IsEmpty());
}

std::string conflict(std::string_view suffix, std::string_view resource, const char* list = "containers",
                     const char* extra = "") {
  return created("hpc",
                 pod(fmt::format(R"({{"{}":[{{"name":"m","resources":{{"limits":{{"{}":"1"}}}}}}]}})", list, resource),
                     fmt::format(R"({{"annotations":{{"slurmjob.slinky.slurm.net/{}":"1"}}{}}})", suffix, extra)));
}

TEST(Create, AnnotationsMustNotContradictDevices) {
  EXPECT_THAT(conflict("cpu-per-task", "deviceclass.resource.kubernetes.io/dra.cpu"), HasSubstr("cpu-per-task"));
  EXPECT_THAT(conflict("cpu-per-task", "deviceclass.resource.kubernetes.io/dra.cpu", "initContainers"),
              HasSubstr("cpu-per-task"));
  EXPECT_THAT(conflict("gres", "deviceclass.resource.kubernetes.io/gpu.nvidia.com"), HasSubstr("gres"));
  EXPECT_THAT(conflict("cpu-per-task", "cpu"), IsEmpty());
  EXPECT_THAT(conflict("gres", "nvidia.com/gpu"), IsEmpty());
  EXPECT_THAT(conflict("cpu-per-task", "deviceclass.resource.kubernetes.io/gpu.example.com"), IsEmpty());
  EXPECT_THAT(conflict("gres", "deviceclass.resource.kubernetes.io/dra.cpu"), IsEmpty());
}

// W37: a pod of a workload has its job's parameters from the workload, so its own annotations neither help nor harm.
TEST(Create, AnnotationsOfOwnedPodsDoNotCount) {
  EXPECT_THAT(conflict("gres", "deviceclass.resource.kubernetes.io/gpu.nvidia.com", "containers",
                       R"(,"ownerReferences":[{"kind":"Job","apiVersion":"batch/v1","controller":true}])"),
              IsEmpty());
  EXPECT_THAT(conflict("timelimit", "deviceclass.resource.kubernetes.io/gpu.nvidia.com", "containers",
                       R"(,"labels":{"scheduling.x-k8s.io/pod-group":"g"})"),
              IsEmpty());
}

// Whether a controller of the site's own kind can be read is not known here: the pod's annotations may count.
TEST(Create, AnnotationsThatMayCountAreChecked) {
  const auto owned = [](const char* api_version, const char* kind) {
    return created("hpc", pod("{}", fmt::format(R"({{"annotations":{{"slurmjob.slinky.slurm.net/timelimit":"x"}},
        "ownerReferences":[{{"apiVersion":"{}","kind":"{}","name":"o","controller":true}}]}})",
                                                api_version, kind)));
  };
  EXPECT_THAT(owned("kubeflow.org/v1", "PyTorchJob"), HasSubstr("timelimit: \"x\" is not a whole number"));
  EXPECT_THAT(owned("example.com/v1", "Job"), HasSubstr("timelimit"));
  for (const auto& [api_version, kind] :
       {std::pair{"batch/v1", "Job"}, std::pair{"apps/v1", "ReplicaSet"}, std::pair{"apps/v1", "StatefulSet"}}) {
    EXPECT_EQ(owned(api_version, kind), "") << kind;
  }
}

// Kubelet's device plugin chooses among all GPUs of the node, Slurm gives the others to native jobs.
TEST(Create, WarnsOfAPluginsGpuOnASharedNode) {
  const auto warnings = [](const char* resource, const char* exclusive) {
    const Case c = Case::of(
        "CREATE", "hpc",
        pod(fmt::format(R"({{"containers":[{{"name":"m","resources":{{"limits":{{"{}":"1"}}}}}}]}})", resource),
            fmt::format(R"({{"annotations":{{"slurmjob.slinky.slurm.net/exclusive":"{}"}}}})", exclusive)));
    return validated(c).warnings;
  };
  EXPECT_THAT(warnings("nvidia.com/gpu", "false"),
              ElementsAre(AllOf(HasSubstr("nvidia.com/gpu"), HasSubstr("other GPUs of the node than Slurm did"))));
  EXPECT_THAT(warnings("amd.com/gpu", " False "), SizeIs(1));
  EXPECT_THAT(warnings("nvidia.com/gpu", "true"), IsEmpty());
  EXPECT_THAT(warnings("deviceclass.resource.kubernetes.io/gpu.nvidia.com", "false"), IsEmpty());
  EXPECT_THAT(warnings("cpu", "false"), IsEmpty());
}

TEST(Create, WarnsOfWhatIsSurelyNotMeant) {
  const Verdict decision = validated(Case::of(
      "CREATE", "hpc",
      pod("{}", R"({"annotations":{"slurmjob.slinky.slurm.net/time-limit":"1","slinky.slurm.net/job-name":"x"}})")));
  EXPECT_TRUE(decision.allowed);
  EXPECT_THAT(decision.warnings, ElementsAre(HasSubstr("did you mean slurmjob.slinky.slurm.net/timelimit?"),
                                             HasSubstr("use slurmjob.slinky.slurm.net/job-name")));
}

// --- update ----------------------------------------------------------------------------------------------------------

json::Value ours(std::string_view metadata) {
  return pod(R"({"schedulerName":"slurm-bridge-scheduler"})", metadata);
}

// W58
TEST(Update, OnlyTheBridgeChangesWhatIsTheBridges) {
  const std::pair<const char*, const char*> changes[] = {
      {R"({})", R"({"labels":{"scheduler.slinky.slurm.net/slurm-jobid":"7"}})"},
      {R"({"labels":{"scheduler.slinky.slurm.net/slurm-jobid":"7"}})",
       R"({"labels":{"scheduler.slinky.slurm.net/slurm-jobid":"8"}})"},
      {R"({"annotations":{"slinky.slurm.net/slurm-node":"a"}})", R"({})"},
      {R"({"annotations":{"scheduler.slinky.slurm.net/slurm-state":"a"}})", R"({})"},
      {R"({"annotations":{"scheduler.slinky.slurm.net/slurm-reason":"a"}})", R"({})"},
      {R"({"finalizers":["scheduler.slinky.slurm.net/finalizer"]})", R"({"finalizers":["other"]})"},
      {R"({})", R"({"finalizers":["scheduler.slinky.slurm.net/finalizer"]})"},
  };
  for (const auto& [before, after] : changes) {
    SCOPED_TRACE(after);
    for (const char* phase : {"Pending", "Running", "Succeeded"}) {
      json::Value object = ours(after);
      json::at_or_create(object, {"status", "phase"}) = phase;
      EXPECT_THAT(validated(Case::of("UPDATE", "web", object, ours(before))).message,
                  HasSubstr("belongs to the bridge"));
      EXPECT_TRUE(validated(Case::of("UPDATE", "web", object, ours(before), kBridgeAccount)).allowed);
    }
    EXPECT_TRUE(validated(Case::of("UPDATE", "web", pod("{}", after), pod("{}", before))).allowed) << "foreign pod";
    EXPECT_FALSE(validated(Case::of("UPDATE", "hpc", pod("{}", after), pod("{}", before))).allowed);
  }
}

// The job would stand for the gang that the pod has left.
TEST(Update, AGangIsNotLeftOnceThePodHasAJob) {
  const auto in_group = [](std::string_view group, std::string_view more = "") {
    return pod(R"({"schedulerName":"slurm-bridge-scheduler"})",
               fmt::format(R"({{"labels":{{"scheduling.x-k8s.io/pod-group":"{}"{}}}}})", group, more));
  };
  const std::string job = R"(,"scheduler.slinky.slurm.net/slurm-jobid":"7")";
  const auto told = [](json::Value before, json::Value after, std::string_view user = "ada") {
    return validated(Case::of("UPDATE", "hpc", std::move(after), std::move(before), user)).message;
  };
  EXPECT_EQ(told(in_group("a"), in_group("b")), "") << "nothing stands for it yet";
  EXPECT_THAT(
      told(in_group("a", job), in_group("b", job)),
      HasSubstr("metadata.labels[scheduling.x-k8s.io/pod-group] says which gang the pod belongs to and may not be "
                "changed (\"a\" to \"b\") once it has a Slurm job 7; delete the pod"));
  EXPECT_THAT(told(in_group("", job), in_group("b", job)), HasSubstr("which gang"));
  EXPECT_THAT(told(in_group("a", job), in_group("b", job), "system:serviceaccount:slinky:slurm-bridge-x"),
              HasSubstr("which gang"))
      << "nobody may";
  EXPECT_EQ(told(in_group("a", job), in_group("a", job + R"(,"other":"x")")), "");
  json::Value held = in_group("a");
  json::at_or_create(held, {"metadata", "finalizers"}) = json::Array{names::kFinalizer};
  json::Value moved = held;
  json::at_or_create(moved, {"metadata", "labels", "leaderworkerset.sigs.k8s.io/group-key"}) = "k";
  EXPECT_THAT(told(held, moved), HasSubstr("group-key"));
}

TEST(Update, NamesAreTrustedWholeOrByPrefix) {
  const json::Value before = ours("{}");
  const json::Value after = ours(R"({"labels":{"scheduler.slinky.slurm.net/slurm-jobid":"7"}})");
  const auto by = [&](const char* user) { return validated(Case::of("UPDATE", "web", after, before, user)).allowed; };
  EXPECT_TRUE(by("system:serviceaccount:slinky:slurm-bridge-controllers"));
  EXPECT_FALSE(by("system:serviceaccount:other:slurm-bridge-controllers"));
  EXPECT_FALSE(by("system:serviceaccount:slinky:default"));
  EXPECT_FALSE(by(""));
  Case admin = Case::of("UPDATE", "web", after, before, "kubernetes-admin");
  admin.review.groups.emplace_back("system:masters");
  EXPECT_TRUE(validated(admin).allowed);
}

TEST(Update, RefusesResizeOfOurPodsOnly) {
  EXPECT_THAT(validated(Case::of("UPDATE", "hpc", pod(), pod(), "ada", "resize")).message, HasSubstr("resized"));
  EXPECT_FALSE(validated(Case::of("UPDATE", "web", ours("{}"), ours("{}"), kBridgeAccount, "resize")).allowed);
  EXPECT_TRUE(validated(Case::of("UPDATE", "web", pod(), pod(), "ada", "resize")).allowed);
}

// A pod let in by an older release must not be stuck because of what it always had.
TEST(Update, RefusesOnlyWhatItBringsIn) {
  const json::Value bad = ours(R"({"annotations":{"slurmjob.slinky.slurm.net/timelimit":"x"}})");
  const json::Value good = ours("{}");
  EXPECT_FALSE(validated(Case::of("UPDATE", "web", bad, good)).allowed);
  EXPECT_TRUE(validated(Case::of("UPDATE", "web", bad, bad)).allowed);
  EXPECT_TRUE(validated(Case::of("UPDATE", "web", good, bad)).allowed);
}

TEST(Update, NodesAreNotSharedBesideAntiAffinity) {
  const auto with = [](std::string_view exclusive) {
    return pod(R"({"schedulerName":"slurm-bridge-scheduler","affinity":{"podAntiAffinity":{
        "requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"kubernetes.io/hostname"}]}}})",
               fmt::format(R"({{"annotations":{{"slurmjob.slinky.slurm.net/exclusive":"{}"}}}})", exclusive));
  };
  EXPECT_FALSE(validated(Case::of("UPDATE", "web", with("false"), with("true"))).allowed);
  EXPECT_TRUE(validated(Case::of("UPDATE", "web", with("true"), with("false"))).allowed);
  EXPECT_TRUE(validated(Case::of("UPDATE", "web", with("false"), with("false"))).allowed);
}

TEST(Update, DefaultNamespaceIsIgnored) {
  EXPECT_TRUE(validated(Case::of("UPDATE", "default", pod(), pod())).allowed);
}

TEST(Review, OtherOperationsAndResourcesPass) {
  EXPECT_TRUE(validated(Case::of("DELETE", "hpc", nullptr, pod())).allowed);
  EXPECT_TRUE(validated(Case::of("CONNECT", "hpc", pod())).allowed);
  EXPECT_TRUE(validated(Case::of("CREATE", "hpc", pod(), nullptr, "ada", "binding")).allowed);
  Case secret = Case::of("CREATE", "hpc", pod("{}", R"({"labels":{"scheduler.slinky.slurm.net/slurm-jobid":"1"}})"));
  secret.review.resource = "secrets";
  EXPECT_TRUE(validated(secret).allowed);
}

}  // namespace
}  // namespace bascule::bridge
