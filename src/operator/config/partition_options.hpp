// What may stand behind PartitionName= in slurm.conf. slurmctld ends at a line that it cannot read.
// Source: slurm.conf(5), "Partition Configuration", and the parser's table of Slurm 24.11 and 26.05.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace bascule::op {

// The part of `config` that goes into slurm.conf: one line, that does not go on in the next.
std::string_view partition_line(std::string_view config) noexcept;
// What is wrong with the options of a partition, as a sentence; values are not judged. nullopt: nothing.
std::optional<std::string> partition_fault(std::string_view config);

}  // namespace bascule::op
