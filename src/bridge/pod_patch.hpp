// Small calls about a pod that must hit this very pod and no later one of the same name.
#pragma once

#include <optional>
#include <stop_token>
#include <string>

#include "bridge/unit.hpp"
#include "kube/client.hpp"
#include "kube/events.hpp"

namespace bascule::bridge {

// By the API server's own word. nullopt: it has gone, or another has its name.
Task<std::optional<json::Value>> read_pod(kube::Client& client, NamespacedName key, Uid uid, std::stop_token stop);
// Likewise: those whose label names this job.
Task<json::Array> pods_of_job(kube::Client& client, std::string ns, JobId job, std::stop_token stop);
bool is_bound(const json::Value& pod);
bool is_over(const json::Value& pod);
std::string_view version_of(const json::Value& pod);
std::string_view job_label(const json::Value& pod);
// It has a node, or may get one yet.
bool needs_node(const json::Value& pod);

// Strategic merge patch of `pod` with its uid as precondition. The resourceVersion that it has since; nullopt: the pod
// has gone, another has its name, or it has not the resourceVersion that the patch demands.
Task<std::optional<std::string>> patch_pod(kube::Client& client, PodPtr pod, json::Object patch,
                                           std::string subresource, std::stop_token stop);

// Makes the pod tolerate the taint of its own bridge, for ever; only of the pod as it was read. As above.
Task<std::optional<std::string>> add_toleration(kube::Client& client, PodPtr pod, std::stop_token stop);

kube::ObjectReference reference_to(const kube::Pod& pod);

}  // namespace bascule::bridge
