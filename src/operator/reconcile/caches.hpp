// Live copies of what the reconcilers look at, of one namespace or of all.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "kube/informer.hpp"

namespace bascule::op::reconcile {

using ObjectPtr = std::shared_ptr<const kube::DynamicObject>;
using ObjectInformer = kube::Informer<kube::DynamicObject>;

class Caches final {
 public:
  // `ns` empty: all namespaces. `kube` outlives this.
  Caches(kube::Client& kube, const std::string& ns);

  // Told of every change; before start().
  void on_change(const std::function<void(const kube::Resource&, const ObjectPtr& before, const ObjectPtr& after)>& fn);
  void start();
  Task<bool> wait_synced(std::stop_token stop);
  Task<> stop();

  // nullptr: that kind is not kept.
  ObjectInformer* of(const kube::Resource& resource) noexcept;
  // Of a kind that is kept. nullptr: there is none.
  ObjectPtr get(const kube::Resource& resource, const NamespacedName& key) const;
  // By NAMESPACE/CONTROLLER: the NodeSets that name it.
  std::vector<ObjectPtr> node_sets_of(const NamespacedName& controller) const;
  // By NAMESPACE/ACCOUNTING: the Controllers that name it.
  std::vector<ObjectPtr> controllers_of(const NamespacedName& accounting) const;

 private:
  struct Kept {
    const kube::Resource* resource;
    std::unique_ptr<ObjectInformer> informer;
  };
  json::Interner interner_;
  std::vector<Kept> kept_;
};

// Whom a Controller, a NodeSet belongs to; empty name: nobody.
NamespacedName accounting_of(const kube::DynamicObject& controller);
NamespacedName controller_of_node_set(const kube::DynamicObject& node_set);

}  // namespace bascule::op::reconcile
