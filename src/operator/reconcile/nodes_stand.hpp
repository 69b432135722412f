// How the Slurm nodes of a cluster stand for what must not happen while jobs run: another auth/slurm key
// (key_change.hpp), a partition that goes (left_lines() of config/). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "operator/reconcile/nodes_now.hpp"

namespace bascule::op::reconcile {

enum class NodesStand : std::uint8_t {
  kAsked,    // slurmctld has not answered yet
  kUnknown,  // it does not answer
  kOpen,     // jobs run on some or may start there
  kClear,
};

// Of all nodes but external ones, which no slurmd of this cluster runs on. Not by the NodeSets of now: a node may bear
// the name of one that has gone.
struct ClusterStand {
  NodesStand rest = NodesStand::kAsked;                // of all that is not open
  bool open = false;                                   // one is, with whatever features
  std::set<std::set<std::string>> open_features = {};  // of each
  std::set<std::string> busy_partitions = {};          // where jobs run

  NodesStand nodes() const { return open ? NodesStand::kOpen : rest; }
  // Of the nodes of a NodeSet that is no more. `wanted`: names of those that are: their nodes may have this one as a
  // feature of their own.
  NodesStand of_former(const std::string& name, const std::set<std::string>& wanted) const;
  NodesStand of_partition(const std::string& name) const {
    return busy_partitions.contains(name) ? NodesStand::kOpen : rest;
  }
};
// nullopt: slurmctld did not answer.
ClusterStand stand_of(const std::optional<NodesNow>& now);

// Of the bridge: its pods are the jobs.
bool is_external(const nodeset::SlurmNodeView& node);

}  // namespace bascule::op::reconcile
