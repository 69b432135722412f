#include "bridge/node_pods.hpp"

#include <algorithm>

#include "bridge/names.hpp"
#include "bridge/unit_jobs.hpp"

namespace bascule::bridge {

namespace {

constexpr std::string_view kOperatorGroup = "slinky.slurm.net/";

// For ever: of several tolerations that cover the taint the first counts, with its time.
bool bears(const kube::Pod& pod, const kube::Taint& taint) {
  const auto first = std::ranges::find_if(
      pod.tolerations, [&taint](const kube::Toleration& one) { return kube::tolerates(one, taint); });
  return first != pod.tolerations.end() && !first->limited;
}

}  // namespace

NodePods::NodePods(std::string bridge)
    : bridge_(std::move(bridge)),
      taint_{interner_(names::kManagedNodeTaint), interner_(bridge_), interner_("NoExecute")} {}

// One that is going counts until it has gone: a worker is followed by another of the same template.
std::optional<NodePod> NodePods::look(const kube::Pod& pod) const {
  if (!holds_node(pod)) return std::nullopt;
  const kube::OwnerReference* owner = pod.meta.controller();
  if (owner != nullptr && owner->kind == "NodeSet" && owner->api_version.view().starts_with(kOperatorGroup)) {
    if (bears(pod, taint_)) return std::nullopt;
    return NodePod{NodePod::Why::kWorker, pod.meta.key, NamespacedName{pod.meta.key.ns, owner->name.str()}.str()};
  }
  if (!(pod.scheduler_name == bridge_)) return std::nullopt;
  const auto unknown = [](const auto& one) {
    return one.first == names::kSlurmJobKnown && one.second.status == "False";
  };
  if (std::ranges::none_of(pod.conditions, unknown)) return std::nullopt;
  return NodePod{NodePod::Why::kAdrift, pod.meta.key, label_of(pod).str()};
}

std::vector<std::string> NodePods::on_pod(const PodPtr& before, const PodPtr& after) {
  const std::optional<NodePod> was = before ? look(*before) : std::nullopt;
  const std::optional<NodePod> is = after ? look(*after) : std::nullopt;
  std::vector<std::string> changed;
  const bool stays = before && after && before->node_name == after->node_name;
  if ((!was && !is) || (was == is && stays)) return changed;
  if (was) {
    const auto node = nodes_.find(before->node_name.str());
    if (node != nodes_.end()) {
      node->second.erase({was->why, was->pod});
      if (node->second.empty()) nodes_.erase(node);
    }
    changed.push_back(before->node_name.str());
  }
  if (is) {
    const std::string node = after->node_name.str();
    nodes_[node].insert_or_assign({is->why, is->pod}, *is);
    if (changed.empty() || changed.front() != node) changed.push_back(node);
  }
  return changed;
}

std::optional<NodePod> NodePods::first(const std::string& node, NodePod::Why why) const {
  const auto pods = nodes_.find(node);
  if (pods == nodes_.end()) return std::nullopt;
  const auto one = pods->second.lower_bound({why, NamespacedName{}});
  if (one == pods->second.end() || one->first.first != why) return std::nullopt;
  return one->second;
}

}  // namespace bascule::bridge
