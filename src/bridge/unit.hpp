// A unit is what one external job stands for: a single pod (a bare pod, or a pod of a Job, Deployment ...), or a gang
// of pods. A pod's unit follows from the pod alone and from objects named by it, so any process can find it again.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/strong.hpp"
#include "kube/objects.hpp"

namespace bascule::bridge {

using PodPtr = std::shared_ptr<const kube::Pod>;
using NodePtr = std::shared_ptr<const kube::Node>;

// Which bridge of which cluster we are: what job records and node marks carry.
struct Identity {
  std::string bridge;   // scheduler name
  std::string cluster;  // uid of the namespace kube-system
};

// The object whose annotations count, found by the owner walk; the pod itself when nobody owns it.
struct Root {
  std::string api_version = "v1";
  std::string kind = "Pod";
  NamespacedName key;
  Uid uid;
  kube::StringMap annotations;
  std::optional<std::int64_t> active_deadline_seconds;  // of a Job
  kube::ResourceList template_limits;                   // of a Job: pod-level limits of its template
};

// What the pod's job stands for: so far every pod is a unit of its own.
inline const Uid& unit_of(const kube::Pod& pod) noexcept {
  return pod.meta.uid;
}

// The job that the pod's label names; 0 when there is no label or it is no job id.
JobId label_of(const kube::Pod& pod) noexcept;

}  // namespace bascule::bridge
