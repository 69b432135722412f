// Has slurmctld asked about its nodes while something waits for them (nodes_stand.hpp), beside the reconcilers: the
// tables of a large cluster take long, and which slurmctld serves must be seen meanwhile.
#pragma once

#include <functional>
#include <map>
#include <stop_token>
#include <utility>

#include "base/async.hpp"
#include "base/strong.hpp"
#include "operator/reconcile/nodes_stand.hpp"

namespace bascule::op::reconcile {

class NodesWatch final {
 public:
  // `ask` does not throw; `wake` is called when it has answered.
  using Ask = std::function<Task<ClusterStand>(NamespacedName controller, std::stop_token stop)>;
  using Wake = std::function<void(const NamespacedName& controller)>;
  NodesWatch(Loop& loop, Ask ask, Wake wake) : loop_(loop), ask_(std::move(ask)), wake_(std::move(wake)), gate_(loop) {}

  static constexpr Duration kAgain = std::chrono::seconds(10);
  // As the last answer was, which is kAgain old at most where it says kClear.
  ClusterStand last(const NamespacedName& controller) const;
  // The same, and asks anew when it is older.
  ClusterStand look(const NamespacedName& controller);
  // Nothing waits any more. An answer that is good stays so: the caches may not have yet what was done on it, and must
  // not make us take it back.
  void let_go(const NamespacedName& controller);
  void forget(const NamespacedName& controller) { known_.erase(controller); }
  Task<> stop();

 private:
  struct Known {
    ClusterStand stand = {};
    TimePoint due = TimePoint::min();
    bool asking = false;
  };
  Task<> ask(NamespacedName controller);

  Loop& loop_;
  Ask ask_;
  Wake wake_;
  std::map<NamespacedName, Known> known_;
  std::stop_source stopping_;
  Gate gate_;
};

}  // namespace bascule::op::reconcile
