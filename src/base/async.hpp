// What coroutines on one loop need: background work with an owner, sleeping, waiting for news, limits on concurrency.
// Everything here is used on the loop's thread only (Loop::post is the way in from others).
#pragma once

#include <cstddef>
#include <memory>
#include <stop_token>
#include <vector>

#include "base/check.hpp"
#include "base/loop.hpp"
#include "base/task.hpp"

namespace bascule {

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
  // Lets nobody new in and returns once everybody has left. At most one caller.
  Task<> close();
  bool closed() const noexcept { return closed_; }
  std::size_t count() const noexcept { return count_; }

 private:
  Loop& loop_;
  std::size_t count_ = 0;
  bool closed_ = false;
  std::coroutine_handle<> closer_ = nullptr;
};

// Runs a task in the background until its end, inside `gate`; dropped if the gate is closed. It starts inside this
// call. An exception that leaves the task is a broken promise: background work handles its own errors.
void spawn(Gate& gate, Task<> task);

// Sleeps. True when the time came, false when stop was requested first.
Task<bool> sleep_until(Loop& loop, TimePoint when, std::stop_token stop);
Task<bool> sleep_for(Loop& loop, Duration duration, std::stop_token stop);

// A bell: wait() returns true after the next notify() (one notify wakes all who wait), false when stopped or at
// `deadline`.
class Bell final {
 public:
  explicit Bell(Loop& loop) noexcept : loop_(loop) {}
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;
  ~Bell();

  void notify();
  Task<bool> wait(std::stop_token stop, TimePoint deadline = TimePoint::max());

 private:
  struct Waiter;
  Loop& loop_;
  std::vector<std::shared_ptr<Waiter>> waiters_;
};

// At most `limit` holders at once, first come first served.
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

  Semaphore(Loop& loop, std::size_t limit) noexcept : bell_(loop), free_(limit) {}
  // An empty permit when stopped or at `deadline`.
  Task<Permit> acquire(std::stop_token stop, TimePoint deadline = TimePoint::max());

 private:
  Bell bell_;
  std::size_t free_;
  std::size_t next_ticket_ = 0;
  std::vector<std::size_t> line_;
};

// Runs all tasks at once on this loop and returns when all have ended; the first exception (in the order given) is
// rethrown after that.
Task<> when_all(Loop& loop, std::vector<Task<>> tasks);

}  // namespace bascule
