// Events that people see in `kubectl describe`: events.k8s.io/v1, repeated ones folded into a series, written in the
// background. Recording never blocks and never fails; the queue is bounded and drops (counted) when the server cannot
// keep up. What is written when is decided by kube/event_log.hpp.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/async.hpp"
#include "kube/client.hpp"
#include "kube/event_log.hpp"

namespace bascule::kube {

class EventRecorder final {
 public:
  // `controller` is reportingController, e.g. "slurm-bridge-scheduler"; `instance` the pod's or host's name, of which
  // with the controller's before it reportingInstance is made.
  EventRecorder(Client& client, std::string controller, std::string instance);
  ~EventRecorder();  // after stop() has completed, if anything was recorded
  // `action` empty: the reason.
  void record(const ObjectReference& about, EventType type, std::string_view reason, std::string_view action,
              std::string note, const EventMore& more = {});
  std::uint64_t dropped() const noexcept;
  Task<> stop(TimePoint deadline);  // writes what is queued, as far as the deadline allows

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bascule::kube
