#include "runtime/metrics.hpp"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <map>

namespace bascule::runtime {

namespace {

prometheus::Labels to_map(const Labels& labels, const Labels& always) {
  prometheus::Labels out(labels.begin(), labels.end());
  out.insert(always.begin(), always.end());
  return out;
}

template <class T>
using Families = std::map<std::string, prometheus::Family<T>*, std::less<>>;

// The family of that name, made by `build` the first time.
template <class T, class Builder>
prometheus::Family<T>& family_of(Families<T>& families, prometheus::Registry& registry, Builder build,
                                 std::string_view name, std::string_view help) {
  const auto found = families.find(name);
  if (found != families.end()) return *found->second;
  auto& made = build().Name(std::string(name)).Help(std::string(help)).Register(registry);
  families.emplace(std::string(name), &made);
  return made;
}

}  // namespace

void Counter::add(double by) const {
  if (series_ != nullptr) series_->Increment(by);
}
void Counter::raise_to(double total) const {
  if (series_ != nullptr) series_->Increment(std::max(0.0, total - series_->Value()));
}
void Gauge::set(double value) const {
  if (series_ != nullptr) series_->Set(value);
}
void Histogram::observe(double value) const {
  if (series_ != nullptr) series_->Observe(value);
}

struct Metrics::Impl {
  prometheus::Registry registry;
  Families<prometheus::Counter> counters;
  Families<prometheus::Gauge> gauges;
  Families<prometheus::Histogram> histograms;
  std::map<std::string, std::vector<double>, std::less<>> bounds;
  std::vector<std::weak_ptr<std::function<void()>>> collectors;
};

Metrics::Metrics() : impl_(std::make_shared<Impl>()) {}
Metrics::Metrics(const Metrics& of, Labels always) : impl_(of.impl_), always_(std::move(always)) {}
Metrics::~Metrics() = default;

Counter Metrics::counter(std::string_view name, std::string_view help, const Labels& labels) {
  return Counter(
      family_of(impl_->counters, impl_->registry, prometheus::BuildCounter, name, help).Add(to_map(labels, always_)));
}

Gauge Metrics::gauge(std::string_view name, std::string_view help, const Labels& labels) {
  return Gauge(
      family_of(impl_->gauges, impl_->registry, prometheus::BuildGauge, name, help).Add(to_map(labels, always_)));
}

Histogram Metrics::histogram(std::string_view name, std::string_view help, const Labels& labels,
                             std::span<const double> buckets) {
  auto& family = family_of(impl_->histograms, impl_->registry, prometheus::BuildHistogram, name, help);
  auto bounds = impl_->bounds.find(name);
  if (bounds == impl_->bounds.end()) {
    bounds = impl_->bounds.emplace(std::string(name), std::vector<double>(buckets.begin(), buckets.end())).first;
  }
  return Histogram(family.Add(to_map(labels, always_), bounds->second));
}

void Metrics::add(std::string_view name, std::string_view help, const Labels& labels, double by) {
  counter(name, help, labels).add(by);
}
void Metrics::set(std::string_view name, std::string_view help, const Labels& labels, double value) {
  gauge(name, help, labels).set(value);
}
void Metrics::observe(std::string_view name, std::string_view help, const Labels& labels, double value,
                      std::span<const double> buckets) {
  histogram(name, help, labels, buckets).observe(value);
}

void Metrics::remove(std::string_view name, const Labels& labels) {
  const auto family = impl_->gauges.find(name);
  if (family == impl_->gauges.end()) return;
  const prometheus::Labels all = to_map(labels, always_);
  if (family->second->Has(all)) family->second->Remove(&family->second->Add(all));
}

std::shared_ptr<void> Metrics::on_collect(std::function<void()> fn) {
  auto token = std::make_shared<std::function<void()>>(std::move(fn));
  impl_->collectors.push_back(token);
  return token;
}

std::string Metrics::text() {
  std::erase_if(impl_->collectors, [](const auto& weak) { return weak.expired(); });
  for (const auto& weak : impl_->collectors) {
    if (const auto collect = weak.lock()) (*collect)();
  }
  return prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

std::span<const double> latency_buckets() noexcept {
  static constexpr std::array kBounds{0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0,
                                      1.25,  1.5,  2.0,   3.0,  4.0, 5.0, 6.0, 8.0, 10.0};
  return kBounds;
}

std::span<const double> decade_buckets() noexcept {
  // Multiplied step by step, as Go's client does, so that `le` has the same digits: 9.999999999999999e-06.
  static constexpr auto kBounds = [] {
    std::array<double, 12> bounds{};
    double bound = 10e-9;
    for (double& each : bounds) {
      each = bound;
      bound *= 10;
    }
    return bounds;
  }();
  return kBounds;
}

}  // namespace bascule::runtime
