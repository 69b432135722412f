// Scheduler and controllers, each a process of its own, against bench/fake_bridge_cluster in a third: many Jobs of one
// pod at once, from their creation to the end of the last one's allocation. What it says is what our part of the work
// costs; the API server and slurmrestd are far lighter than real ones (tools/bench-cluster has those).
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <filesystem>

#include "bridge/controllers.hpp"
#include "bridge/scheduler.hpp"
#include "testing/child.hpp"

namespace bascule::bridge {
namespace {

using namespace std::chrono_literals;
using testing::Child;
using testing::Failure;
using testing::seconds_since;
using testing::SteadyClock;

// The body of a process: Worker is Scheduler or Controllers.
template <class Worker, class Options>
int run(const std::string& kubeconfig, const std::string& slurm_port, Options options) {
  log::configure(log::Level::kInfo, log::Format::kJson);
  net::IoLoop loop;
  kube::Connection connection(loop, kube::load_config({kubeconfig, {}}), {});
  net::ClientOptions http;
  http.url = net::parse_url("http://127.0.0.1:" + slurm_port);
  http.max_connections = 8;
  const auto transport = net::make_client(loop, std::move(http));
  slurm::ClientOptions slurm_options;
  slurm_options.token = slurm::fixed_token("bench");
  slurm::Client slurm(loop, *transport, std::move(slurm_options));
  options.config.scheduler_name = "slurm-bridge-scheduler";
  options.config.partition = "slurm-bridge";
  options.instance = "bench";
  runtime::Metrics metrics;
  Worker worker(connection.client(), slurm, std::move(options), &metrics);
  return testing::work_until_terminated(loop, [&worker](std::stop_token stop) { return worker.run(std::move(stop)); });
}

constexpr std::int64_t kWarmUp = 10;

class Cluster final {
 public:
  explicit Cluster(int nodes)
      : base_((std::filesystem::temp_directory_path() / ("bench-bridge-" + std::to_string(getpid()))).string()),
        fakes_(base_ + ".fakes",
               [this, nodes] {
                 const auto folder = std::filesystem::canonical("/proc/self/exe").parent_path();
                 return testing::exec({(folder / "fake_bridge_cluster").string(), "--kubeconfig", kubeconfig(),
                                       "--nodes", std::to_string(nodes)});
               }),
        slurm_port_(fakes_.wait_for("ready ")),
        scheduler_(base_ + ".scheduler",
                   [this] { return run<Scheduler, SchedulerOptions>(kubeconfig(), slurm_port_, {}); }),
        controllers_(base_ + ".controllers",
                     [this] { return run<Controllers, ControllersOptions>(kubeconfig(), slurm_port_, {}); }) {}
  ~Cluster() {
    std::filesystem::remove(kubeconfig());
    std::filesystem::remove(kubeconfig() + ".ca.pem");
  }

  std::string kubeconfig() const { return base_ + ".kubeconfig"; }
  double processor_seconds() const { return scheduler_.processor_seconds() + controllers_.processor_seconds(); }
  double resident() const { return scheduler_.resident(); }
  std::int64_t state(std::string_view what) const {
    return json::int_at(testing::ask(kubeconfig(), "/bench/state"), {what}).value_or(0);
  }
  void make_jobs(std::int64_t count) const { testing::ask(kubeconfig(), "/bench/jobs?" + std::to_string(count)); }
  void make_gang(std::int64_t pods) const { testing::ask(kubeconfig(), "/bench/gang?" + std::to_string(pods)); }
  // Until all is warm, and both processes work.
  void warm_up() const {
    make_jobs(kWarmUp);
    wait("complete", kWarmUp);
    wait("live", 0);
  }
  // Seconds until it is so.
  double wait(std::string_view what, std::int64_t wanted) const {
    for (const auto start = SteadyClock::now();;) {
      if (state(what) == wanted) return seconds_since(start);
      if (seconds_since(start) > 120) throw Failure("the flow does not come to its end: " + std::string(what));
      std::this_thread::sleep_for(50ms);
    }
  }

 private:
  const std::string base_;
  Child fakes_;
  const std::string slurm_port_;
  Child scheduler_, controllers_;
};

// The benchmark's time is that until the last pod is bound.
void job_flow(benchmark::State& state) {
  try {
    const Cluster cluster(500);
    const std::int64_t jobs = state.range(0);
    cluster.warm_up();
    const std::int64_t writes = cluster.state("writes"), calls = cluster.state("calls");
    const double processor = cluster.processor_seconds();
    for ([[maybe_unused]] const auto _ : state) {
      cluster.make_jobs(jobs);
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
    state.counters["resident_MB"] = cluster.resident();
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
    const Cluster cluster(static_cast<int>(pods));
    cluster.warm_up();
    const std::int64_t writes = cluster.state("writes"), calls = cluster.state("calls");
    const double processor = cluster.processor_seconds();
    for ([[maybe_unused]] const auto _ : state) {
      cluster.make_gang(pods);
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
