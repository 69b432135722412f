// What a controller and its queue count, under the names, labels and buckets of controller-runtime (0.21 and later:
// workqueue_depth has a priority) and client-go.
#pragma once

#include <array>
#include <memory>

#include "runtime/metrics.hpp"
#include "runtime/work_queue.hpp"

namespace bascule::runtime {

class ControllerMetrics final {
 public:
  enum class Outcome : std::uint8_t { kSuccess, kRequeueAfter, kError };

  // All series are there from the beginning, at 0, so that a rate over them has no gap. `metrics` may be nullptr.
  ControllerMetrics(Metrics* metrics, const std::string& controller, std::size_t workers);

  ControllerMetrics(const ControllerMetrics&) = delete;
  ControllerMetrics& operator=(const ControllerMetrics&) = delete;

  // Reads the queue whenever metrics are asked for; until this dies.
  void watch(const WorkQueue& queue, const Clock& clock);

  void begun(Duration waited) const;
  void ended(Outcome outcome, Duration worked) const;
  void panicked() const { panics_.add(); }     // an exception that is no std::exception
  void timed_out() const { timeouts_.add(); }  // the time of a reconcile was over before it ended

 private:
  void read(const WorkQueue& queue, TimePoint now) const;

  Metrics* metrics_;
  std::array<Counter, 3> total_;
  Counter errors_, panics_, timeouts_;
  Histogram time_;
  Gauge active_;
  std::array<Gauge, kPriorities> depth_;
  Counter adds_, retries_;
  Histogram queued_, worked_;
  Gauge unfinished_, longest_;
  std::shared_ptr<void> collecting_;
};

}  // namespace bascule::runtime
