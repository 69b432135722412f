// Where slurmctld keeps its state: with another place it starts without its jobs, whose workers then end them. The
// webhook refuses such a change, but not a Controller that is made anew over what another has left. Pure.
#pragma once

#include <optional>
#include <string>

#include "json/value.hpp"

namespace bascule::op::reconcile {

// Of StatefulSets of slurmctld: the state of the one that is there is elsewhere, in a sentence. `live` may be nullptr.
std::optional<std::string> state_elsewhere(const json::Value* live, const json::Value& wanted);

}  // namespace bascule::op::reconcile
