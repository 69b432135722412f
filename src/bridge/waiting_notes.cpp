#include "bridge/waiting_notes.hpp"

#include <algorithm>

#include "base/log.hpp"
#include "base/time.hpp"
#include "bridge/at_once.hpp"
#include "bridge/pod_patch.hpp"

namespace bascule::bridge {

namespace {

// How often a detail that keeps changing (the expected start) is written again.
constexpr Duration kDetailEvery = std::chrono::minutes(5);
constexpr int kPassingFactor = 10;
// How long a pod that has been told something else keeps that, at most.
constexpr Duration kTurnAtMost = std::chrono::minutes(5);

bool says(const kube::Pod& pod, const Waiting& waiting) {
  return pod.scheduled.status == "False" && pod.scheduled.reason == waiting.reason &&
         pod.scheduled.message.starts_with(waiting.message);
}

json::Object condition_patch(const kube::Pod& pod, const Waiting& waiting, WallTime now) {
  json::Object condition{{"type", "PodScheduled"},
                         {"status", "False"},
                         {"reason", waiting.reason},
                         {"message", waiting.message + waiting.detail}};
  if (pod.scheduled.status != "False") condition["lastTransitionTime"] = print_rfc3339(now);
  return {{"status", json::Object{{"conditions", json::Array{std::move(condition)}}}}};
}

// Whoever may not write the condition may still write the event, and place other pods.
void not_told(const kube::Pod& pod, const kube::Error& error) {
  log::limited(log::Level::kWarning, std::chrono::seconds(10), "pod not told why it waits",
               {{"pod", pod.meta.key}, {"why", error}});
}

}  // namespace

Task<> WaitingNotes::tell(Waiting waiting, std::stop_token stop) {
  std::vector<PodPtr> pods;
  for (const PodPtr& pod : waiting.pods) {
    known_.try_emplace(pod->meta.uid, Known{.since = kube_.loop().now()});
    if (left_for(*pod, waiting) <= Duration::zero()) pods.push_back(pod);
  }
  co_await each_at_once(kube_.loop(), pods,
                        [this, &waiting, &stop](const PodPtr& pod) { return tell_one(pod, waiting, stop); });
}

Task<> WaitingNotes::tell_one(PodPtr pod, const Waiting& waiting, std::stop_token stop) {
  const bool same = says(*pod, waiting);
  const bool same_detail = pod->scheduled.message == waiting.message + waiting.detail;
  const TimePoint at = kube_.loop().now();
  Known& known = known_.try_emplace(pod->meta.uid, Known{.since = at}).first->second;
  if (same && (same_detail || at - known.told < kDetailEvery)) co_return;
  known.told = at;
  if (!same) known.turns.mark(at, 2 * kTurnAtMost);
  bool written = true;
  try {
    written = co_await patch_pod(kube_, pod, condition_patch(*pod, waiting, kube_.loop().wall()), "status", stop);
  } catch (const kube::Refused& error) {
    not_told(*pod, error);
  }
  if (written && !same) {
    events_.record(reference_to(*pod), kube::EventType::kWarning, "FailedScheduling", "Scheduling",
                   waiting.message + waiting.detail);
  }
}

std::optional<Duration> WaitingNotes::untold_for(const std::vector<Waiting>& all) const {
  std::optional<Duration> soonest;
  for (const Waiting& waiting : all) {
    for (const PodPtr& pod : waiting.pods) {
      const Duration left = left_for(*pod, waiting);
      if (left > Duration::zero() && (!soonest || left < *soonest)) soonest = left;
    }
  }
  return soonest;
}

Duration WaitingNotes::left_for(const kube::Pod& pod, const Waiting& waiting) const {
  Duration age = kube_.loop().wall() - pod.meta.created;
  Duration left = Duration::zero();
  if (const auto known = known_.find(pod.meta.uid); known != known_.end()) {
    const TimePoint now = kube_.loop().now();
    age = std::max(age, now - known->second.since);
    const Pace& turns = known->second.turns;
    if (turns.times > 0 && !says(pod, waiting)) left = turns.next(kTurnAtMost) - now;
  }
  return std::max(left, (waiting.passing ? quiet_ * kPassingFactor : quiet_) - age);
}

}  // namespace bascule::bridge
