#include "operator/reconcile/key_change.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "operator/api/resources.hpp"
#include "operator/builders/slurm_key.hpp"

namespace bascule::op::reconcile {

Jobs jobs_of(const json::Value& node_set) {
  const auto count = [&node_set](std::string_view field) {
    return json::int_at(node_set, {"status", field}).value_or(0);
  };
  if (count("slurmAllocated") > 0) return Jobs::kRun;
  if (!has_workers(node_set)) return Jobs::kNone;
  constexpr std::string_view kOthers[] = {"slurmIdle", "slurmDown", "slurmDrain"};
  const bool says_nothing = std::ranges::all_of(kOthers, [&](std::string_view field) { return count(field) == 0; });
  return says_nothing ? Jobs::kUnknown : Jobs::kNone;
}

bool has_workers(const json::Value& node_set) {
  return json::int_at(node_set, {"status", "readyReplicas"}).value_or(0) > 0;
}

std::optional<KeyWait> key_wait(const Controller& controller, const json::Value* live, std::string_view hash) {
  if (key_in_use(controller, live, hash) == hash) return std::nullopt;
  const std::string rule = fmt::format(
      "the key in Secret {} has changed, and slurmctld takes it when no node of the NodeSets runs jobs: busy nodes "
      "keep the old key, and their jobs would be lost. Until then StatefulSet {} stays as it is",
      controller.keys.slurm.name, names::controller(controller.meta.name));
  const std::string order_it = fmt::format("set the Controller's annotation {} to \"true\"", names::kTakeSlurmKey);
  return KeyWait{
      .jobs_run = fmt::format("{}. Jobs run: drain the nodes, or {} to lose the jobs", rule, order_it),
      .unknown = fmt::format("{}. It is not known whether jobs run, since slurmctld or slurmrestd does not answer; if "
                             "none do, {}",
                             rule, order_it)};
}

bool hold_key(Plan& plan, Jobs jobs) {
  if (!plan.key_wait || jobs == Jobs::kNone) return false;
  const KeyWait wait = *std::exchange(plan.key_wait, std::nullopt);
  std::erase_if(plan.children, [](const Child& child) { return child.resource == &kStatefulSets; });
  plan.config_digest.clear();  // slurmctld takes no other configuration until then (builders/scripts.hpp)
  plan.wait(jobs == Jobs::kRun ? wait.jobs_run : wait.unknown);
  return true;
}

}  // namespace bascule::op::reconcile
