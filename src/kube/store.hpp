// Objects of one kind by key, with indexes, and the differences that its handlers hear. Untyped, so that it is compiled
// once: kube/informer.hpp puts the type on. Pure: no clock, no I/O.
//
// For each key a handler hears added, changed ..., gone, added ...: never changed or gone of what it has not heard to
// be added, never added twice. An object that was replaced by another of the same name (a new uid) is told as gone and
// added. Of a list only the differences are told.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "kube/objects.hpp"

namespace bascule::kube {

class ObjectStore final {
 public:
  // An object and the ObjectMeta inside it.
  struct Item {
    std::shared_ptr<const void> object;
    const ObjectMeta* meta = nullptr;
  };
  using Handler =
      std::function<void(const std::shared_ptr<const void>& before, const std::shared_ptr<const void>& after)>;
  using IndexFn = std::function<void(const void* object, std::vector<std::string>& values)>;

  void on_change(Handler handler) { handlers_.push_back(std::move(handler)); }
  void add_index(std::string name, IndexFn fn);  // while empty

  // A list: begin, put or keep each of its objects, end; what was neither put nor kept is gone. Changes may come in
  // between. A list that does not end is followed by another begin.
  void list_begin() noexcept { ++list_; }
  void keep(const NamespacedName& key) noexcept;
  void list_end();

  // Adds or changes; nothing happens when the uid and resourceVersion are those it has.
  void put(Item item);
  void remove(const NamespacedName& key);

  const Item* find(const NamespacedName& key) const noexcept;
  std::vector<std::shared_ptr<const void>> by_index(const std::string& name, const std::string& value) const;
  std::size_t size() const noexcept { return entries_.size(); }
  template <class F>
  void for_each(F&& fn) const {
    for (const Entry& entry : entries_) fn(entry.item);
  }

 private:
  struct Entry {
    mutable Item item;           // of the same key always
    mutable std::uint32_t list;  // the last list, or time between lists, it was seen in
  };
  static const NamespacedName& key_of(const Entry& entry) noexcept { return entry.item.meta->key; }
  // NOLINTNEXTLINE(bugprone-return-const-ref-from-parameter): hashed and compared on the spot
  static const NamespacedName& key_of(const NamespacedName& key) noexcept { return key; }
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(const auto& value) const noexcept { return std::hash<NamespacedName>()(key_of(value)); }
  };
  struct Same {
    using is_transparent = void;
    bool operator()(const auto& a, const auto& b) const noexcept { return key_of(a) == key_of(b); }
  };
  struct Index {
    IndexFn fn;
    std::unordered_map<std::string, std::unordered_set<const Entry*>> entries;
  };
  using Entries = std::unordered_set<Entry, Hash, Same>;

  void index(const Entry& entry);
  void unindex(const Entry& entry);
  void tell(const std::shared_ptr<const void>& before, const std::shared_ptr<const void>& after) const;
  Entries::iterator erase(Entries::iterator at);

  Entries entries_;
  std::unordered_map<std::string, Index> indexes_;
  std::vector<Handler> handlers_;
  std::vector<std::string> values_;  // scratch of index()
  std::uint32_t list_ = 0;
};

}  // namespace bascule::kube
