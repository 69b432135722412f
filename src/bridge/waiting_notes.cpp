#include "bridge/waiting_notes.hpp"

#include <algorithm>

#include "base/time.hpp"
#include "bridge/pod_patch.hpp"

namespace bascule::bridge {

namespace {

// How often a detail that keeps changing (the expected start) is written again.
constexpr Duration kDetailEvery = std::chrono::minutes(5);
constexpr int kPassingFactor = 10;

json::Object condition_patch(const kube::Pod& pod, const Waiting& waiting, WallTime now) {
  json::Object condition{{"type", "PodScheduled"},
                         {"status", "False"},
                         {"reason", waiting.reason},
                         {"message", waiting.message + waiting.detail}};
  if (pod.scheduled.status != "False") condition["lastTransitionTime"] = print_rfc3339(now);
  return {{"status", json::Object{{"conditions", json::Array{std::move(condition)}}}}};
}

}  // namespace

Task<> WaitingNotes::tell(Waiting waiting, std::stop_token stop) {
  for (const PodPtr& pod : waiting.pods) {
    Known& known = known_.try_emplace(pod->meta.uid, Known{kube_.loop().now(), {}}).first->second;
    if (too_young_for(*pod, waiting) > Duration::zero()) continue;
    const kube::Condition& now = pod->scheduled;
    const bool same = now.status == "False" && now.reason == waiting.reason && now.message.starts_with(waiting.message);
    const bool same_detail = now.message == waiting.message + waiting.detail;
    const TimePoint at = kube_.loop().now();
    if (same && (same_detail || at - known.told < kDetailEvery)) continue;
    known.told = at;
    const bool written =
        co_await patch_pod(kube_, pod, condition_patch(*pod, waiting, kube_.loop().wall()), "status", stop);
    if (written && !same) {
      events_.record(reference_to(*pod), kube::EventType::kWarning, "FailedScheduling", "Scheduling",
                     waiting.message + waiting.detail);
    }
  }
}

std::optional<Duration> WaitingNotes::untold_for(const std::vector<Waiting>& all) const {
  std::optional<Duration> soonest;
  for (const Waiting& waiting : all) {
    for (const PodPtr& pod : waiting.pods) {
      const Duration left = too_young_for(*pod, waiting);
      if (left > Duration::zero() && (!soonest || left < *soonest)) soonest = left;
    }
  }
  return soonest;
}

Duration WaitingNotes::too_young_for(const kube::Pod& pod, const Waiting& waiting) const {
  Duration age = kube_.loop().wall() - pod.meta.created;
  const auto known = known_.find(pod.meta.uid);
  if (known != known_.end()) age = std::max(age, kube_.loop().now() - known->second.since);
  return (waiting.passing ? quiet_ * kPassingFactor : quiet_) - age;
}

}  // namespace bascule::bridge
