// Which slurmctld pod of a Controller serves, as the label by which its Service finds it. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/api/types.hpp"

namespace bascule::op::reconcile {

struct CtldPod {
  std::string name;
  std::string uid;
  bool active = false;  // carries the label
};
struct LabelChange {
  std::string pod;
  std::string uid;
  bool active = false;  // set it, or take it away
};

// `pods` are those that exist, by ordinal. `answering`: host names of the slurmctlds that answer; nullopt: not known.
// Of several that answer the first of the configuration serves: a backup gives back when its elder returns. When none
// answers, or nothing is known, all stays; only when no pod carries the label the first gets it, since without it
// nobody ever finds out who answers.
std::vector<LabelChange> plan_active_label(const Controller& controller, const std::vector<CtldPod>& pods,
                                           const std::optional<std::vector<std::string>>& answering);

}  // namespace bascule::op::reconcile
