// One record of a job, and one description.
#include <benchmark/benchmark.h>

#include "bridge/description.hpp"
#include "bridge/record.hpp"

namespace bascule::bridge {
namespace {

void record(benchmark::State& state) {
  const std::string text = print_record({"slurm-bridge-scheduler",
                                         "c0ffee00-1111-2222-3333-444455556666",
                                         Uid("u"),
                                         "0123456789abcdef",
                                         {{"slurm-bridge", "sleep-abcde"}},
                                         {Uid("u")},
                                         false});
  for (auto _ : state) benchmark::DoNotOptimize(parse_record(text));
}
BENCHMARK(record);

void describe(benchmark::State& state) {
  json::Interner strings;
  auto pod = std::make_shared<kube::Pod>();
  pod->meta.key = {"slurm-bridge", "sleep-abcde"};
  pod->requests = {{strings("cpu"), *Quantity::parse("1500m")}, {strings("memory"), *Quantity::parse("1Gi")}};
  Root root;
  root.annotations = {{strings("slurmjob.slinky.slurm.net/timelimit"), strings("5")}};
  const std::vector<PodPtr> pods{pod};
  const Config config;
  for (auto _ : state) benchmark::DoNotOptimize(describe_job(config, root, pods));
}
BENCHMARK(describe);

}  // namespace
}  // namespace bascule::bridge
