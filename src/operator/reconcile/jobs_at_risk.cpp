#include "operator/reconcile/jobs_at_risk.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "operator/nodeset/slurm_node.hpp"
#include "operator/reconcile/nodes_stand.hpp"

namespace bascule::op::reconcile {

namespace {

using nodeset::is_busy;

constexpr std::string_view kRest = "jobs end with their workers. NodeSets that are deleted first let their jobs end";

bool has(const nodeset::SlurmNodeView& node, const std::string& feature) {
  return std::ranges::find(node.features, feature) != node.features.end();
}

}  // namespace

std::optional<std::string> jobs_at_risk(const std::vector<SetAtRisk>& sets, const std::optional<NodesNow>& now,
                                        bool outside) {
  std::int64_t busy = 0;
  std::string names;
  std::string with_pods;
  const auto add = [](std::string& list, std::string_view name) {
    if (!list.empty()) list += ", ";
    list += name;
  };
  for (const SetAtRisk& set : sets) {
    const auto of_it = [&set](const nodeset::SlurmNodeView& node) { return is_busy(node) && has(node, set.feature); };
    const std::int64_t here = now ? std::ranges::count_if(now->nodes, of_it) : set.allocated;
    if (set.pods > 0) add(with_pods, set.name);
    if (here <= 0) continue;
    busy += here;
    add(names, set.name);
  }
  // Of a NodeSet that has gone, or has had another hostname.
  const auto of_none = [&sets](const nodeset::SlurmNodeView& node) {
    return is_busy(node) && !is_external(node) &&
           std::ranges::none_of(sets, [&node](const SetAtRisk& set) { return has(node, set.feature); });
  };
  if (const auto others = now && !outside ? std::ranges::count_if(now->nodes, of_none) : 0; others > 0) {
    busy += others;
    add(names, "none that is there");
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
