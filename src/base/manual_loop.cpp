#include "base/manual_loop.hpp"

#include "base/check.hpp"

namespace bascule {

Loop::TimerId ManualLoop::call_at(TimePoint when, std::move_only_function<void()> fn) {
  const TimerId id = next_++;
  timers_.emplace(std::pair(when, id), std::move(fn));
  due_.emplace(id, when);
  return id;
}

void ManualLoop::cancel(TimerId id) noexcept {
  const auto it = due_.find(id);
  if (it == due_.end()) return;
  timers_.erase({it->second, id});
  due_.erase(it);
}

std::size_t ManualLoop::run_ready() {
  std::size_t count = 0;
  for (; !ready_.empty(); ++count) {
    BASCULE_CHECK(count < 10'000'000, "a loop that never becomes idle");
    auto fn = std::move(ready_.front());
    ready_.pop_front();
    fn();
  }
  return count;
}

void ManualLoop::advance(Duration duration) {
  const TimePoint end = now_ + duration;
  run_until([] { return false; }, duration);
  now_ = std::max(now_, end);
}

bool ManualLoop::run_until(const std::function<bool()>& done, Duration limit) {
  const TimePoint end = now_ + limit;
  while (true) {
    run_ready();
    if (done()) return true;
    if (timers_.empty() || timers_.begin()->first.first > end) return false;
    const auto first = timers_.begin();
    now_ = std::max(now_, first->first.first);
    auto fn = std::move(first->second);
    due_.erase(first->first.second);
    timers_.erase(first);
    fn();
  }
}

}  // namespace bascule
