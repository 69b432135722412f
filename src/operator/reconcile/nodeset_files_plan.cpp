#include "operator/api/read.hpp"
#include "operator/api/resources.hpp"
#include "operator/builders/worker.hpp"
#include "operator/reconcile/plan.hpp"

namespace bascule::op::reconcile {

Plan plan_nodeset_files(const json::Value& object, View& view) {
  const NodeSet set = read_nodeset(object);
  Plan plan;
  if (set.ssh.enabled) {
    plan.add(kConfigMaps, worker_ssh_config(set));
  } else {
    plan.unwanted.push_back({&kConfigMaps, names::ssh_config(set.meta.name)});
  }
  std::vector<NodeSet> owners;
  for (const json::Value* other : view.node_sets_of(set.controller)) {
    try {
      owners.push_back(read_nodeset(*other));
    } catch (const BadObject&) {
      // It must not lose what it shares because it cannot be read: all stays as it is, and its own visit says why.
      return plan;
    }
  }
  if (owners.empty()) return plan;
  plan.add(kServices, workers_service(set.controller, owners));
  plan.add(kBudgets, workers_budget(set.controller, owners));
  return plan;
}

}  // namespace bascule::op::reconcile
