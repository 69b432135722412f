#include "runtime/controller.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/log.hpp"
#include "runtime/controller_metrics.hpp"
#include "runtime/failure_log.hpp"
#include "runtime/work_queue.hpp"

namespace bascule::runtime {

using namespace std::chrono_literals;

namespace {

constexpr std::size_t kBegunAtOnce = 64;

}  // namespace

// The queue decides; this runs what it gives, on the loop.
struct Controller::Impl final : std::enable_shared_from_this<Controller::Impl> {
  Impl(Loop& l, ControllerOptions o, Reconcile r, Metrics* m)
      : loop(l),
        options(std::move(o)),
        reconcile(std::move(r)),
        queue(options.pauses),
        metrics(m, options.name, options.workers),
        gate(l) {
    metrics.watch(queue, loop);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() { disarm(); }

  Loop& loop;
  ControllerOptions options;
  Reconcile reconcile;
  WorkQueue queue;
  ControllerMetrics metrics;
  FailureLog failures;
  Gate gate;
  std::stop_source stopping;
  Loop::TimerId timer = 0;
  TimePoint timer_at{};
  bool started = false;
  bool pumping = false;  // begin_ready() is posted

  bool works() const noexcept { return started && !stopping.stop_requested(); }
  bool can_begin() const noexcept { return works() && queue.ready() > 0 && queue.running() < options.workers; }

  // After every change of the queue.
  void pump() {
    arm();
    if (pumping || !can_begin()) return;
    pumping = true;
    // Never starts work inside add(): whoever adds may be in the middle of a change that the work would see half done.
    loop.post([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->begin_ready();
    });
  }
  // At most as many as were ready, and few enough: reconciles that end at once do not keep the loop from others.
  void begin_ready() {
    pumping = false;
    for (std::size_t left = std::min(queue.ready(), kBegunAtOnce); left > 0 && can_begin(); --left) {
      const auto next = queue.get(loop.now());
      metrics.begun(next->waited);
      spawn(gate, work(std::string(next->key)));
    }
    pump();
  }
  void arm() {
    const auto due = queue.next_due();
    if (!due || !works()) return;
    if (timer != 0 && timer_at <= *due) return;
    disarm();
    timer_at = *due;
    timer = loop.call_at(*due, [this] {
      timer = 0;
      queue.advance(loop.now());
      pump();
    });
  }
  void disarm() noexcept {
    if (timer != 0) loop.cancel(std::exchange(timer, 0));
  }

  Task<> work(std::string key) {
    std::stop_source stop;
    const std::stop_callback forward(stopping.get_token(), [&stop] { stop.request_stop(); });
    const Loop::TimerId limit = loop.call_at(loop.now() + options.timeout, [this, &stop] {
      metrics.timed_out();
      stop.request_stop();
    });
    std::optional<std::string> failure;
    Result result;
    try {
      result = co_await reconcile(key, stop.get_token());
    } catch (const std::exception& error) {
      failure = error.what();
    } catch (...) {
      failure = "an exception of unknown type";
      metrics.panicked();
    }
    loop.cancel(limit);
    finish(key, failure, result);
  }
  void say_failed(const std::string& key, const std::string& why, TimePoint now) {
    const std::optional<std::uint64_t> untold = failures.tell(key, why, now);
    if (!untold) return;
    log::warning("reconcile failed",
                 {{"controller", options.name}, {"key", key}, {"why", why}, {"suppressed", *untold}});
  }
  void finish(const std::string& key, const std::optional<std::string>& failure, const Result& result) {
    using Outcome = ControllerMetrics::Outcome;
    const TimePoint now = loop.now();
    Outcome outcome = Outcome::kSuccess;
    if (failure) {
      outcome = Outcome::kError;
      if (works()) say_failed(key, *failure, now);
      queue.add_failed(key, now);
    } else {
      queue.forget(key);
      failures.forget(key);
      if (result.requeue_after) {
        outcome = Outcome::kRequeueAfter;
        queue.add_after(key, *result.requeue_after, now);
      }
    }
    metrics.ended(outcome, queue.done(key, now));
    pump();
  }
};

Controller::Controller(Loop& loop, ControllerOptions options, Reconcile reconcile, Metrics* metrics)
    : impl_(std::make_shared<Impl>(loop, std::move(options), std::move(reconcile), metrics)) {}
Controller::~Controller() {
  BASCULE_CHECK(impl_->gate.count() == 0, "a controller dies only while nothing runs: stop() it first");
}
void Controller::add(std::string_view key) {
  impl_->queue.add(key, impl_->loop.now());
  impl_->pump();
}
void Controller::add_first(std::string_view key) {
  impl_->queue.add(key, impl_->loop.now(), Priority::kUrgent);
  impl_->pump();
}
void Controller::add_after(std::string_view key, Duration delay) {
  impl_->queue.add_after(key, delay, impl_->loop.now());
  impl_->pump();
}
void Controller::start() {
  impl_->started = true;
  impl_->queue.advance(impl_->loop.now());
  impl_->pump();
}
Task<> Controller::stop() {
  impl_->queue.shut_down();
  impl_->stopping.request_stop();
  impl_->disarm();
  co_await impl_->gate.close();
}
std::size_t Controller::waiting() const noexcept {
  return impl_->queue.ready() + impl_->queue.delayed();
}

}  // namespace bascule::runtime
