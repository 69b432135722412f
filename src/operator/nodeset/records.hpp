// The record a worker pod leaves in the comment of its Slurm node, and the removal of node records whose pod is surely
// gone. A record is one line of JSON with text members only; anything else is not one.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "operator/nodeset/facts.hpp"

namespace bascule::op::nodeset {

struct PodRecord {
  std::string ns, pod, node, nodeset, nodeset_uid;
  friend bool operator==(const PodRecord&, const PodRecord&) = default;
};
PodRecord record_of(const Spec& spec, const PodView& pod);
std::string print_record(const PodRecord& record);  // the last two members only when not empty
std::optional<PodRecord> parse_record(std::string_view comment);

// The record of this very NodeSet in a node's comment.
std::optional<PodRecord> own_record(const Spec& spec, const SlurmNodeView& node);
// The record in a node's comment is of another pod, or of this one on another Kubernetes node.
bool is_of_another(const Spec& spec, const PodView& pod, const SlurmNodeView& node);
// slurmctld has given the node up, and it was this NodeSet's.
bool is_defunct(const Spec& spec, const SlurmNodeView& node);

// Removes records of pods that are gone and not to come back: with pruneSlurmNodeRecords NodeNotFound, and when the
// NodeSet itself goes. `full`: no pod is about to be made.
bool plan_prune(Pass& pass, bool full);

}  // namespace bascule::op::nodeset
