// One key through the queue: added, got, done.
#include <benchmark/benchmark.h>

#include "runtime/work_queue.hpp"

namespace bascule::runtime {
namespace {

// As many keys as a large cluster has pods in motion; named as they are, so that no key fits into a small string.
constexpr std::size_t kKeys = 4096;
// Keys that wait at any time.
constexpr std::size_t kWaiting = 1024;

std::vector<std::string> keys() {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < kKeys; ++i)
    out.push_back("team-" + std::to_string(i % 97) + "/trainer-job-" + std::to_string(i));
  return out;
}

void work_queue(benchmark::State& state) {
  const std::vector<std::string> names = keys();
  WorkQueue queue;
  TimePoint now{};
  std::size_t next = 0;
  for (; next < kWaiting; ++next) queue.add(names[next], now);
  for (auto _ : state) {
    now += std::chrono::nanoseconds(100);
    queue.add(names[next++ % kKeys], now);
    const auto work = queue.get(now);
    benchmark::DoNotOptimize(queue.done(work->key, now));
  }
}
BENCHMARK(work_queue);

// A key that fails, waits its pause and succeeds.
void work_queue_failing(benchmark::State& state) {
  const std::vector<std::string> names = keys();
  WorkQueue queue;
  TimePoint now{};
  std::size_t next = 0;
  for (; next < kWaiting; ++next) queue.add(names[next], now);
  for (auto _ : state) {
    now += std::chrono::microseconds(1);
    queue.add(names[next++ % kKeys], now);
    const auto work = queue.get(now);
    if (queue.failures(work->key) == 0) {
      queue.add_failed(work->key, now);
    } else {
      queue.forget(work->key);
    }
    queue.done(work->key, now);
  }
}
BENCHMARK(work_queue_failing);

}  // namespace
}  // namespace bascule::runtime
