// Runs a reconcile function for keys: at most one at a time a key, at most `workers` at once, failures with growing
// pauses. Contract of controller-runtime's controller; runtime/work_queue.hpp decides which key is next.
// Everything runs on the loop's thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/async.hpp"
#include "base/loop.hpp"
#include "runtime/work_queue.hpp"

namespace bascule::runtime {

struct Result {
  std::optional<Duration> requeue_after;  // come again then, unless added before
};

struct ControllerOptions {
  std::string name;  // label of the metrics
  std::size_t workers = 16;
  Duration timeout = std::chrono::seconds(120);  // of one reconcile: its stop token is stopped then
  // Of a key that fails again and again. What was away for long is asked again soon after it has come back.
  WorkQueue::Pauses pauses = {.longest = std::chrono::seconds(60)};
};

class Metrics;

class Controller final {
 public:
  // Any exception out of `reconcile` is logged and tried again with the options' pauses, doubled each time.
  using Reconcile = std::function<Task<Result>(std::string key, std::stop_token stop)>;

  // `metrics` may be nullptr.
  Controller(Loop& loop, ControllerOptions options, Reconcile reconcile, Metrics* metrics);
  // Once stop() has completed, or while nothing runs: then what waits is dropped. Aborts while a reconcile runs.
  ~Controller();

  // May be called before start(); what waits is done once started.
  void add(std::string_view key);
  // Puts before what add() put in: for what people wait for.
  void add_first(std::string_view key);
  void add_after(std::string_view key, Duration delay);
  void start();
  // Starts nothing new, stops what runs through its token, returns when all have ended.
  Task<> stop();
  std::size_t waiting() const noexcept;  // keys ready or delayed

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace bascule::runtime
