#include "runtime/process_metrics.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

namespace bascule::runtime {

namespace {

std::string read_file(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

double ticks_per_second() {
  return static_cast<double>(sysconf(_SC_CLK_TCK));
}

struct Stat {
  double cpu_seconds, start_seconds_after_boot, virtual_bytes, resident_bytes;
};

// proc(5): fields 14, 15, 22 (ticks), 23 (bytes), 24 (pages) of /proc/self/stat, counted from 3 after the program's
// name, which may itself contain blanks and parentheses.
std::optional<Stat> read_stat() {
  const std::string text = read_file("/proc/self/stat");
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream words(text.substr(name_end + 1));
  const std::vector<std::string> field{std::istream_iterator<std::string>(words), {}};
  if (field.size() < 22) return std::nullopt;
  const auto number = [&field](std::size_t nth) { return std::strtod(field[nth - 3].c_str(), nullptr); };
  return Stat{(number(14) + number(15)) / ticks_per_second(), number(22) / ticks_per_second(), number(23),
              number(24) * static_cast<double>(sysconf(_SC_PAGESIZE))};
}

std::optional<double> boot_time() {
  const std::string text = read_file("/proc/stat");
  const std::size_t at = text.find("\nbtime ");
  if (at == std::string::npos) return std::nullopt;
  return std::strtod(text.c_str() + at + 7, nullptr);
}

// Without the one that reading them takes.
std::optional<double> open_files() {
  std::error_code error;
  std::filesystem::directory_iterator it("/proc/self/fd", error);
  double count = -1;
  for (; !error && it != std::filesystem::directory_iterator(); it.increment(error)) ++count;
  if (error) return std::nullopt;
  return count;
}

std::optional<double> limit_of_open_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::nullopt;
  return static_cast<double>(limit.rlim_cur);
}

}  // namespace

std::shared_ptr<void> process_metrics(Metrics& metrics) {
  // What does not change is read once.
  const auto stat = read_stat();
  const auto boot = boot_time();
  if (stat && boot) {
    metrics.set("process_start_time_seconds", "When the process began, in seconds since 1970", {},
                *boot + stat->start_seconds_after_boot);
  }
  if (const auto most = limit_of_open_files()) {
    metrics.set("process_max_fds", "How many file descriptors may be open", {}, *most);
  }
  const Counter cpu = metrics.counter("process_cpu_seconds_total", "User and system time used, in seconds", {});
  const Gauge resident = metrics.gauge("process_resident_memory_bytes", "Resident memory", {});
  const Gauge virtual_size = metrics.gauge("process_virtual_memory_bytes", "Virtual memory", {});
  const Gauge files = metrics.gauge("process_open_fds", "Open file descriptors", {});
  return metrics.on_collect([=] {
    if (const auto now = read_stat()) {
      cpu.raise_to(now->cpu_seconds);
      resident.set(now->resident_bytes);
      virtual_size.set(now->virtual_bytes);
    }
    if (const auto open = open_files()) files.set(*open);
  });
}

}  // namespace bascule::runtime
