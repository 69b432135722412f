// What is to be done about one NodeSet. Pure: the whole state, what this process remembers and the time go in; actions
// come out, each with its reason.
//
//   revisions -> who is missing, who is too much (scale) -> who is out of date (update) -> whom Slurm lacks (drift)
//   -> what is done about each pod (pod_plan) -> creates -> node records, reservation, finalizers -> status
//
// Level-based: nothing is remembered but writes not seen back (Memory). Invariants, proved by nodeset_sim_test.cpp: a
// pod is deleted only when its Slurm node is drained without jobs or is surely not registered, or when nothing runs in
// it any more, or when the user set a limit for draining; never are more than maxUnavailable taken out of service; a
// drain of somebody else is never undone; from an unknown Slurm nothing follows; at rest there are no actions.
#pragma once

#include "operator/nodeset/actions.hpp"
#include "operator/nodeset/values.hpp"

namespace bascule::op::nodeset {

Plan plan_nodeset(const State& state, Memory& memory, WallTime now);

}  // namespace bascule::op::nodeset
