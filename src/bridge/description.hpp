// From pods and their root object to the external job that stands for them. Pure.
// Precedence, lowest first: configuration and Slurm's defaults, what the workload and its pods say, annotations of the
// root. Every fault of the annotations is reported at once, each with its key, its value and what was expected.
#pragma once

#include <expected>
#include <string>
#include <vector>

#include "bridge/config.hpp"
#include "bridge/unit.hpp"
#include "slurm/types.hpp"

namespace bascule::bridge {

// A request that cannot be translated: sentences for the user.
struct DescriptionFaults {
  std::vector<std::string> faults;
};

// Everything of the job but its record, node lists and hold. `pods` are the unit's pods in the unit's order, not empty.
std::expected<slurm::JobDescription, DescriptionFaults> describe_job(const Config& config, const Root& root,
                                                                     const std::vector<PodPtr>& pods);

// The faults of slurmjob.slinky.slurm.net/* annotations alone, for admission.
std::vector<std::string> annotation_faults(const kube::StringMap& annotations);

}  // namespace bascule::bridge
