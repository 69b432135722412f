#include "kube/event_log.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/time.hpp"
#include "base/utf8.hpp"

namespace bascule::kube {

namespace {

// Limits of events.k8s.io/v1.
constexpr std::size_t kMaxNote = 1024;
constexpr std::size_t kMaxWord = 128;
constexpr std::size_t kMaxName = 253 - 17;
constexpr int kMicro = 6;
constexpr int kMostDelays = 12;

std::string text_of(const ObjectReference& about, EventType type, std::string_view reason, std::string_view action,
                    std::string_view note, const EventMore& more) {
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}", about.api_version, about.kind, about.key.str(),
                     about.uid.str(), static_cast<int>(type), reason, action, note, more.related.kind,
                     more.related.key.str(), more.related.uid.str(), more.controller);
}

json::Object reference(const ObjectReference& to) {
  json::Object out{{"apiVersion", to.api_version}, {"kind", to.kind}, {"name", to.key.name}};
  if (!to.key.ns.empty()) out["namespace"] = to.key.ns;
  if (!to.uid.empty()) out["uid"] = to.uid.str();
  return out;
}

}  // namespace

EventLog::EventLog(std::string controller, std::string instance, std::uint64_t unique, EventLimits limits)
    : controller_(std::move(controller)), instance_(std::move(instance)), limits_(limits), next_id_(unique) {}

// Tens of thousands of pods are spoken of in turn: each costs the same, however many are remembered.
bool EventLog::allowed(const ObjectReference& about, TimePoint now) {
  std::string name = about.kind + "/" + about.key.str();
  if (const auto known = by_object_.find(name); known != by_object_.end()) {
    objects_.splice(objects_.begin(), objects_, known->second);
    return objects_.front().bucket.take(now);
  }
  if (objects_.size() >= limits_.objects) {
    by_object_.erase(objects_.back().name);
    objects_.pop_back();
  }
  objects_.push_front({std::move(name), TokenBucket(limits_.per_second, limits_.burst)});
  by_object_.emplace(objects_.front().name, objects_.begin());
  return objects_.front().bucket.take(now);
}

json::Value EventLog::body_of(const ObjectReference& about, EventType type, std::string_view reason,
                              std::string_view action, std::string_view note, const NamespacedName& key, WallTime wall,
                              const EventMore& more) const {
  const std::string& controller = more.controller.empty() ? controller_ : more.controller;
  json::Object body{{"apiVersion", "events.k8s.io/v1"},
                    {"kind", "Event"},
                    {"metadata", {{"name", key.name}, {"namespace", key.ns}}},
                    {"eventTime", print_rfc3339(wall, kMicro)},
                    {"reportingController", controller},
                    {"reportingInstance", cut_utf8(fmt::format("{}-{}", controller, instance_), kMaxWord)},
                    {"action", cut_utf8(action.empty() ? reason : action, kMaxWord)},
                    {"reason", cut_utf8(reason, kMaxWord)},
                    {"regarding", reference(about)},
                    {"note", note},
                    {"type", type == EventType::kNormal ? "Normal" : "Warning"}};
  if (!more.related.kind.empty()) body["related"] = reference(more.related);
  return body;
}

void EventLog::record(const ObjectReference& about, EventType type, std::string_view reason, std::string_view action,
                      std::string note, TimePoint now, WallTime wall, const EventMore& more) {
  note.resize(cut_utf8(note, kMaxNote).size());
  std::string text = text_of(about, type, reason, action, note, more);
  if (const auto known = by_text_.find(text); known != by_text_.end()) {
    if (now - known->second->last < limits_.window) return repeat(known->second, now, wall);
    // What is left of the old series stays as it is written; this is a new event.
    forget(known->second);
  }
  // Events of cluster-scoped objects live in "default".
  const std::string ns = about.key.ns.empty() ? "default" : about.key.ns;
  const bool full = queued_ >= limits_.queue;
  const bool most = full && longest_queue()->second.size() <= (queues_.contains(ns) ? queues_.at(ns).size() : 0) + 1;
  if (most || !allowed(about, now)) {
    ++dropped_;
    return;
  }
  if (full) forget(by_id_.at(*longest_queue()->second.rbegin()));
  while (series_.size() >= limits_.series) forget(std::prev(series_.end()));
  Series series;
  series.id = ++next_id_;
  series.text = std::move(text);
  series.key = {ns, fmt::format("{}.{:016x}", cut_utf8(about.key.name, kMaxName), series.id)};
  series.body = body_of(about, type, reason, action, note, series.key, wall, more);
  series.last = now;
  series.last_wall = wall;
  series_.push_front(std::move(series));
  by_text_[series_.front().text] = series_.begin();
  by_id_[series_.front().id] = series_.begin();
  queues_[ns].insert(series_.front().id);
  ++queued_;
}

EventLog::Queues::iterator EventLog::longest_queue() {
  return std::ranges::max_element(queues_, {}, [](const auto& queue) { return queue.second.size(); });
}

bool EventLog::unqueue(const Series& series) {
  const auto queue = queues_.find(series.key.ns);
  if (queue == queues_.end() || queue->second.erase(series.id) == 0) return false;
  if (queue->second.empty()) queues_.erase(queue);
  --queued_;
  return true;
}

void EventLog::unpatch(Series& series) {
  if (series.patch) patches_.erase(*series.patch);
  series.patch.reset();
}

void EventLog::repeat(SeriesList::iterator series, TimePoint now, WallTime wall) {
  ++series->count;
  ++folded_;
  series->last = now;
  series->last_wall = wall;
  series_.splice(series_.begin(), series_, series);
  if (series->patch) return;
  series->patch = patches_.emplace(series->count == 2 ? now : now + limits_.patch_every, series->id);
}

void EventLog::forget(SeriesList::iterator series) {
  if (!series->created && (unqueue(*series) || series->delayed)) ++dropped_;
  unpatch(*series);
  by_text_.erase(series->text);
  by_id_.erase(series->id);
  series_.erase(series);
}

EventLog::Write EventLog::write_of(const Series& series) {
  if (!series.created) return {series.id, series.key, true, series.body};
  json::Object last{{"count", series.count}, {"lastObservedTime", print_rfc3339(series.last_wall, kMicro)}};
  return {series.id, series.key, false, json::Object{{"series", std::move(last)}}};
}

std::optional<EventLog::Write> EventLog::next(TimePoint now, const Namespaces& busy) const {
  std::optional<std::uint64_t> oldest;
  for (const auto& [ns, queue] : queues_) {
    if (!busy.contains(ns)) oldest = std::min(oldest.value_or(*queue.begin()), *queue.begin());
  }
  if (oldest) return again(*oldest);
  const auto patch = next_patch(busy);
  if (patch == patches_.end() || (!flushing_ && patch->first > now)) return std::nullopt;
  return again(patch->second);
}

EventLog::Patches::const_iterator EventLog::next_patch(const Namespaces& busy) const {
  return std::ranges::find_if(patches_, [&](const auto& one) { return !busy.contains(by_id_.at(one.second)->key.ns); });
}

std::optional<EventLog::Write> EventLog::again(std::uint64_t id) const {
  const auto series = by_id_.find(id);
  return series == by_id_.end() ? std::nullopt : std::optional(write_of(*series->second));
}

std::optional<TimePoint> EventLog::due(const Namespaces& busy) const {
  if (std::ranges::any_of(queues_, [&busy](const auto& queue) { return !busy.contains(queue.first); })) {
    return TimePoint::min();
  }
  const auto patch = next_patch(busy);
  if (patch == patches_.end()) return std::nullopt;
  return flushing_ ? TimePoint::min() : patch->first;
}

void EventLog::done(std::uint64_t id, Outcome outcome, TimePoint later) {
  const auto at = by_id_.find(id);
  if (outcome == Outcome::kAgain || at == by_id_.end()) return;
  const SeriesList::iterator series = at->second;
  if (outcome == Outcome::kLater && ++series->delays >= kMostDelays) outcome = Outcome::kDrop;
  if (outcome == Outcome::kDrop || outcome == Outcome::kGone) {
    if (outcome == Outcome::kDrop && series->created) ++dropped_;
    return forget(series);
  }
  // One that is repeated while it is being created is in both.
  if (!series->created) unqueue(*series);
  const bool still_to_patch = outcome == Outcome::kDone && !series->created && !series->delayed;
  if (!still_to_patch) unpatch(*series);
  if (outcome == Outcome::kLater) {
    series->patch = patches_.emplace(later, id);
    series->delayed = !series->created;
    return;
  }
  series->delayed = false;
  series->delays = 0;
  series->created = true;
  series->body = nullptr;
}

}  // namespace bascule::kube
