// What coroutines on one loop need: background work with an owner, sleeping, waiting for news, limits on concurrency.
// Everything here is used on the loop's thread only (Loop::post is the way in from others).
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <stop_token>
#include <vector>

#include "base/check.hpp"
#include "base/loop.hpp"
#include "base/task.hpp"

namespace bascule {

namespace detail {
struct Wake;
}

// Counts the background work of an owner. The owner closes it and waits before it dies; a destructor with work left
// aborts.
class Gate final {
 public:
  class Holder final {
   public:
    Holder() noexcept = default;
    Holder(Holder&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)) {}
    Holder& operator=(Holder&& other) noexcept {
      if (this != &other) {
        release();
        gate_ = std::exchange(other.gate_, nullptr);
      }
      return *this;
    }
    ~Holder() { release(); }
    explicit operator bool() const noexcept { return gate_ != nullptr; }

   private:
    friend class Gate;
    explicit Holder(Gate* gate) noexcept : gate_(gate) {}
    void release() noexcept;
    Gate* gate_ = nullptr;
  };

  explicit Gate(Loop& loop) noexcept : loop_(loop) {}
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() { BASCULE_CHECK(count_ == 0, "a gate dies only after its work has ended"); }

  // An empty holder when the gate is closed.
  Holder enter() noexcept;
  // Lets nobody new in and returns once everybody has left. At most one caller waits.
  Task<> close();
  bool closed() const noexcept { return closed_; }
  std::size_t count() const noexcept { return count_; }

 private:
  Loop& loop_;
  std::size_t count_ = 0;
  bool closed_ = false;
  std::shared_ptr<detail::Wake> closer_;
};

// Runs a task in the background until its end, inside `gate`; dropped if the gate is closed. It starts inside this
// call. An exception that leaves the task is a broken promise: background work handles its own errors.
void spawn(Gate& gate, Task<> task);

// Sleeps. True when the time came, false when stop was requested first.
Task<bool> sleep_until(Loop& loop, TimePoint when, std::stop_token stop);
Task<bool> sleep_for(Loop& loop, Duration duration, std::stop_token stop);

// A bell: wait() returns true after the next notify() (one notify wakes all who wait), false when stopped or at
// `deadline`. It may die as soon as all who wait are to be resumed (notified, stopped, out of time); they need not have
// run yet.
class Bell final {
 public:
  explicit Bell(Loop& loop) noexcept : loop_(loop) {}
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;
  ~Bell();

  void notify();
  Task<bool> wait(std::stop_token stop, TimePoint deadline = TimePoint::max());

 private:
  Loop& loop_;
  std::list<std::shared_ptr<detail::Wake>> waiters_;
};

// At most `limit` holders at once, first come first served. A permit that comes free goes to the first in line, who
// alone is woken. Dies only after its permits and those who wait for one.
class Semaphore final {
 public:
  class Permit final {
   public:
    Permit() noexcept = default;
    Permit(Permit&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)) {}
    Permit& operator=(Permit&& other) noexcept {
      if (this != &other) {
        release();
        owner_ = std::exchange(other.owner_, nullptr);
      }
      return *this;
    }
    ~Permit() { release(); }
    explicit operator bool() const noexcept { return owner_ != nullptr; }

   private:
    friend class Semaphore;
    explicit Permit(Semaphore* owner) noexcept : owner_(owner) {}
    void release() noexcept;
    Semaphore* owner_ = nullptr;
  };

  Semaphore(Loop& loop, std::size_t limit) noexcept : loop_(loop), limit_(limit), free_(limit) {}
  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;
  ~Semaphore();
  // An empty permit when stopped or at `deadline`.
  Task<Permit> acquire(std::stop_token stop, TimePoint deadline = TimePoint::max());

 private:
  void give_back() noexcept;
  Loop& loop_;
  const std::size_t limit_;
  std::size_t free_;  // 0 while anybody in line still wants one
  std::list<std::shared_ptr<detail::Wake>> line_;
};

// Runs all tasks at once on this loop and returns when all have ended; the first exception (in the order given) is
// rethrown after that. Destroyed while it waits, it destroys what has not ended.
Task<> when_all(Loop& loop, std::vector<Task<>> tasks);

}  // namespace bascule
