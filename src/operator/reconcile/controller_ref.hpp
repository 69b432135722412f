// The Controller that a RestApi or LoginSet belongs to.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "operator/builders/slurm_key.hpp"
#include "operator/reconcile/plan.hpp"

namespace bascule::op::reconcile {

// nullopt: it does not exist or cannot be read, which the plan then waits for.
std::optional<Controller> referenced_controller(View& view, const std::string& name, Plan& plan);

// key_in_use() beside the slurmctld that is there. `hash`: of the key as its Secret is now.
KeyInUse key_in_use(const Controller& controller, View& view, std::string_view hash);
// Of its auth/slurm key, as key_in_use() says, whose reference takes the place of the Controller's; nullopt: it is
// waited for.
std::optional<std::string> take_key_in_use(Controller& controller, View& view, Plan& plan);

}  // namespace bascule::op::reconcile
