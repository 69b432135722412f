// Scheduler and controllers, each a process of its own, against bench/fake_bridge_cluster in a third: many Jobs of one
// pod at once, from their creation to the end of the last one's allocation. What it says is what our part of the work
// costs; the API server and slurmrestd are far lighter than real ones (tools/bench-cluster has those).
#include <benchmark/benchmark.h>

#include "bridge/flow_bench.hpp"

namespace bascule::bridge {
namespace {

constexpr std::int64_t kWarmUp = BenchCluster::kWarmUp;

// The benchmark's time is that until the last pod is bound.
void job_flow(benchmark::State& state) {
  try {
    const BenchCluster cluster(500);
    const std::int64_t jobs = state.range(0);
    cluster.warm_up();
    const std::int64_t writes = cluster.state("writes"), calls = cluster.state("calls");
    const double processor = cluster.processor_seconds();
    for ([[maybe_unused]] const auto _ : state) {
      cluster.make("jobs", jobs);
      const double took = cluster.wait("bound", jobs + kWarmUp);
      state.SetIterationTime(took);
      state.counters["bound_per_s"] = static_cast<double>(jobs) / took;
    }
    cluster.wait("complete", jobs + kWarmUp);
    cluster.wait("live", 0);
    const auto each = static_cast<double>(jobs);
    state.counters["processor_ms"] = (cluster.processor_seconds() - processor) * 1000 / each;
    state.counters["writes"] = static_cast<double>(cluster.state("writes") - writes) / each;
    state.counters["slurm_calls"] = static_cast<double>(cluster.state("calls") - calls) / each;
    state.counters["resident_MB"] = cluster.scheduler().resident();
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
  }
}
BENCHMARK(job_flow)->ArgName("jobs")->Arg(1'000)->Iterations(1)->UseManualTime()->Unit(benchmark::kMillisecond);

// One gang on as many nodes as it has pods: from the creation of its Job to the binding of its last pod; then to the
// end of its allocation.
void gang_flow(benchmark::State& state) {
  try {
    const std::int64_t pods = state.range(0);
    const BenchCluster cluster(static_cast<int>(pods));
    cluster.warm_up();
    const std::int64_t writes = cluster.state("writes"), calls = cluster.state("calls");
    const double processor = cluster.processor_seconds();
    for ([[maybe_unused]] const auto _ : state) {
      cluster.make("gang", pods);
      state.SetIterationTime(cluster.wait("bound", pods + kWarmUp));
    }
    const double ended = cluster.wait("complete", kWarmUp + 1);
    state.counters["ended_s"] = ended + cluster.wait("live", 0);
    const auto each = static_cast<double>(pods);
    state.counters["processor_ms"] = (cluster.processor_seconds() - processor) * 1000 / each;
    state.counters["writes"] = static_cast<double>(cluster.state("writes") - writes) / each;
    state.counters["slurm_calls"] = static_cast<double>(cluster.state("calls") - calls);
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
  }
}
BENCHMARK(gang_flow)->ArgName("pods")->Arg(1'000)->Iterations(1)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace bascule::bridge
