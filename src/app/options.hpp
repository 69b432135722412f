// What the command line says; filled in by command_line.cpp, the only file that knows its flags.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

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
  bool metrics_secure = false;  // metrics over TLS, for those who may get /metrics
  bool leader_elect = false;
  std::string lease_namespace;  // empty: that of the pod, or of the kubeconfig's context
  unsigned node_workers = 8;
  unsigned pod_workers = 16;
  std::string webhook_address = ":9443";
  std::string certificate_directory = "/tmp/k8s-webhook-server/serving-certs";
  // Where the webhook renews its own certificate; empty: somebody else does.
  std::string certificate_secret;
  std::string certificate_names;        // comma list
  std::string certificate_webhooks;     // comma list of mutating/NAME, validating/NAME
  std::vector<std::string> idle_flags;  // given, known to the originals, without effect here
};

// `serve` holds what the operator has in common with the processes of the bridge.
struct OperatorFlags {
  ServeOptions serve;
  std::string namespaces;             // comma list; empty: all
  std::string propagated_conditions;  // comma list of types of node conditions
  unsigned accounting_workers = 4;
  unsigned controller_workers = 4;
  unsigned loginset_workers = 4;
  unsigned nodeset_workers = 4;
  unsigned restapi_workers = 4;
  unsigned slurmclient_workers = 2;
  unsigned token_workers = 4;
};

// Which API server, and whose rights.
struct KubeOptions {
  std::string ns;
  std::string kubeconfig;
  std::string context;
};

struct ExplainOptions {
  KubeOptions kube;
  std::string object;           // pod/NAME, podgroup/NAME, lws/NAME, nodeset/NAME ...
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
  OperatorFlags operator_flags;
  ExplainOptions explain;
  QueueOptions queue;
  SimulateOptions simulate;
  CompletionOptions completion;
};

// The exit status.
int run_scheduler(const ServeOptions& options);
int run_controllers(const ServeOptions& options);
int run_admission(const ServeOptions& options);
int run_operator(const OperatorFlags& flags);
int run_operator_webhook(const OperatorFlags& flags);
int run_explain(const ExplainOptions& options);
int run_queue(const QueueOptions& options);
int run_simulate(const SimulateOptions& options);

}  // namespace bascule::app
