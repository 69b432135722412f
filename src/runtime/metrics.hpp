// Metrics in Prometheus' text form. The library behind it is seen by metrics.cpp alone.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace prometheus {
class Counter;
class Gauge;
class Histogram;
}  // namespace prometheus

namespace bascule::runtime {

using Labels = std::vector<std::pair<std::string, std::string>>;

// One series of a Metrics, to be kept by who counts often; valid as long as its Metrics. Those made by default do
// nothing, for whoever runs without metrics.
class Counter final {
 public:
  Counter() noexcept = default;
  void add(double by = 1) const;
  void raise_to(double total) const;  // of what is counted elsewhere; never goes down
 private:
  friend class Metrics;
  explicit Counter(prometheus::Counter& series) noexcept : series_(&series) {}
  prometheus::Counter* series_ = nullptr;
};
class Gauge final {
 public:
  Gauge() noexcept = default;
  void set(double value) const;

 private:
  friend class Metrics;
  explicit Gauge(prometheus::Gauge& series) noexcept : series_(&series) {}
  prometheus::Gauge* series_ = nullptr;
};
class Histogram final {
 public:
  Histogram() noexcept = default;
  void observe(double value) const;

 private:
  friend class Metrics;
  explicit Histogram(prometheus::Histogram& series) noexcept : series_(&series) {}
  prometheus::Histogram* series_ = nullptr;
};

// A family and label set are created on first use; a name has one kind and one set of label names for ever.
class Metrics final {
 public:
  Metrics();
  // The same exposition, and `always` on every series made through this one, unless it has a label of that name
  // already. For parts of a process that are alike. Whatever has them must have them everywhere: see above.
  Metrics(const Metrics& of, Labels always);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  Counter counter(std::string_view name, std::string_view help, const Labels& labels);
  Gauge gauge(std::string_view name, std::string_view help, const Labels& labels);
  // `buckets` are upper bounds, rising, and count from the first call for that name.
  Histogram histogram(std::string_view name, std::string_view help, const Labels& labels,
                      std::span<const double> buckets);

  // For what is counted rarely.
  void add(std::string_view name, std::string_view help, const Labels& labels, double by = 1);
  void set(std::string_view name, std::string_view help, const Labels& labels, double value);
  void observe(std::string_view name, std::string_view help, const Labels& labels, double value,
               std::span<const double> buckets);

  // Takes a gauge's series out of the exposition, of what is no more; nobody may hold it.
  void remove(std::string_view name, const Labels& labels);

  // Calls `fn` before every text(), as long as the returned token lives: for what is read when asked for.
  [[nodiscard]] std::shared_ptr<void> on_collect(std::function<void()> fn);
  // The exposition.
  std::string text();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
  Labels always_;
};

// 5 ms to 10 s, client-go's bounds for latencies in seconds.
std::span<const double> latency_buckets() noexcept;
// 10 ns to 1000 s, by powers of ten: controller-runtime's bounds for queues and webhooks.
std::span<const double> decade_buckets() noexcept;

}  // namespace bascule::runtime
