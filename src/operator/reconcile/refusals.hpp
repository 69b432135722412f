// Children that could not be written, of objects that are looked at every few seconds for other reasons: the same is
// asked again after a pause that doubles, anything else at once. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/loop.hpp"
#include "operator/reconcile/plan.hpp"

namespace bascule::op::reconcile {

class Refusals final {
 public:
  // How long the children of this plan are not to be tried; what was said of them then is said in the plan again.
  // nullopt: try them now.
  std::optional<Duration> hold(const std::string& object, Plan& plan, TimePoint now) const;
  // They were tried in vain; the plan's faults and waits from these numbers on say why. The pause.
  Duration failed(const std::string& object, const Plan& plan, std::size_t faults, std::size_t waits, TimePoint now);
  void forget(const std::string& object) { known_.erase(object); }

 private:
  struct Known {
    std::string children;  // a hash
    std::vector<Fault> faults;
    std::vector<Wait> waits;
    int times = 0;
    TimePoint until{};
  };
  std::map<std::string, Known> known_;
};

}  // namespace bascule::op::reconcile
