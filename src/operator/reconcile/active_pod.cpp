#include "operator/reconcile/active_pod.hpp"

#include <algorithm>

#include "operator/api/derived.hpp"

namespace bascule::op::reconcile {

namespace {

// "pod", "pod.service.namespace"
bool is_host_of(std::string_view host, std::string_view pod) {
  return host.substr(0, host.find('.')) == pod;
}

}  // namespace

std::vector<LabelChange> plan_active_label(const Controller& controller, const std::vector<CtldPod>& pods,
                                           const std::optional<std::vector<std::string>>& answering) {
  if (controller.external || pods.empty()) return {};
  const CtldPod* active = nullptr;
  if (replicas(controller) <= 1) {
    active = &pods.front();
  } else {
    for (const CtldPod& pod : pods) {
      const auto is_its = [&](const std::string& host) { return is_host_of(host, pod.name); };
      if (!active && answering && std::ranges::any_of(*answering, is_its)) active = &pod;
    }
    if (!active && std::ranges::none_of(pods, &CtldPod::active)) active = &pods.front();
  }
  std::vector<LabelChange> changes;
  if (!active) return changes;
  // First away from the others: two that are found at once are worse than none for a moment.
  for (const CtldPod& pod : pods) {
    if (&pod != active && pod.active) changes.push_back({pod.name, pod.uid, false});
  }
  if (!active->active) changes.push_back({active->name, active->uid, true});
  return changes;
}

}  // namespace bascule::op::reconcile
