// The node half of the controllers process: the driver of node_plan.hpp, one key a Slurm node name.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/async.hpp"
#include "bridge/config.hpp"
#include "bridge/device_ledger.hpp"
#include "bridge/node_plan.hpp"
#include "kube/client.hpp"
#include "kube/events.hpp"
#include "kube/informer.hpp"
#include "runtime/metrics.hpp"
#include "slurm/client.hpp"
#include "slurm/mirror.hpp"

namespace bascule::bridge {

class NodeSync final {
 public:
  struct Parts {
    kube::Client& kube;
    slurm::Client& slurm;
    kube::Informer<kube::Node>& nodes;  // not started yet
    slurm::ClusterMirror& mirror;       // not started yet
    kube::EventRecorder& events;
    runtime::Metrics* metrics = nullptr;
    DeviceLedger* devices = nullptr;            // nullptr: no node has devices for Slurm
    kube::Informer<kube::Pod>* pods = nullptr;  // not started yet; nullptr: no pod matters to a node
    // Before every write; throws when another process may lead.
    std::function<void()> must_lead = [] {};
  };
  // All of `parts` and `config` outlive this.
  NodeSync(Parts parts, const Config& config, Identity self, std::size_t workers);
  ~NodeSync();
  void start();  // once the informers are synced and the mirror started
  Task<> stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bascule::bridge
