#include "operator/reconcile/operator.hpp"

#include "base/log.hpp"
#include "operator/api/resources.hpp"
#include "operator/config/slurm_conf.hpp"
#include "operator/reconcile/ready_metrics.hpp"
#include "runtime/client_metrics.hpp"

namespace bascule::op::reconcile {

namespace {

using Connect = decltype(OperatorOptions::connect);

Task<std::optional<std::vector<std::string>>> answering(const SlurmClusters& clusters, NamespacedName controller,
                                                        std::stop_token stop) {
  const ClusterPtr cluster = clusters.find(controller);
  if (!cluster) co_return std::nullopt;
  try {
    co_return co_await cluster->client().answering(stop);
  } catch (const slurm::Error& error) {
    log::limited(log::Level::kInfo, std::chrono::minutes(1), "which slurmctld serves is not known",
                 {{"controller", controller.str()}, {"why", error}});
  }
  co_return std::nullopt;
}

constexpr Duration kOwnWord = std::chrono::seconds(1);   // of a slurmctld in the same cluster
constexpr Duration kFewWords = std::chrono::seconds(2);  // of slurmctld about its configuration

// slurmctld serves, 204 or 200, or it does not, 500; anything else is not its word.
Task<std::optional<bool>> serves(Loop& loop, const Connect& connect, std::string url, std::stop_token stop) {
  try {
    const std::unique_ptr<net::Transport> way = connect(url);
    const net::Response answer = co_await way->call(
        {.target = "/readyz"}, {.deadline = loop.now() + kOwnWord, .max_body = std::size_t{64} << 10, .stop = stop});
    if (answer.status / 100 == 2) co_return true;
    if (answer.status / 100 == 5) co_return false;
  } catch (const net::Error& error) {
    log::debug("a slurmctld does not answer", {{"url", url}, {"why", error}});
  } catch (const std::invalid_argument&) {
    co_return std::nullopt;  // a URL that nobody can be asked at
  }
  co_return std::nullopt;
}

// A stop that comes after a while by itself.
class Limit final {
 public:
  Limit(Loop& loop, Duration limit, const std::stop_token& outer)
      : loop_(loop),
        outer_(outer, [this] { source_.request_stop(); }),
        timer_(loop.call_at(loop.now() + limit, [source = source_]() mutable { source.request_stop(); })) {}
  ~Limit() { loop_.cancel(timer_); }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;
  std::stop_token token() const { return source_.get_token(); }

 private:
  Loop& loop_;
  std::stop_source source_;
  const std::stop_callback<std::function<void()>> outer_;
  const Loop::TimerId timer_;
};

Task<> list_nodes(slurm::Client& client, std::optional<std::vector<slurm::Node>>& nodes, std::stop_token stop) {
  try {
    nodes = (co_await client.list_nodes(0, stop)).nodes;
  } catch (const std::exception& error) {
    log::info("Slurm's nodes are not known", {{"why", error}});
  }
}

Task<> list_jobs(slurm::Client& client, std::optional<std::vector<slurm::Job>>& jobs, std::stop_token stop) {
  try {
    jobs = (co_await client.list_jobs(0, stop)).jobs;
  } catch (const std::exception& error) {
    log::info("Slurm's jobs are not known", {{"why", error}});
  }
}

Task<std::optional<NodesNow>> slurm_nodes(Loop& loop, const SlurmClusters& clusters, NamespacedName controller,
                                          Duration limit, std::stop_token stop) {
  const ClusterPtr cluster = clusters.find(controller);
  if (!cluster) co_return std::nullopt;
  Limit within(loop, limit, stop);
  std::optional<std::vector<slurm::Node>> nodes;
  std::optional<std::vector<slurm::Job>> jobs;
  std::vector<Task<>> asked;
  asked.push_back(list_nodes(cluster->client(), nodes, within.token()));
  asked.push_back(list_jobs(cluster->client(), jobs, within.token()));
  co_await when_all(loop, std::move(asked));
  if (!nodes) co_return std::nullopt;
  co_return nodes_now(*nodes, jobs);
}

Task<RunningConfig> running_config(Loop& loop, const SlurmClusters& clusters, NamespacedName controller,
                                   std::string digest, std::stop_token stop) {
  const ClusterPtr cluster = clusters.find(controller);
  if (!cluster) co_return RunningConfig::kUnknown;
  Limit limit(loop, kFewWords, stop);
  try {
    const std::optional<std::vector<std::string>> parameters =
        co_await cluster->client().slurmctld_parameters(limit.token());
    if (!parameters) co_return RunningConfig::kUntold;
    co_return says_digest(*parameters, digest) ? RunningConfig::kWanted : RunningConfig::kOther;
  } catch (const std::exception& error) {
    log::debug("which configuration slurmctld runs is not known", {{"controller", controller.str()}, {"why", error}});
  }
  co_return RunningConfig::kUnknown;
}

ReconcileOptions with_clusters(ReconcileOptions options, const SlurmClusters& clusters, Loop& loop,
                               const Connect& connect) {
  options.serves = [&loop, connect](std::string url, std::stop_token stop) {
    return serves(loop, connect, std::move(url), std::move(stop));
  };
  options.slurm_nodes = [&loop, &clusters](NamespacedName controller, Duration limit, std::stop_token stop) {
    return slurm_nodes(loop, clusters, std::move(controller), limit, std::move(stop));
  };
  options.running_config = [&loop, &clusters](NamespacedName controller, std::string digest, std::stop_token stop) {
    return running_config(loop, clusters, std::move(controller), std::move(digest), std::move(stop));
  };
  options.answering = [&clusters](NamespacedName controller, std::stop_token stop) {
    return answering(clusters, std::move(controller), std::move(stop));
  };
  return options;
}

// Of several namespaces, each counts for itself.
std::unique_ptr<runtime::Metrics> metrics_of(const std::string& ns, const OperatorOptions& options,
                                             runtime::Metrics* whole) {
  if (whole == nullptr) return nullptr;
  runtime::Labels always;
  if (options.namespaces.size() > 1) always.emplace_back("namespace", ns);
  return std::make_unique<runtime::Metrics>(*whole, std::move(always));
}

// Everything of one namespace, or of all: custom resources refer to each other within a namespace only.
struct Domain {
  Domain(kube::Client& kube, const std::string& ns, const OperatorOptions& options, kube::EventRecorder& events,
         runtime::Metrics* whole)
      : own_metrics(metrics_of(ns, options, whole)),
        metrics(own_metrics.get()),
        caches(kube, ns),
        clusters({.loop = kube.loop(),
                  .controllers = *caches.of(kControllers),
                  .restapis = *caches.of(kRestApis),
                  .secrets = *caches.of(kSecrets),
                  .connect = options.connect,
                  .metrics = metrics},
                 options.clusters),
        node_sets({.kube = kube,
                   .nodesets = *caches.of(kNodeSets),
                   .controllers = *caches.of(kControllers),
                   .secrets = *caches.of(kSecrets),
                   .stateful_sets = *caches.of(kStatefulSets),
                   .clusters = clusters,
                   .events = events,
                   .metrics = metrics},
                  {.ns = ns,
                   .domain = options.reconcile.domain,
                   .propagated_conditions = options.propagated_conditions,
                   .workers = options.nodeset_workers,
                   .may_act = options.reconcile.may_act}),
        reconcilers({kube, caches, events, metrics},
                    with_clusters(options.reconcile, clusters, kube.loop(), options.connect)) {
    count_ready(caches, metrics);
  }

  const std::unique_ptr<runtime::Metrics> own_metrics;  // nullptr: none
  runtime::Metrics* const metrics;
  Caches caches;
  SlurmClusters clusters;
  nodeset::NodeSetDriver node_sets;
  Reconcilers reconcilers;
};

}  // namespace

struct Operator::Impl {
  kube::Client& kube;
  OperatorOptions options;
  runtime::Metrics* metrics;
};

Operator::Operator(kube::Client& kube, OperatorOptions options, runtime::Metrics* metrics)
    : impl_(std::make_unique<Impl>(kube, std::move(options), metrics)) {}
Operator::~Operator() = default;

Task<> Operator::run(std::stop_token stop) {
  Impl& self = *impl_;
  kube::EventRecorder events(self.kube, "slurm-operator", self.options.instance);
  const auto dropped = runtime::watch_events(self.metrics, events);
  std::vector<std::string> namespaces = self.options.namespaces;
  if (namespaces.empty()) namespaces.emplace_back();
  std::vector<std::unique_ptr<Domain>> domains;
  for (const std::string& ns : namespaces) {
    domains.push_back(std::make_unique<Domain>(self.kube, ns, self.options, events, self.metrics));
  }
  for (const auto& domain : domains) domain->caches.start();
  bool synced = true;
  for (const auto& domain : domains) synced = synced && co_await domain->caches.wait_synced(stop);
  if (synced) {
    log::info("operator started", {{"namespaces", namespaces.size()}});
    for (const auto& domain : domains) {
      domain->clusters.start();
      domain->node_sets.start();
      domain->reconcilers.start();
    }
    while (co_await sleep_for(self.kube.loop(), std::chrono::hours(24), stop)) {
    }
  }
  for (const auto& domain : domains) {
    co_await domain->reconcilers.stop();
    co_await domain->node_sets.stop();
    co_await domain->clusters.stop();
    co_await domain->caches.stop();
  }
  co_await events.stop(self.kube.loop().now() + std::chrono::seconds(2));
}

}  // namespace bascule::op::reconcile
