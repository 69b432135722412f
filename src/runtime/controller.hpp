// Runs a reconcile function for keys: at most one at a time a key, at most `workers` at once, failures with growing
// pauses. Contract of controller-runtime's controller over client-go's work queue, which is inside.
// Everything runs on the loop's thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "base/async.hpp"
#include "base/loop.hpp"

namespace bascule::runtime {

struct Result {
  std::optional<Duration> requeue_after;  // come again then, unless added before
};

struct ControllerOptions {
  std::string name;  // label of the metrics
  std::size_t workers = 16;
  Duration timeout = std::chrono::seconds(120);  // of one reconcile: its stop token is stopped then
};

class Metrics;

class Controller final {
 public:
  // An exception out of `reconcile` is logged and tried again with back-off (5 ms doubling to 1000 s).
  using Reconcile = std::function<Task<Result>(std::string key, std::stop_token stop)>;

  // `metrics` may be nullptr.
  Controller(Loop& loop, ControllerOptions options, Reconcile reconcile, Metrics* metrics);
  ~Controller();  // after stop() has completed

  // May be called before start(); what waits is done once started.
  void add(std::string key);
  // Puts before what add() put in: for what people wait for.
  void add_first(std::string key);
  void add_after(std::string key, Duration delay);
  void start();
  // Starts nothing new, stops what runs through its token, returns when all have ended.
  Task<> stop();
  std::size_t waiting() const noexcept;  // keys ready or delayed

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bascule::runtime
