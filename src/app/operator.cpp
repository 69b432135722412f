#include <cstdlib>
#include <memory>
#include <thread>

#include "app/process.hpp"
#include "app/webhook_server.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "kube/admission_http.hpp"
#include "net/client.hpp"
#include "net/proxy.hpp"
#include "operator/builders/ssh_keys.hpp"
#include "operator/config/ssh_conf.hpp"
#include "operator/reconcile/operator.hpp"
#include "operator/webhook/webhook.hpp"
#include "runtime/client_metrics.hpp"

namespace bascule::app {

namespace {

constexpr const char* kLease = "slurm-operator";

std::string domain_of_this_machine() {
  constexpr std::size_t kLimit = std::size_t{64} << 10;
  return op::cluster_domain(read_file("/etc/resolv.conf", kLimit).value_or(std::string()));
}

// RSA keys take seconds of a processor: on a thread of their own, for which the task waits to its end.
Task<op::StringMap> make_host_keys(net::IoLoop& loop) {
  struct Work {
    explicit Work(Loop& l) : bell(l) {}
    Bell bell;
    bool done = false;
    op::StringMap keys;
    std::exception_ptr failure;
  };
  const auto work = std::make_shared<Work>(loop);
  const std::jthread thread([work, &loop] {
    op::StringMap keys;
    std::exception_ptr failure;
    try {
      keys = op::make_host_keys();
    } catch (...) {
      failure = std::current_exception();
    }
    loop.post([work, keys = std::move(keys), failure] {
      work->keys = keys;
      work->failure = failure;
      work->done = true;
      work->bell.notify();
    });
  });
  while (!work->done) co_await work->bell.wait({});
  if (work->failure) std::rethrow_exception(work->failure);
  co_return std::move(work->keys);
}

void check_flags(const OperatorFlags& flags) {
  parse_address(flags.serve.metrics_address, "--metrics-addr");
  parse_address(flags.serve.health_address, "--health-addr");
}

op::reconcile::OperatorOptions options_of(const OperatorFlags& flags, Process& process) {
  op::reconcile::OperatorOptions options;
  options.namespaces = comma_list(flags.namespaces);
  options.instance = process.instance();
  options.propagated_conditions = comma_list(flags.propagated_conditions);
  options.nodeset_workers = flags.nodeset_workers;
  options.clusters.workers = flags.slurmclient_workers;
  options.connect = [&process](const std::string& url) {
    net::ClientOptions http;
    http.url = net::parse_url(url);
    net::use_proxy_of_environment(http);
    // slurmrestd serves a request a thread, and has four by default.
    http.max_connections = 8;
    return net::make_client(process.loop(), std::move(http));
  };
  options.reconcile = {.domain = domain_of_this_machine(),
                       .controller_workers = flags.controller_workers,
                       .accounting_workers = flags.accounting_workers,
                       .restapi_workers = flags.restapi_workers,
                       .loginset_workers = flags.loginset_workers,
                       .token_workers = flags.token_workers,
                       .may_act = [&process] { return process.leads(); },
                       .make_host_keys = [&process] { return make_host_keys(process.loop()); }};
  return options;
}

}  // namespace

int run_operator(const OperatorFlags& flags) {
  check_flags(flags);
  Process process(flags.serve, "operator");
  if (const char* debug = std::getenv("DEBUG"); debug != nullptr && std::string_view(debug) == "1") {
    log::warning("DEBUG=1 has no effect here: slurmrestd is reached at its Service");
  }
  op::reconcile::Operator work(process.kube(), options_of(flags, process), &process.metrics());
  return process.run(kLease, flags.serve.leader_elect, {},
                     [&work](std::stop_token stop) { return work.run(std::move(stop)); });
}

int run_operator_webhook(const OperatorFlags& flags) {
  check_flags(flags);
  Process process(flags.serve, "operator-webhook");
  net::ServerOptions address =
      webhook_address(flags.serve.webhook_address, "--server-addr", flags.serve.certificate_directory);
  address.max_body = kube::kMaxAdmissionReview;
  std::vector<std::string> paths{std::string(op::kBindingPath)};
  for (const char* kind : {"accounting", "controller", "loginset", "nodeset", "restapi", "token"}) {
    paths.push_back(std::string(op::kValidatePrefix) + kind);
  }
  const net::Handler handler =
      runtime::counted_webhook(process.metrics(), process.loop(), paths, op::make_webhook(process.kube()));
  bool serving = false;
  const auto certificate = certificate_options(process, flags.serve, "slurm-operator-webhook");
  const auto work = [&](std::stop_token stop) {
    return serve_webhook(process, address, handler, certificate, serving, std::move(stop));
  };
  return process.run("", false, {webhook_check(serving)}, work);
}

}  // namespace bascule::app
