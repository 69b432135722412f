// What the fake API server costs a simulation: creations, patches, a list, and events to many watches.
#include <benchmark/benchmark.h>

#include "net/loopback.hpp"
#include "testing/fake_api.hpp"
#include "testing/objects.hpp"
#include "testing/run.hpp"

namespace bascule::testing {
namespace {

using namespace std::chrono_literals;
namespace r = kube::resources;

struct Filled {
  explicit Filled(int pods) {
    for (int i = 0; i < pods; ++i) api.create(r::kPods, make_pod({.name = "p" + std::to_string(i)}));
  }
  net::Response get(std::string target) {
    net::Request request{.method = "GET", .target = std::move(target), .headers = {}, .body = {}};
    return run(loop, transport->call(std::move(request), {.deadline = loop.now() + 30s}));
  }
  ManualLoop loop;
  FakeApi api{loop};
  std::unique_ptr<net::Transport> transport = net::make_loopback(loop, api.handler());
};

void fake_api_create(benchmark::State& state) {
  Filled filled(0);
  int i = 0;
  for ([[maybe_unused]] const auto _ : state) {
    filled.api.create(r::kPods, make_pod({.name = "p" + std::to_string(i++)}));
  }
}
BENCHMARK(fake_api_create)->Unit(benchmark::kMicrosecond);

void fake_api_patch(benchmark::State& state) {
  Filled filled(10'000);
  int i = 0;
  for ([[maybe_unused]] const auto _ : state) {
    filled.api.patch(r::kPods, {"default", "p" + std::to_string(i % 10'000)},
                     json::Object{{"metadata", json::Object{{"labels", json::Object{{"i", std::to_string(i)}}}}}});
    ++i;
  }
}
BENCHMARK(fake_api_patch)->Unit(benchmark::kMicrosecond);

void fake_api_list_10000(benchmark::State& state) {
  Filled filled(10'000);
  for ([[maybe_unused]] const auto _ : state) benchmark::DoNotOptimize(filled.get("/api/v1/pods"));
}
BENCHMARK(fake_api_list_10000)->Unit(benchmark::kMillisecond);

// One change told to 100 watches.
void fake_api_fan_out(benchmark::State& state) {
  Filled filled(100);
  std::vector<std::unique_ptr<net::BodyStream>> watches;
  for (int i = 0; i < 100; ++i) {
    net::Request request{.method = "GET", .target = "/api/v1/pods?watch=1&resourceVersion=", .headers = {}, .body = {}};
    request.target += std::to_string(filled.api.store().version());
    watches.push_back(
        run(filled.loop, filled.transport->open(std::move(request), {.deadline = filled.loop.now() + 30s})).body);
  }
  int n = 0;
  for ([[maybe_unused]] const auto _ : state) {
    filled.api.patch(r::kPods, {"default", "p1"},
                     json::Object{{"metadata", json::Object{{"labels", json::Object{{"n", std::to_string(n++)}}}}}});
    for (auto& watch : watches) {
      benchmark::DoNotOptimize(run(filled.loop, watch->read(filled.loop.now() + 1s, {})));
    }
  }
}
BENCHMARK(fake_api_fan_out)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace bascule::testing
