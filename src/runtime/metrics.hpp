// Metrics in Prometheus' text form, with the names that controller-runtime and client-go use. The library behind it is
// seen by metrics.cpp alone.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/loop.hpp"

namespace bascule::runtime {

using Labels = std::vector<std::pair<std::string, std::string>>;

// A family and label set are created on first use; a name has one kind and one set of label names for ever.
class Metrics final {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  void add(std::string_view name, std::string_view help, const Labels& labels, double by = 1);  // counter
  void set(std::string_view name, std::string_view help, const Labels& labels, double value);   // gauge
  // Histogram; `buckets` are upper bounds, rising, and count from the first call for that name.
  void observe(std::string_view name, std::string_view help, const Labels& labels, double value,
               std::span<const double> buckets);
  // The exposition, process_* metrics included.
  std::string text() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// 5 ms to 10 s, client-go's bounds for latencies in seconds.
std::span<const double> latency_buckets() noexcept;

}  // namespace bascule::runtime
