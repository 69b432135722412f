// A Controller is deleted, and what runs under it is nobody's any longer: what is said of that. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operator/reconcile/nodes_now.hpp"

namespace bascule::op::reconcile {

struct SetAtRisk {
  std::string name;
  std::string feature;         // that its Slurm nodes have, and no others
  std::int64_t pods = 0;       // workers
  std::int64_t allocated = 0;  // Slurm nodes with jobs when its status was written
};

// `now`: nullopt when slurmctld did not answer; that it is not whole is better than nothing. `outside`: slurmctld
// stays, and with it the jobs of nodes that are no NodeSet's. nullopt: no job is at risk.
std::optional<std::string> jobs_at_risk(const std::vector<SetAtRisk>& sets, const std::optional<NodesNow>& now,
                                        bool outside = false);

}  // namespace bascule::op::reconcile
