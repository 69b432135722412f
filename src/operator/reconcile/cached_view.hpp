// What plans see: the caches, and a note of what was looked for.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "operator/reconcile/caches.hpp"
#include "operator/reconcile/plan.hpp"
#include "operator/reconcile/watchers.hpp"

namespace bascule::op::reconcile {

// Things as Watchers know them.
std::string thing_of(const kube::Resource& resource, const NamespacedName& key);
std::string node_sets_thing(const NamespacedName& controller);
std::string controllers_thing(const NamespacedName& accounting);
std::string workers_thing(const NamespacedName& controller);  // whether its NodeSets have any

class CachedView final : public View {
 public:
  CachedView(const Caches& caches, Watchers& watchers, std::string reader, std::string ns)
      : caches_(caches), watchers_(watchers), reader_(std::move(reader)), ns_(std::move(ns)) {}

  // What is there by the API server's own word (null: nothing), where the cache is known to be behind.
  void put(const kube::Resource& resource, std::string name, json::Value object);

  const json::Value* find(const kube::Resource& resource, std::string_view name) override;
  std::vector<const json::Value*> node_sets_of(std::string_view controller) override;
  std::vector<const json::Value*> controllers_of(std::string_view accounting) override;

 private:
  const json::Value* keep(ObjectPtr object);

  const Caches& caches_;
  Watchers& watchers_;
  std::string reader_;
  std::string ns_;
  std::vector<ObjectPtr> kept_;
  std::map<std::string, json::Value> put_;  // by thing_of()
};

}  // namespace bascule::op::reconcile
