#include "base/async.hpp"

#include <exception>
#include <optional>

namespace bascule {

// --- one-shot wake-up ------------------------------------------------------------------------------------------------

// Whichever of timer, stop request and news comes first resumes the waiting coroutine, once, from the loop. Shared with
// what the loop still has to run, so that a frame may be destroyed while a wake-up is on its way.
struct detail::Wake final : std::enable_shared_from_this<Wake> {
  explicit Wake(Loop& l) : loop(l) {}

  void arm(std::coroutine_handle<> h, const std::stop_token& stop, TimePoint when) {
    handle = h;
    if (when != TimePoint::max()) {
      timer = loop.call_at(when, [self = shared_from_this()] { self->fire_now(Cause::kTime); });
    }
    // May run at once, inside this constructor; fire() posts, so the coroutine resumes only after it has suspended.
    on_stop.emplace(stop, Fire{this});
  }
  enum class Cause { kNone, kTime, kStop, kNews };

  void fire(Cause why) {
    if (cause != Cause::kNone) return;
    cause = why;
    loop.post([self = shared_from_this()] { self->resume(); });
  }
  void fire_now(Cause why) {
    if (cause != Cause::kNone) return;
    cause = why;
    resume();
  }
  void resume() {
    if (handle) std::exchange(handle, nullptr).resume();
  }
  // The awaiting frame is going away or has resumed: nothing may touch it any more.
  void disarm() {
    handle = nullptr;
    on_stop.reset();
    if (timer != 0) loop.cancel(std::exchange(timer, 0));
  }

  struct Fire {
    Wake* wake;
    void operator()() const { wake->fire(Cause::kStop); }
  };

  Loop& loop;
  std::coroutine_handle<> handle;
  Cause cause = Cause::kNone;
  bool listed = false;  // in the list of a bell or a semaphore
  Loop::TimerId timer = 0;
  std::optional<std::stop_callback<Fire>> on_stop;
};

namespace {

using detail::Wake;

struct WakeAwaiter {
  std::shared_ptr<Wake> wake;
  std::stop_token stop;
  TimePoint when;

  explicit WakeAwaiter(std::shared_ptr<Wake> w, std::stop_token s = {}, TimePoint t = TimePoint::max())
      : wake(std::move(w)), stop(std::move(s)), when(t) {}
  WakeAwaiter(const WakeAwaiter&) = delete;
  WakeAwaiter& operator=(const WakeAwaiter&) = delete;
  ~WakeAwaiter() { wake->disarm(); }

  bool await_ready() const noexcept { return stop.stop_requested(); }
  void await_suspend(std::coroutine_handle<> handle) const { wake->arm(handle, stop, when); }
  Wake::Cause await_resume() const noexcept { return wake->cause; }
};

}  // namespace

// --- gate ------------------------------------------------------------------------------------------------------------

void Gate::Holder::release() noexcept {
  Gate* gate = std::exchange(gate_, nullptr);
  if (gate == nullptr) return;
  if (--gate->count_ == 0 && gate->closer_) gate->closer_->fire(Wake::Cause::kNews);
}

Gate::Holder Gate::enter() noexcept {
  if (closed_) return Holder();
  ++count_;
  return Holder(this);
}

Task<> Gate::close() {
  BASCULE_CHECK(!closer_ || !closer_->handle, "one caller closes a gate");
  closed_ = true;
  if (count_ > 0) {
    closer_ = std::make_shared<Wake>(loop_);
    WakeAwaiter awaiter(closer_);
    co_await awaiter;
  }
}

// --- spawn -----------------------------------------------------------------------------------------------------------

namespace {

// A coroutine that starts at once and owns itself.
struct Detached {
  struct promise_type {
    Detached get_return_object() const noexcept { return {}; }
    std::suspend_never initial_suspend() const noexcept { return {}; }
    std::suspend_never final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() const noexcept {
      try {
        throw;
      } catch (const std::exception& e) {
        check_failed("no exception leaves background work", e.what(), __FILE__, __LINE__);
      } catch (...) {
        check_failed("no exception leaves background work", "unknown exception", __FILE__, __LINE__);
      }
    }
  };
};

Detached run_detached(Gate::Holder holder, Task<> task) {
  co_await std::move(task);
  // The frame of the task goes before the gate learns that the work has ended: it may hold references to the owner.
  task = Task<>();
  holder = Gate::Holder();
}

}  // namespace

void spawn(Gate& gate, Task<> task) {
  Gate::Holder holder = gate.enter();
  if (holder) run_detached(std::move(holder), std::move(task));
}

// --- sleep -----------------------------------------------------------------------------------------------------------

Task<bool> sleep_until(Loop& loop, TimePoint when, std::stop_token stop) {
  const auto wake = std::make_shared<Wake>(loop);
  WakeAwaiter awaiter(wake, std::move(stop), when);
  const Wake::Cause cause = co_await awaiter;
  co_return cause == Wake::Cause::kTime;
}

Task<bool> sleep_for(Loop& loop, Duration duration, std::stop_token stop) {
  return sleep_until(loop, loop.now() + duration, std::move(stop));
}

// --- bell ------------------------------------------------------------------------------------------------------------

Bell::~Bell() {
  for (const auto& waiter : waiters_) {
    BASCULE_CHECK(waiter->cause != Wake::Cause::kNone, "nobody waits for a bell that dies");
    waiter->listed = false;
  }
}

void Bell::notify() {
  for (const auto& waiter : waiters_) {
    waiter->listed = false;
    waiter->fire(Wake::Cause::kNews);
  }
  waiters_.clear();
}

Task<bool> Bell::wait(std::stop_token stop, TimePoint deadline) {
  // Leaves the list on every way out, the destruction of this frame included. The bell may be gone once it has let go
  // of this waiter.
  struct Leave {
    Bell& bell;
    const std::shared_ptr<Wake>& wake;
    std::list<std::shared_ptr<Wake>>::iterator place;
    ~Leave() {
      if (wake->listed) bell.waiters_.erase(place);
    }
  };
  const auto wake = std::make_shared<Wake>(loop_);
  const Leave leave{*this, wake, waiters_.insert(waiters_.end(), wake)};
  wake->listed = true;
  WakeAwaiter awaiter(wake, std::move(stop), deadline);
  const Wake::Cause cause = co_await awaiter;
  co_return cause == Wake::Cause::kNews;
}

// --- semaphore -------------------------------------------------------------------------------------------------------

Semaphore::~Semaphore() {
  BASCULE_CHECK(line_.empty() && free_ == limit_, "a semaphore outlives its permits and who waits for one");
}

void Semaphore::Permit::release() noexcept {
  if (Semaphore* owner = std::exchange(owner_, nullptr); owner != nullptr) owner->give_back();
}

// The permit goes straight to the first in line, so that nobody who comes later overtakes.
void Semaphore::give_back() noexcept {
  for (auto first = line_.begin(); first != line_.end(); ++first) {
    Wake& wake = **first;
    if (wake.cause != Wake::Cause::kNone) continue;  // has given up, will leave by itself
    wake.listed = false;
    wake.fire(Wake::Cause::kNews);
    line_.erase(first);
    return;
  }
  ++free_;
}

Task<Semaphore::Permit> Semaphore::acquire(std::stop_token stop, TimePoint deadline) {
  if (free_ > 0) {
    --free_;
    co_return Permit(this);
  }
  // Out of the line on every way out. What was granted is passed on when this frame is destroyed before it could run.
  struct Leave {
    Semaphore& owner;
    const std::shared_ptr<Wake>& wake;
    std::list<std::shared_ptr<Wake>>::iterator place;
    bool taken = false;
    ~Leave() {
      if (wake->listed) owner.line_.erase(place);
      if (wake->cause == Wake::Cause::kNews && !taken) owner.give_back();
    }
  };
  const auto wake = std::make_shared<Wake>(loop_);
  Leave leave{*this, wake, line_.insert(line_.end(), wake)};
  wake->listed = true;
  WakeAwaiter awaiter(wake, std::move(stop), deadline);
  const Wake::Cause cause = co_await awaiter;
  if (cause != Wake::Cause::kNews) co_return Permit();
  leave.taken = true;
  co_return Permit(this);
}

// --- when_all --------------------------------------------------------------------------------------------------------

namespace {

Task<> run_into(Task<> task, std::exception_ptr& error, std::size_t& left, Wake& all_ended) {
  try {
    co_await std::move(task);
  } catch (...) {
    error = std::current_exception();
  }
  task = Task<>();  // what it holds need not wait for the others
  if (--left == 0) all_ended.fire(Wake::Cause::kNews);
}

}  // namespace

Task<> when_all(Loop& loop, std::vector<Task<>> tasks) {
  std::vector<std::exception_ptr> errors(tasks.size());
  std::size_t left = tasks.size();
  const auto all_ended = std::make_shared<Wake>(loop);
  // Owned by this frame: they go with it, when it goes before they have ended.
  std::vector<Task<>> children;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    children.push_back(run_into(std::move(tasks[i]), errors[i], left, *all_ended));
  }
  for (Task<>& child : children) child.start();
  if (left > 0) {
    WakeAwaiter awaiter(all_ended);
    co_await awaiter;
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace bascule
