// Slurm has one space of names: a node that is called like a NodeSet of slurm.conf is not registered, and with one in
// its state slurmctld does not start. Pure.
// Source: _validate_nodes_vs_nodeset() of slurmctld.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "operator/api/types.hpp"

namespace bascule::op::reconcile {

struct NameClash {
  std::string name;   // in Slurm, of both
  std::string set;    // the NodeSet that is called so
  std::string other;  // whose node is
};
// By the names that nodes have up to the number of now. One for each NodeSet, in their order.
std::vector<NameClash> name_clashes(std::span<const NodeSet> sets);

}  // namespace bascule::op::reconcile
