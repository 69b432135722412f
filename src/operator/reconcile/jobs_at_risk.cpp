#include "operator/reconcile/jobs_at_risk.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "operator/nodeset/slurm_node.hpp"

namespace bascule::op::reconcile {

namespace {

constexpr std::string_view kRest = "jobs end with their workers. NodeSets that are deleted first let their jobs end";

}  // namespace

std::optional<std::string> jobs_at_risk(const std::vector<SetAtRisk>& sets, const std::optional<NodesNow>& now) {
  std::int64_t busy = 0;
  std::string names;
  std::string with_pods;
  const auto add = [](std::string& list, const std::string& name) { list += (list.empty() ? "" : ", ") + name; };
  for (const SetAtRisk& set : sets) {
    const auto of_it = [&set](const nodeset::SlurmNodeView& node) {
      return nodeset::is_busy(node) && std::ranges::find(node.features, set.feature) != node.features.end();
    };
    const std::int64_t here = now ? std::ranges::count_if(now->nodes, of_it) : set.allocated;
    if (set.pods > 0) add(with_pods, set.name);
    if (here <= 0) continue;
    busy += here;
    add(names, set.name);
  }
  if (busy > 0) {
    return fmt::format("deleted while {} of its Slurm nodes run{} jobs (NodeSets: {}); these {}", busy,
                       now ? "" : ", by the last that was seen,", names, kRest);
  }
  if (now || with_pods.empty()) return std::nullopt;
  return fmt::format(
      "deleted, and slurmctld does not say whether its Slurm nodes run jobs (NodeSets: {}); if they do, these {}",
      with_pods, kRest);
}

}  // namespace bascule::op::reconcile
