// What the command line says; filled in by main.cpp, the only file that parses it.
#pragma once

#include <string>

namespace bascule::app {

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

struct ExplainOptions {
  std::string object;  // pod/NAME
  std::string ns;
  std::string kubeconfig;
  std::string context;
  std::string output = "text";  // or json
};

// The exit status.
int run_scheduler(const ServeOptions& options);
int run_controllers(const ServeOptions& options);
int run_admission(const ServeOptions& options);
int run_explain(const ExplainOptions& options);

}  // namespace bascule::app
