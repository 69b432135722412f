#include "app/command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

namespace bascule::app {

namespace {

constexpr const char* kNoneLeads = "every replica serves, none leads";

CLI::Option* file_flag(CLI::App& command, const std::string& names, std::string& to, const std::string& help) {
  return command.add_option(names, to, help)->type_name("FILE");
}

void output_flag(CLI::App& command, std::string& to, const std::vector<std::string>& words) {
  command.add_option("-o,--output", to, "how it is written")
      ->type_name("FORMAT")
      ->capture_default_str()
      ->check(CLI::IsMember(words));
}

void kube_flags(CLI::App& command, KubeOptions& o, const std::string& ns_help) {
  command.add_option("-n,--namespace", o.ns, ns_help)->type_name("NAMESPACE");
  file_flag(command, "--kubeconfig", o.kubeconfig, "kubeconfig file; default KUBECONFIG, ~/.kube/config");
  command.add_option("--context", o.context, "context of the kubeconfig")->type_name("NAME");
}

// A flag of the originals that does nothing here. Said at start when it asks for something.
void idle_flag(CLI::App& command, ServeOptions& o, const std::string& name, const std::string& why) {
  command.add_flag_function(
      "--" + name + ",!--no-" + name,
      [&o, name](std::int64_t times) {
        if (times > 0) o.idle_flags.push_back("--" + name);
      },
      "taken, without effect: " + why);
}

// Those of controller-runtime, and `--enable-http2` that stands beside them in the originals.
void log_flags(CLI::App& command, ServeOptions& o) {
  const CLI::Option* level =
      command.add_option("--zap-log-level", o.log_level, "debug, info, warning, error, or a number: above 0 is debug")
          ->capture_default_str();
  const CLI::Option* format =
      command.add_option("--zap-encoder", o.log_format, "json or console")->capture_default_str();
  command.add_flag_function(
      "--zap-devel,!--no-zap-devel",
      [&o, level, format](std::int64_t times) {
        if (times > 0 && level->count() == 0) o.log_level = "debug";
        if (times > 0 && format->count() == 0) o.log_format = "console";
      },
      "console and debug, where --zap-encoder and --zap-log-level say nothing");
  command
      .add_option_function<std::string>(
          "--zap-time-encoding",
          [&o](const std::string& word) {
            if (!word.starts_with("rfc3339") && word != "iso8601") o.idle_flags.emplace_back("--zap-time-encoding");
          },
          "taken, without effect: times are written as RFC 3339 says")
      ->type_name("WORD")
      ->check(CLI::IsMember(std::vector<std::string>{"epoch", "millis", "nano", "iso8601", "rfc3339", "rfc3339nano"}));
  command
      .add_option_function<std::string>(
          "--zap-stacktrace-level", [&o](const std::string&) { o.idle_flags.emplace_back("--zap-stacktrace-level"); },
          "taken, without effect: a broken promise alone is said with its stack")
      ->type_name("LEVEL");
  idle_flag(command, o, "enable-http2", "HTTP/1.1 is served");
}

void metrics_secure_flag(CLI::App& command, ServeOptions& o, const std::string& more = {}) {
  command.add_flag("--metrics-secure,!--no-metrics-secure", o.metrics_secure,
                   "metrics over HTTPS, for those who may get /metrics" + more);
}

CLI::App& serving(CLI::App& app, const std::string& name, const std::string& help, ServeOptions& o) {
  CLI::App& command = *app.add_subcommand(name, help);
  file_flag(command, "--config", o.config, "configuration file of the bridge")->capture_default_str();
  file_flag(command, "--kubeconfig", o.kubeconfig,
            "kubeconfig file; default KUBECONFIG, the pod's service account, ~/.kube/config");
  command.add_option("--metrics-bind-address", o.metrics_address, "HOST:PORT of /metrics, 0 for none")
      ->capture_default_str();
  command.add_option("--health-probe-bind-address", o.health_address, "HOST:PORT of /healthz and /readyz")
      ->capture_default_str();
  // The chart's roles leave these rights out.
  metrics_secure_flag(command, o, "; the process needs the right to create tokenreviews and subjectaccessreviews");
  log_flags(command, o);
  return command;
}

void election_flag(CLI::App& command, ServeOptions& o) {
  command.add_flag("--leader-elect,!--no-leader-elect", o.leader_elect,
                   "work only while holding the lease, so that several may run");
}

void workers_flag(CLI::App& command, const std::string& name, unsigned& to, const std::string& help) {
  command.add_option(name, to, help)->capture_default_str()->check(CLI::Range(1, 1000));
}

void add_scheduler(CLI::App& app, ServeOptions& o) {
  CLI::App& command = serving(app, "scheduler", "give pods to Slurm and bind them where Slurm says", o);
  election_flag(command, o);
  command.footer(
      "Examples:\n"
      "  SLURM_JWT_FILE=token bascule scheduler --config bridge.yaml     outside the cluster, with your kubeconfig\n"
      "  bascule scheduler --leader-elect --zap-log-level debug          one of several, and talkative");
}

void add_controllers(CLI::App& app, ServeOptions& o) {
  CLI::App& command = serving(app, "controllers", "keep nodes, pods and Slurm jobs honest with each other", o);
  election_flag(command, o);
  workers_flag(command, "--node-workers", o.node_workers, "nodes worked on at once");
  workers_flag(command, "--pod-workers", o.pod_workers, "pods worked on at once");
  command.footer(
      "Examples:\n"
      "  SLURM_JWT_FILE=token bascule controllers --config bridge.yaml   outside the cluster, with your kubeconfig\n"
      "  bascule controllers --leader-elect --node-workers 4             one of several, gentle to Slurm");
}

// Of the two that serve a webhook.
void certificate_flags(CLI::App& command, ServeOptions& o) {
  command.add_option("--cert-dir", o.certificate_directory, "directory with tls.crt and tls.key, read again on change")
      ->type_name("DIR")
      ->capture_default_str();
  CLI::Option* secret =
      command
          .add_option("--certificate-secret", o.certificate_secret,
                      "renew the certificate in this Secret of the pod's namespace before it ends; default: others do")
          ->type_name("NAME");
  CLI::Option* names =
      command
          .add_option("--certificate-names", o.certificate_names, "comma list of the DNS names it is for, lower case")
          ->type_name("LIST")
          ->needs(secret);
  CLI::Option* webhooks =
      command
          .add_option("--certificate-webhooks", o.certificate_webhooks,
                      "comma list of the configurations that trust it: mutating/NAME, validating/NAME")
          ->type_name("LIST")
          ->needs(secret);
  secret->needs(names)->needs(webhooks);
}

void add_admission(CLI::App& app, ServeOptions& o) {
  CLI::App& command = serving(app, "admission", "serve the admission webhook for pods", o);
  idle_flag(command, o, "leader-elect", kNoneLeads);
  command.add_option("--webhook-bind-address", o.webhook_address, "HOST:PORT of the webhook")->capture_default_str();
  certificate_flags(command, o);
  command.footer(
      "Examples:\n"
      "  bascule admission --config bridge.yaml --cert-dir ./certs       with tls.crt and tls.key of ./certs\n"
      "  bascule admission --webhook-bind-address 127.0.0.1:9443         reachable from this machine only");
}

// Flags of slurm-operator's manager and webhook.
CLI::App& operator_command(CLI::App& app, const std::string& name, const std::string& help, OperatorFlags& o) {
  CLI::App& command = *app.add_subcommand(name, help);
  file_flag(command, "--kubeconfig", o.serve.kubeconfig,
            "kubeconfig file; default KUBECONFIG, the pod's service account, ~/.kube/config");
  command.add_option("--metrics-addr", o.serve.metrics_address, "HOST:PORT of /metrics, 0 for none")
      ->capture_default_str();
  metrics_secure_flag(command, o.serve);
  command.add_option("--health-addr", o.serve.health_address, "HOST:PORT of /healthz and /readyz")
      ->capture_default_str();
  log_flags(command, o.serve);
  return command;
}

void add_operator(CLI::App& app, OperatorFlags& o) {
  CLI::App& command = operator_command(app, "operator", "make and keep Slurm clusters as custom resources ask", o);
  command.alias("manager");
  election_flag(command, o.serve);
  command.add_option("--leader-elect-namespace", o.serve.lease_namespace, "namespace of the lease; default the pod's")
      ->type_name("NAMESPACE");
  command.add_option("--namespaces", o.namespaces, "comma list of the namespaces to work in; empty: all")
      ->type_name("LIST");
  command
      .add_option("--propagated-node-conditions", o.propagated_conditions,
                  "comma list of types of node conditions that become reasons of drains")
      ->type_name("LIST");
  idle_flag(command, o.serve, "profile", "Go's profiles are not there");
  // Says nothing without --profile, and the charts always give it.
  command
      .add_option_function<std::string>(
          "--profile-addr", [](const std::string&) {}, "taken, without effect, as --profile")
      ->type_name("HOST:PORT");
  workers_flag(command, "--accounting-workers", o.accounting_workers, "Accountings worked on at once");
  workers_flag(command, "--controller-workers", o.controller_workers, "Controllers worked on at once");
  workers_flag(command, "--loginset-workers", o.loginset_workers, "LoginSets worked on at once");
  workers_flag(command, "--nodeset-workers", o.nodeset_workers, "NodeSets worked on at once");
  workers_flag(command, "--restapi-workers", o.restapi_workers, "RestApis worked on at once");
  workers_flag(command, "--slurmclient-workers", o.slurmclient_workers, "Slurm clients worked on at once");
  workers_flag(command, "--token-workers", o.token_workers, "Tokens worked on at once");
  command.footer(
      "Examples:\n"
      "  bascule operator --zap-encoder console                          outside the cluster, with your kubeconfig\n"
      "  bascule operator --leader-elect --namespaces slurm,test         one of several, in two namespaces only");
}

void add_operator_webhook(CLI::App& app, OperatorFlags& o) {
  CLI::App& command =
      operator_command(app, "operator-webhook", "serve the admission webhook for the operator's custom resources", o);
  idle_flag(command, o.serve, "leader-elect", kNoneLeads);
  command.add_option("--leader-elect-namespace", o.serve.lease_namespace, "taken, without effect, as --leader-elect")
      ->type_name("NAMESPACE");
  command
      .add_option_function<std::string>(
          "--namespaces",
          [&o](const std::string& list) {
            if (!list.empty()) o.serve.idle_flags.emplace_back("--namespaces");
          },
          "taken, without effect: the webhook configuration says which namespaces are asked about")
      ->type_name("LIST");
  command.add_option("--server-addr", o.serve.webhook_address, "HOST:PORT of the webhook")->capture_default_str();
  certificate_flags(command, o.serve);
  command.footer(
      "Examples:\n"
      "  bascule operator-webhook --cert-dir ./certs                     with tls.crt and tls.key of ./certs\n"
      "  bascule operator-webhook --server-addr 127.0.0.1:9443           reachable from this machine only");
}

void add_explain(CLI::App& app, ExplainOptions& o) {
  CLI::App& command = *app.add_subcommand(
      "explain", "say where a pod, a gang, a node or a part of a Slurm cluster stands, why, and what to do");
  command.add_option("object", o.object, "what to explain")
      ->type_name(
          "pod/NAME|podgroup/NAME|lws/NAME|node/NAME|nodeset/NAME|controller/NAME|loginset/NAME|restapi/NAME|"
          "accounting/NAME|token/NAME")
      ->required();
  kube_flags(command, o.kube, "namespace; default that of the context");
  output_flag(command, o.output, {"text", "json"});
  command.footer(
      "Examples:\n"
      "  bascule explain pod/train-0 -n slurm-bridge      one pod, and its gang if it has one\n"
      "  bascule explain podgroup/ring -n ml              all members of a gang\n"
      "  bascule explain lws/serve -n ml -o json          every group of a LeaderWorkerSet, for a script\n"
      "  bascule explain node/gpu-7                       why Slurm starts nothing there, and who must act\n"
      "  bascule explain nodeset/slurm-worker-cpu -n slurm    what the operator waits for, each worker and since when\n"
      "  bascule explain controller/slurm -n slurm        slurmctld and all that refers to it");
}

void add_queue(CLI::App& app, QueueOptions& o) {
  CLI::App& command = *app.add_subcommand("queue", "list pods beside native Slurm jobs, in Slurm's order");
  kube_flags(command, o.kube, "only jobs of pods in this namespace");
  command.add_flag("-A,--all-namespaces", o.all_namespaces,
                   "waiting pods of all namespaces; else those of the context's namespace");
  command.add_option("-p,--partition", o.partition, "only jobs of this partition, or of one of a list")
      ->type_name("PARTITION");
  output_flag(command, o.output, {"table", "wide", "json"});
  file_flag(command, "--config", o.config,
            "configuration file of the bridge; default /etc/slurm-bridge/config.yaml where it is");
  command.add_option("--slurm-url", o.slurm_url, "URL of slurmrestd; default that of the configuration")
      ->type_name("URL")
      ->envname("BASCULE_SLURM_URL");
  command.footer(
      "The token is SLURM_JWT, as `export $(scontrol token)` sets it, or the file SLURM_JWT_FILE names.\n"
      "Examples:\n"
      "  bascule queue --slurm-url http://slurmrestd:6820             everything, running jobs first\n"
      "  bascule queue -n ml -o wide                                  the pods of one namespace, nothing cut\n"
      "  bascule queue -A -p gpu -o json | jq '.queue[].job'          for a script");
}

void add_simulate(CLI::App& app, SimulateOptions& o) {
  CLI::App& command =
      *app.add_subcommand("simulate", "decide offline: from a file of cluster state, what the scheduler would do");
  command
      .add_option("state", o.file, "JSON or YAML: objects of Kubernetes, jobs and nodes of Slurm; - is standard input")
      ->type_name("FILE")
      ->required();
  file_flag(command, "--config", o.config, "configuration file of the bridge, instead of the file's own");
  output_flag(command, o.output, {"table", "json"});
  command.footer(
      "Nothing is contacted and nothing is changed. docs/simulate.md describes the file and how to collect one.\n"
      "Examples:\n"
      "  bascule simulate docs/examples/state.json         each decision and its reason\n"
      "  bascule simulate state.json -o json | jq '.decisions[] | select(.decision == \"wait\")'");
}

void add_completion(CLI::App& app, CompletionOptions& o) {
  CLI::App& command = *app.add_subcommand("completion", "print a shell's completion script");
  command.add_option("shell", o.shell, "for which shell")
      ->type_name("SHELL")
      ->required()
      ->check(CLI::IsMember(std::vector<std::string>{"bash", "zsh", "fish"}));
  command.footer(
      "Examples:\n"
      "  source <(bascule completion bash)                                       for this shell\n"
      "  bascule completion zsh > \"${fpath[1]}/_bascule\"                         for every zsh\n"
      "  bascule completion fish > ~/.config/fish/completions/bascule.fish       for every fish");
}

// CLI11 says of a command it does not know that one is required.
std::string failure_of(const CLI::App* app, const CLI::Error& error) {
  const std::vector<std::string> unknown = app->remaining();
  if (!app->get_subcommands().empty() || unknown.empty() || unknown.front().starts_with('-')) {
    return CLI::FailureMessage::simple(app, error);
  }
  return "there is no command " + unknown.front() + "; bascule --help lists them\n";
}

}  // namespace

std::shared_ptr<CLI::App> make_command_line(Options& options) {
  auto app = std::make_shared<CLI::App>("Bascule joins two schedulers, Kubernetes and Slurm, into one machine room.",
                                        "bascule");
  app->set_version_flag("--version", BASCULE_VERSION);
  app->require_subcommand(1);
  app->failure_message(failure_of);
  add_explain(*app, options.explain);
  add_queue(*app, options.queue);
  add_simulate(*app, options.simulate);
  add_scheduler(*app, options.serve);
  add_controllers(*app, options.serve);
  add_admission(*app, options.serve);
  add_operator(*app, options.operator_flags);
  add_operator_webhook(*app, options.operator_flags);
  add_completion(*app, options.completion);
  app->footer(
      "Examples:\n"
      "  bascule explain pod/train-0 -n slurm-bridge     where the pod stands, and why\n"
      "  bascule queue --slurm-url http://slurmrestd:6820   pods beside native Slurm jobs\n"
      "  bascule COMMAND --help                          the flags of a command, and examples");
  return app;
}

std::vector<std::string> as_go_reads(const CLI::App& app, std::vector<std::string> words) {
  const auto first = std::ranges::find_if(words, [](const std::string& word) { return !word.starts_with('-'); });
  const auto named = app.get_subcommands([&](const CLI::App* one) {
    return first != words.end() && one->check_name(*first) && one->get_option_no_throw("--zap-log-level") != nullptr;
  });
  if (named.empty()) return words;
  std::vector<std::string> out(words.begin(), first + 1);
  bool after_flag = false;
  for (auto word = first + 1; word != words.end(); ++word) {
    if (std::exchange(after_flag, false) && *word == "true") continue;
    std::string name = *word;
    if (name.size() > 2 && name[0] == '-' && name[1] != '-') name.insert(0, "-");
    const bool is_long = name.starts_with("--");
    const CLI::Option* option = is_long ? named.front()->get_option_no_throw(name.substr(0, name.find('='))) : nullptr;
    after_flag = option != nullptr && option->get_expected_max() == 0 && !name.contains('=');
    out.push_back(option != nullptr ? name : *word);
  }
  return out;
}

}  // namespace bascule::app
