// The status of a custom resource, from its plan. Pure. Conditions: Ready (all that was asked for is there and runs),
// Progressing (it is on the way), Degraded (a person has to mend something; the message says what).
#pragma once

#include "base/loop.hpp"
#include "operator/reconcile/plan.hpp"

namespace bascule::op::reconcile {

// `old` is the status as it is now; a condition that holds on keeps its time.
json::Object make_status(const Plan& plan, std::int64_t generation, const json::Value& old, WallTime now);
// Whether writing `wanted` would change anything that people or programs see.
bool status_differs(const json::Object& wanted, const json::Value& old);

}  // namespace bascule::op::reconcile
