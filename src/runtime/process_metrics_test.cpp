#include "runtime/process_metrics.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>

namespace bascule::runtime {
namespace {

double value_of(const std::string& text, const std::string& name) {
  const std::size_t at = text.find("\n" + name + " ");
  return at == std::string::npos ? -1 : std::strtod(text.c_str() + at + name.size() + 2, nullptr);
}

TEST(ProcessMetrics, SaysWhatTheProcessUses) {
  Metrics metrics;
  const auto token = process_metrics(metrics);
  const std::string text = "\n" + metrics.text();
  EXPECT_NE(text.find("# TYPE process_cpu_seconds_total counter"), std::string::npos) << text;
  EXPECT_GE(value_of(text, "process_cpu_seconds_total"), 0);
  EXPECT_GT(value_of(text, "process_resident_memory_bytes"), 1e6);
  EXPECT_GT(value_of(text, "process_virtual_memory_bytes"), value_of(text, "process_resident_memory_bytes"));
  EXPECT_GE(value_of(text, "process_max_fds"), value_of(text, "process_open_fds"));
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  EXPECT_LE(value_of(text, "process_start_time_seconds"), now + 1);
  EXPECT_GT(value_of(text, "process_start_time_seconds"), now - 24 * 3600);
}

TEST(ProcessMetrics, CountsOpenFiles) {
  Metrics metrics;
  const auto token = process_metrics(metrics);
  const double before = value_of("\n" + metrics.text(), "process_open_fds");
  const std::ifstream file("/proc/self/stat");
  EXPECT_GE(before, 3);
  EXPECT_EQ(value_of("\n" + metrics.text(), "process_open_fds"), before + 1);
}

}  // namespace
}  // namespace bascule::runtime
