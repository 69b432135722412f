#include "runtime/controller_metrics.hpp"

namespace bascule::runtime {

namespace {

constexpr std::array kReconcileBuckets{0.005, 0.01, 0.025, 0.05, 0.1,  0.15, 0.2,  0.25, 0.3,  0.35,
                                       0.4,   0.45, 0.5,   0.6,  0.7,  0.8,  0.9,  1.0,  1.25, 1.5,
                                       1.75,  2.0,  2.5,   3.0,  3.5,  4.0,  4.5,  5.0,  6.0,  7.0,
                                       8.0,   9.0,  10.0,  15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0};

double seconds(Duration d) {
  return std::chrono::duration<double>(d).count();
}

}  // namespace

ControllerMetrics::ControllerMetrics(Metrics* metrics, const std::string& controller, std::size_t workers)
    : metrics_(metrics) {
  if (metrics == nullptr) return;
  Metrics& m = *metrics;
  const Labels self{{"controller", controller}};
  const auto total = [&](const char* result) {
    return m.counter("controller_runtime_reconcile_total", "Reconciles, by result",
                     {{"controller", controller}, {"result", result}});
  };
  // There is no way to ask for "requeue" here, but dashboards have it.
  total("requeue");
  total_ = {total("success"), total("requeue_after"), total("error")};
  errors_ = m.counter("controller_runtime_reconcile_errors_total", "Reconciles that failed", self);
  // Every failure is tried again here.
  m.counter("controller_runtime_terminal_reconcile_errors_total", "Failures that are not tried again", self);
  panics_ =
      m.counter("controller_runtime_reconcile_panics_total", "Exceptions that are no errors of a known kind", self);
  timeouts_ =
      m.counter("controller_runtime_reconcile_timeouts_total", "Reconciles told to stop by their timeout", self);
  time_ = m.histogram("controller_runtime_reconcile_time_seconds", "How long reconciles take", self, kReconcileBuckets);
  active_ = m.gauge("controller_runtime_active_workers", "Reconciles under way", self);
  m.set("controller_runtime_max_concurrent_reconciles", "Reconciles that may be under way at once", self,
        static_cast<double>(workers));

  const Labels queue{{"name", controller}, {"controller", controller}};
  const auto depth = [&](const char* priority) {
    Labels labels = queue;
    labels.emplace_back("priority", priority);
    return m.gauge("workqueue_depth", "Keys that wait to be worked on, by priority", labels);
  };
  depth_ = {depth("0"), depth("1")};
  adds_ = m.counter("workqueue_adds_total", "Keys that became ready", queue);
  retries_ = m.counter("workqueue_retries_total", "Keys added with a delay", queue);
  queued_ = m.histogram("workqueue_queue_duration_seconds", "How long keys wait once they are ready", queue,
                        decade_buckets());
  worked_ = m.histogram("workqueue_work_duration_seconds", "How long keys are worked on", queue, decade_buckets());
  unfinished_ =
      m.gauge("workqueue_unfinished_work_seconds", "How long keys under way have been so, all together", queue);
  longest_ =
      m.gauge("workqueue_longest_running_processor_seconds", "How long the oldest key under way has been so", queue);
}

void ControllerMetrics::watch(const WorkQueue& queue, const Clock& clock) {
  if (metrics_ != nullptr) collecting_ = metrics_->on_collect([this, &queue, &clock] { read(queue, clock.now()); });
}

void ControllerMetrics::read(const WorkQueue& queue, TimePoint now) const {
  for (std::size_t p = 0; p < kPriorities; ++p) {
    depth_[p].set(static_cast<double>(queue.depth(static_cast<Priority>(p))));
  }
  adds_.raise_to(static_cast<double>(queue.adds()));
  retries_.raise_to(static_cast<double>(queue.retries()));
  active_.set(static_cast<double>(queue.running()));
  const WorkQueue::Unfinished unfinished = queue.unfinished(now);
  unfinished_.set(seconds(unfinished.total));
  longest_.set(seconds(unfinished.longest));
}

void ControllerMetrics::begun(Duration waited) const {
  queued_.observe(seconds(waited));
}

void ControllerMetrics::ended(Outcome outcome, Duration worked) const {
  total_[static_cast<std::size_t>(outcome)].add();
  if (outcome == Outcome::kError) errors_.add();
  time_.observe(seconds(worked));
  worked_.observe(seconds(worked));
}

}  // namespace bascule::runtime
