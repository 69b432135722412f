#include "operator/reconcile/stale_pod.hpp"

#include <algorithm>
#include <ranges>

#include "base/time.hpp"

namespace bascule::op::reconcile {

namespace {

using namespace std::chrono_literals;

// A pod that is just starting, or misses one probe, is not held against it.
constexpr Duration kPatience = 20s;

// Since when it is not ready; nullopt: it is, or nobody knows.
std::optional<WallTime> not_ready_since(const json::Value& pod) {
  if (const json::Array* conditions = json::array_at(pod, {"status", "conditions"})) {
    for (const json::Value& condition : *conditions) {
      if (json::string_at(condition, {"type"}) != "Ready") continue;
      if (json::string_at(condition, {"status"}) == "True") return std::nullopt;
      return parse_rfc3339(json::string_at(condition, {"lastTransitionTime"}));
    }
  }
  return parse_rfc3339(json::string_at(pod, {"metadata", "creationTimestamp"}));
}

}  // namespace

StalePlan plan_stale_pod(const json::Value& stateful_set, const std::vector<const json::Value*>& pods, WallTime now) {
  StalePlan plan;
  const std::string_view wanted = json::string_at(stateful_set, {"status", "updateRevision"});
  const bool seen = json::int_at(stateful_set, {"metadata", "generation"}).value_or(0) ==
                    json::int_at(stateful_set, {"status", "observedGeneration"}).value_or(-1);
  if (wanted.empty() || !seen) return plan;
  const auto is_going = [](const json::Value* pod) {
    return !json::string_at(*pod, {"metadata", "deletionTimestamp"}).empty();
  };
  if (std::ranges::any_of(pods, is_going)) return plan;
  for (const json::Value* pod : pods | std::views::reverse) {
    if (json::string_at(*pod, {"metadata", "labels", "controller-revision-hash"}) == wanted) continue;
    const std::optional<WallTime> since = not_ready_since(*pod);
    if (!since) continue;
    // A clock that is wrong must not hold it up for ever.
    if (now < *since - kPatience || now >= *since + kPatience) {
      plan.remove = {std::string(json::string_at(*pod, {"metadata", "name"})),
                     std::string(json::string_at(*pod, {"metadata", "uid"}))};
      return plan;
    }
    plan.wake = std::min(plan.wake.value_or(*since + kPatience), *since + kPatience);
  }
  return plan;
}

}  // namespace bascule::op::reconcile
