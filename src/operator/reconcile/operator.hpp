// The operator process: all its reconcilers, for one namespace after the other or for all at once.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "operator/nodeset/driver.hpp"
#include "operator/reconcile/reconcilers.hpp"

namespace bascule::op::reconcile {

struct OperatorOptions {
  std::vector<std::string> namespaces = {};  // empty: all
  std::string instance = {};                 // name of this process in events
  std::vector<std::string> propagated_conditions = {};
  std::size_t nodeset_workers = 64;
  ReconcileOptions reconcile = {};
  SlurmClusters::Options clusters = {};
  // A way to a slurmrestd, http://HOST:PORT.
  std::function<std::unique_ptr<net::Transport>(const std::string& url)> connect;
};

class Operator final {
 public:
  // All outlive this; `metrics` may be nullptr.
  Operator(kube::Client& kube, OperatorOptions options, runtime::Metrics* metrics);
  ~Operator();
  // Works until `stop`, then ends what is under way and returns. Run only while leading.
  Task<> run(std::stop_token stop);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bascule::op::reconcile
