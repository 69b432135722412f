// The claim that several slurmctlds share, for plan_controller(): no cache has it. Asked for once a minute, since who
// has several is looked at every few seconds.
#pragma once

#include <map>
#include <stop_token>

#include "kube/client.hpp"
#include "operator/reconcile/cached_view.hpp"

namespace bascule::op::reconcile {

class StateClaims final {
 public:
  explicit StateClaims(kube::Client& kube) : kube_(kube) {}  // which outlives this

  // Puts it into the view, if the Controller has one that is there and may be read.
  Task<> look(ObjectPtr controller, CachedView& view, std::stop_token stop);
  void forget(const NamespacedName& controller) { known_.erase(controller); }

 private:
  struct Known {
    std::string name;
    json::Value claim = {};  // null: not there, or not known
    TimePoint due{};
  };
  kube::Client& kube_;
  std::map<NamespacedName, Known> known_;
};

}  // namespace bascule::op::reconcile
