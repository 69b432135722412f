// Random pods and changes of pods against the rules of docs/annotations.md and docs/differences.md (W22, W37, W56-W58),
// written here a second time, over a model of the pod instead of its JSON. What is let through keeps every rule; what
// is refused names each field that breaks one. What is let in is also what the scheduler can describe to Slurm.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <array>
#include <random>

#include "bridge/admission_model_test.hpp"
#include "bridge/admission_review.hpp"
#include "bridge/description.hpp"
#include "bridge/names.hpp"
#include "json/patch.hpp"
#include "testing/from_environment.hpp"

namespace bascule::bridge {
namespace {

using namespace admission_model;
using ::testing::HasSubstr;

// --- the rules -------------------------------------------------------------------------------------------------------

enum class Policy { kNone, kRule, kOthersRule };

// By what makes it the same fault in two versions of a pod: a word that the refusal must have.
using Faults = std::map<std::string, std::string>;

std::set<std::string> classes_of(const Model& pod) {
  std::set<std::string> classes;
  for (const Container& one : pod.containers) {
    for (const auto* list : {&one.requests, &one.limits}) {
      for (const std::string& name : *list) {
        if (name.starts_with(kClass)) classes.insert(name.substr(std::string_view(kClass).size()));
      }
    }
  }
  return classes;
}

bool speaks_for_itself(const Model& pod) {
  return pod.label(kGroups[0]).empty() && !pod.scheduling_group && (pod.owner == nullptr || !pod.owner->always_speaks);
}

Faults device_rules(const Model& pod) {
  Faults faults;
  for (const Container& one : pod.containers) {
    Model alone;
    alone.containers = {one};
    for (const std::string& name : classes_of(alone)) {
      if (name == "dra.cpu" || name == "gpu.nvidia.com" || name == "gpu.example.com") continue;
      const std::string word = fmt::format("container {}: device class \"{}\"", one.name, name);
      faults[word] = word;
    }
  }
  return faults;
}

Faults place_rules(const Model& pod) {
  Faults faults;
  const auto refuse = [&faults](const std::string& field) { faults[field] = field; };
  if (pod.spread.value_or(0) > 0) refuse("spec.topologySpreadConstraints");
  if (pod.affinity >= Terms::kOfHosts) refuse("spec.affinity.podAffinity.required");
  if (pod.anti_affinity > Terms::kOfHosts) refuse("spec.affinity.podAntiAffinity.required");
  const bool shares =
      speaks_for_itself(pod) && std::ranges::any_of(pod.values, [](const Value* value) { return value->shares_nodes; });
  if (pod.anti_affinity == Terms::kOfHosts && shares) faults["shares nodes"] = "spec.affinity.podAntiAffinity.required";
  return faults;
}

Faults annotation_rules(const Model& pod, Policy policy) {
  Faults faults;
  if (!speaks_for_itself(pod)) return faults;
  const std::set<std::string> classes = classes_of(pod);
  const bool cpus = classes.contains("dra.cpu");
  const bool gpus = classes.size() > (cpus ? 1 : 0);
  for (const Value* value : pod.values) {
    const std::string key = std::string("annotation ") + kJob + value->suffix;
    const std::string_view suffix = value->suffix;
    if (value->unreadable) faults["read " + key + value->value] = fmt::format("{}: \"{}\" is not", key, value->value);
    if ((suffix == "cpu-per-task" && cpus) || (suffix == "gres" && gpus)) {
      faults["conflict " + key] = key + " contradicts the containers";
    }
    const char* blame = policy == Policy::kRule         ? value->by_rule
                        : policy == Policy::kOthersRule ? value->without_rule
                                                        : "";
    if (*blame != 0) faults["identity " + key + blame] = key + ": namespace ";
  }
  return faults;
}

Faults request_rules(const Model& pod, Policy policy) {
  Faults faults = device_rules(pod);
  faults.merge(place_rules(pod));
  faults.merge(annotation_rules(pod, policy));
  return faults;
}

Faults creation_rules(const Model& pod, Policy policy) {
  Faults faults = request_rules(pod, policy);
  const auto refuse = [&faults](const std::string& field) { faults[field] = field; };
  if (!pod.label(kJobId).empty()) refuse(fmt::format("metadata.labels[{}]", kJobId));
  for (const char* key : kOwn) {
    if (!pod.annotation(key).empty()) refuse(fmt::format("metadata.annotations[{}]", key));
  }
  if (pod.finalizer) refuse("metadata.finalizers");
  if (pod.claims) refuse("spec.resourceClaims");
  bool native = pod.cpu_of_pod;
  for (const Container& one : pod.containers) {
    native = native || one.requests.contains("cpu") || one.limits.contains("cpu");
  }
  if (native && classes_of(pod).contains("dra.cpu")) refuse("cannot be asked for together");
  return faults;
}

Faults change_rules(const Model& before, const Model& after, Policy policy, bool trusted) {
  Faults faults = request_rules(after, policy);
  for (const auto& [fault, word] : request_rules(before, policy)) faults.erase(fault);
  const auto refuse = [&faults](const std::string& field) { faults[field] = field; };
  if (!trusted) {
    if (before.label(kJobId) != after.label(kJobId)) refuse(fmt::format("metadata.labels[{}]", kJobId));
    for (const char* key : kOwn) {
      if (before.annotation(key) != after.annotation(key)) refuse(fmt::format("metadata.annotations[{}]", key));
    }
    if (before.finalizer != after.finalizer) refuse("metadata.finalizers");
  }
  const bool has_job = !before.label(kJobId).empty() || before.finalizer;
  for (const char* key : kGroups) {
    if (has_job && before.label(key) != after.label(key)) refuse(fmt::format("metadata.labels[{}]", key));
  }
  return faults;
}

// --- the dice --------------------------------------------------------------------------------------------------------

// Each seed has few kinds of change and few values, so that these meet in one pod.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {
    for (auto& kind : kinds_) kind = random_() % 16;
    for (auto& value : values_) value = &kValues[random_() % std::size(kValues)];
  }
  bool one_in(unsigned n) { return random_() % n == 0; }
  template <class List>
  const auto& any(const List& list) {
    return list[random_() % std::size(list)];
  }

  // One field of the pod.
  void change(Model& pod) {
    static constexpr const char* kSchedulers[] = {"", "default-scheduler", kOurs, "other"};
    static constexpr const char* kTexts[] = {"", "7", "8"};
    static constexpr Terms kTerms[] = {Terms::kNone,    Terms::kEmpty,   Terms::kPreferred,
                                       Terms::kOfHosts, Terms::kOfZones, Terms::kOfBoth};
    switch (any(kinds_)) {
      case 0:
        pod.scheduler = any(kSchedulers);
        break;
      case 1:
        pod.labels[kJobId] = any(kTexts);
        break;
      case 2:
        pod.annotations[any(kOwn)] = any(kTexts);
        break;
      case 3:
        pod.labels[any(kGroups)] = any(kTexts);
        break;
      case 4:
        pod.finalizer = !pod.finalizer;
        break;
      case 5:
        pod.other_finalizer = !pod.other_finalizer;
        break;
      case 6:
        pod.owner = one_in(2) ? nullptr : &any(kOwners);
        break;
      case 7:
        pod.scheduling_group = one_in(4);
        break;
      case 8:
        pod.claims = one_in(2) ? std::nullopt : std::optional<int>(random_() % 2);
        break;
      case 9:
        pod.spread = one_in(2) ? std::nullopt : std::optional<int>(random_() % 2);
        break;
      case 10:
        pod.affinity = any(kTerms);
        break;
      case 11:
        pod.anti_affinity = any(kTerms);
        break;
      case 12:
        container(pod);
        break;
      case 13:
        pod.annotations[kMirror] = "x";
        break;
      default:
        value(pod);
    }
  }
  Model pod() {
    Model made;
    if (one_in(2)) made.scheduler = kOurs;
    made.has_node = one_in(4);
    made.cpu_of_pod = one_in(8);
    for (unsigned n = random_() % 9; n > 0; --n) change(made);
    return made;
  }

 private:
  void value(Model& pod) {
    const Value& chosen = *any(values_);
    std::erase_if(pod.values, [&](const Value* one) { return std::string_view(one->suffix) == chosen.suffix; });
    if (!one_in(4)) pod.values.push_back(&chosen);
  }
  void container(Model& pod) {
    static const std::vector<std::string> kNames = {"cpu",
                                                    "memory",
                                                    "nvidia.com/gpu",
                                                    std::string(kClass) + "dra.cpu",
                                                    std::string(kClass) + "gpu.nvidia.com",
                                                    std::string(kClass) + "gpu.example.com",
                                                    std::string(kClass) + "tpu",
                                                    kClass};
    Container one{one_in(4), fmt::format("c{}", pod.containers.size()), {}, {}};
    for (unsigned n = random_() % 3; n > 0; --n) (one_in(2) ? one.requests : one.limits).insert(any(kNames));
    pod.containers.push_back(std::move(one));
  }

  std::mt19937_64 random_;
  std::array<std::uint64_t, 4> kinds_{};
  std::array<const Value*, 4> values_{};
};

struct User {
  const char* name;
  const char* group;
  bool trusted;
};
constexpr User kUsers[] = {
    {"ada", "system:authenticated", false},
    {"system:serviceaccount:slinky:slurm-bridge-controllers", "system:serviceaccounts", true},
    {"system:serviceaccount:slinky:slurm-bridge-scheduler", "system:serviceaccounts", true},
    {"system:serviceaccount:slinky:default", "system:serviceaccounts", false},
    {"system:serviceaccount:hpc:slurm-bridge-scheduler", "system:serviceaccounts", false},
    {"kubernetes-admin", "system:masters", true},
    {"system:node:n1", "system:nodes", false},
};

// One review, its pod and what must come of it.
class Trial {
 public:
  explicit Trial(std::uint64_t seed)
      : dice_(seed),
        operation_(dice_.any(kOperations)),
        part_(operation_ == "UPDATE" ? dice_.any(kParts) : ""),
        ns_(dice_.one_in(2) ? "hpc" : "web"),
        user_(dice_.any(kUsers)) {
    before_ = after_ = dice_.pod();
    while (operation_ == "UPDATE" && !dice_.one_in(3)) dice_.change(after_);
    config_.managed_namespaces = {"hpc"};
    config_.partition = "own";
    config_.trusted_users = default_trusted_users("slinky", config_.scheduler_name);
    if (!dice_.one_in(3)) config_.identities = {rules()};
    // The labels of the namespace cannot be read.
    if (dice_.one_in(20)) config_.managed_namespace_selector = LabelSelector{};
  }

  void run() {
    json::Object request{{"uid", "r"},
                         {"resource", {{"group", ""}, {"version", "v1"}, {"resource", "pods"}}},
                         {"subResource", part_},
                         {"namespace", ns_},
                         {"operation", operation_},
                         {"userInfo", {{"username", user_.name}, {"groups", json::Array{user_.group}}}},
                         {"object", written(after_, ns_)},
                         {"oldObject", operation_ == "CREATE" ? json::Value(nullptr) : written(before_, ns_)}};
    const json::Value document = json::Object{
        {"apiVersion", "admission.k8s.io/v1"}, {"kind", "AdmissionReview"}, {"request", std::move(request)}};
    SCOPED_TRACE(json::dump(document));
    const auto review = kube::read_admission_review(document);
    ASSERT_TRUE(review) << review.error();
    const Managed state = managed(config_, ns_, nullptr);
    judge(validate(config_, *review, state), *review);
    if (!::testing::Test::HasFailure()) follow(mutate(config_, *review, state), *review, state);
  }

 private:
  static constexpr const char* kOperations[] = {"CREATE", "CREATE", "CREATE", "UPDATE", "UPDATE", "UPDATE", "DELETE"};
  static constexpr const char* kParts[] = {"", "", "", "", "", "", "resize", "status", "binding"};

  Managed handled() const {
    if (after_.annotations.contains(kMirror) && std::string_view(user_.group) == "system:nodes") return Managed::kNo;
    if (after_.scheduler == kOurs) return Managed::kYes;
    if (after_.owner == &kOwners[kDaemonSet]) return Managed::kNo;
    if (config_.managed_namespace_selector) return Managed::kUnknown;
    return ns_ == "hpc" ? Managed::kYes : Managed::kNo;
  }
  bool looked_at() const { return operation_ != "DELETE" && (part_.empty() || part_ == "resize"); }

  void judge(const Verdict& verdict, const Review& review) const {
    if (!looked_at() || handled() == Managed::kNo) {
      EXPECT_TRUE(verdict.allowed) << verdict.message;
      return;
    }
    if (handled() == Managed::kUnknown) {
      EXPECT_FALSE(verdict.allowed);
      EXPECT_EQ(verdict.code, 503);
      return;
    }
    const Policy policy = config_.identities.empty() ? Policy::kNone
                          : ns_ == "hpc"             ? Policy::kRule
                                                     : Policy::kOthersRule;
    Faults faults =
        operation_ == "CREATE" ? creation_rules(after_, policy) : change_rules(before_, after_, policy, user_.trusted);
    if (part_ == "resize") faults = {{"resize", "resized"}};
    EXPECT_EQ(verdict.allowed, faults.empty()) << verdict.message;
    for (const auto& [fault, word] : faults) EXPECT_THAT(verdict.message, HasSubstr(word));
    if (operation_ == "CREATE") agree(verdict, *review.object);
  }

  // What is let in can be described to Slurm, but for what the devices of one claim allow; and the scheduler refuses
  // nothing that admission has not named. Of pods above which there is nothing.
  void agree(const Verdict& verdict, const json::Value& object) const {
    if (after_.owner != nullptr || !speaks_for_itself(after_)) return;
    json::Interner interner;
    const PodPtr pod = kube::decode_pod(json::dump(object), interner);
    Root root;
    root.annotations = pod->meta.annotations;
    const auto job = describe_job(config_, root, {pod});
    if (job) return;
    for (const std::string& fault : job.error().faults) {
      if (fault.starts_with("init container ")) continue;
      EXPECT_THAT(verdict.message, HasSubstr(fault));
    }
  }

  void follow(const Verdict& verdict, const Review& review, Managed state) const {
    if (operation_ != "CREATE" || handled() == Managed::kNo) {
      EXPECT_TRUE(verdict.allowed && verdict.patch.empty());
      return;
    }
    if (handled() == Managed::kUnknown) return;
    const json::Value after = json::patched(*review.object, verdict.patch);
    const bool ours = after_.scheduler.value_or("") != "other";
    EXPECT_EQ(json::string_at(after, {"spec", "schedulerName"}), ours ? kOurs : "other");
    EXPECT_EQ(json::find(after, {"spec", "nodeName"}), nullptr);
    EXPECT_EQ(json::array_at(after, {"spec", "tolerations"}) != nullptr, ours);
    Review again = review;
    again.object = &after;
    EXPECT_TRUE(mutate(config_, again, state).patch.empty()) << "a second time";
  }

  Dice dice_;
  std::string operation_, part_, ns_;
  User user_;
  Model before_, after_;
  Config config_;
};

// More with BASCULE_SEEDS.
TEST(AdmissionRandom, WhatIsLetThroughKeepsTheRulesAndWhatIsRefusedNamesTheField) {
  const std::uint64_t seeds = bascule::testing::from_environment("BASCULE_SEEDS", 30'000);
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Trial(seed).run();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace bascule::bridge
