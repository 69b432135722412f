// The command line of bascule. Each process of a cluster is a subcommand of the one program.
#include <CLI/CLI.hpp>
#include <iostream>

#include "app/options.hpp"
#include "app/process.hpp"
#include "bridge/config.hpp"
#include "kube/config.hpp"

namespace {

using bascule::app::ExplainOptions;
using bascule::app::ServeOptions;

void add_serve_flags(CLI::App& command, ServeOptions& o) {
  command.add_option("--config", o.config, "configuration file of the bridge")->capture_default_str();
  command.add_option("--kubeconfig", o.kubeconfig,
                     "kubeconfig file; default KUBECONFIG, the pod's service account, ~/.kube/config");
  command.add_option("--metrics-bind-address", o.metrics_address, "HOST:PORT of /metrics, 0 for none")
      ->capture_default_str();
  command.add_option("--health-probe-bind-address", o.health_address, "HOST:PORT of /healthz and /readyz")
      ->capture_default_str();
  command.add_option("--zap-log-level", o.log_level, "debug, info, warning, error, or a number: above 0 is debug")
      ->capture_default_str();
  command.add_option("--zap-encoder", o.log_format, "json or console")->capture_default_str();
}

void add_election_flag(CLI::App& command, ServeOptions& o) {
  command.add_flag("--leader-elect,!--no-leader-elect", o.leader_elect,
                   "work only while holding the lease, so that several may run");
}

int guarded(const std::function<int()>& run) {
  try {
    return run();
  } catch (const bascule::bridge::ConfigFaults& faults) {
    for (const std::string& fault : faults.faults) std::cerr << "bascule: " << fault << "\n";
    return 2;
  } catch (const bascule::app::UsageError& error) {
    std::cerr << "bascule: " << error.what() << "\n";
    return 2;
  } catch (const bascule::kube::ConfigError& error) {
    std::cerr << "bascule: " << error.what() << "\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "bascule: " << error.what() << "\n";
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Bascule joins two schedulers, Kubernetes and Slurm, into one machine room.", "bascule");
  app.set_version_flag("--version", BASCULE_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  bascule explain pod/train-0 -n slurm-bridge     where the pod stands, and why\n"
      "  bascule scheduler --config bridge.yaml          run the scheduler outside the cluster\n"
      "  bascule COMMAND --help                          the flags of a command");
  int status = 0;

  ServeOptions serve;
  CLI::App* scheduler = app.add_subcommand("scheduler", "give pods to Slurm and bind them where Slurm says");
  add_serve_flags(*scheduler, serve);
  add_election_flag(*scheduler, serve);
  scheduler->callback([&] { status = guarded([&] { return bascule::app::run_scheduler(serve); }); });

  CLI::App* controllers = app.add_subcommand("controllers", "keep nodes, pods and Slurm jobs honest with each other");
  add_serve_flags(*controllers, serve);
  add_election_flag(*controllers, serve);
  controllers->add_option("--node-workers", serve.node_workers, "nodes worked on at once")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  controllers->add_option("--pod-workers", serve.pod_workers, "pods worked on at once")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  controllers->callback([&] { status = guarded([&] { return bascule::app::run_controllers(serve); }); });

  CLI::App* admission = app.add_subcommand("admission", "serve the admission webhook for pods");
  add_serve_flags(*admission, serve);
  admission->add_option("--webhook-bind-address", serve.webhook_address, "HOST:PORT of the webhook")
      ->capture_default_str();
  admission
      ->add_option("--cert-dir", serve.certificate_directory,
                   "directory with tls.crt and tls.key, read again when they change")
      ->capture_default_str();
  admission->callback([&] { status = guarded([&] { return bascule::app::run_admission(serve); }); });

  ExplainOptions explain;
  CLI::App* why = app.add_subcommand("explain", "say in plain words where a pod or a gang stands, why, and what to do");
  why->add_option("object", explain.object, "pod/NAME, podgroup/NAME or lws/NAME")->required();
  why->add_option("-n,--namespace", explain.ns, "namespace; default that of the context");
  why->add_option("--kubeconfig", explain.kubeconfig, "kubeconfig file");
  why->add_option("--context", explain.context, "context of the kubeconfig");
  why->add_option("-o,--output", explain.output, "text or json")
      ->capture_default_str()
      ->check(CLI::IsMember({"text", "json"}));
  why->footer("Example:\n  bascule explain pod/train-0 -n slurm-bridge");
  why->callback([&] { status = guarded([&] { return bascule::app::run_explain(explain); }); });

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : 2;
  }
  return status;
}
