#include "operator/reconcile/key_change.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "operator/reconcile/apply.hpp"

namespace bascule::op::reconcile {

namespace {

bool has_another_key(const json::Value* live, std::string_view hash) {
  // slurm-operator's hash may be made in another way.
  if (!live || !json::find(*live, {"metadata", "annotations", kStamp})) return false;
  const std::string_view now =
      json::string_at(*live, {"spec", "template", "metadata", "annotations", names::kSlurmKeyHash});
  return !now.empty() && now != hash;
}

}  // namespace

bool may_run_jobs(const json::Value& node_set) {
  const auto count = [&node_set](std::string_view field) {
    return json::int_at(node_set, {"status", field}).value_or(0);
  };
  if (count("slurmAllocated") > 0) return true;
  if (count("readyReplicas") == 0) return false;
  constexpr std::string_view kOthers[] = {"slurmIdle", "slurmDown", "slurmDrain"};
  return std::ranges::all_of(kOthers, [&](std::string_view field) { return count(field) == 0; });
}

std::optional<std::string> key_wait(const Controller& controller, const json::Value* live, std::string_view hash) {
  if (!has_another_key(live, hash)) return std::nullopt;
  const auto order = controller.meta.annotations.find(std::string(names::kTakeSlurmKey));
  if (order != controller.meta.annotations.end() && order->second == "true") return std::nullopt;
  return fmt::format(
      "the key in Secret {} has changed, and slurmctld takes it when no node of the NodeSets runs jobs: busy nodes "
      "keep "
      "the old key, and their jobs would be lost. Until then StatefulSet {} stays as it is. Drain the nodes, or set "
      "the "
      "Controller's annotation {} to \"true\" to lose the jobs",
      controller.keys.slurm.name, names::controller(controller.meta.name), names::kTakeSlurmKey);
}

}  // namespace bascule::op::reconcile
