#include "bridge/admission_rules.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bridge/claim_plan.hpp"
#include "bridge/description.hpp"
#include "bridge/device_drivers.hpp"
#include "bridge/identity.hpp"
#include "bridge/names.hpp"
#include "bridge/owners.hpp"
#include "bridge/peer_rules.hpp"

namespace bascule::bridge {

namespace {

// Written by the bridge alone. An empty value is the same as none.
constexpr std::string_view kOwnLabels[] = {names::kSlurmJobId};
constexpr std::string_view kOwnAnnotations[] = {names::kSlurmNode, names::kSlurmRestarts, names::kSlurmSubmitted,
                                                names::kSlurmState, names::kSlurmReason};
// Which gang the pod belongs to. (spec.schedulingGroup, which says it too, cannot be changed.)
constexpr std::string_view kGroupLabels[] = {names::kPodGroup, names::kLwsName, names::kLwsGroupKey};

std::string_view label(const json::Value& pod, std::string_view key) {
  return json::string_at(pod, {"metadata", "labels", key});
}
std::string_view annotation(const json::Value& pod, std::string_view key) {
  return json::string_at(pod, {"metadata", "annotations", key});
}

bool has_finalizer(const json::Value& pod) {
  const json::Array* list = json::array_at(pod, {"metadata", "finalizers"});
  return list != nullptr && std::ranges::any_of(*list, [](const json::Value& item) {
           const auto* text = item.if_string();
           return text != nullptr && json::view(*text) == names::kFinalizer;
         });
}

// fn(container name, resource name) for every key of requests and limits, init containers first.
template <class F>
void for_each_resource(const json::Value& pod, F&& fn) {
  for (const std::string_view list_name : {"initContainers", "containers"}) {
    const json::Array* list = json::array_at(pod, {"spec", list_name});
    if (list == nullptr) continue;
    for (const json::Value& container : *list) {
      for (const std::string_view part : {"requests", "limits"}) {
        const json::Object* resources = json::object_at(container, {"resources", part});
        if (resources == nullptr) continue;
        for (const auto& [key, amount] : *resources) {
          fn(json::string_at(container, {"name"}), std::string_view(key.data(), key.size()));
        }
      }
    }
  }
}

// Empty when the resource is not a device class.
std::string_view class_of_resource(std::string_view resource) {
  return resource.starts_with(names::kDeviceClassPrefix) ? resource.substr(names::kDeviceClassPrefix.size())
                                                         : std::string_view{};
}

// The pod's own annotations are the job's only when nothing above it speaks for it. Of a controller of another kind
// than ours it is not known here whether it can be read: the pod's may count, so they are held to the same rules.
bool may_speak_for_itself(const json::Value& pod) {
  if (!label(pod, names::kPodGroup).empty()) return false;
  if (!json::string_at(pod, {"spec", "schedulingGroup", "podGroupName"}).empty()) return false;
  const json::Array* owners = json::array_at(pod, {"metadata", "ownerReferences"});
  return owners == nullptr || std::ranges::none_of(*owners, [](const json::Value& owner) {
           return json::bool_at(owner, {"controller"}) &&
                  always_speaks(json::string_at(owner, {"apiVersion"}), json::string_at(owner, {"kind"}));
         });
}

AnnotationViews annotations_of(const json::Value& pod) {
  AnnotationViews views;
  if (const json::Object* object = json::object_at(pod, {"metadata", "annotations"})) {
    for (const auto& [key, value] : *object) {
      if (const auto* text = value.if_string()) {
        views.emplace_back(std::string_view(key.data(), key.size()), json::view(*text));
      }
    }
  }
  return views;
}

const json::Array* required_terms(const json::Value& pod, std::string_view affinity) {
  return json::array_at(pod, {"spec", "affinity", affinity, "requiredDuringSchedulingIgnoredDuringExecution"});
}

kube::PeerRules peer_rules(const json::Value& pod) {
  using AntiAffinity = kube::PeerRules::AntiAffinity;
  const auto some = [](const json::Array* list) { return list != nullptr && !list->empty(); };
  kube::PeerRules rules;
  rules.spread = some(json::array_at(pod, {"spec", "topologySpreadConstraints"}));
  rules.affinity = some(required_terms(pod, "podAffinity"));
  if (const json::Array* terms = required_terms(pod, "podAntiAffinity"); some(terms)) {
    const bool of_hosts = std::ranges::all_of(
        *terms, [](const json::Value& term) { return json::string_at(term, {"topologyKey"}) == kube::kHostTopology; });
    rules.anti_affinity = of_hosts ? AntiAffinity::kOfHosts : AntiAffinity::kWider;
  }
  return rules;
}

}  // namespace

void preset_faults(const json::Value& pod, Sentences& faults) {
  for (const std::string_view key : kOwnLabels) {
    if (!label(pod, key).empty()) {
      faults.push_back(
          fmt::format("metadata.labels[{}] is set by the bridge when the pod has a Slurm job; remove it "
                      "from the manifest",
                      key));
    }
  }
  for (const std::string_view key : kOwnAnnotations) {
    if (!annotation(pod, key).empty()) {
      faults.push_back(
          fmt::format("metadata.annotations[{}] is set by the bridge when Slurm has decided; remove it from the "
                      "manifest",
                      key));
    }
  }
  if (has_finalizer(pod)) {
    faults.push_back(
        fmt::format("metadata.finalizers: {} is set by the bridge; remove it from the manifest", names::kFinalizer));
  }
}

void change_faults(const json::Value& before, const json::Value& after, Sentences& faults) {
  for (const std::string_view key : kOwnLabels) {
    if (label(before, key) != label(after, key)) {
      faults.push_back(
          fmt::format("metadata.labels[{}] belongs to the bridge and may not be changed ({} to {}); leave it as it is, "
                      "or cancel the Slurm job to give the pod back",
                      key, in_quotes(label(before, key)), in_quotes(label(after, key))));
    }
  }
  for (const std::string_view key : kOwnAnnotations) {
    if (annotation(before, key) != annotation(after, key)) {
      faults.push_back(fmt::format(
          "metadata.annotations[{}] belongs to the bridge and may not be changed ({} to {}); leave it as it is", key,
          in_quotes(annotation(before, key)), in_quotes(annotation(after, key))));
    }
  }
  if (has_finalizer(before) != has_finalizer(after)) {
    faults.push_back(
        fmt::format("metadata.finalizers: {} belongs to the bridge, which removes it when the pod's Slurm job is over; "
                    "leave it as it is",
                    names::kFinalizer));
  }
}

void group_faults(const json::Value& before, const json::Value& after, Sentences& faults) {
  const std::string_view job = label(before, names::kSlurmJobId);
  if (job.empty() && !has_finalizer(before)) return;
  for (const std::string_view key : kGroupLabels) {
    if (label(before, key) == label(after, key)) continue;
    faults.push_back(
        fmt::format("metadata.labels[{}] says which gang the pod belongs to and may not be changed ({} to {}) once it "
                    "has a Slurm job{}{}; delete the pod and create it in its new group",
                    key, in_quotes(label(before, key)), in_quotes(label(after, key)), job.empty() ? "" : " ", job));
  }
}

void shape_faults(const Config& config, const json::Value& pod, Sentences& faults) {
  const json::Value* claims = json::find(pod, {"spec", "resourceClaims"});
  if (claims != nullptr && !claims->is_null()) {
    faults.push_back(resource_claims_fault());
  }
  bool native_cpu = false;
  bool class_cpu = false;
  std::string_view cpu_resource;
  for (const std::string_view part : {"requests", "limits"}) {
    native_cpu = native_cpu || json::find(pod, {"spec", "resources", part, "cpu"}) != nullptr;
  }
  for_each_resource(pod, [&](std::string_view, std::string_view resource) {
    native_cpu = native_cpu || resource == "cpu";
    const bool cpus = config.device_drivers.is_cpu_class(class_of_resource(resource));
    class_cpu = class_cpu || cpus;
    if (cpus) cpu_resource = resource;
  });
  if (native_cpu && class_cpu) {
    faults.push_back(
        fmt::format("cpu and {} cannot be asked for together; keep one of them in all containers", cpu_resource));
  }
}

void request_faults(const Config& config, std::string_view ns, const json::Value& pod, Sentences& faults) {
  bool class_cpu = false;
  bool class_gpu = false;
  std::vector<std::pair<std::string_view, std::string_view>> unsupported;
  for_each_resource(pod, [&](std::string_view container, std::string_view resource) {
    const std::string_view device_class = class_of_resource(resource);
    if (device_class.empty() && resource != names::kDeviceClassPrefix) return;
    if (config.device_drivers.is_cpu_class(device_class)) {
      class_cpu = true;
      return;
    }
    class_gpu = true;
    if (config.device_drivers.of_class(device_class) == nullptr) {
      unsupported.emplace_back(container, device_class);
    }
  });
  std::ranges::sort(unsupported);
  unsupported.erase(std::unique(unsupported.begin(), unsupported.end()), unsupported.end());
  for (const auto& [container, device_class] : unsupported) {
    faults.push_back(fmt::format("container {}: device class {} is not supported; use one of {}", container,
                                 in_quotes(device_class), config.device_drivers.classes()));
  }
  const bool speaks = may_speak_for_itself(pod);
  const AnnotationViews annotations = annotations_of(pod);
  // Of annotations that are another object's the scheduler says it.
  const bool exclusive = !speaks || asks_exclusive(annotations);
  for (std::string& fault : peer_faults(peer_rules(pod), exclusive)) faults.push_back(std::move(fault));
  if (!speaks) return;
  for (std::string& fault : annotation_faults(annotations)) faults.push_back(std::move(fault));
  for (std::string& fault : annotation_conflicts(annotations, class_cpu, class_gpu)) faults.push_back(std::move(fault));
  slurm::JobDescription unused;
  for (std::string& fault : apply_identity(config.identities, ns, annotations, unused, config.partition))
    faults.push_back(std::move(fault));
}

void request_warnings(const json::Value& pod, Sentences& warnings) {
  // A controller's warnings reach nobody but its log.
  const json::Array* owners = json::array_at(pod, {"metadata", "ownerReferences"});
  if (owners != nullptr && !owners->empty()) return;
  const AnnotationViews annotations = annotations_of(pod);
  if (may_speak_for_itself(pod)) {
    std::string_view gpu;
    for_each_resource(pod, [&gpu](std::string_view, std::string_view resource) {
      if (is_gpu_of_plugin(resource)) gpu = resource;
    });
    for (std::string& warning : annotation_warnings(annotations, gpu)) warnings.push_back(std::move(warning));
    return;
  }
  for (const auto& [key, value] : annotations) {
    if (!key.starts_with(names::kJobPrefix)) continue;
    warnings.push_back(fmt::format("{} has no effect on a pod of a group; put it on the PodGroup", key));
  }
}

}  // namespace bascule::bridge
