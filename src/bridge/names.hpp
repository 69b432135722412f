// The names by which pods, nodes, jobs and people speak to the bridge: those of slurm-bridge, so that manifests move
// over unchanged.
#pragma once

#include <string_view>

namespace bascule::bridge::names {

// Labels
inline constexpr std::string_view kSlurmNodeName = "slinky.slurm.net/slurm-nodename";  // Node: its name in Slurm
inline constexpr std::string_view kExternalNode =
    "scheduler.slinky.slurm.net/external-node";                                            // Node: register it in Slurm
inline constexpr std::string_view kSlurmJobId = "scheduler.slinky.slurm.net/slurm-jobid";  // Pod: its external job

// Annotations
inline constexpr std::string_view kSlurmNode = "slinky.slurm.net/slurm-node";  // Pod: Kubernetes node chosen by Slurm
inline constexpr std::string_view kExternalNodePartitions = "scheduler.slinky.slurm.net/external-node-partitions";
inline constexpr std::string_view kTopologySpec = "topology.slinky.slurm.net/spec";
inline constexpr std::string_view kJobPrefix = "slurmjob.slinky.slurm.net/";  // root object: job parameters
// Pod: how often Slurm had started its job before the start it was bound for; absent: never. A job that has been
// started more often since has been requeued, and its nodes are others'.
inline constexpr std::string_view kSlurmRestarts = "scheduler.slinky.slurm.net/slurm-restarts";
// Pod: when its job was submitted, in Slurm's seconds; of one that waits, as soon as it is told so. With its id that
// tells the job from any other, whatever has been written over its record.
inline constexpr std::string_view kSlurmSubmitted = "scheduler.slinky.slurm.net/slurm-submitted";
// Pod, written by us for dashboards: what Slurm says of its job.
inline constexpr std::string_view kSlurmState = "scheduler.slinky.slurm.net/slurm-state";
inline constexpr std::string_view kSlurmReason = "scheduler.slinky.slurm.net/slurm-reason";

// ResourceClaim, written by us: the scheduler that made it, and the fingerprint of what it is to hold. Its job and node
// are in kSlurmJobId (a label) and kSlurmNode.
inline constexpr std::string_view kClaimedBy = "scheduler.slinky.slurm.net/claimed-by";
inline constexpr std::string_view kClaimContent = "scheduler.slinky.slurm.net/claim-content";

// Pod condition, False while its job is one that Slurm does not know and that may not have ended.
inline constexpr std::string_view kSlurmJobKnown = "scheduler.slinky.slurm.net/SlurmJobKnown";

inline constexpr std::string_view kFinalizer = "scheduler.slinky.slurm.net/finalizer";
inline constexpr std::string_view kManagedNodeTaint = "slinky.slurm.net/managed-node";  // value: the scheduler's name

// Group membership of a pod: the coscheduling PodGroup of that name.
inline constexpr std::string_view kPodGroup = "scheduling.x-k8s.io/pod-group";
// ... and what the LeaderWorkerSet controller writes: set, number of the group in it, unique key of the group.
inline constexpr std::string_view kLwsName = "leaderworkerset.sigs.k8s.io/name";
inline constexpr std::string_view kLwsGroupIndex = "leaderworkerset.sigs.k8s.io/group-index";
inline constexpr std::string_view kLwsGroupKey = "leaderworkerset.sigs.k8s.io/group-key";
inline constexpr std::string_view kLwsSize = "leaderworkerset.sigs.k8s.io/size";  // an annotation: pods of the group
// Devices by class (dynamic resource allocation), written as resources of a container.
inline constexpr std::string_view kDeviceClassPrefix = "deviceclass.resource.kubernetes.io/";
inline constexpr std::string_view kGpuResources[] = {"nvidia.com/gpu", "amd.com/gpu"};  // device plugins
// Older releases of slurm-bridge read job parameters under this prefix.
inline constexpr std::string_view kRetiredJobPrefix = "slinky.slurm.net/";

// Mark of our own texts in a Slurm node's reason; an administrator's reason lacks it and is left alone.
inline constexpr std::string_view kReasonMark = "slurm-bridge:";

}  // namespace bascule::bridge::names
