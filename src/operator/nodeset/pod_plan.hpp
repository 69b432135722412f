// What is done about one pod and its Slurm node, once it is decided whether the pod stays: the only place that drains,
// takes drains back and deletes pods.
//
//   condemned: not registered, or drained and without jobs --> delete
//              else --> drain (as long as enough others serve), look again
//   kept:      its Kubernetes node or the pod itself cordoned --> drain; else our drain is taken back
//
// Who cordoned a pod is told by the annotation pod-cordon-cause beside pod-cordon: with it we did, and take it back;
// without it a user did, and we do not. Invariants: nothing follows from what is not known; a drain, an outage or a
// reason of somebody else is left alone.
#pragma once

#include <cstdint>

#include "operator/nodeset/facts.hpp"

namespace bascule::op::nodeset {

inline constexpr std::string_view kNodeCause = "Node";  // pod-cordon-cause of a pod whose Kubernetes node is cordoned

// Replacing pods that end at once is slowed down: 1 s, doubling to 15 min, by slot.
inline constexpr Duration kFailedFirst = std::chrono::seconds(1);
inline constexpr Duration kFailedMost = std::chrono::minutes(15);

// The text for a drain because the Kubernetes node is cordoned: its annotation, else the propagated conditions that are
// true, else a sentence. Without our prefix.
std::string cordon_reason(const Spec& spec, const NodeView& node, const std::string& pod);

void plan_pods(Pass& pass);

}  // namespace bascule::op::nodeset
