// What the bridge says of itself at /metrics, beside what its controllers and its calls say. Every counter is there
// from the start: a rate over a series that begins with its first event misses that event.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "kube/informer.hpp"
#include "kube/objects.hpp"
#include "runtime/metrics.hpp"
#include "slurm/mirror.hpp"

namespace bascule::bridge {

// Those of a process without metrics do nothing.
struct SchedulerCounters {
  explicit SchedulerCounters(runtime::Metrics* metrics);
  runtime::Counter bound, accepted, refused, in_doubt;
};
struct PodSyncCounters {
  explicit PodSyncCounters(runtime::Metrics* metrics);
  runtime::Counter deleted, cancelled;
};
struct NodeSyncCounters {
  explicit NodeSyncCounters(runtime::Metrics* metrics);
  runtime::Counter freed;
};

// How many pods wait for a node, by the reason that their condition PodScheduled gives. Whoever may write a pod's
// status chooses that word, so there are at most kMaxReasons of them, and "other".
class WaitingPods final {
 public:
  static constexpr std::size_t kMaxReasons = 32;
  explicit WaitingPods(runtime::Metrics& metrics) : metrics_(metrics) {}
  // One look: begin, each pod of ours, end.
  void begin();
  void count(const kube::Pod& pod);
  void end();

 private:
  struct Series {
    runtime::Gauge gauge;
    std::size_t now = 0;
  };
  runtime::Metrics& metrics_;
  std::map<std::string, Series, std::less<>> reasons_;
};

// Read whenever somebody asks, as long as the returned token lives; nullptr without metrics.
std::shared_ptr<void> watch_waiting(runtime::Metrics* metrics, const kube::Informer<kube::Pod>& pods,
                                    std::string scheduler);
std::shared_ptr<void> watch_slurm(runtime::Metrics* metrics, const slurm::ClusterMirror& mirror);

}  // namespace bascule::bridge
