#include "operator/reconcile/name_clash.hpp"

#include <algorithm>
#include <charconv>
#include <map>

#include "operator/api/derived.hpp"
#include "operator/builders/worker.hpp"
#include "operator/config/slurm_conf.hpp"

namespace bascule::op::reconcile {

namespace {

// Of the names of its nodes; empty: they are called like Kubernetes' nodes.
std::string start_of(const NodeSet& set) {
  if (set.scaling_mode == ScalingMode::kDaemonSet || host_network(set.pod_template)) return {};
  const std::string first = worker_hostname(set, 0);
  return first.substr(0, first.size() - padded(set, 0).size());
}

bool has_node(const NodeSet& set, std::string_view start, const std::string& name) {
  std::int64_t number = -1;
  const char* const last = name.data() + name.size();
  const auto [end, error] = std::from_chars(name.data() + start.size(), last, number);
  return error == std::errc() && end == last && number >= 0 && number < nodes_asked(set) &&
         worker_hostname(set, number) == name;
}

}  // namespace

std::vector<NameClash> name_clashes(std::span<const NodeSet> sets) {
  std::map<std::string, const NodeSet*> others;  // by the name in Slurm: whose node is called so
  for (const NodeSet& set : sets) others.emplace(slurm_name(set), nullptr);
  for (const NodeSet& set : sets) {
    const std::string start = start_of(set);
    if (start.empty()) continue;
    for (auto at = others.lower_bound(start); at != others.end() && at->first.starts_with(start); ++at) {
      if (has_node(set, start, at->first)) at->second = &set;
    }
  }
  std::vector<NameClash> out;
  for (const NodeSet& set : sets) {
    const auto found = others.find(slurm_name(set));
    if (found->second) out.push_back({found->first, set.meta.name, found->second->meta.name});
  }
  return out;
}

}  // namespace bascule::op::reconcile
