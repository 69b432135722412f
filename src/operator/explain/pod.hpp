// Where one pod of a Slurm cluster stands, and what the operator or the pod itself waits for. Pure: everything is read
// from the Pod object, which the operator has labelled and given conditions with the state of its Slurm node.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/loop.hpp"
#include "json/value.hpp"

namespace bascule::op::explain {

enum class Stand : std::uint8_t {
  // It runs, and nobody waits for it.
  kReady,
  kIdle,
  kBusy,
  // Slurm gives it nothing new.
  kDraining,  // jobs run
  kDrained,
  kCordoned,  // will be drained
  kMaintenance,
  kDown,
  kUnregistered,
  // It does not run.
  kGated,
  kUnscheduled,
  kVolume,  // no node, for want of a volume
  kStarting,
  kImage,
  kConfig,
  kCrashing,
  kUnready,
  kEnding,
  kSucceeded,
  kFailed,
};

struct PodStand {
  std::string pod;
  std::string node;        // Kubernetes'; empty: none
  std::string slurm_node;  // of a worker; empty: not known
  Stand stand = Stand::kReady;
  std::string state;                     // a word or two
  std::optional<WallTime> since;         // of the state
  std::string why;                       // a phrase; empty: nothing to say
  std::string hand = {};                 // of a drain: "operator", "user", "other"; empty: none
  std::vector<std::string> claims = {};  // PersistentVolumeClaims of its volumes
  bool serves() const noexcept { return stand <= Stand::kBusy; }
};

// `worker`: a pod of a NodeSet.
PodStand judge_pod(const json::Value& pod, bool worker);

// Of a pod that waits for a volume: says which of `claims` (PersistentVolumeClaims of its namespace) it lacks.
void name_claims(PodStand& pod, const std::vector<json::Value>& claims);

// What a person may do about it, a sentence; empty: nothing is to be done.
std::string remedy_of(const PodStand& pod);

}  // namespace bascule::op::explain
