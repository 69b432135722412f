// The Controller that a RestApi or LoginSet belongs to.
#pragma once

#include <optional>
#include <string>

#include "operator/reconcile/plan.hpp"

namespace bascule::op::reconcile {

// nullopt: it does not exist or cannot be read, which the plan then waits for.
std::optional<Controller> referenced_controller(View& view, const std::string& name, Plan& plan);

}  // namespace bascule::op::reconcile
