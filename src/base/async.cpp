#include "base/async.hpp"

#include <algorithm>
#include <exception>
#include <optional>

namespace bascule {

// --- gate ------------------------------------------------------------------------------------------------------------

void Gate::Holder::release() noexcept {
  Gate* gate = std::exchange(gate_, nullptr);
  if (gate == nullptr) return;
  if (--gate->count_ == 0 && gate->closer_) gate->loop_.post(std::exchange(gate->closer_, nullptr));
}

Gate::Holder Gate::enter() noexcept {
  if (closed_) return Holder();
  ++count_;
  return Holder(this);
}

Task<> Gate::close() {
  struct Empty {
    Gate& gate;
    bool await_ready() const noexcept { return gate.count_ == 0; }
    void await_suspend(std::coroutine_handle<> handle) const {
      BASCULE_CHECK(!gate.closer_, "one caller closes a gate");
      gate.closer_ = handle;
    }
    void await_resume() const noexcept {}
  };
  closed_ = true;
  co_await Empty{*this};
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

// --- one-shot wake-up: whichever of timer, stop request and notify comes first resumes, once, from the loop
// -----------

namespace {

struct Wake final : std::enable_shared_from_this<Wake> {
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
  Loop::TimerId timer = 0;
  std::optional<std::stop_callback<Fire>> on_stop;
};

struct WakeAwaiter {
  std::shared_ptr<Wake> wake;
  std::stop_token stop;
  TimePoint when;

  WakeAwaiter(std::shared_ptr<Wake> w, std::stop_token s, TimePoint t)
      : wake(std::move(w)), stop(std::move(s)), when(t) {}
  WakeAwaiter(const WakeAwaiter&) = delete;
  WakeAwaiter& operator=(const WakeAwaiter&) = delete;
  ~WakeAwaiter() { wake->disarm(); }

  bool await_ready() const noexcept { return stop.stop_requested(); }
  void await_suspend(std::coroutine_handle<> handle) const { wake->arm(handle, stop, when); }
  Wake::Cause await_resume() const noexcept { return wake->cause; }
};

}  // namespace

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

struct Bell::Waiter {
  std::shared_ptr<Wake> wake;
};

Bell::~Bell() {
  BASCULE_CHECK(waiters_.empty(), "nobody waits for a bell that dies");
}

void Bell::notify() {
  for (const auto& waiter : std::exchange(waiters_, {})) waiter->wake->fire(Wake::Cause::kNews);
}

Task<bool> Bell::wait(std::stop_token stop, TimePoint deadline) {
  const auto waiter = std::make_shared<Waiter>(Waiter{std::make_shared<Wake>(loop_)});
  // Leaves the list on every way out, the destruction of this frame included.
  struct Leave {
    Bell& bell;
    const std::shared_ptr<Waiter>& waiter;
    ~Leave() { std::erase(bell.waiters_, waiter); }
  };
  waiters_.push_back(waiter);
  bool news = false;
  {
    const Leave leave{*this, waiter};
    WakeAwaiter awaiter(waiter->wake, std::move(stop), deadline);
    const Wake::Cause cause = co_await awaiter;
    news = cause == Wake::Cause::kNews;
  }
  co_return news;
}

// --- semaphore -------------------------------------------------------------------------------------------------------

void Semaphore::Permit::release() noexcept {
  Semaphore* owner = std::exchange(owner_, nullptr);
  if (owner == nullptr) return;
  ++owner->free_;
  owner->bell_.notify();
}

Task<Semaphore::Permit> Semaphore::acquire(std::stop_token stop, TimePoint deadline) {
  const std::size_t ticket = next_ticket_++;
  line_.push_back(ticket);
  struct Leave {
    Semaphore& owner;
    std::size_t ticket;
    ~Leave() { std::erase(owner.line_, ticket); }
  };
  const Leave leave{*this, ticket};
  while (line_.front() != ticket || free_ == 0) {
    const bool news = co_await bell_.wait(stop, deadline);
    if (!news) {
      bell_.notify();  // whoever stands behind may be first now
      co_return Permit();
    }
  }
  --free_;
  if (free_ > 0 && line_.size() > 1) bell_.notify();
  co_return Permit(this);
}

// --- when_all --------------------------------------------------------------------------------------------------------

namespace {

Task<> run_into(Task<> task, std::exception_ptr& error) {
  try {
    co_await std::move(task);
  } catch (...) {
    error = std::current_exception();
  }
}

}  // namespace

Task<> when_all(Loop& loop, std::vector<Task<>> tasks) {
  std::vector<std::exception_ptr> errors(tasks.size());
  Gate gate(loop);
  for (std::size_t i = 0; i < tasks.size(); ++i) spawn(gate, run_into(std::move(tasks[i]), errors[i]));
  co_await gate.close();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace bascule
