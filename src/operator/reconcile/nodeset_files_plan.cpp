#include <algorithm>

#include "operator/api/read.hpp"
#include "operator/api/resources.hpp"
#include "operator/builders/worker.hpp"
#include "operator/reconcile/plan.hpp"

namespace bascule::op::reconcile {

namespace {

// One of them makes what all share, the first by name that stays: if each did, a change of one would cost as much as
// there are pairs of them.
bool makes_shared(const NodeSet& set, const std::vector<const json::Value*>& all) {
  return std::ranges::none_of(all, [&set](const json::Value* other) {
    return json::string_at(*other, {"metadata", "name"}) < set.meta.name &&
           json::find(*other, {"metadata", "deletionTimestamp"}) == nullptr;
  });
}

}  // namespace

Plan plan_nodeset_files(const json::Value& object, View& view) {
  const NodeSet set = read_nodeset(object);
  Plan plan;
  if (set.ssh.enabled) {
    plan.add(kConfigMaps, worker_ssh_config(set));
  } else {
    plan.unwanted.push_back({&kConfigMaps, names::ssh_config(set.meta.name)});
  }
  const std::vector<const json::Value*> all = view.node_sets_of(set.controller);
  if (!makes_shared(set, all)) return plan;
  std::vector<NodeSet> owners;
  for (const json::Value* other : all) {
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
