// For benchmarks of the whole bridge: scheduler and controllers, each a process of its own, against
// bench/fake_bridge_cluster in a third.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "bridge/controllers.hpp"
#include "bridge/scheduler.hpp"
#include "testing/child.hpp"

namespace bascule::bridge {

// The body of a process: Worker is Scheduler or Controllers.
template <class Worker, class Options>
int run_worker(const std::string& kubeconfig, const std::string& slurm_port, Options options) {
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

class BenchCluster final {
 public:
  // `flags`: more of fake_bridge_cluster.
  explicit BenchCluster(int nodes, std::vector<std::string> flags = {})
      : base_((std::filesystem::temp_directory_path() / ("bench-bridge-" + std::to_string(getpid()))).string()),
        fakes_(base_ + ".fakes",
               [&] {
                 const auto folder = std::filesystem::canonical("/proc/self/exe").parent_path();
                 std::vector<std::string> words{(folder / "fake_bridge_cluster").string(), "--kubeconfig", kubeconfig(),
                                                "--nodes", std::to_string(nodes)};
                 words.insert(words.end(), flags.begin(), flags.end());
                 return testing::exec(std::move(words));
               }),
        slurm_port_(fakes_.wait_for("ready ")) {
    start();
  }
  ~BenchCluster() {
    std::filesystem::remove(kubeconfig());
    std::filesystem::remove(kubeconfig() + ".ca.pem");
  }

  // Ends both processes, if they run, and starts them anew; to where they work.
  void start() {
    scheduler_.reset();
    controllers_.reset();
    scheduler_ = std::make_unique<testing::Child>(base_ + ".scheduler", [this] {
      return run_worker<Scheduler, SchedulerOptions>(kubeconfig(), slurm_port_, {});
    });
    controllers_ = std::make_unique<testing::Child>(base_ + ".controllers", [this] {
      return run_worker<Controllers, ControllersOptions>(kubeconfig(), slurm_port_, {});
    });
    scheduler_->wait_for("\"msg\":\"scheduler started\"");
    controllers_->wait_for("\"msg\":\"controllers started\"");
  }

  const testing::Child& scheduler() const { return *scheduler_; }
  const testing::Child& controllers() const { return *controllers_; }
  double processor_seconds() const { return scheduler_->processor_seconds() + controllers_->processor_seconds(); }

  std::int64_t state(std::string_view what) const {
    return json::int_at(testing::ask(kubeconfig(), "/bench/state"), {what}).value_or(0);
  }
  // What fake_bridge_cluster can make: "jobs", "gang" ...
  void make(const std::string& what, std::int64_t count) const {
    testing::ask(kubeconfig(), "/bench/" + what + "?" + std::to_string(count));
  }
  // Seconds until it is so.
  double wait(std::string_view what, std::int64_t wanted, double most = 120) const {
    for (const auto start = testing::SteadyClock::now();;) {
      if (state(what) == wanted) return testing::seconds_since(start);
      if (testing::seconds_since(start) > most) {
        throw testing::Failure("the flow does not come to its end: " + std::string(what));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  // Jobs that begin and end, until all is warm, and both processes work.
  static constexpr std::int64_t kWarmUp = 10;
  void warm_up() const {
    make("jobs", kWarmUp);
    wait("complete", kWarmUp);
    wait("live", 0);
  }
  // Until nothing has been written for so many seconds: each pod that waits is told once why.
  void settle(double quiet = 15, double most = 180) const {
    const auto start = testing::SteadyClock::now();
    std::int64_t written = state("writes");
    for (auto since = start; testing::seconds_since(since) < quiet;) {
      std::this_thread::sleep_for(std::chrono::seconds(1));
      const std::int64_t now = state("writes");
      if (std::exchange(written, now) != now) since = testing::SteadyClock::now();
      if (testing::seconds_since(start) > most) throw testing::Failure("something is written again and again");
    }
  }

 private:
  std::string kubeconfig() const { return base_ + ".kubeconfig"; }

  const std::string base_;
  testing::Child fakes_;
  const std::string slurm_port_;
  std::unique_ptr<testing::Child> scheduler_, controllers_;
};

}  // namespace bascule::bridge
