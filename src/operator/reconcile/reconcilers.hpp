// The drivers of this folder's plans: for each Controller, Accounting, RestApi, LoginSet and Token its children and its
// status; for each NodeSet the children that are not pods. A change of anything a plan looked at has it made anew.
// At rest nothing is written.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/async.hpp"
#include "kube/client.hpp"
#include "kube/events.hpp"
#include "operator/reconcile/caches.hpp"
#include "operator/reconcile/config_taken.hpp"
#include "operator/reconcile/nodes_now.hpp"
#include "runtime/metrics.hpp"

namespace bascule::op::reconcile {

struct ReconcileOptions {
  std::string domain = "cluster.local";
  std::size_t controller_workers = 4;
  std::size_t accounting_workers = 4;
  std::size_t restapi_workers = 4;
  std::size_t loginset_workers = 4;
  std::size_t token_workers = 4;
  // Asked before every write; nullptr: always.
  std::function<bool()> may_act = nullptr;
  // As CtldPods::Parts has them.
  std::function<Task<std::optional<std::vector<std::string>>>(NamespacedName controller, std::stop_token stop)>
      answering = nullptr;
  std::function<Task<std::optional<bool>>(std::string url, std::stop_token stop)> serves = nullptr;
  // Whether slurmctld runs the configuration of this digest, within seconds. nullptr: never known.
  ConfigWatch::Ask running_config = nullptr;
  // All nodes that slurmctld has at this moment; nullopt: not known, or not within `limit`. nullptr: never known.
  std::function<Task<std::optional<NodesNow>>(NamespacedName controller, Duration limit, std::stop_token stop)>
      slurm_nodes = nullptr;
  // The six files of builders/ssh_keys.hpp. Takes a second or more of one processor, hence not done here.
  std::function<Task<std::map<std::string, std::string>>()> make_host_keys;
};

class Reconcilers final {
 public:
  struct Parts {
    kube::Client& kube;
    Caches& caches;  // not started yet
    kube::EventRecorder& events;
    runtime::Metrics* metrics;  // may be nullptr
  };
  // All of `parts` outlive this.
  Reconcilers(Parts parts, ReconcileOptions options);
  ~Reconcilers();
  void start();  // once the caches are synced
  Task<> stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bascule::op::reconcile
