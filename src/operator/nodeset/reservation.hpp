// The maintenance reservation of a scheduled update: made ahead of its time over the NodeSet's Slurm nodes, kept right,
// removed with the strategy or the NodeSet.
//
// For which start time a reservation was made is kept in the status, and so is that it has come and gone, so that a
// one-off reservation which Slurm has reaped is not made again. Source: scontrol(1) "reservation".
#pragma once

#include <string>

#include "operator/nodeset/facts.hpp"

namespace bascule::op::nodeset {

std::string reservation_name(const Spec& spec);

// Changes the reservation's fields of `status` only. The finalizer is set before the reservation is made, and taken
// away when Slurm no longer has it.
void plan_reservation(Pass& pass, Status& status);

}  // namespace bascule::op::nodeset
