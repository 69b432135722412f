#include "operator/reconcile/cached_view.hpp"

namespace bascule::op::reconcile {

std::string thing_of(const kube::Resource& resource, const NamespacedName& key) {
  return resource.resource + "/" + key.str();
}
std::string node_sets_thing(const NamespacedName& controller) {
  return "nodesets of/" + controller.str();
}
std::string controllers_thing(const NamespacedName& accounting) {
  return "controllers of/" + accounting.str();
}
std::string workers_thing(const NamespacedName& controller) {
  return "workers of/" + controller.str();
}

void CachedView::put(const kube::Resource& resource, std::string name, json::Value object) {
  put_[thing_of(resource, {ns_, std::move(name)})] = std::move(object);
}

const json::Value* CachedView::find(const kube::Resource& resource, std::string_view name) {
  const NamespacedName key{ns_, std::string(name)};
  const std::string thing = thing_of(resource, key);
  watchers_.note(reader_, thing);
  if (const auto found = put_.find(thing); found != put_.end()) {
    return found->second.is_null() ? nullptr : &found->second;
  }
  return keep(caches_.get(resource, key));
}

std::vector<const json::Value*> CachedView::node_sets_of(std::string_view controller) {
  const NamespacedName key{ns_, std::string(controller)};
  watchers_.note(reader_, node_sets_thing(key));
  std::vector<const json::Value*> out;
  for (const ObjectPtr& object : caches_.node_sets_of(key)) out.push_back(keep(object));
  return out;
}

std::vector<const json::Value*> CachedView::controllers_of(std::string_view accounting) {
  const NamespacedName key{ns_, std::string(accounting)};
  watchers_.note(reader_, controllers_thing(key));
  std::vector<const json::Value*> out;
  for (const ObjectPtr& object : caches_.controllers_of(key)) out.push_back(keep(object));
  return out;
}

const json::Value* CachedView::keep(ObjectPtr object) {
  if (!object) return nullptr;
  kept_.push_back(std::move(object));
  return &kept_.back()->value;
}

}  // namespace bascule::op::reconcile
