#include "runtime/metrics.hpp"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <map>

namespace bascule::runtime {

namespace {

prometheus::Labels to_map(const Labels& labels) {
  return {labels.begin(), labels.end()};
}

struct Usage {
  double cpu_seconds = 0, resident = 0, virtual_size = 0;
};

// proc(5): fields 14, 15 (ticks), 23 (bytes), 24 (pages) of /proc/self/stat, counted after the program's name.
Usage usage() {
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  Usage out;
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return out;
  std::vector<double> fields;
  std::string field;
  for (const char c : text.substr(name_end + 2) + " ") {
    if (c != ' ') {
      field += c;
      continue;
    }
    fields.push_back(std::strtod(field.c_str(), nullptr));
    field.clear();
  }
  if (fields.size() < 22) return out;
  out.cpu_seconds = (fields[11] + fields[12]) / static_cast<double>(sysconf(_SC_CLK_TCK));
  out.virtual_size = fields[20];
  out.resident = fields[21] * static_cast<double>(sysconf(_SC_PAGESIZE));
  return out;
}

}  // namespace

struct Metrics::Impl {
  prometheus::Registry registry;
  std::map<std::string, prometheus::Family<prometheus::Counter>*, std::less<>> counters;
  std::map<std::string, prometheus::Family<prometheus::Gauge>*, std::less<>> gauges;
  std::map<std::string, std::pair<prometheus::Family<prometheus::Histogram>*, std::vector<double>>, std::less<>>
      histograms;
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;

void Metrics::add(std::string_view name, std::string_view help, const Labels& labels, double by) {
  auto& family = impl_->counters[std::string(name)];
  if (family == nullptr)
    family = &prometheus::BuildCounter().Name(std::string(name)).Help(std::string(help)).Register(impl_->registry);
  family->Add(to_map(labels)).Increment(by);
}

void Metrics::set(std::string_view name, std::string_view help, const Labels& labels, double value) {
  auto& family = impl_->gauges[std::string(name)];
  if (family == nullptr)
    family = &prometheus::BuildGauge().Name(std::string(name)).Help(std::string(help)).Register(impl_->registry);
  family->Add(to_map(labels)).Set(value);
}

void Metrics::observe(std::string_view name, std::string_view help, const Labels& labels, double value,
                      std::span<const double> buckets) {
  auto& [family, bounds] = impl_->histograms[std::string(name)];
  if (family == nullptr) {
    family = &prometheus::BuildHistogram().Name(std::string(name)).Help(std::string(help)).Register(impl_->registry);
    bounds.assign(buckets.begin(), buckets.end());
  }
  family->Add(to_map(labels), bounds).Observe(value);
}

std::string Metrics::text() const {
  const Usage now = usage();
  auto& self = const_cast<Metrics&>(*this);  // process_* are read when asked for
  self.set("process_cpu_seconds_total", "User and system time used, in seconds", {}, now.cpu_seconds);
  self.set("process_resident_memory_bytes", "Resident memory", {}, now.resident);
  self.set("process_virtual_memory_bytes", "Virtual memory", {}, now.virtual_size);
  return prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

std::span<const double> latency_buckets() noexcept {
  static constexpr std::array kBounds{0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0,
                                      1.25,  1.5,  2.0,   3.0,  4.0, 5.0, 6.0, 8.0, 10.0};
  return kBounds;
}

}  // namespace bascule::runtime
