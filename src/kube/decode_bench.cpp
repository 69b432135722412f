// Decoding pods of 7.8 KB, and what they cost in memory once cached.
#include <benchmark/benchmark.h>
#include <malloc.h>

#include "kube/objects.hpp"
#include "kube/sample_pod.hpp"

namespace bascule::kube {
namespace {

constexpr std::size_t kPods = 6400;

void decode_pods(benchmark::State& state) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < kPods; ++i) texts.push_back(sample_pod(i));
  json::Interner interner;
  std::vector<std::shared_ptr<const Pod>> pods(kPods);
  std::size_t bytes = 0;
  std::size_t held = 0;
  for (auto _ : state) {
    state.PauseTiming();
    for (auto& pod : pods) pod.reset();
    const auto before = mallinfo2().uordblks;
    state.ResumeTiming();
    for (std::size_t i = 0; i < kPods; ++i) {
      pods[i] = decode_pod(texts[i], interner);
      bytes += texts[i].size();
    }
    state.PauseTiming();
    held = mallinfo2().uordblks - before;
    state.ResumeTiming();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations() * kPods));
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes));
  state.counters["us/pod"] = benchmark::Counter(
      static_cast<double>(kPods) / 1e6, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters["bytes/pod"] = static_cast<double>(held) / kPods;
  state.counters["json bytes/pod"] = static_cast<double>(texts[kPods / 2].size());
}
BENCHMARK(decode_pods)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace bascule::kube
