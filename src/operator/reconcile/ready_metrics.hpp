// bascule_object_ready: of each custom resource whether its condition Ready is True, 1 or 0, as its status says it.
// One that has no such condition yet has no series.
#pragma once

#include "operator/reconcile/caches.hpp"
#include "runtime/metrics.hpp"

namespace bascule::op::reconcile {

// Before caches.start(); both live until they are stopped. `metrics` may be nullptr.
void count_ready(Caches& caches, runtime::Metrics* metrics);

}  // namespace bascule::op::reconcile
