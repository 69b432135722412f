// The pod half of the controllers process: the driver of pod_plan.hpp. Before a pod is deleted Slurm is asked once
// more; before a job is cancelled the API server is asked once more whether its pods are gone.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "base/async.hpp"
#include "bridge/unit_plan.hpp"
#include "kube/client.hpp"
#include "kube/events.hpp"
#include "kube/informer.hpp"
#include "runtime/metrics.hpp"
#include "slurm/client.hpp"
#include "slurm/mirror.hpp"

namespace bascule::bridge {

class PodSync final {
 public:
  struct Parts {
    kube::Client& kube;
    slurm::Client& slurm;
    kube::Informer<kube::Pod>& pods;  // not started yet
    slurm::ClusterMirror& mirror;     // not started yet
    kube::EventRecorder& events;
    runtime::Metrics* metrics = nullptr;
    DeviceLedger* devices = nullptr;              // nullptr: claims are not looked after
    kube::Informer<kube::Node>* nodes = nullptr;  // nullptr: where its job runs is not compared with a pod's node
    // Before every write; throws when another process may lead.
    std::function<void()> must_lead = [] {};
  };
  PodSync(Parts parts, Identity self, std::size_t workers);
  ~PodSync();
  void start();  // once informer is synced and mirror started
  Task<> stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bascule::bridge
