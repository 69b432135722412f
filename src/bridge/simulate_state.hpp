// The state of both clusters at one moment, from a file: what `bascule simulate` decides over, and what a report of a
// fault may carry. docs/simulate.md describes the format. Pure.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "bridge/config.hpp"
#include "bridge/device_slices.hpp"
#include "bridge/unit.hpp"
#include "bridge/volumes.hpp"
#include "slurm/types.hpp"

namespace bascule::bridge {

// A file that is no state: a sentence with the place and what was expected.
struct StateFault final : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct ClusterState {
  WallTime time{};
  Config config;
  Identity self;
  std::vector<PodPtr> pods;  // of any scheduler
  std::vector<NodePtr> nodes;
  std::vector<json::Value> objects;                                         // all others: Jobs, PodGroups ...
  std::vector<ObjectPtr> claims, volumes, classes, csi_nodes, attachments;  // of storage
  std::vector<SlicePtr> slices;
  std::vector<ClassPtr> device_classes;
  std::vector<ClaimPtr> device_claims;
  std::optional<std::vector<slurm::Job>> slurm_jobs;  // nullopt: the file does not say
  std::optional<std::vector<slurm::Node>> slurm_nodes;
};

struct StateDefaults {
  WallTime time{};                    // when the file has none
  std::optional<Config> config = {};  // instead of the file's
};

// At most 256 MiB. The cluster's identity is the file's "cluster", else the uid of its Namespace kube-system, else what
// the record of a job says whose pod is in the file. Throws StateFault, or ConfigFaults for the "config" of the file.
ClusterState read_state(std::string_view text, const StateDefaults& defaults, json::Interner& interner);

}  // namespace bascule::bridge
