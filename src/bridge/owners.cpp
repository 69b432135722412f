#include "bridge/owners.hpp"

namespace bascule::bridge {

namespace {

constexpr Duration kRemember = std::chrono::minutes(1);
constexpr std::size_t kMaxRemembered = 10'000;

const kube::Resource* resource_of(const kube::OwnerReference& owner) {
  if (owner.api_version != "apps/v1") return nullptr;
  if (owner.kind == "ReplicaSet") return &kube::resources::kReplicaSets;
  if (owner.kind == "StatefulSet") return &kube::resources::kStatefulSets;
  return nullptr;
}

Root root_from_pod(const kube::Pod& pod) {
  Root root;
  root.key = pod.meta.key;
  root.uid = pod.meta.uid;
  root.annotations = pod.meta.annotations;
  return root;
}

}  // namespace

Task<std::variant<Root, std::string>> Owners::root_of(PodPtr pod, std::stop_token stop) {
  const kube::OwnerReference* owner = pod->meta.controller();
  if (owner == nullptr) co_return root_from_pod(*pod);
  const NamespacedName key{pod->meta.key.ns, owner->name.str()};
  const std::string name = owner->kind.str() + " " + key.str();
  if (owner->kind == "Job" && owner->api_version == "batch/v1") {
    const auto job = jobs_.get(key);
    if (!job || job->meta.uid != owner->uid) co_return "the pod's owner, " + name + ", is not known yet";
    Root root{"batch/v1",          "Job", key, owner->uid, job->meta.annotations, job->active_deadline_seconds,
              job->template_limits};
    co_return root;
  }
  const kube::Resource* resource = resource_of(*owner);
  if (resource == nullptr) co_return root_from_pod(*pod);
  const TimePoint now = client_.loop().now();
  const auto known = remembered_.find(owner->uid);
  if (known != remembered_.end() && now - known->second.at < kRemember) co_return known->second.root;
  std::string problem;
  try {
    const json::Value object = co_await client_.get(*resource, key, {}, stop);
    Root root{owner->api_version.str(), owner->kind.str(), key, owner->uid, {}, {}, {}};
    if (const json::Object* annotations = json::object_at(object, {"metadata", "annotations"})) {
      for (const auto& [k, v] : *annotations) {
        if (v.is_string()) root.annotations.emplace_back(interner_(k), interner_(json::view(v.get_string())));
      }
      std::ranges::sort(root.annotations);
    }
    if (remembered_.size() >= kMaxRemembered) remembered_.clear();
    remembered_.insert_or_assign(root.uid, Remembered{root, now});
    co_return root;
  } catch (const kube::Error& error) {
    problem = error.what();
  }
  co_return "the pod's owner, " + name + ", cannot be read: " + problem;
}

}  // namespace bascule::bridge
