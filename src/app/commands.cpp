#include "app/process.hpp"
#include "app/webhook_server.hpp"
#include "base/log.hpp"
#include "bridge/controllers.hpp"
#include "bridge/scheduler.hpp"
#include "bridge/webhook.hpp"
#include "kube/admission_http.hpp"
#include "kube/informer.hpp"
#include "runtime/client_metrics.hpp"

namespace bascule::app {

namespace {

using namespace std::chrono_literals;

// slurm-bridge's lease of the controllers; the scheduler's is named as the scheduler.
constexpr const char* kControllersLease = "69d5fe47.my.slinky.slurm.net";

// Labels of a namespace for a selector: from a small cache, else from the API server.
class NamespaceLabels final {
 public:
  explicit NamespaceLabels(kube::Client& kube) : kube_(kube) {}

  Task<std::optional<json::Object>> operator()(std::string ns, std::stop_token stop) {
    const auto known = known_.find(ns);
    if (known != known_.end() && kube_.loop().now() - known->second.first < 5s) co_return known->second.second;
    try {
      const json::Value object = co_await kube_.get(kube::resources::kNamespaces, {"", ns}, {}, stop);
      const json::Object* labels = json::object_at(object, {"metadata", "labels"});
      json::Object found = labels == nullptr ? json::Object() : *labels;
      if (known_.size() > 10'000) known_.clear();
      known_.insert_or_assign(ns, std::pair(kube_.loop().now(), found));
      co_return found;
    } catch (const std::exception& error) {
      log::limited(log::Level::kWarning, 1s, "namespace cannot be read", {{"namespace", ns}, {"why", error}});
    }
    co_return std::nullopt;
  }

 private:
  kube::Client& kube_;
  std::unordered_map<std::string, std::pair<TimePoint, json::Object>> known_;
};

}  // namespace

int run_scheduler(const ServeOptions& options) {
  const bridge::Config config = bridge::load_config(options.config, true);
  Process process(options, "scheduler");
  bridge::Scheduler scheduler(
      process.kube(), process.slurm(config.slurm_rest_api),
      {.config = config, .instance = process.instance(), .may_act = [&process] { return process.leads(); }},
      &process.metrics());
  return process.run(config.scheduler_name, options.leader_elect, {},
                     [&scheduler](std::stop_token stop) { return scheduler.run(std::move(stop)); });
}

int run_controllers(const ServeOptions& options) {
  const bridge::Config config = bridge::load_config(options.config, true);
  Process process(options, "controllers");
  bridge::Controllers controllers(process.kube(), process.slurm(config.slurm_rest_api),
                                  {.config = config,
                                   .instance = process.instance(),
                                   .node_workers = options.node_workers,
                                   .pod_workers = options.pod_workers,
                                   .may_act = [&process] { return process.leads(); }},
                                  &process.metrics());
  return process.run(kControllersLease, options.leader_elect, {},
                     [&controllers](std::stop_token stop) { return controllers.run(std::move(stop)); });
}

int run_admission(const ServeOptions& options) {
  bridge::Config config = bridge::load_config(options.config, false);
  Process process(options, "admission");
  // A configuration file of slurm-bridge does not say who we are.
  if (config.trusted_users.empty()) {
    config.trusted_users = bridge::default_trusted_users(process.ns(), config.scheduler_name);
  }
  NamespaceLabels labels(process.kube());
  net::ServerOptions address =
      webhook_address(options.webhook_address, "--webhook-bind-address", options.certificate_directory);
  address.max_body = kube::kMaxAdmissionReview;
  bool serving = false;
  bridge::NamespaceLabels labels_of;
  if (config.managed_namespace_selector) {
    labels_of = [&labels](std::string ns, std::stop_token stop) { return labels(std::move(ns), std::move(stop)); };
  }
  const net::Handler handler = runtime::counted_webhook(
      process.metrics(), process.loop(), {std::string(bridge::kMutatePath), std::string(bridge::kValidatePath)},
      bridge::make_webhook(config, std::move(labels_of)));
  const auto certificate = certificate_options(process, options, "slurm-bridge-admission");
  const auto work = [&](std::stop_token stop) {
    return serve_webhook(process, address, handler, certificate, serving, std::move(stop));
  };
  return process.run("", false, {webhook_check(serving)}, work);
}

}  // namespace bascule::app
