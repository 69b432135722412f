// The whole operator at scale, in a process of its own, against bench/fake_operator_cluster in another: how long one
// change takes, what is written at rest, and what a start costs beside as many worker pods as there are, in time until
// the caches are whole and in memory. With BENCH_OPERATOR_PEER the start is that of the program named (tools/bench).
//
// "Resident" is VmRSS of that process alone, in 1,000,000 bytes.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "base/log.hpp"
#include "operator/reconcile/operator.hpp"
#include "testing/child.hpp"

namespace bascule::op::reconcile {
namespace {

using namespace std::chrono_literals;
using testing::Child;
using testing::Failure;
using testing::seconds_since;
using testing::SteadyClock;

constexpr int kEach = 100;  // worker pods of a NodeSet
constexpr int kChanges = 21;
constexpr auto kFills = 400s;

// Until SIGTERM.
int run_operator(const std::string& kubeconfig, const std::string& slurm_port) {
  log::configure(log::Level::kInfo, log::Format::kJson);
  net::IoLoop loop;
  kube::Connection connection(loop, kube::load_config({kubeconfig, {}}), {});
  OperatorOptions options;
  options.instance = "bench";
  options.connect = [&](const std::string&) {
    net::ClientOptions http;
    http.url = net::parse_url("http://127.0.0.1:" + slurm_port);
    http.max_connections = 8;
    return net::make_client(loop, std::move(http));
  };
  runtime::Metrics metrics;
  Operator work(connection.client(), std::move(options), &metrics);
  return testing::work_until_terminated(loop, [&work](std::stop_token stop) { return work.run(std::move(stop)); });
}

// The fakes, and what they are asked.
class Cluster final {
 public:
  explicit Cluster(int sets)
      : pods_(sets * kEach),
        base_((std::filesystem::temp_directory_path() / ("bench-operator-" + std::to_string(getpid()))).string()),
        fakes_(base_ + ".fakes",
               [&] {
                 const auto folder = std::filesystem::canonical("/proc/self/exe").parent_path();
                 return testing::exec({(folder / "fake_operator_cluster").string(), "--kubeconfig", kubeconfig(),
                                       "--sets", std::to_string(sets), "--each", std::to_string(kEach)});
               }),
        slurm_port_(fakes_.wait_for("ready ")) {}
  ~Cluster() {
    std::filesystem::remove(kubeconfig());
    std::filesystem::remove(kubeconfig() + ".ca.pem");
  }

  std::string kubeconfig() const { return base_ + ".kubeconfig"; }

  std::unique_ptr<Child> start_operator() const {
    return std::make_unique<Child>(base_ + ".operator", [this] { return run_operator(kubeconfig(), slurm_port_); });
  }
  std::unique_ptr<Child> start_peer(const std::string& program) const {
    return std::make_unique<Child>(base_ + ".peer",
                                   [&] { return testing::exec({program, "--kubeconfig", kubeconfig()}); });
  }

  std::int64_t state(std::string_view what) const {
    return json::int_at(testing::ask(kubeconfig(), "/bench/state"), {what}).value_or(0);
  }

  // Until all worker pods are there, run and serve: `more` than at first.
  double wait_available(int more = 0) const {
    const auto start = SteadyClock::now();
    while (state("available") < pods_ + more) {
      if (SteadyClock::now() - start > kFills) throw Failure("pods do not become available");
      std::this_thread::sleep_for(100ms);
    }
    return seconds_since(start);
  }
  double change() const {
    return static_cast<double>(json::int_at(testing::ask(kubeconfig(), "/bench/change"), {"us"}).value_or(0)) / 1000;
  }

 private:
  const int pods_;
  const std::string base_;
  Child fakes_;
  const std::string slurm_port_;
};

// The driver of NodeSets is the last to start.
const std::string kWhole = "\"msg\":\"NodeSets started\"";

// The benchmark's time is the median of one change: from the NodeSet's new number to the new pod in the API server.
void operator_change(benchmark::State& state) {
  try {
    const Cluster cluster(static_cast<int>(state.range(0)));
    const auto worker = cluster.start_operator();
    state.counters["fill_s"] = cluster.wait_available();
    std::this_thread::sleep_for(3s);
    const double processor_before = worker->processor_seconds();
    std::vector<double> times;
    for ([[maybe_unused]] const auto _ : state) {
      for (int i = 0; i < kChanges; ++i) {
        times.push_back(cluster.change());
        std::this_thread::sleep_for(200ms);
      }
      std::ranges::sort(times);
      state.SetIterationTime(times[times.size() / 2] / 1000);
    }
    cluster.wait_available(kChanges);
    // To the end of each: the pod runs, has registered, and is counted.
    state.counters["processor_ms"] = (worker->processor_seconds() - processor_before) * 1000 / kChanges;
    state.counters["longest_ms"] = times.back();
    std::this_thread::sleep_for(5s);
    const std::int64_t writes = cluster.state("writes");
    const double processor_at_rest = worker->processor_seconds();
    std::this_thread::sleep_for(std::chrono::seconds(state.range(1)));
    state.counters["writes_at_rest"] = static_cast<double>(cluster.state("writes") - writes);
    state.counters["processor_at_rest_ms_per_s"] =
        (worker->processor_seconds() - processor_at_rest) * 1000 / static_cast<double>(state.range(1));
    state.counters["resident_MB"] = worker->resident();
    state.counters["pods"] = static_cast<double>(cluster.state("pods"));
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
  }
}
BENCHMARK(operator_change)
    ->ArgNames({"sets", "rest_s"})
    ->Args({5, 10})
    ->Args({15, 10})
    ->Args({50, 65})  // every NodeSet is looked at once a minute
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

// The benchmark's time is that from the start of the process until its copies of the cluster are whole.
void operator_start(benchmark::State& state) {
  try {
    const Cluster cluster(static_cast<int>(state.range(0)));
    {
      const auto filler = cluster.start_operator();
      cluster.wait_available();
      std::this_thread::sleep_for(3s);
    }
    const char* peer = std::getenv("BENCH_OPERATOR_PEER");
    for ([[maybe_unused]] const auto _ : state) {
      const auto start = SteadyClock::now();
      const auto program = peer != nullptr ? cluster.start_peer(peer) : cluster.start_operator();
      program->wait_for(peer != nullptr ? "whole" : kWhole);
      state.SetIterationTime(seconds_since(start));
      state.counters["start_s"] = seconds_since(start);
      std::this_thread::sleep_for(10s);
      state.counters["resident_MB"] = program->resident();
    }
    state.counters["pods"] = static_cast<double>(cluster.state("pods"));
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
  }
}
BENCHMARK(operator_start)->ArgNames({"sets"})->Arg(50)->Iterations(1)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace bascule::op::reconcile
