// The controllers process: nodes and pods on one informer each and one mirror of Slurm.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "base/async.hpp"
#include "bridge/config.hpp"
#include "kube/client.hpp"
#include "runtime/metrics.hpp"
#include "slurm/client.hpp"
#include "slurm/mirror.hpp"

namespace bascule::bridge {

struct ControllersOptions {
  Config config;
  std::string instance;  // name of this process in events
  std::size_t node_workers = 8;
  std::size_t pod_workers = 16;
  // Starts are the scheduler's to see: its looks are the more frequent ones.
  slurm::MirrorOptions mirror = {.rest_interval = std::chrono::seconds(5)};
  // As the scheduler's: asked before anything is written. nullptr: always.
  std::function<bool()> may_act = nullptr;
};

class Controllers final {
 public:
  // All outlive this; `metrics` may be nullptr.
  Controllers(kube::Client& kube, slurm::Client& slurm, ControllersOptions options, runtime::Metrics* metrics);
  ~Controllers();
  // Works until `stop`, then ends what is under way and returns. Run only while leading.
  Task<> run(std::stop_token stop);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bascule::bridge
