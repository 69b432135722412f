#include "operator/reconcile/ready_metrics.hpp"

#include <algorithm>
#include <array>

#include "kube/condition.hpp"
#include "operator/api/resources.hpp"

namespace bascule::op::reconcile {

namespace {

constexpr std::string_view kReady = "bascule_object_ready";

const json::Value* ready_of(const ObjectPtr& object) {
  if (!object) return nullptr;
  return kube::find_condition(json::array_at(object->value, {"status", "conditions"}), "Ready");
}

}  // namespace

void count_ready(Caches& caches, runtime::Metrics* metrics) {
  if (metrics == nullptr) return;
  caches.on_change([metrics](const kube::Resource& resource, const ObjectPtr& before, const ObjectPtr& after) {
    const std::array kinds{&kControllers, &kAccountings, &kRestApis, &kLoginSets, &kNodeSets, &kTokens};
    if (std::ranges::find(kinds, &resource) == kinds.end()) return;
    const NamespacedName& key = (after ? after : before)->meta.key;
    const runtime::Labels labels{{"kind", resource.kind}, {"name", key.name}, {"namespace", key.ns}};
    if (const json::Value* ready = ready_of(after)) {
      metrics->set(kReady, "Whether the condition Ready of an object is True", labels, kube::holds(ready) ? 1 : 0);
    } else {
      metrics->remove(kReady, labels);
    }
  });
}

}  // namespace bascule::op::reconcile
