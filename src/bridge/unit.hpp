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

}  // namespace bascule::bridge
