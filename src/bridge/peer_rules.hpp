// What a pod requires of its place by the places of other pods, and Slurm cannot see to: one sentence each, for
// admission and for the scheduler, to which pods come that no webhook has seen. Pure.
//
// Anti-affinity by host holds by itself where the job has its nodes for itself: no other pod of ours is there.
#pragma once

#include <string>
#include <vector>

#include "kube/objects.hpp"

namespace bascule::bridge {

// `exclusive`: the pod's job does not share its nodes.
std::vector<std::string> peer_faults(const kube::PeerRules& rules, bool exclusive);

}  // namespace bascule::bridge
