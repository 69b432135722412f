#include "operator/builders/slurm_key.hpp"

#include "operator/api/names.hpp"

namespace bascule::op {

std::string_view slurmctld_key(const json::Value* stateful_set) {
  if (!stateful_set || !json::find(*stateful_set, {"metadata", "annotations", names::kStamp})) return {};
  return json::string_at(*stateful_set, {"spec", "template", "metadata", "annotations", names::kSlurmKeyHash});
}

namespace {

// Somebody said to take a changed key whatever runs.
bool key_is_ordered(const Controller& controller) {
  const auto order = controller.meta.annotations.find(std::string(names::kTakeSlurmKey));
  return order != controller.meta.annotations.end() && order->second == "true";
}

}  // namespace

std::string key_in_use(const Controller& controller, const json::Value* stateful_set, std::string_view hash) {
  const std::string_view of_slurmctld = slurmctld_key(stateful_set);
  const bool waits = !controller.external && !of_slurmctld.empty() && !key_is_ordered(controller);
  return std::string(waits ? of_slurmctld : hash);
}

}  // namespace bascule::op
