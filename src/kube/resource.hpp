// Names of API resources. Source: Kubernetes API reference.
#pragma once

#include <string>
#include <string_view>

namespace bascule::kube {

struct Resource {
  std::string group;  // "" is the core group
  std::string version;
  std::string resource;  // plural, lower case
  std::string kind;
  bool namespaced = true;

  std::string api_version() const { return group.empty() ? version : group + "/" + version; }
  friend bool operator==(const Resource&, const Resource&) = default;
};

namespace resources {
inline const Resource kPods{"", "v1", "pods", "Pod", true};
inline const Resource kNodes{"", "v1", "nodes", "Node", false};
inline const Resource kNamespaces{"", "v1", "namespaces", "Namespace", false};
inline const Resource kSecrets{"", "v1", "secrets", "Secret", true};
inline const Resource kConfigMaps{"", "v1", "configmaps", "ConfigMap", true};
inline const Resource kJobs{"batch", "v1", "jobs", "Job", true};
inline const Resource kReplicaSets{"apps", "v1", "replicasets", "ReplicaSet", true};
inline const Resource kStatefulSets{"apps", "v1", "statefulsets", "StatefulSet", true};
inline const Resource kLeases{"coordination.k8s.io", "v1", "leases", "Lease", true};
inline const Resource kEvents{"events.k8s.io", "v1", "events", "Event", true};
}  // namespace resources

}  // namespace bascule::kube
