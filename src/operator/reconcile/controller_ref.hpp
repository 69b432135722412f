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
// The same of a Controller as it is stored. One that cannot be read, or whose Secret is missing, has what its
// StatefulSet was made for.
struct ControllerKey {
  KeyInUse in_use;
  std::string now;  // hash of the key as its Secret is now; empty: not known
};
ControllerKey key_of_controller(const json::Value& controller, View& view);
// Whoever starts anew has the key in use from there: a Secret that lacks is waited for.
void miss_key(const KeyRef& in_use, const KeyRef& wanted, View& view, Plan& plan);
// Of its auth/slurm key, as key_in_use() says, whose reference takes the place of the Controller's; nullopt: it is
// waited for.
std::optional<std::string> take_key_in_use(Controller& controller, View& view, Plan& plan);

}  // namespace bascule::op::reconcile
