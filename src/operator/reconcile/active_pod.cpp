#include "operator/reconcile/active_pod.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "operator/api/derived.hpp"
#include "operator/api/names.hpp"

namespace bascule::op::reconcile {

namespace {

// "pod", "pod.service.namespace"
bool is_host_of(std::string_view host, std::string_view pod) {
  return host.substr(0, host.find('.')) == pod;
}

}  // namespace

std::optional<std::string> ready_url(const Controller& controller, const json::Value& pod) {
  const std::string_view address = json::string_at(pod, {"status", "podIP"});
  const json::Array* containers = json::array_at(pod, {"spec", "containers"});
  if (address.empty() || containers == nullptr) return std::nullopt;
  const auto speaks_http = [](const json::Value& container) {
    return json::string_at(container, {"name"}) == names::kSlurmctld.name &&
           json::find(container, {"livenessProbe", "httpGet"}) != nullptr;
  };
  if (std::ranges::none_of(*containers, speaks_http)) return std::nullopt;
  const bool brackets = address.find(':') != std::string_view::npos;
  return fmt::format("http://{}{}{}:{}", brackets ? "[" : "", address, brackets ? "]" : "", slurmctld_port(controller));
}

bool slurmctld_runs(const json::Value& pod) {
  const json::Array* containers = json::array_at(pod, {"status", "containerStatuses"});
  return containers != nullptr && std::ranges::any_of(*containers, [](const json::Value& container) {
           return json::string_at(container, {"name"}) == names::kSlurmctld.name &&
                  json::find(container, {"state", "running"}) != nullptr;
         });
}

std::vector<LabelChange> plan_active_label(const Controller& controller, const std::vector<CtldPod>& pods,
                                           const std::optional<std::vector<std::string>>& answering) {
  if (controller.external || pods.empty()) return {};
  const CtldPod* active = nullptr;
  if (replicas(controller) <= 1) {
    active = &pods.front();
  } else {
    const CtldPod* first =
        pods.front().name == names::controller_pod(controller.meta.name, 0) ? &pods.front() : nullptr;
    const bool own_word = std::ranges::any_of(pods, [](const CtldPod& pod) { return pod.serves.has_value(); });
    for (const CtldPod& pod : pods) {
      const auto is_its = [&](const std::string& host) { return is_host_of(host, pod.name); };
      const bool serves = own_word ? pod.serves.value_or(false) : answering && std::ranges::any_of(*answering, is_its);
      if (!active && serves) active = &pod;
    }
    if (!active && first && (first->serves || (first->runs && first->url))) active = first;
    if (!active && std::ranges::none_of(pods, &CtldPod::active)) active = first;
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
