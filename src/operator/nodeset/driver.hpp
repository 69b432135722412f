// The driver of plan_nodeset(): one key a NodeSet, "namespace/name". It gathers the state from informers and the mirror
// of the NodeSet's Slurm cluster, has it planned, and performs what the plan says (perform.hpp). It makes worker pods,
// their claims, revisions and Slurm's side of them, and the NodeSet's status; what the NodeSets of a Controller share
// (Service, disruption budget) and the sshd ConfigMap are not its matter.
//
// All state that must outlive the process is in Kubernetes objects and Slurm records. At rest nothing is written.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/async.hpp"
#include "kube/client.hpp"
#include "kube/events.hpp"
#include "kube/informer.hpp"
#include "operator/clusters/clusters.hpp"
#include "runtime/metrics.hpp"

namespace bascule::op::nodeset {

class NodeSetDriver final {
 public:
  struct Parts {
    kube::Client& kube;
    kube::Informer<kube::DynamicObject>& nodesets;       // these four not started yet
    kube::Informer<kube::DynamicObject>& controllers;    //
    kube::Informer<kube::DynamicObject>& secrets;        //
    kube::Informer<kube::DynamicObject>& stateful_sets;  // slurmctld's at least
    SlurmClusters& clusters;                             // not started yet
    kube::EventRecorder& events;
    runtime::Metrics* metrics;  // may be nullptr
  };
  struct Options {
    std::string ns = {};  // of pods and claims; empty: all
    std::string domain = "cluster.local";
    std::vector<std::string> propagated_conditions = {};  // --propagated-node-conditions
    std::size_t workers = 64;  // NodeSets at once: those of a dead cluster must not take all of them
    // Asked before anything is done outside; nullptr: always. A process that was stopped for a while must not act on a
    // lease that is over, before its timers tell it so.
    std::function<bool()> may_act = nullptr;
    std::uint64_t seed = 0;  // of the informers' jitter; 0: the system's randomness
  };
  // All of `parts` outlive this; the clusters and the informers have stopped before this dies.
  NodeSetDriver(Parts parts, Options options);
  ~NodeSetDriver();
  // Once the four informers are synced and the clusters started. Its own informers (worker pods, nodes, claims,
  // revisions) start with it; nothing is planned before they are synced.
  void start();
  Task<> stop();

  // Why the NodeSet is not yet as it should be, one sentence each; empty: it is, or nothing is known of it.
  std::vector<std::string> waits(const NamespacedName& nodeset) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bascule::op::nodeset
