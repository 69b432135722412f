// Leader election by a Lease. The decision is a pure state machine; the driver gets, creates and patches the Lease.
// A leader steps down before its lease can be taken: when no renewal succeeded for `renew_deadline`, measured on the
// monotonic clock from before the last successful request was sent. Others judge by when they saw the record change,
// never by its timestamps, and wait the whole of `lease` from then. So there are never two leaders at once, as long as
// clocks run at rates that differ by less than lease / renew_deadline, and nobody deletes the Lease by hand.
// Source: coordination.k8s.io/v1 Lease; contract of client-go's leaderelection.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/async.hpp"
#include "kube/client.hpp"
#include "kube/lease_core.hpp"

namespace bascule::kube {

class LeaderElector final {
 public:
  // `on_change(true)` when leading begins; `on_change(false)` before the lease can pass to another.
  LeaderElector(Client& client, LeaseOptions options, std::function<void(bool leading)> on_change);
  ~LeaderElector();
  void start();
  Task<> stop();  // steps down first, releases the lease if so asked
  bool leading() const noexcept;
  const std::string& holder() const noexcept;  // as last seen

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bascule::kube
