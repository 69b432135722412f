#include "kube/store.hpp"

#include "base/check.hpp"

namespace bascule::kube {

void ObjectStore::add_index(std::string name, IndexFn fn) {
  BASCULE_CHECK(entries_.empty(), "indexes come before objects");
  indexes_[std::move(name)].fn = std::move(fn);
}

void ObjectStore::tell(const std::shared_ptr<const void>& before, const std::shared_ptr<const void>& after) const {
  for (const Handler& handler : handlers_) handler(before, after);
}

void ObjectStore::index(const Entry& entry) {
  for (auto& [name, index] : indexes_) {
    values_.clear();
    index.fn(entry.item.object.get(), values_);
    for (const std::string& value : values_) index.entries[value].insert(&entry);
  }
}

void ObjectStore::unindex(const Entry& entry) {
  for (auto& [name, index] : indexes_) {
    values_.clear();
    index.fn(entry.item.object.get(), values_);
    for (const std::string& value : values_) {
      const auto at = index.entries.find(value);
      if (at == index.entries.end()) continue;
      at->second.erase(&entry);
      if (at->second.empty()) index.entries.erase(at);
    }
  }
}

void ObjectStore::put(Item item) {
  const auto at = entries_.find(item.meta->key);
  if (at == entries_.end()) {
    const auto added = entries_.insert(Entry{item, list_}).first;
    index(*added);
    tell(nullptr, item.object);
    return;
  }
  at->list = list_;
  const bool same = at->item.meta->uid == item.meta->uid;
  if (same && at->item.meta->resource_version == item.meta->resource_version) return;
  unindex(*at);
  // The key of the old object must live until the new one is in place: the table hashes by it.
  const Item before = std::exchange(at->item, item);
  index(*at);
  if (same) {
    tell(before.object, item.object);
  } else {
    tell(before.object, nullptr);
    tell(nullptr, item.object);
  }
}

ObjectStore::Entries::iterator ObjectStore::erase(Entries::iterator at) {
  unindex(*at);
  const Item before = at->item;
  const auto next = entries_.erase(at);
  tell(before.object, nullptr);
  return next;
}

void ObjectStore::remove(const NamespacedName& key) {
  const auto at = entries_.find(key);
  if (at != entries_.end()) erase(at);
}

void ObjectStore::keep(const NamespacedName& key) noexcept {
  const auto at = entries_.find(key);
  if (at != entries_.end()) at->list = list_;
}

void ObjectStore::list_end() {
  for (auto at = entries_.begin(); at != entries_.end();) {
    at = at->list == list_ ? std::next(at) : erase(at);
  }
}

const ObjectStore::Item* ObjectStore::find(const NamespacedName& key) const noexcept {
  const auto at = entries_.find(key);
  return at == entries_.end() ? nullptr : &at->item;
}

std::vector<std::shared_ptr<const void>> ObjectStore::by_index(const std::string& name,
                                                               const std::string& value) const {
  std::vector<std::shared_ptr<const void>> out;
  const auto index = indexes_.find(name);
  BASCULE_CHECK(index != indexes_.end(), "an index is added before it is asked");
  const auto at = index->second.entries.find(value);
  if (at == index->second.entries.end()) return out;
  out.reserve(at->second.size());
  for (const Entry* entry : at->second) out.push_back(entry->item.object);
  return out;
}

}  // namespace bascule::kube
