#include "bridge/pod_patch.hpp"

#include "bridge/names.hpp"

namespace bascule::bridge {

Task<std::optional<json::Value>> read_pod(kube::Client& client, NamespacedName key, Uid uid, std::stop_token stop) {
  try {
    json::Value pod = co_await client.get(kube::resources::kPods, std::move(key), {}, stop);
    if (json::string_at(pod, {"metadata", "uid"}) == uid.str()) co_return pod;
  } catch (const kube::NotFound&) {
  }
  co_return std::nullopt;
}

Task<json::Array> pods_of_job(kube::Client& client, std::string ns, JobId job, std::stop_token stop) {
  std::string label = std::string(names::kSlurmJobId) + "=" + job.str();
  const json::Value list =
      co_await client.list(kube::resources::kPods, std::move(ns), {.labels = std::move(label)}, stop);
  const json::Array* pods = json::array_at(list, {"items"});
  if (pods == nullptr) co_return json::Array();
  co_return *pods;
}

bool is_bound(const json::Value& pod) {
  return !json::string_at(pod, {"spec", "nodeName"}).empty();
}

bool is_over(const json::Value& pod) {
  const std::string_view phase = json::string_at(pod, {"status", "phase"});
  return phase == "Succeeded" || phase == "Failed";
}

std::string_view version_of(const json::Value& pod) {
  return json::string_at(pod, {"metadata", "resourceVersion"});
}

std::string_view job_label(const json::Value& pod) {
  return json::string_at(pod, {"metadata", "labels", names::kSlurmJobId});
}

bool needs_node(const json::Value& pod) {
  if (is_over(pod)) return false;
  return is_bound(pod) || json::find(pod, {"metadata", "deletionTimestamp"}) == nullptr;
}

Task<std::optional<std::string>> patch_pod(kube::Client& client, PodPtr pod, json::Object patch,
                                           std::string subresource, std::stop_token stop) {
  json::Value body = std::move(patch);
  json::at_or_create(body, {"metadata", "uid"}) = pod->meta.uid.str();
  try {
    const json::Value now = co_await client.patch(kube::resources::kPods, pod->meta.key, kube::PatchType::kStrategic,
                                                  std::move(body), std::move(subresource), {}, stop);
    co_return std::string(version_of(now));
  } catch (const kube::NotFound&) {
  } catch (const kube::Conflict&) {
  } catch (const kube::Invalid& error) {
    // A uid that differs is refused as a change of an immutable field.
    if (std::string_view(error.what()).find("metadata.uid") == std::string_view::npos) throw;
  }
  co_return std::nullopt;
}

// A strategic merge patch would replace the whole list, of which we do not know every field. In front, since of several
// that cover a taint the first counts.
Task<std::optional<std::string>> add_toleration(kube::Client& client, PodPtr pod, std::stop_token stop) {
  json::Value one = json::Object{{"key", names::kManagedNodeTaint},
                                 {"operator", "Equal"},
                                 {"value", pod->scheduler_name.view()},
                                 {"effect", "NoExecute"}};
  const bool first = pod->tolerations.empty();
  json::Value patch = json::Array{
      json::Object{{"op", "replace"}, {"path", "/metadata/resourceVersion"}, {"value", pod->meta.resource_version}},
      json::Object{{"op", "add"},
                   {"path", first ? "/spec/tolerations" : "/spec/tolerations/0"},
                   {"value", first ? json::Value(json::Array{std::move(one)}) : std::move(one)}}};
  try {
    const json::Value now = co_await client.patch(kube::resources::kPods, pod->meta.key, kube::PatchType::kJson,
                                                  std::move(patch), {}, {}, stop);
    co_return std::string(version_of(now));
  } catch (const kube::NotFound&) {
  } catch (const kube::Conflict&) {
  }
  co_return std::nullopt;
}

kube::ObjectReference reference_to(const kube::Pod& pod) {
  return {"v1", "Pod", pod.meta.key, pod.meta.uid};
}

}  // namespace bascule::bridge
