// Writes what slurmrestd reads. Numbers of the kind {set, number} always carry "set": without it slurmrestd takes them
// as unset, and a time limit becomes unlimited. `nodes` is text.
#pragma once

#include <string>

#include "slurm/types.hpp"

namespace bascule::slurm {

// {"job":{...,"flags":["EXTERNAL_JOB"]}}: no script, no environment.
std::string encode_submit(const JobDescription& job);
// For Slurm before 25.05, which knows no external jobs: a batch job that does nothing. slurmd starts it.
std::string encode_placeholder(const JobDescription& job);
// The bare description, as POST job/{id} wants it.
std::string encode_update(const JobDescription& change);
std::string encode_node_update(const NodeUpdate& change);
std::string encode_reservation(const ReservationUpdate& change);
std::string encode_new_node(const std::string& conf);

}  // namespace bascule::slurm
