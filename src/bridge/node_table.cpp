#include "bridge/node_table.hpp"

#include <algorithm>
#include <map>

#include "bridge/node_facts.hpp"
#include "slurm/hostlist.hpp"

namespace bascule::bridge {

namespace {

// Bounds memory when users invent classes; the next pods are looked at anew.
constexpr std::size_t kMaxClasses = 10'000;

// The rest of a node changes all the time (heartbeats, conditions) and decides nothing before a bind.
bool same_for_candidates(const kube::Node& a, const kube::Node& b) {
  return a.meta.key == b.meta.key && a.meta.labels == b.meta.labels && a.taints == b.taints &&
         a.allocatable == b.allocatable;
}

}  // namespace

void NodeTable::on_node(const NodePtr& before, const NodePtr& after) {
  if (before) {
    const auto it = nodes_.find(slurm_name_of(*before));
    if (it != nodes_.end() && it->second->meta.uid == before->meta.uid) nodes_.erase(it);
  }
  if (after) nodes_.insert_or_assign(slurm_name_of(*after), after);
  if (!before || !after || !same_for_candidates(*before, *after)) ++generation_;
}

void NodeTable::on_slurm_node(const SlurmNodePtr& before, const SlurmNodePtr& after) {
  if (before && !after) slurm_.erase(before->name);
  if (after) slurm_.insert_or_assign(after->name, after);
  if (!before || !after || before->partitions != after->partitions) ++generation_;
}

const Candidates& NodeTable::candidates(const std::vector<PodPtr>& pods, const std::string& partition) {
  std::map<std::string, const kube::Pod*> kinds;  // members of a gang are mostly alike
  for (const PodPtr& pod : pods) kinds.emplace(class_of(*pod), pod.get());
  std::string key = partition;
  for (const auto& [text, pod] : kinds) {
    key += '\n';
    key += text;
  }
  if (classes_.size() > kMaxClasses) classes_.clear();
  Class& known = classes_[key];
  if (known.generation != generation_) {
    std::vector<PodConstraints> constraints;
    for (const auto& [text, pod] : kinds) constraints.push_back(constraints_of(*pod));
    known = {generation_, look(constraints, partition)};
  }
  return known.candidates;
}

Candidates NodeTable::look(const std::vector<PodConstraints>& constraints, const std::string& partition) const {
  Candidates out;
  std::vector<std::string> excluded;
  std::map<std::string, int> reasons;
  for (const auto& [name, slurm_node] : slurm_) {
    if (!partition.empty() && std::ranges::find(slurm_node->partitions, partition) == slurm_node->partitions.end())
      continue;
    const auto node = nodes_.find(name);
    std::string why = node == nodes_.end() ? "is not a node of this Kubernetes cluster" : "";
    for (const PodConstraints& kind : constraints) {
      if (why.empty()) why = misfit(kind, *node->second, When::kBeforeSubmit);
    }
    if (why.empty()) {
      ++out.usable;
    } else {
      excluded.push_back(name);
      ++reasons[why];
    }
  }
  std::ranges::sort(excluded);
  out.excluded = slurm::format_hostlist(excluded);
  if (out.usable == 0) {
    out.why_none = excluded.empty() ? "Slurm has no node" + (partition.empty() ? "" : " in partition " + partition)
                                    : std::to_string(excluded.size()) + " nodes:";
    for (const auto& [why, count] : reasons) {
      out.why_none += (out.why_none.ends_with(':') ? " " : ", ") + std::to_string(count) + " " + why;
    }
  } else {
    out.why_none = "only " + std::to_string(out.usable) + " nodes fit";
  }
  return out;
}

NodePtr NodeTable::by_slurm_name(const std::string& name) const {
  const auto it = nodes_.find(name);
  return it == nodes_.end() ? nullptr : it->second;
}

std::string NodeTable::refusal(const kube::Pod& pod, const kube::Node& node) const {
  std::string why = misfit(constraints_of(pod), node, When::kBeforeBind);
  if (!why.empty()) return why;
  why = usage_.shortage(pod, node);
  return why.empty() ? why : "has no room: " + why;
}

}  // namespace bascule::bridge
