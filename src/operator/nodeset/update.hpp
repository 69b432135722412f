// Which pods have to be replaced, and how many at a time: by the update strategy, and because Slurm does not know them.
#pragma once

#include "operator/nodeset/facts.hpp"

namespace bascule::op::nodeset {

// Condemns pods of older revisions. RollingUpdate: those that do not run anyway, and of the others as many as
// maxUnavailable leaves. ScheduledUpdate: those that do not run, and those under the active reservation. OnDelete:
// none.
void plan_update(Pass& pass);

// Condemns healthy pods that Slurm has lacked for kAbsentSettles, so that their successors register: within
// maxUnavailable, since a slurmctld that lost its state lacks all of them at once.
void plan_drift(Pass& pass);

}  // namespace bascule::op::nodeset
