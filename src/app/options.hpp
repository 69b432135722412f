// What the command line says; filled in by command_line.cpp, the only file that knows its flags.
#pragma once

#include <stdexcept>
#include <string>

namespace bascule::app {

// A mistake of whoever started us: printed as it is, exit 2.
struct UsageError final : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct ServeOptions {
  std::string config = "/etc/slurm-bridge/config.yaml";
  std::string kubeconfig;
  std::string metrics_address = ":8080";  // "0": none
  std::string health_address = ":8081";
  std::string log_level = "info";  // debug, info, error, or zap's verbosity
  std::string log_format = "json";
  bool leader_elect = false;
  unsigned node_workers = 8;
  unsigned pod_workers = 16;
  std::string webhook_address = ":9443";
  std::string certificate_directory = "/tmp/k8s-webhook-server/serving-certs";
};

// Which API server, and whose rights.
struct KubeOptions {
  std::string ns;
  std::string kubeconfig;
  std::string context;
};

struct ExplainOptions {
  KubeOptions kube;
  std::string object;           // pod/NAME, podgroup/NAME, lws/NAME
  std::string output = "text";  // or json
};

struct QueueOptions {
  KubeOptions kube;
  bool all_namespaces = false;
  std::string partition;
  std::string output = "table";  // wide, json
  std::string config;            // empty: the default one, when it is there
  std::string slurm_url;         // empty: of the configuration
};

struct SimulateOptions {
  std::string file;              // - is standard input
  std::string config;            // empty: what the file says, else defaults
  std::string output = "table";  // or json
};

struct CompletionOptions {
  std::string shell;
};

struct Options {
  ServeOptions serve;
  ExplainOptions explain;
  QueueOptions queue;
  SimulateOptions simulate;
  CompletionOptions completion;
};

// The exit status.
int run_scheduler(const ServeOptions& options);
int run_controllers(const ServeOptions& options);
int run_admission(const ServeOptions& options);
int run_explain(const ExplainOptions& options);
int run_queue(const QueueOptions& options);
int run_simulate(const SimulateOptions& options);

}  // namespace bascule::app
