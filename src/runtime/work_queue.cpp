#include "runtime/work_queue.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"

namespace bascule::runtime {

void WorkQueue::Line::push_back(Item& item) noexcept {
  item.before = last;
  item.after = nullptr;
  (last == nullptr ? first : last->after) = &item;
  last = &item;
  ++size;
}

void WorkQueue::Line::remove(Item& item) noexcept {
  (item.before == nullptr ? first : item.before->after) = item.after;
  (item.after == nullptr ? last : item.after->before) = item.before;
  --size;
}

WorkQueue::Item& WorkQueue::item_of(std::string_view key) {
  const auto found = items_.find(key);
  if (found != items_.end()) return found->second;
  const auto added = items_.try_emplace(std::string(key)).first;
  added->second.key = &added->first;
  return added->second;
}

void WorkQueue::drop_if_idle(Items::iterator at) {
  const Item& item = at->second;
  if (item.place == Item::Place::kNowhere && !item.due && item.failures == 0) items_.erase(at);
}

void WorkQueue::undelay(Item& item) noexcept {
  if (!item.due) return;
  delayed_.erase(*item.due);
  item.due.reset();
}

void WorkQueue::stand_in(Item& item) noexcept {
  item.place = Item::Place::kReady;
  line(item.priority).push_back(item);
}

void WorkQueue::make_ready(Item& item, TimePoint now, Priority priority) {
  const bool waits = item.place == Item::Place::kReady || item.again;
  if (!waits) {
    ++adds_;
    item.since = now;
    item.priority = priority;
    ++depth_of(priority);
    if (item.place == Item::Place::kRunning) {
      item.again = true;
    } else {
      stand_in(item);
    }
  } else if (priority > item.priority) {
    --depth_of(item.priority);
    ++depth_of(priority);
    if (!item.again) line(item.priority).remove(item);
    item.priority = priority;
    if (!item.again) stand_in(item);
  }
}

void WorkQueue::add(std::string_view key, TimePoint now, Priority priority) {
  if (shut_down_) return;
  advance(now);
  Item& item = item_of(key);
  undelay(item);
  make_ready(item, now, priority);
}

void WorkQueue::add_after(std::string_view key, Duration delay, TimePoint now) {
  if (shut_down_) return;
  if (delay <= Duration::zero()) return add(key, now);
  advance(now);
  ++retries_;
  Item& item = item_of(key);
  if (item.place == Item::Place::kReady || item.again) return;
  const TimePoint when = delay > TimePoint::max() - now ? TimePoint::max() : now + delay;
  if (item.due && (*item.due)->first <= when) return;
  undelay(item);
  item.due = delayed_.emplace(when, &item);
}

Duration WorkQueue::add_failed(std::string_view key, TimePoint now) {
  if (shut_down_) return Duration::zero();
  // Doubling ends before it could overflow: 2^30 first pauses are longer than any longest pause that makes sense.
  constexpr std::uint32_t kMostDoublings = 30;
  Item& item = item_of(key);
  const Duration pause = std::min(pauses_.first * (std::int64_t{1} << item.failures), pauses_.longest);
  item.failures = std::min(item.failures + 1, kMostDoublings);
  add_after(key, pause, now);
  return pause;
}

void WorkQueue::forget(std::string_view key) {
  const auto at = items_.find(key);
  if (at == items_.end()) return;
  at->second.failures = 0;
  drop_if_idle(at);
}

std::uint32_t WorkQueue::failures(std::string_view key) const {
  const auto at = items_.find(key);
  return at == items_.end() ? 0 : at->second.failures;
}

void WorkQueue::advance(TimePoint now) {
  while (!delayed_.empty() && delayed_.begin()->first <= now) {
    Item& item = *delayed_.begin()->second;
    undelay(item);
    make_ready(item, now, Priority::kNormal);
  }
}

std::optional<WorkQueue::Work> WorkQueue::get(TimePoint now) {
  advance(now);
  for (auto from = ready_.rbegin(); from != ready_.rend(); ++from) {
    if (from->first == nullptr) continue;
    Item& item = *from->first;
    from->remove(item);
    --depth_of(item.priority);
    item.place = Item::Place::kRunning;
    item.started = now;
    running_.push_back(item);
    return Work{*item.key, now - item.since};
  }
  return std::nullopt;
}

Duration WorkQueue::done(std::string_view key, TimePoint now) {
  const auto at = items_.find(key);
  BASCULE_CHECK(at != items_.end() && at->second.place == Item::Place::kRunning, "done() answers one get()");
  Item& item = at->second;
  const Duration worked = now - item.started;
  running_.remove(item);
  item.place = Item::Place::kNowhere;
  if (std::exchange(item.again, false)) {
    stand_in(item);
  } else {
    drop_if_idle(at);
  }
  return worked;
}

void WorkQueue::shut_down() {
  shut_down_ = true;
  for (const auto& [when, item] : std::exchange(delayed_, {})) {
    item->due.reset();
    drop_if_idle(items_.find(*item->key));
  }
}

std::size_t WorkQueue::ready() const noexcept {
  std::size_t sum = 0;
  for (const Line& each : ready_) sum += each.size;
  return sum;
}

std::optional<TimePoint> WorkQueue::next_due() const noexcept {
  return delayed_.empty() ? std::nullopt : std::optional(delayed_.begin()->first);
}

WorkQueue::Unfinished WorkQueue::unfinished(TimePoint now) const noexcept {
  Unfinished out;
  for (const Item* item = running_.first; item != nullptr; item = item->after) out.total += now - item->started;
  if (running_.first != nullptr) out.longest = now - running_.first->started;
  return out;
}

}  // namespace bascule::runtime
