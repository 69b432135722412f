// Leader election by a Lease. The decision is a pure state machine; the driver gets, creates and updates the Lease.
// A leader steps down before its lease can be taken: when no renewal succeeded for `renew_deadline`, measured on the
// monotonic clock from before the last successful request was sent. Others judge by when they saw the record change,
// never by its timestamps. Source: coordination.k8s.io/v1 Lease; contract of client-go's leaderelection.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/async.hpp"
#include "kube/client.hpp"

namespace bascule::kube {

struct LeaseOptions {
  NamespacedName key;
  std::string identity;  // unique a process: host name and a random part
  Duration lease = std::chrono::seconds(15);
  Duration renew_deadline = std::chrono::seconds(10);
  Duration retry = std::chrono::seconds(2);
  bool release_on_stop = true;
};

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
