#include "operator/reconcile/caches.hpp"

#include <algorithm>

#include "operator/api/names.hpp"
#include "operator/api/resources.hpp"

namespace bascule::op::reconcile {

namespace {

const std::string kByController = "controller";
const std::string kByAccounting = "accounting";

struct Kind {
  const kube::Resource* resource;
  kube::Selectors selectors = {};
};

// All children of ours but what NodeSets share carry one of these; a foreign object in the place of a child has not,
// and is looked for before one is made.
const std::string kApps = "app.kubernetes.io/name in (slurmctld,slurmdbd,slurmrestd,slurmd,login)";

std::vector<Kind> kinds() {
  return {
      {&kControllers},
      {&kAccountings},
      {&kRestApis},
      {&kLoginSets},
      {&kNodeSets},
      {&kTokens},
      // Charts are kept in Secrets, each up to a megabyte.
      {&kSecrets, {.fields = "type!=helm.sh/release.v1"}},
      {&kConfigMaps},
      {&kServices},
      {&kStatefulSets, {.labels = kApps}},
      {&kDeployments, {.labels = kApps}},
      {&kube::resources::kPods, {.labels = std::string(names::kAppName) + "=" + std::string(names::kSlurmctld.name)}},
      {&kBudgets}};
}

}  // namespace

NamespacedName accounting_of(const kube::DynamicObject& controller) {
  return {controller.meta.key.ns, std::string(json::string_at(controller.value, {"spec", "accountingRef", "name"}))};
}

NamespacedName controller_of_node_set(const kube::DynamicObject& node_set) {
  return {node_set.meta.key.ns, std::string(json::string_at(node_set.value, {"spec", "controllerRef", "name"}))};
}

Caches::Caches(kube::Client& kube, const std::string& ns) {
  for (const Kind& kind : kinds()) {
    auto informer = std::make_unique<ObjectInformer>(
        kube, kube::InformerOptions{.resource = *kind.resource, .ns = ns, .selectors = kind.selectors},
        kube::decode_dynamic, interner_);
    if (kind.resource == &kNodeSets) {
      informer->add_index(kByController, [](const kube::DynamicObject& object, std::vector<std::string>& values) {
        values.push_back(controller_of_node_set(object).str());
      });
    }
    if (kind.resource == &kControllers) {
      informer->add_index(kByAccounting, [](const kube::DynamicObject& object, std::vector<std::string>& values) {
        values.push_back(accounting_of(object).str());
      });
    }
    kept_.push_back({kind.resource, std::move(informer)});
  }
}

void Caches::on_change(
    const std::function<void(const kube::Resource&, const ObjectPtr& before, const ObjectPtr& after)>& fn) {
  for (const Kept& kept : kept_) {
    kept.informer->on_change([fn, resource = kept.resource](const ObjectPtr& before, const ObjectPtr& after) {
      fn(*resource, before, after);
    });
  }
}

void Caches::start() {
  for (const Kept& kept : kept_) kept.informer->start();
}

Task<bool> Caches::wait_synced(std::stop_token stop) {
  for (const Kept& kept : kept_) {
    if (!co_await kept.informer->wait_synced(stop, TimePoint::max())) co_return false;
  }
  co_return true;
}

Task<> Caches::stop() {
  for (const Kept& kept : kept_) co_await kept.informer->stop();
}

ObjectInformer* Caches::of(const kube::Resource& resource) noexcept {
  const auto found = std::ranges::find(kept_, &resource, &Kept::resource);
  return found == kept_.end() ? nullptr : found->informer.get();
}

ObjectPtr Caches::get(const kube::Resource& resource, const NamespacedName& key) const {
  const auto found = std::ranges::find(kept_, &resource, &Kept::resource);
  return found == kept_.end() ? nullptr : found->informer->get(key);
}

std::vector<ObjectPtr> Caches::node_sets_of(const NamespacedName& controller) const {
  const auto found = std::ranges::find(kept_, &kNodeSets, &Kept::resource);
  return found->informer->by_index(kByController, controller.str());
}

std::vector<ObjectPtr> Caches::controllers_of(const NamespacedName& accounting) const {
  const auto found = std::ranges::find(kept_, &kControllers, &Kept::resource);
  return found->informer->by_index(kByAccounting, accounting.str());
}

}  // namespace bascule::op::reconcile
