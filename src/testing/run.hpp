// Runs a task to its end on a loop whose time the test moves.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <type_traits>

#include "base/async.hpp"
#include "base/manual_loop.hpp"

namespace bascule::testing {

// Lets time pass until the task has ended and returns its value or throws its exception. Throws std::runtime_error
// when it has not ended within `limit` of simulated time; the task is then left alone.
template <class T>
T run(ManualLoop& loop, Task<T> task, Duration limit = std::chrono::hours(1)) {
  struct State {
    explicit State(Loop& l) : gate(l) {}
    Gate gate;
    std::exception_ptr error;
    std::conditional_t<std::is_void_v<T>, std::optional<bool>, std::optional<T>> value;
    bool done = false;
  };
  auto* state = new State(loop);  // outlives this call when the task hangs
  spawn(state->gate, [](Task<T> t, State& s) -> Task<> {
    try {
      if constexpr (std::is_void_v<T>) {
        co_await std::move(t);
      } else {
        s.value.emplace(co_await std::move(t));
      }
    } catch (...) {
      s.error = std::current_exception();
    }
    s.done = true;
  }(std::move(task), *state));
  if (!loop.run_until([&] { return state->done; }, limit)) throw std::runtime_error("a task does not end");
  const std::unique_ptr<State> owned(state);
  if (owned->error) std::rethrow_exception(owned->error);
  if constexpr (!std::is_void_v<T>) return std::move(*owned->value);
}

}  // namespace bascule::testing
