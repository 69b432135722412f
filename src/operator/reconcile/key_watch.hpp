// Has slurmctld asked about its nodes while a changed auth/slurm key waits (key_change.hpp), beside the reconcilers:
// the tables of a large cluster take long, and which slurmctld serves must be seen meanwhile.
#pragma once

#include <functional>
#include <map>
#include <stop_token>
#include <utility>

#include "base/async.hpp"
#include "base/strong.hpp"
#include "operator/reconcile/key_change.hpp"

namespace bascule::op::reconcile {

class KeyWatch final {
 public:
  // `ask` does not throw; `wake` is called when it has answered.
  using Ask = std::function<Task<NodesStand>(NamespacedName controller, std::stop_token stop)>;
  using Wake = std::function<void(const NamespacedName& controller)>;
  KeyWatch(Loop& loop, Ask ask, Wake wake) : loop_(loop), ask_(std::move(ask)), wake_(std::move(wake)), gate_(loop) {}

  static constexpr Duration kAgain = std::chrono::seconds(10);
  // As the last answer was, which is kAgain old at most when it says kClear. Asks anew when it is older.
  NodesStand look(const NamespacedName& controller);
  void forget(const NamespacedName& controller) { known_.erase(controller); }
  Task<> stop();

 private:
  struct Known {
    NodesStand stand = NodesStand::kAsked;
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
