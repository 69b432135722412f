// Devices for the scheduler: watches what nodes have and who holds it, asks Slurm what a job was given, and has a
// pod's ResourceClaim stand before the pod is bound. What is given to whom is decided by claim_plan.hpp.
#pragma once

#include <optional>
#include <stop_token>
#include <string>

#include "bridge/claim_writer.hpp"
#include "bridge/device_watch.hpp"
#include "slurm/client.hpp"
#include "slurm/mirror.hpp"

namespace bascule::bridge {

class DeviceClaims final {
 public:
  // All outlive this.
  DeviceClaims(kube::Client& kube, slurm::Client& slurm, slurm::ClusterMirror& mirror, json::Interner& interner,
               const Config& config);

  DeviceLedger& ledger() noexcept { return watch_.ledger(); }
  void start() { watch_.start(); }
  Task<> stop() { return watch_.stop(); }

  // What the job holds on each of its nodes; nullopt: it is not RUNNING any more, or its record has gone.
  Task<std::optional<JobLayout>> layout(JobId job, std::stop_token stop);
  // The claim stands, and the pod may be bound; or why not, and it may be tried again a little later. An exception
  // leaves open what was written: the devices stay the pod's until the next try, or forget().
  Task<ClaimWriter::Ensured> make(PodPtr pod, WantedClaim claim, std::stop_token stop);
  // A binding failed: the claim goes, unless the pod turns out to be bound.
  Task<> undo(PodPtr pod, NamespacedName claim, std::stop_token stop);
  // The same for a pod that seems to wait: its binding may not be seen yet.
  Task<> drop(ClaimPtr claim, std::stop_token stop);
  // Nothing is being written for this pod any more.
  void forget(const Uid& pod) { watch_.ledger().forget(pod); }

 private:
  slurm::Client& slurm_;
  slurm::ClusterMirror& mirror_;
  DeviceWatch watch_;
  ClaimWriter writer_;
};

}  // namespace bascule::bridge
