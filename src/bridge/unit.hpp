// A unit is what one external job stands for: a single pod (a bare pod, or a pod of a Job, Deployment ...), or a gang
// of pods. A pod's unit follows from the pod alone and from objects named by it, so any process can find it again.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
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

// The group object that a pod names.
enum class GroupKind : std::uint8_t {
  kWorkload,      // PodGroup of scheduling.k8s.io, by spec.schedulingGroup
  kCoscheduling,  // PodGroup of scheduling.x-k8s.io, by label
  kLeaderWorker,  // one group of a LeaderWorkerSet, by labels of its controller
};
struct Group {
  GroupKind kind = GroupKind::kWorkload;
  NamespacedName object;  // PodGroup or LeaderWorkerSet, in the pod's namespace
  Uid unit;
};
// nullopt: the pod is a unit of its own.
std::optional<Group> group_of(const kube::Pod& pod);

// What the pod's job stands for: the pod's UID, or "API-GROUP/NAMESPACE/NAME" of its gang. Never shared by two
// namespaces. A pod that names a group belongs to it whether or not the group exists: nothing about a gang is guessed.
Uid unit_of(const kube::Pod& pod);

// How many pods of a gang must run together.
struct Gang {
  std::uint32_t minimum = 1;
  std::string closed;  // why no member may start any more; empty: they may
};

// The object whose annotations count: the gang's group, else what the owner walk finds, else the pod itself.
struct Root {
  std::string api_version = "v1";
  std::string kind = "Pod";
  NamespacedName key;
  Uid uid;
  kube::StringMap annotations;
  std::optional<std::int64_t> active_deadline_seconds;  // of a Job
  // A pod's size when its containers do not say: pod-level limits of a Job's template, a PodGroup's minResources.
  kube::ResourceList fallback_limits;
  std::string job_name;      // empty: key.name
  std::optional<Gang> gang;  // nullopt: one pod
  std::string louder = {};   // objects whose annotations won over its own, the loudest first: "Job ns/name"
};

// The job that the pod's label names; 0 when there is no label or it is no job id.
JobId label_of(const kube::Pod& pod) noexcept;
// How often its job had been started anew when the pod was bound; 0 for one that is not bound.
std::uint32_t restarts_of(const kube::Pod& pod) noexcept;

// When the job that gave a bound pod its node was submitted; 0: not said.
std::int64_t submitted_of(const kube::Pod& pod) noexcept;

// The order of a gang's members on the nodes: by namespace and name, numbers in names by value (w-2 before w-10).
bool ranks_before(const kube::Pod& a, const kube::Pod& b) noexcept;
void sort_by_rank(std::vector<PodPtr>& pods);

}  // namespace bascule::bridge
