// What a pod shows of its Slurm node, and its Slurm node of the pod: conditions, labels and annotations on one side;
// comment, topology and features on the other. What is not known keeps its last value.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "operator/nodeset/actions.hpp"
#include "operator/nodeset/facts.hpp"

namespace bascule::op::nodeset {

// Adds to `patch`, which the caller sends; conditions and writes to Slurm become actions.
void reflect(Pass& pass, const PodFacts& facts, PatchPod& patch);

// Feature list of Slurm after ours (those with names::kFeaturePrefix) are replaced by `wanted`: sorted, each once.
std::vector<std::string> with_features(const std::vector<std::string>& current, const std::vector<std::string>& wanted);
// Items of a comma-separated list: trimmed, not empty, sorted, each once.
std::vector<std::string> list_items(std::string_view text);

}  // namespace bascule::op::nodeset
