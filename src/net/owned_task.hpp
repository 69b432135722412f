// A task that runs on its own and belongs to an owner who may end it at any suspension: destroying it destroys the
// frames. For the serving side, where a handler that ignores its stop token must not keep the process alive.
#pragma once

#include <coroutine>
#include <exception>
#include <utility>

#include "base/check.hpp"
#include "base/task.hpp"

namespace bascule::net {

class OwnedTask final {
 public:
  struct promise_type {
    OwnedTask get_return_object() noexcept {
      return OwnedTask(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() const noexcept { return {}; }
    std::suspend_always final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() const noexcept {
      try {
        throw;
      } catch (const std::exception& e) {
        check_failed("no exception leaves an owned task", e.what(), __FILE__, __LINE__);
      } catch (...) {
        check_failed("no exception leaves an owned task", "unknown exception", __FILE__, __LINE__);
      }
    }
  };

  OwnedTask() noexcept = default;
  explicit OwnedTask(Task<> task) : OwnedTask(run(std::move(task))) {}
  OwnedTask(OwnedTask&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  OwnedTask& operator=(OwnedTask&& other) noexcept {
    if (this != &other) {
      reset();
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  ~OwnedTask() { reset(); }

  // Runs until the first suspension inside this call; once, and only after it has its place (the task may look at its
  // owner).
  void start() { handle_.resume(); }
  bool done() const noexcept { return !handle_ || handle_.done(); }
  // Not from inside the task itself.
  void reset() noexcept {
    if (handle_) std::exchange(handle_, nullptr).destroy();
  }

 private:
  explicit OwnedTask(std::coroutine_handle<promise_type> handle) noexcept : handle_(handle) {}
  static OwnedTask run(Task<> task) { co_await std::move(task); }

  std::coroutine_handle<promise_type> handle_ = nullptr;
};

}  // namespace bascule::net
