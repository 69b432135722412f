// What every process of Bascule has: a loop, a connection to Kubernetes, health and metrics servers, signals, leader
// election.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "app/options.hpp"
#include "app/slurm_connection.hpp"
#include "base/async.hpp"
#include "kube/config.hpp"
#include "kube/lease.hpp"
#include "net/io_loop.hpp"
#include "net/server.hpp"
#include "runtime/health.hpp"
#include "runtime/manager.hpp"
#include "runtime/metrics.hpp"
#include "runtime/token_metrics.hpp"

namespace bascule::app {

class Process final {
 public:
  // Sets up logging. Throws UsageError or kube::ConfigError.
  Process(const ServeOptions& options, std::string name);
  ~Process();

  net::IoLoop& loop() noexcept { return loop_; }
  kube::Client& kube();
  runtime::Metrics& metrics() noexcept { return metrics_; }
  const std::string& instance() const noexcept { return instance_; }
  // By the clock, at this moment: false once another process may lead, even before this one was told.
  bool leads() const noexcept { return !elector_ || elector_->leading(); }
  const std::string& ns() const noexcept { return ns_; }
  // A client of slurmrestd at `url` with the token file of SLURM_JWT_FILE.
  slurm::Client& slurm(const std::string& url);

  // Serves health and metrics, runs `work` (only while leading, when so asked, under the lease `lease`) until SIGTERM,
  // then ends it within the grace of a pod; what does not end by then is cut off, with a log line that names it.
  // Ready while it stands by, and once `ready` says so. Returns the exit status: 1 when leadership was lost.
  int run(const std::string& lease, bool elect, std::vector<runtime::NamedCheck> ready,
          std::function<Task<>(std::stop_token)> work);

 private:
  Task<> main(std::string lease, bool elect, std::vector<runtime::NamedCheck> ready,
              std::function<Task<>(std::stop_token)> work);
  void add_server(runtime::Manager& parts, std::string name, std::optional<net::ServerOptions> address,
                  net::Handler handler);
  std::string user_agent() const;
  kube::Config kube_config() const;
  // To the API server, apart from what kube() is asked.
  std::unique_ptr<kube::Connection> own_connection();
  void add_lease(runtime::Manager& parts, const std::string& lease);

  ServeOptions options_;
  std::string name_;
  std::string instance_;
  std::string ns_;
  net::IoLoop loop_;
  runtime::Metrics metrics_;
  std::shared_ptr<void> process_metrics_;
  std::unique_ptr<kube::Connection> connection_, lease_connection_, guard_connection_;
  std::unique_ptr<runtime::TokenMetrics> token_metrics_;
  std::unique_ptr<SlurmConnection> slurm_;
  std::stop_source stop_;
  int status_ = 0;
  std::shared_ptr<kube::LeaderElector> elector_;  // nullptr: no election
};

// Runs the loop until the task has ended; rethrows what it threw.
void run_to_end(net::IoLoop& loop, Task<> task);

// ":8080", "0.0.0.0:8080", "[::1]:8080"; nullopt for "0". Throws UsageError naming the flag.
std::optional<net::ServerOptions> parse_address(const std::string& text, const std::string& flag);

}  // namespace bascule::app
