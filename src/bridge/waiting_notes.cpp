#include "bridge/waiting_notes.hpp"

#include <algorithm>
#include <exception>

#include "base/log.hpp"
#include "base/time.hpp"
#include "bridge/names.hpp"
#include "bridge/pod_patch.hpp"
#include "bridge/unit_jobs.hpp"

namespace bascule::bridge {

namespace {

// How often a detail that keeps changing (the expected start) is written again.
constexpr Duration kDetailEvery = std::chrono::minutes(5);
constexpr int kPassingFactor = 10;
// How long a pod that has been told something else keeps that, at most.
constexpr Duration kTurnAtMost = std::chrono::minutes(5);

bool says(const kube::Pod& pod, const Waiting& waiting) {
  return pod.scheduled.status == "False" && pod.scheduled.reason == waiting.reason &&
         pod.scheduled.message.view().starts_with(waiting.message);
}

// Only of the pod as it is known: one that has been bound meanwhile waits no more.
json::Object condition_patch(const kube::Pod& pod, const Waiting& waiting, WallTime now) {
  json::Object condition{{"type", "PodScheduled"},
                         {"status", "False"},
                         {"reason", waiting.reason},
                         {"message", waiting.message + waiting.detail}};
  if (pod.scheduled.status != "False") condition["lastTransitionTime"] = print_rfc3339(now);
  json::Object metadata{{"resourceVersion", pod.meta.resource_version}};
  if (waiting.submitted > 0) {
    metadata["annotations"] = json::Object{{std::string(names::kSlurmSubmitted), std::to_string(waiting.submitted)}};
  }
  return {{"metadata", std::move(metadata)},
          {"status", json::Object{{"conditions", json::Array{std::move(condition)}}}}};
}

// Whoever may not write the condition may still write the event, and place other pods.
void not_told(const kube::Pod& pod, const std::exception& error) {
  log::limited(log::Level::kWarning, std::chrono::seconds(10), "pod not told why it waits",
               {{"pod", pod.meta.key}, {"why", error}});
}

}  // namespace

void WaitingNotes::tell(const Waiting& waiting) {
  for (const PodPtr& pod : waiting.pods) {
    const PodPtr still = parts_.pod(pod->meta.key);  // what was done for the unit may have taken long
    if (!still || still->meta.uid != pod->meta.uid || !wants_node(*still)) continue;
    const TimePoint at = loop_.now();
    Known& known = known_.try_emplace(pod->meta.uid, Known{.since = at}).first->second;
    known.next.reset();
    if (left_for(*pod, waiting) > Duration::zero()) continue;
    const bool same_detail = pod->scheduled.message == waiting.message + waiting.detail;
    if (says(*pod, waiting) && (same_detail || at - known.told < kDetailEvery)) continue;
    known.next = {waiting.reason, waiting.message, waiting.detail, {}, false, waiting.submitted};
    parts_.beside.start(pod->meta.key.ns, pod->meta.uid,
                        [this, key = pod->meta.key, uid = pod->meta.uid](std::stop_token stop) {
                          return tell_one(key, uid, std::move(stop));
                        });
  }
}

Task<> WaitingNotes::tell_one(NamespacedName key, Uid uid, std::stop_token stop) {
  const PodPtr pod = parts_.pod(key);
  const auto known = known_.find(uid);
  if (!pod || pod->meta.uid != uid || !wants_node(*pod)) co_return;
  if (known == known_.end() || !known->second.next) co_return;
  Waiting waiting = std::move(*known->second.next);
  known->second.next.reset();
  known->second.told = loop_.now();
  if (!says(*pod, waiting)) known->second.turns.mark(loop_.now(), 2 * kTurnAtMost);
  bool failed = false;
  try {
    co_await write(pod, std::move(waiting), stop);
  } catch (const std::exception& error) {
    if (stop.stop_requested()) co_return;
    not_told(*pod, error);
    failed = true;
  }
  if (failed) parts_.again(*pod);
}

Task<> WaitingNotes::write(PodPtr pod, Waiting waiting, std::stop_token stop) {
  bool written = true;
  try {
    const auto told =
        co_await patch_pod(parts_.kube, pod, condition_patch(*pod, waiting, loop_.wall()), "status", stop);
    written = told.has_value();
  } catch (const kube::Refused& error) {
    not_told(*pod, error);
  }
  if (written && !says(*pod, waiting)) {
    parts_.events.record(reference_to(*pod), kube::EventType::kWarning, "FailedScheduling", "Scheduling",
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
  Duration age = loop_.wall() - pod.meta.created;
  Duration left = Duration::zero();
  if (const auto known = known_.find(pod.meta.uid); known != known_.end()) {
    const TimePoint now = loop_.now();
    age = std::max(age, now - known->second.since);
    const Pace& turns = known->second.turns;
    if (turns.times > 0 && !says(pod, waiting)) left = turns.next(kTurnAtMost) - now;
  }
  return std::max(left, (waiting.passing ? quiet_ * kPassingFactor : quiet_) - age);
}

}  // namespace bascule::bridge
