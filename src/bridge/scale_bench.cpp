// Scheduler and controllers, each a process of its own, beside as many nodes and pods as a large cluster has
// (bench/fake_bridge_cluster): their memory, what they ask and write when nothing changes, and what one more pod costs
// while many wait.
//
// "Resident" is VmRSS of a process alone, in 1,000,000 bytes.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <functional>

#include "bridge/flow_bench.hpp"

namespace bascule::bridge {
namespace {

using testing::seconds_since;
using testing::SteadyClock;

constexpr std::int64_t kBatch = 5'000;  // Jobs made at once

void tell_resident(benchmark::State& state, const BenchCluster& cluster, const std::string& when) {
  state.counters["scheduler_MB_" + when] = cluster.scheduler().resident();
  state.counters["controllers_MB_" + when] = cluster.controllers().resident();
}

// Seven tenths of the pods run by the bridge, two wait, one is another scheduler's. Memory of two processes that have
// brought all that about; then of two that start beside it; then after a thousand more Jobs have come and gone, which
// makes tables of Slurm come whole. The benchmark's time is that of the start.
void memory_at_scale(benchmark::State& state) {
  try {
    const std::int64_t nodes = state.range(0), pods = state.range(1);
    BenchCluster cluster(static_cast<int>(nodes), {"--join", "1", "--tick", "2000"});
    cluster.wait("nodes", nodes);
    cluster.make("others", pods / 10);
    const std::int64_t run = pods * 7 / 10, wait = pods * 2 / 10;
    const auto begin = SteadyClock::now();
    for (std::int64_t bound = 0; bound < run; bound += kBatch) {
      cluster.make("endless", std::min(kBatch, run - bound));
      cluster.wait("bound", std::min(bound + kBatch, run), 600);
    }
    for (std::int64_t waiting = 0; waiting < wait; waiting += kBatch) {
      cluster.make("waiting", std::min(kBatch, wait - waiting));
      cluster.wait("live", run + std::min(waiting + kBatch, wait), 600);
    }
    state.counters["fill_s"] = seconds_since(begin);
    cluster.settle();
    tell_resident(state, cluster, "made");
    for ([[maybe_unused]] const auto _ : state) {
      const auto start = SteadyClock::now();
      cluster.start();
      state.SetIterationTime(seconds_since(start));
    }
    cluster.settle();
    tell_resident(state, cluster, "started");
    cluster.make("jobs", 1'000);
    cluster.wait("complete", 1'000);
    cluster.wait("live", run + wait);
    cluster.settle();
    tell_resident(state, cluster, "flowed");
    state.counters["scheduler_MB_peak"] = cluster.scheduler().resident("VmHWM:");
    state.counters["controllers_MB_peak"] = cluster.controllers().resident("VmHWM:");
    state.counters["pods"] = static_cast<double>(cluster.state("pods"));
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
  }
}
BENCHMARK(memory_at_scale)
    ->ArgNames({"nodes", "pods"})
    ->Args({1'000, 10'000})
    ->Args({5'000, 50'000})
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

// Pods wait for Slurm and nothing changes: what both processes do in a minute.
void waiting_rest(benchmark::State& state) {
  try {
    const std::int64_t pods = state.range(0);
    const double minutes = static_cast<double>(state.range(1)) / 60;
    const BenchCluster cluster(500, {"--tick", "1000"});
    cluster.warm_up();
    cluster.make("waiting", pods);
    cluster.wait("live", pods, 600);
    cluster.settle();
    const std::int64_t writes = cluster.state("writes"), calls = cluster.state("calls");
    const double processor = cluster.processor_seconds();
    for ([[maybe_unused]] const auto _ : state) std::this_thread::sleep_for(std::chrono::seconds(state.range(1)));
    state.counters["processor_ms"] = (cluster.processor_seconds() - processor) * 1000 / minutes;
    state.counters["writes"] = static_cast<double>(cluster.state("writes") - writes) / minutes;
    state.counters["slurm_calls"] = static_cast<double>(cluster.state("calls") - calls) / minutes;
    tell_resident(state, cluster, "rest");
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
  }
}
BENCHMARK(waiting_rest)
    ->ArgNames({"pods", "rest_s"})
    ->Args({5'000, 65})
    ->Iterations(1)
    ->UseRealTime()
    ->Unit(benchmark::kSecond);

// Processor time of both processes and of the scheduler for each of `jobs` Jobs of one pod that `make` brings about, to
// the end of the last one's allocation, in ms.
void tell_flow(benchmark::State& state, const BenchCluster& cluster, const std::string& name, std::int64_t jobs,
               const std::function<void()>& make) {
  const std::int64_t complete = cluster.state("complete"), live = cluster.state("live");
  const double both = cluster.processor_seconds(), scheduler = cluster.scheduler().processor_seconds();
  const std::array kinds{"tables", "looks", "asks"};
  std::array<std::int64_t, kinds.size()> calls{};
  std::ranges::transform(kinds, calls.begin(), [&cluster](const char* kind) { return cluster.state(kind); });
  const auto start = testing::SteadyClock::now();
  make();
  cluster.wait("complete", complete + jobs, 600);
  cluster.wait("live", live, 600);
  state.counters[name + "_s"] = testing::seconds_since(start);
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    state.counters[name + "_" + kinds[i]] = static_cast<double>(cluster.state(kinds[i]) - calls[i]);
  }
  const auto each = static_cast<double>(jobs) / 1000;
  state.counters[name + "_ms"] = (cluster.processor_seconds() - both) / each;
  state.counters[name + "_scheduler_ms"] = (cluster.scheduler().processor_seconds() - scheduler) / each;
}

// Pods wait for Slurm, while Jobs of one pod come, run and go: a thousand at once, then two hundred, twenty a second.
// A look at Slurm names all jobs, so what is paid for each look is shared by many pods in the one and by few in the
// other. Before that, what both processes do in a second at rest, which is in the figures too, by the time they take.
void flow_beside_waiting(benchmark::State& state) {
  try {
    const std::int64_t waiting = state.range(0);
    const BenchCluster cluster(500, {"--tick", "1000"});
    cluster.warm_up();
    cluster.make("waiting", waiting);
    cluster.wait("live", waiting, 600);
    cluster.settle();
    const double before = cluster.processor_seconds();
    std::this_thread::sleep_for(std::chrono::seconds(30));
    state.counters["rest_ms_a_s"] = (cluster.processor_seconds() - before) * 1000 / 30;
    for ([[maybe_unused]] const auto _ : state) {
      tell_flow(state, cluster, "at_once", 1'000, [&cluster] { cluster.make("jobs", 1'000); });
      cluster.settle();
      tell_flow(state, cluster, "in_turn", 200, [&cluster] {
        for (int made = 0; made < 200; ++made) {
          cluster.make("jobs", 1);
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
        }
      });
    }
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
  }
}
BENCHMARK(flow_beside_waiting)
    ->ArgName("waiting")
    ->Arg(100)
    ->Arg(1'000)
    ->Arg(10'000)
    ->Iterations(1)
    ->UseRealTime()
    ->Unit(benchmark::kSecond);

}  // namespace
}  // namespace bascule::bridge
