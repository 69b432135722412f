// A model of a pod as far as admission judges it, and its JSON.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bridge/config.hpp"
#include "json/value.hpp"

namespace bascule::bridge::admission_model {

inline constexpr const char* kOurs = "slurm-bridge-scheduler";
inline constexpr const char* kClass = "deviceclass.resource.kubernetes.io/";
inline constexpr const char* kJob = "slurmjob.slinky.slurm.net/";

// A value of an annotation and what is wrong with it: for everybody, where the namespace has a rule, where only others
// have one. Empty: nothing. A word: what of the value is to blame.
struct Value {
  const char* suffix = "";
  const char* value = "";
  bool unreadable = false;
  const char* by_rule = "";
  const char* without_rule = "";
  bool shares_nodes = false;
};
// The rule is that of rules() below.
inline constexpr Value kValues[] = {
    {"account", "research"},
    {"cpu-per-task", "2"},
    {"cpu-per-task", "many", true},
    {"exclusive", "false", false, "", "", true},
    {"exclusive", " FALSE\t", false, "", "", true},
    {"exclusive", "no"},
    {"gres", "gpu:1"},
    {"gres", ":1", true},
    {"gres", "gpu:1,License/ansys=1", false, "ansys"},
    {"gres", "license:matlab=1"},
    {"group-id", "staff", false, "staff", "staff"},
    {"job-name", "training"},
    {"job-name", "two\nlines", true},
    {"licenses", "matlab:2"},
    {"licenses", "matlab:2,ansys:1", false, "ansys"},
    {"max-nodes", "2"},
    {"mem-per-node", "-1", true},
    {"mem-per-node", "1Gi"},
    {"min-nodes", "0", true},
    {"partition", "own"},
    {"partition", "a,own", false, "", "a"},
    {"partition", "a,z", false, "z", "a"},
    {"priority", "-1", true},
    {"priority", "10", false, "", "10"},
    {"priority", "11", false, "11", "11"},
    {"priority", "99999999999", true, "99999999999", "99999999999"},
    {"qos", "high", false, "high"},
    {"qos", "low"},
    {"reservation", "day", false, "day", "day"},
    {"reservation", "night", false, "", "night"},
    {"timelimit", "", true},
    {"timelimit", "1h", true},
    {"timelimit", "60"},
    {"user-id", "", false},
    {"user-id", "ada", false, "", "ada"},
    {"user-id", "root", false, "root", "root"},
    {"wckey", "w"},
    {"time-limit", "60"},  // misspelt: a warning
};
inline IdentityRule rules() {
  IdentityRule rule;
  rule.namespaces = {"hpc"};
  rule.users = {"ada"};
  rule.qos = {"low"};
  rule.partitions = {"a", "b"};
  rule.reservations = {"night"};
  rule.licenses = {"matlab"};
  rule.max_priority = 10;
  return rule;
}

// What is the bridge's own, and what says which gang a pod belongs to.
inline constexpr const char* kJobId = "scheduler.slinky.slurm.net/slurm-jobid";
inline constexpr const char* kOwn[] = {"slinky.slurm.net/slurm-node", "scheduler.slinky.slurm.net/slurm-restarts",
                                       "scheduler.slinky.slurm.net/slurm-state",
                                       "scheduler.slinky.slurm.net/slurm-reason"};
inline constexpr const char* kGroups[] = {"scheduling.x-k8s.io/pod-group", "leaderworkerset.sigs.k8s.io/name",
                                          "leaderworkerset.sigs.k8s.io/group-key"};
inline constexpr const char* kFinalizer = "scheduler.slinky.slurm.net/finalizer";
inline constexpr const char* kMirror = "kubernetes.io/config.mirror";

struct Owner {
  const char* api_version;
  const char* kind;
  bool controller;
  bool always_speaks;  // so that annotations of the pod itself never count
};
inline constexpr Owner kOwners[] = {
    {"batch/v1", "Job", true, true},
    {"apps/v1", "ReplicaSet", true, true},
    {"apps/v1", "StatefulSet", true, true},
    {"apps/v1", "DaemonSet", true, false},
    {"kubeflow.org/v1", "PyTorchJob", true, false},
    {"batch/v1", "Job", false, false},
};

inline constexpr std::size_t kDaemonSet = 3;

enum class Terms { kNone, kEmpty, kPreferred, kOfHosts, kOfZones, kOfBoth };

struct Container {
  bool init = false;
  std::string name;
  std::set<std::string> requests, limits;
};

struct Model {
  std::optional<std::string> scheduler;
  bool has_node = false;
  std::map<std::string, std::string> labels, annotations;
  std::vector<const Value*> values;  // the annotations of the job among them, one a suffix
  bool finalizer = false, other_finalizer = false;
  const Owner* owner = nullptr;
  bool scheduling_group = false;
  std::optional<int> claims, spread;  // how many; nullopt: no such field
  Terms affinity = Terms::kNone, anti_affinity = Terms::kNone;
  bool cpu_of_pod = false;
  std::vector<Container> containers;

  std::string label(const char* key) const { return labels.contains(key) ? labels.at(key) : ""; }
  std::string annotation(const char* key) const { return annotations.contains(key) ? annotations.at(key) : ""; }
};

inline json::Value text_map(const std::map<std::string, std::string>& map) {
  json::Object out;
  for (const auto& [key, value] : map) out[key] = value;
  return out;
}

inline json::Value terms_of(Terms terms) {
  const auto term = [](const char* key) { return json::Object{{"topologyKey", key}}; };
  const json::Value host = term("kubernetes.io/hostname");
  const json::Value zone = term("topology.kubernetes.io/zone");
  if (terms == Terms::kNone) return nullptr;
  if (terms == Terms::kPreferred) {
    return json::Object{{"preferredDuringSchedulingIgnoredDuringExecution", json::Array{zone}}};
  }
  json::Array required;
  if (terms == Terms::kOfHosts || terms == Terms::kOfBoth) required.push_back(host);
  if (terms == Terms::kOfZones || terms == Terms::kOfBoth) required.push_back(zone);
  return json::Object{{"requiredDuringSchedulingIgnoredDuringExecution", std::move(required)}};
}

inline json::Value written(const Model& model, const std::string& ns) {
  json::Object meta{{"name", "p"}, {"namespace", ns}, {"labels", text_map(model.labels)}};
  std::map<std::string, std::string> annotations = model.annotations;
  for (const Value* value : model.values) annotations[std::string(kJob) + value->suffix] = value->value;
  meta["annotations"] = text_map(annotations);
  json::Array finalizers;
  if (model.other_finalizer) finalizers.emplace_back("example.com/other");
  if (model.finalizer) finalizers.emplace_back(kFinalizer);
  meta["finalizers"] = std::move(finalizers);
  if (model.owner != nullptr) {
    meta["ownerReferences"] = json::Array{json::Object{{"apiVersion", model.owner->api_version},
                                                       {"kind", model.owner->kind},
                                                       {"name", "o"},
                                                       {"uid", "u"},
                                                       {"controller", model.owner->controller}}};
  }
  json::Object spec;
  if (model.scheduler) spec["schedulerName"] = *model.scheduler;
  if (model.has_node) spec["nodeName"] = "n1";
  if (model.scheduling_group) spec["schedulingGroup"] = json::Object{{"podGroupName", "g"}};
  if (model.claims) spec["resourceClaims"] = json::Array(static_cast<std::size_t>(*model.claims), json::Object{});
  if (model.spread)
    spec["topologySpreadConstraints"] = json::Array(static_cast<std::size_t>(*model.spread), json::Object{});
  spec["affinity"] =
      json::Object{{"podAffinity", terms_of(model.affinity)}, {"podAntiAffinity", terms_of(model.anti_affinity)}};
  if (model.cpu_of_pod) spec["resources"] = json::Object{{"limits", json::Object{{"cpu", "1"}}}};
  json::Array init, main;
  for (const Container& one : model.containers) {
    json::Object requests, limits;
    for (const std::string& name : one.requests) requests[name] = "1";
    for (const std::string& name : one.limits) limits[name] = "1";
    (one.init ? init : main)
        .push_back(
            json::Object{{"name", one.name}, {"resources", json::Object{{"requests", requests}, {"limits", limits}}}});
  }
  spec["initContainers"] = std::move(init);
  spec["containers"] = std::move(main);
  return json::Object{{"metadata", std::move(meta)}, {"spec", std::move(spec)}};
}

}  // namespace bascule::bridge::admission_model
