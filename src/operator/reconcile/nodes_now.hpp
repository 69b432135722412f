// How the Slurm nodes of a cluster stand at this moment, by slurmctld's own word. Pure.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "operator/nodeset/values.hpp"
#include "slurm/types.hpp"

namespace bascule::op::reconcile {

struct NodesNow {
  std::vector<nodeset::SlurmNodeView> nodes;
  std::set<std::string> partitions = {};  // in which jobs run, suspended ones too
  bool whole = false;                     // false: the job table lacks, and nothing else tells of suspended jobs
};

// `jobs`: nullopt when they are not known.
NodesNow nodes_now(const std::vector<slurm::Node>& nodes, const std::optional<std::vector<slurm::Job>>& jobs);

}  // namespace bascule::op::reconcile
