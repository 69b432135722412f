// slurm.conf of a Controller, and the other small files beside it.
// Source of the options: slurm.conf(5), cgroup.conf(5), "Configless Slurm", "Dynamic Nodes".
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "operator/api/types.hpp"
#include "operator/config/files.hpp"
#include "operator/config/left_lines.hpp"

namespace bascule::op {

struct ClusterView {
  const Controller& controller;
  const Accounting* accounting = nullptr;   // the one it refers to, nullptr: none, or not there
  std::span<const NodeSet> node_sets = {};  // in any order; those of other Controllers do not count
  std::int64_t room = 0;                    // MaxNodeCount of the slurm.conf in place; 0: there is none
  std::span<const LeftLine> left = {};      // lines that stay although no NodeSet asks for them
};

// For slurmctld and, configless, everyone else. With an external Controller only what slurmrestd needs.
std::string slurm_conf(const ClusterView& cluster, const FilePlan& files);

// What /etc/slurm is to hold, in a word that slurm.conf of a Controller with inplaceReconfigure carries as a member of
// SlurmctldParameters: by it a slurmctld says which configuration it runs. Empty: none is carried.
std::string config_digest(const ClusterView& cluster, const FilePlan& files);
bool says_digest(const std::vector<std::string>& slurmctld_parameters, std::string_view digest);

// NodeSet= and PartitionName= lines. An external slurmctld must be given them by its administrator.
std::string node_set_lines(const ClusterView& cluster);

// slurm.conf without what clients of slurmctld do not use: a change elsewhere need not restart them.
std::string client_part(std::string_view slurm_conf);

// Room for dynamic nodes: 1024, doubled until it is twice of what the NodeSets ask for or still have. slurmctld must be
// told at start, and it forgets the nodes beyond with the jobs on them: it never shrinks.
std::int64_t max_node_count(const ClusterView& cluster);
std::int64_t nodes_asked(const NodeSet& set);
std::int64_t room_for(std::int64_t nodes);
// MaxNodeCount of a slurm.conf; 0: it has none.
std::int64_t room_in(std::string_view slurm_conf);

std::string default_cgroup_conf();

}  // namespace bascule::op
