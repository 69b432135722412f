#include "runtime/controller.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/log.hpp"
#include "runtime/metrics.hpp"

namespace bascule::runtime {

namespace {
using namespace std::chrono_literals;
constexpr Duration kFirstPause = 5ms;
constexpr Duration kLongestPause = 1000s;
}  // namespace

struct Controller::Impl {
  Impl(Loop& l, ControllerOptions o, Reconcile r, Metrics* m)
      : loop(l), options(std::move(o)), reconcile(std::move(r)), metrics(m), gate(l) {}

  Loop& loop;
  ControllerOptions options;
  Reconcile reconcile;
  Metrics* metrics;
  Gate gate;
  std::stop_source stopping;
  // First come first served in each; everything urgent goes before the rest.
  std::deque<std::string> urgent;
  std::deque<std::string> ready;
  std::unordered_set<std::string> queued;
  std::unordered_set<std::string> running;
  std::unordered_map<std::string, bool> again;  // added while running; true: urgently
  std::unordered_map<std::string, std::uint32_t> failures;
  std::set<std::pair<TimePoint, std::string>> delayed;
  std::unordered_map<std::string, TimePoint> due;
  Loop::TimerId timer = 0;
  TimePoint timer_at{};
  bool started = false;
  bool pumping = false;  // begin_ready() is posted

  void add(std::string key, bool first) {
    const auto later = due.find(key);
    if (later != due.end()) {
      delayed.erase({later->second, key});
      due.erase(later);
    }
    if (running.contains(key)) {
      bool& first_again = again[std::move(key)];
      first_again = first_again || first;
      return;
    }
    if (!queued.insert(key).second) {
      if (!first || std::ranges::find(urgent, key) != urgent.end()) return;
      std::erase(ready, key);  // it waits there: it moves up
    }
    (first ? urgent : ready).push_back(std::move(key));
    pump();
  }
  void add_after(std::string key, Duration delay) {
    if (delay <= Duration::zero()) return add(std::move(key), false);
    if (queued.contains(key)) return;
    const TimePoint when = loop.now() + delay;
    const auto known = due.find(key);
    if (known != due.end()) {
      if (known->second <= when) return;
      delayed.erase({known->second, key});
    }
    due.insert_or_assign(key, when);
    delayed.emplace(when, std::move(key));
    arm();
  }
  void arm() {
    if (delayed.empty() || stopping.stop_requested()) return;
    const TimePoint first = delayed.begin()->first;
    if (timer != 0 && timer_at <= first) return;
    if (timer != 0) loop.cancel(timer);
    timer_at = first;
    timer = loop.call_at(first, [this] {
      timer = 0;
      while (!delayed.empty() && delayed.begin()->first <= loop.now()) add(std::string(delayed.begin()->second), false);
      arm();
    });
  }
  // Never starts work inside add(): whoever adds may be in the middle of a change that the work would see half done.
  void pump() {
    if (pumping || !started || stopping.stop_requested()) return;
    pumping = true;
    loop.post([this, holder = std::make_shared<Gate::Holder>(gate.enter())] {
      pumping = false;
      if (*holder) begin_ready();
    });
  }
  void begin_ready() {
    while (started && !stopping.stop_requested() && running.size() < options.workers) {
      std::deque<std::string>& from = urgent.empty() ? ready : urgent;
      if (from.empty()) return;
      std::string key = std::move(from.front());
      from.pop_front();
      queued.erase(key);
      running.insert(key);
      spawn(gate, work(std::move(key)));
    }
  }
  Task<> work(std::string key) {
    std::stop_source stop;
    const std::stop_callback forward(stopping.get_token(), [&stop] { stop.request_stop(); });
    const Loop::TimerId limit = loop.call_at(loop.now() + options.timeout, [&stop] { stop.request_stop(); });
    bool failed = false;
    std::string why;
    Result result;
    try {
      result = co_await reconcile(key, stop.get_token());
    } catch (const std::exception& error) {
      failed = true;
      why = error.what();
    }
    loop.cancel(limit);
    finish(key, failed, why, result);
  }
  void finish(const std::string& key, bool failed, const std::string& why, const Result& result) {
    running.erase(key);
    if (failed && !stopping.stop_requested()) {
      const std::uint32_t count = std::min(++failures[key], 30u);
      log::limited(log::Level::kWarning, 1s, "reconcile failed",
                   {{"controller", options.name}, {"key", key}, {"why", why}});
      add_after(key, std::min<Duration>(kFirstPause * (1u << std::min(count - 1, 20u)), kLongestPause));
    } else {
      failures.erase(key);
      if (result.requeue_after) add_after(key, *result.requeue_after);
    }
    if (metrics != nullptr)
      metrics->add("controller_runtime_reconcile_total", "Reconciles, by result",
                   {{"controller", options.name},
                    {"result", failed                 ? "error"
                               : result.requeue_after ? "requeue_after"
                                                      : "success"}});
    if (const auto added = again.extract(key)) add(key, added.mapped());
    pump();
  }
};

Controller::Controller(Loop& loop, ControllerOptions options, Reconcile reconcile, Metrics* metrics)
    : impl_(std::make_unique<Impl>(loop, std::move(options), std::move(reconcile), metrics)) {}
Controller::~Controller() = default;
void Controller::add(std::string key) {
  impl_->add(std::move(key), false);
}
void Controller::add_first(std::string key) {
  impl_->add(std::move(key), true);
}
void Controller::add_after(std::string key, Duration delay) {
  impl_->add_after(std::move(key), delay);
}
void Controller::start() {
  impl_->started = true;
  impl_->pump();
}
Task<> Controller::stop() {
  impl_->stopping.request_stop();
  if (impl_->timer != 0) impl_->loop.cancel(std::exchange(impl_->timer, 0));
  co_await impl_->gate.close();
}
std::size_t Controller::waiting() const noexcept {
  return impl_->urgent.size() + impl_->ready.size() + impl_->delayed.size();
}

}  // namespace bascule::runtime
