// Lines of the slurm.conf in place that no NodeSet asks for any more: it has gone (its pods may have been left), its
// hostname is another, its partition is off. slurmctld ends the jobs of a partition that goes. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace bascule::op {

// Of the part of slurm.conf with the NodeSets' lines.
inline constexpr std::string_view kNodeSetHeading = "NODESET & PARTITION";

struct LeftLine {
  std::string name;  // of the NodeSet's nodes, also their feature; or of the partition
  bool partition = false;
  std::string text;   // without its end
  std::string after;  // the first word of the line before it; empty: it is the first
};
// `wanted`: node_set_lines() of now. What `extra_conf` says itself is not left.
std::vector<LeftLine> left_lines(std::string_view in_place, std::string_view wanted, std::string_view extra_conf);

// A partition's line by which it takes no more jobs: those it has go on.
std::string closed_partition(std::string_view line);

// `wanted` with these where they were: with nothing moved slurmctld is not made anew.
std::string merged_lines(std::string_view wanted, std::span<const LeftLine> left);

}  // namespace bascule::op
