// One change among many NodeSets at rest, from the object's change to the new pod in the API server, network and server
// included: both fakes run in this process. Time is real, though it passes only as the simulation needs.
#include <benchmark/benchmark.h>

#include <fstream>

#include "base/log.hpp"
#include "operator/nodeset/driver_test_world.hpp"

namespace bascule::op::nodeset {
namespace {

constexpr int kPodsEach = 100;

std::int64_t resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::stoll(line.substr(6));
  }
  return 0;
}

// Pods of all NodeSets bound, running and registered.
struct ManySets {
  explicit ManySets(int sets) : world(0, 1, 2s) {
    for (int i = 0; i < sets * kPodsEach; ++i) {
      world.api.create(r::kNodes, testing::make_node({.name = fmt::format("k{}", i)}));
    }
    for (int i = 0; i < sets; ++i) world.nodeset(fmt::format("set{}", i), kPodsEach);
    world.process.start();
    for (int i = 0; i < 40 && !all_available(sets); ++i) {
      place();
      world.loop.advance(10s);
    }
    world.loop.advance(2min);
  }
  bool all_available(int sets) {
    for (int i = 0; i < sets; ++i) {
      if (world.status(fmt::format("set{}", i), "availableReplicas") != kPodsEach) return false;
    }
    return true;
  }
  void place() {
    testing::ApiTable& table = world.api.store().table(r::kPods);
    for (const testing::ObjectPtr& pod : table.list("slurm")) {
      if (!json::string_at(pod->value, {"spec", "nodeName"}).empty()) continue;
      const std::string name(json::string_at(pod->value, {"metadata", "name"}));
      testing::ApiWriter& writer = world.api.writer();
      const json::Value binding = testing::make_binding(name, fmt::format("k{}", next++));
      writer.commit(writer.bind(table, "slurm", name, binding, {.manager = "scheduler"}));
      world.enroll(pod->value);
    }
  }

  DriverWorld world;
  int next = 0;
};

void one_change(benchmark::State& state) {
  const log::Capture quiet(log::Level::kError);
  ManySets many(static_cast<int>(state.range(0)));
  DriverWorld& world = many.world;
  int replicas = kPodsEach;
  for (auto _ : state) {
    const std::size_t before = world.api.count(r::kPods);
    world.patch_nodeset("set0", fmt::format("{{spec: {{replicas: {}}}}}", ++replicas));
    while (world.api.count(r::kPods) == before) world.loop.advance(1ms);
  }
  state.counters["pods"] = static_cast<double>(world.api.count(r::kPods));
  world.api.reset_counts();
  world.loop.advance(1min);
  world.api.reset_counts();
  world.loop.advance(5min);
  state.counters["writes_at_rest"] = static_cast<double>(world.api.write_calls());
  state.counters["rss_MiB_with_fakes"] = static_cast<double>(resident_kib()) / 1024;
}
BENCHMARK(one_change)->Arg(5)->Arg(15)->Arg(50)->Unit(benchmark::kMillisecond)->Iterations(5);

}  // namespace
}  // namespace bascule::op::nodeset
