// Reads from the API server what an explanation needs: a pod with its events and its gang, a group with its pods, or a
// node with its events.
// Nothing of Slurm is asked, so it works wherever kubectl does.
#pragma once

#include <stdexcept>
#include <vector>

#include "bridge/explain.hpp"
#include "kube/client.hpp"

namespace bascule::bridge {

// What is to be explained does not exist: a sentence that names it and the remedy.
struct NothingToExplain final : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// All throw NothingToExplain, or kube::Error's kinds.
Task<Explanation> read_pod_explanation(kube::Client& client, NamespacedName key);
Task<Explanation> read_node_explanation(kube::Client& client, std::string name);
enum class GroupObject : std::uint8_t { kPodGroup, kLeaderWorkerSet };
// A LeaderWorkerSet has a gang a group; a PodGroup is one, or one of either API when both have that name.
Task<std::vector<GroupExplanation>> read_group_explanations(kube::Client& client, GroupObject kind, NamespacedName key);

}  // namespace bascule::bridge
