// A slurmctld pod that never gets ready and whose StatefulSet says something newer by now. An ordered StatefulSet waits
// for such a pod before it replaces it (Kubernetes: StatefulSet, forced rollback): a mended image or probe would never
// reach it, so it is taken away. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/loop.hpp"
#include "json/value.hpp"

namespace bascule::op::reconcile {

struct StalePod {
  std::string name;
  std::string uid;
};
struct StalePlan {
  std::optional<StalePod> remove = {};  // one at a time, the last first, as an update does
  std::optional<WallTime> wake = {};    // look again then
};

// `pods` of the StatefulSet that exist, by ordinal.
StalePlan plan_stale_pod(const json::Value& stateful_set, const std::vector<const json::Value*>& pods, WallTime now);

}  // namespace bascule::op::reconcile
