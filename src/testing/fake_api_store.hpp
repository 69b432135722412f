// What the fake API server remembers: objects by resource, and a bounded history of events for watches.
// Invariants: one resourceVersion counter for all resources, one step a change; a revision of an object never changes
// once committed; every commit that changes something adds exactly one event. Loop thread only.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/async.hpp"
#include "base/loop.hpp"
#include "base/strong.hpp"
#include "json/value.hpp"
#include "kube/resource.hpp"

namespace bascule::testing {

// A resource as the server serves it.
struct ApiResource {
  kube::Resource name;
  std::string singular = {};
  std::vector<std::string> short_names = {};
  bool status = false;           // has a status subresource, which alone writes status
  bool scale = false;            // has a scale subresource
  bool generation = false;       // metadata.generation counts changes of spec
  bool unconditional = true;     // an update may come without resourceVersion
  bool returns_deleted = false;  // a deletion answers the object, not a Status
  bool custom = false;           // of a CustomResourceDefinition: no strategic patch, kind in list items
};

// One revision of an object. `value` carries neither kind nor apiVersion, as the items of a list do.
struct ApiObject {
  json::Value value;
  std::uint64_t version = 0;

  mutable std::string cached_text = {};

  // The JSON text of `value`, made once.
  const std::string& text() const {
    if (cached_text.empty()) cached_text = json::dump(value);
    return cached_text;
  }
};
using ObjectPtr = std::shared_ptr<const ApiObject>;

// `before` is null for a creation; `after` of a removal is the last state with the removal's version.
struct ApiEvent {
  std::uint64_t version = 0;
  ObjectPtr before;
  ObjectPtr after;
  bool removed = false;
};

struct ApiTable {
  explicit ApiTable(Loop& loop, ApiResource r);
  // With kind and apiVersion in front.
  std::string text_of(const ApiObject& object) const { return head + object.text().substr(1); }
  json::Value full(const ApiObject& object) const;
  ObjectPtr find(std::string_view ns, std::string_view object_name) const;
  // In the order of the keys; all of them when `ns` is empty.
  std::vector<ObjectPtr> list(std::string_view ns) const;

  ApiResource resource;
  std::string head;                                            // {"kind":"Pod","apiVersion":"v1",
  std::map<std::string, ObjectPtr, std::less<>> objects = {};  // by ns/name, or name
  std::deque<ApiEvent> history = {};
  std::uint64_t forgotten = 0;  // no watch can begin before this version
  std::uint64_t dropped = 0;    // the last event that `history` has lost
  Bell news;
};

class ApiStore final {
 public:
  ApiStore(Loop& loop, std::size_t history, std::uint64_t seed);

  ApiTable& add(ApiResource resource);
  // nullptr when not served.
  ApiTable* table(std::string_view group, std::string_view version, std::string_view plural) noexcept;
  ApiTable& table(const kube::Resource& resource);
  const std::vector<ApiTable*>& tables() const noexcept { return order_; }

  std::uint64_t version() const noexcept { return version_; }
  // Puts `value` in the place of `before` (null: new). Sets metadata.resourceVersion.
  ObjectPtr put(ApiTable& table, const ObjectPtr& before, json::Value value);
  void remove(ApiTable& table, const ObjectPtr& before);
  // Forgets the history of all resources, as a compaction does.
  void compact();
  // A version step without an event of a watched resource, as others' writes make.
  void skip_versions(std::uint64_t count) noexcept { version_ += count; }

  ObjectPtr by_uid(std::string_view uid) const;
  bool uid_exists(std::string_view uid) const { return uids_.contains(std::string(uid)); }
  std::string make_uid();
  std::string name_suffix();  // five characters, as generateName adds

  // Told of each event after it has happened; must not write.
  std::function<void(ApiTable&, const ApiEvent&)> on_event = nullptr;

 private:
  void append(ApiTable& table, ApiEvent event);

  Loop& loop_;
  std::size_t history_;
  std::uint64_t version_ = 100;
  std::mt19937_64 random_;
  std::map<std::string, std::unique_ptr<ApiTable>, std::less<>> tables_;
  std::vector<ApiTable*> order_;
  std::unordered_map<std::string, ObjectPtr> uids_;
};

std::string key_of(std::string_view ns, std::string_view name);
std::string_view name_of(const json::Value& object) noexcept;
std::string_view ns_of(const json::Value& object) noexcept;
std::string_view uid_of(const json::Value& object) noexcept;
bool deleting(const json::Value& object) noexcept;

// The resources a fresh cluster serves, as far as Bascule meets them.
std::vector<ApiResource> builtin_resources();

}  // namespace bascule::testing
