// Applies strategic merge patches. Where the rules leave a choice (what becomes of items that the patch does not
// order, of a directive in an object that is new), the API server's library decides it, and tools/oracle compares.
#include "json/strategic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "json/strategic_directives.hpp"
#include "json/strategic_order.hpp"
#include "json/strategic_types.hpp"

namespace bascule::json {
namespace {

using detail::arrange;
using detail::identities;
using detail::identity;
using detail::item_kind;
using detail::LiveOrder;
using detail::refuse;
using detail::StrategicField;
using detail::StrategicType;

// $setElementOrder/FIELD -> FIELD
std::string_view field_of(std::string_view directive) {
  const std::size_t slash = directive.find('/');
  if (slash == std::string_view::npos || slash + 1 == directive.size()) {
    refuse(fmt::format("{} must name a list, as in {}/finalizers", directive, directive.substr(0, slash)));
  }
  return directive.substr(slash + 1);
}

const StrategicField& known_field(const StrategicType* type, std::string_view key, bool list) {
  const StrategicField* field = type ? type->find(key) : nullptr;
  if (!field) refuse(fmt::format("{} has no field \"{}\"", type ? type->name : "a map", key));
  if (field->list != list) {
    refuse(fmt::format("\"{}\" of {} is {}", key, type->name, list ? "no list" : "no object"));
  }
  return *field;
}

template <class Predicate>
void erase_items(Array& items, Predicate gone) {
  auto out = items.begin();
  for (auto at = items.begin(); at != items.end(); ++at) {
    if (gone(*at)) continue;
    if (out != at) *out = std::move(*at);
    ++out;
  }
  items.erase(out, items.end());
}

// Prepares what was not there before: directives in it have nothing to act on. False: it must not be added at all.
bool clean(Value& value, bool drop_nulls) {
  if (Object* object = value.if_object()) {
    std::vector<std::string> gone;
    for (auto& [key, item] : *object) {
      if (key == kPatch && !item.is_null()) return false;
      if ((drop_nulls && item.is_null()) || key == kRetainKeys || is_list_directive(key) || !clean(item, drop_nulls)) {
        gone.emplace_back(key);
      }
    }
    for (const std::string& key : gone) object->stable_erase(key);
  } else if (Array* array = value.if_array()) {
    erase_items(*array, [&](Value& item) { return !clean(item, drop_nulls); });
  }
  return true;
}

void merge_object(Object& target, Object patch, const StrategicType* type);

Array merge_set(Array items, Array patch, bool deletion) {
  std::unordered_set<std::string> seen;
  if (deletion) {
    for (const Value& item : patch) seen.insert(dump(item));
    erase_items(items, [&](const Value& item) { return seen.contains(dump(item)); });
    return items;
  }
  const std::vector<std::string> live = identities(items, {});
  const std::vector<std::string> order = identities(patch, {});
  items.insert(items.end(), std::make_move_iterator(patch.begin()), std::make_move_iterator(patch.end()));
  erase_items(items, [&](const Value& item) { return !seen.insert(dump(item)).second; });
  return arrange(std::move(items), order, live, {});
}

// Takes the items with $patch out of the patch and does what they say. True: the patch replaces the list.
bool obey_directives(Array& items, Array& patch, const std::string& merge_key, LiveOrder& live) {
  bool replace = false;
  Array plain;
  for (Value& item : patch) {
    const Value* directive = item.get_object().if_contains(kPatch);
    if (!directive) {
      plain.push_back(std::move(item));
    } else if (*directive == "replace") {
      replace = true;
    } else if (*directive == "delete") {
      const std::string id = identity(item, merge_key);
      for (std::size_t i = 0; i < items.size();) {
        const Value* key = items[i].get_object().if_contains(merge_key);
        if (key && dump(*key) == id) {
          items.erase(items.begin() + i);
          live.erase(i);
        } else {
          ++i;
        }
      }
    } else {
      refuse(fmt::format("$patch of a list item is replace or delete, not {}", dump(*directive)));
    }
  }
  patch = std::move(plain);
  return replace;
}

Array merge_keyed(Array items, Array patch, const StrategicField& field, LiveOrder& live) {
  const std::string& key = field.merge_key;
  if (key.empty()) refuse("a list of objects without a merge key cannot be merged");
  if (obey_directives(items, patch, key, live)) {
    const std::vector<std::string> own_order = identities(patch, key);
    return arrange(std::move(patch), {}, own_order, key);
  }

  std::unordered_map<std::string, std::size_t> places;
  std::vector<std::string> before = identities(items, key);
  for (std::size_t i = 0; i < items.size(); ++i) places.emplace(before[i], i);
  const std::vector<std::string> order = identities(patch, key);
  for (std::size_t i = 0; i < patch.size(); ++i) {
    const auto [place, added] = places.emplace(order[i], items.size());
    if (added) {
      items.push_back(std::move(patch[i]));
      live.push_back(order[i]);
    } else {
      merge_object(items[place->second].get_object(), std::move(patch[i].get_object()), field.type);
    }
  }
  return arrange(std::move(items), order, before, key);
}

Array merge_list(Array items, Array patch, const StrategicField& field, bool deletion, LiveOrder& live) {
  if (!field.merges && !deletion) return patch;
  if (items.empty() && patch.empty()) return items;
  if (item_kind(items, patch) == boost::json::kind::object) {
    return merge_keyed(std::move(items), std::move(patch), field, live);
  }
  if (!deletion && !field.merge_key.empty()) refuse("items of a list that merges by key must be objects");
  return merge_set(std::move(items), std::move(patch), deletion);
}

LiveOrder live_order(const Array& items, const StrategicField& field) {
  std::vector<std::string> ids(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Object* object = items[i].if_object();
    const Value* key = object ? object->if_contains(field.merge_key) : &items[i];
    if (key) ids[i] = dump(*key);
  }
  return LiveOrder(std::move(ids));
}

void retain_keys(Object& target, Object& patch) {
  const Value* directive = patch.if_contains(kRetainKeys);
  if (!directive) return;
  if (!directive->is_array()) refuse("$retainKeys must be a list of field names");
  std::unordered_set<std::string> kept;
  for (const Value& name : directive->get_array()) {
    if (name.is_string()) kept.emplace(view(name.get_string()));
  }
  patch.stable_erase(kRetainKeys);
  for (const auto& [key, value] : patch) {
    if (value.is_null() || is_list_directive(key) || kept.contains(key)) continue;
    refuse(fmt::format("the patch sets \"{}\", which its $retainKeys leaves out", std::string_view(key)));
  }
  std::vector<std::string> gone;
  for (const auto& [key, value] : target) {
    if (!kept.contains(key)) gone.emplace_back(key);
  }
  for (const std::string& key : gone) target.stable_erase(key);
}

// Items of the patch must come in the order that $setElementOrder gives, and all be in it.
void check_order(const Array& patch, const Array& order, const std::string& merge_key) {
  if (patch.empty() || order.empty()) return;
  auto at = order.begin();
  for (const Value& item : patch) {
    const Object* object = item.if_object();
    if (!merge_key.empty() && !object) refuse(fmt::format("an item is not an object: {}", dump(item)));
    const Value* directive = object ? object->if_contains(kPatch) : nullptr;
    if (directive && *directive == "delete") continue;
    if (at == order.end()) refuse("the items of the patch are not in the order of $setElementOrder");
    if (directive) continue;
    const std::string id = identity(item, merge_key);
    while (at != order.end() && identity(*at, merge_key) != id) ++at;
    if (at++ == order.end()) refuse("the items of the patch are not in the order of $setElementOrder");
  }
}

void merge_ordered_list(Object& target, Object& patch, std::string_view directive, const Value& order,
                        const StrategicType* type) {
  const std::string_view name = field_of(directive);
  Value* old = target.if_contains(name);
  Value* change = patch.if_contains(name);
  for (const Value* list : std::initializer_list<const Value*>{old, change, &order}) {
    if (list && !list->is_array()) refuse(fmt::format("{} needs lists, not {}", directive, dump(*list)));
  }
  const StrategicField& field = known_field(type, name, true);
  const Array none;
  const Array& items = old ? old->get_array() : none;
  check_order(change ? change->get_array() : none, order.get_array(), field.merge_key);
  if (!old && !change) return;
  item_kind(items, change ? change->get_array() : none);

  LiveOrder live = live_order(items, field);
  Array merged;
  if (old && change) {
    merged = merge_list(std::move(old->get_array()), std::move(change->get_array()), field, false, live);
  } else if (old) {
    merged = std::move(old->get_array());
  } else {
    clean(*change, false);
    merged = std::move(change->get_array());
  }
  merged = arrange(std::move(merged), identities(order.get_array(), field.merge_key), live.ids, field.merge_key);
  target[name] = std::move(merged);
  patch.stable_erase(name);
}

void merge_ordered_lists(Object& target, Object& patch, const StrategicType* type) {
  std::vector<std::pair<std::string, Value>> directives;
  for (auto& [key, value] : patch) {
    if (std::string_view(key).starts_with(kSetElementOrder)) directives.emplace_back(key, std::move(value));
  }
  for (const auto& [key, order] : directives) {
    patch.stable_erase(key);
    merge_ordered_list(target, patch, key, order, type);
  }
}

void merge_field(Object& target, std::string_view name, Value change, bool deletion, const StrategicType* type) {
  if (change.is_null()) {
    target.stable_erase(name);
    return;
  }
  Value* old = target.if_contains(name);
  if (!old || old->kind() != change.kind()) {
    if (deletion) return;
    if (clean(change, true)) {
      target[name] = std::move(change);
    } else {
      target.stable_erase(name);
    }
  } else if (change.is_object()) {
    const StrategicField& field = known_field(type, name, false);
    if (field.replaces) {
      *old = std::move(change);
    } else {
      merge_object(old->get_object(), std::move(change.get_object()), field.type);
    }
  } else if (change.is_array()) {
    const StrategicField& field = known_field(type, name, true);
    LiveOrder live = live_order(old->get_array(), field);
    *old = merge_list(std::move(old->get_array()), std::move(change.get_array()), field, deletion, live);
  } else {
    *old = std::move(change);
  }
}

void merge_object(Object& target, Object patch, const StrategicType* type) {
  if (const Value* directive = patch.if_contains(kPatch)) {
    if (*directive == "delete") {
      target.clear();
    } else if (*directive == "replace") {
      patch.stable_erase(kPatch);
      target = std::move(patch);
    } else {
      refuse(fmt::format("$patch of an object is replace or delete, not {}", dump(*directive)));
    }
    return;
  }
  retain_keys(target, patch);
  merge_ordered_lists(target, patch, type);
  for (auto& [key, change] : patch) {
    const std::string_view name = key;
    const bool deletion = name.starts_with(kDeleteFromPrimitiveList);
    merge_field(target, deletion ? field_of(name) : name, std::move(change), deletion, type);
  }
}

}  // namespace

bool StrategicSchema::known(std::string_view kind) {
  return detail::strategic_type(kind) != nullptr;
}

StrategicSchema StrategicSchema::of(std::string_view kind) {
  const StrategicType* type = detail::strategic_type(kind);
  if (!type) refuse(fmt::format("{} is not a built-in type", kind));
  return StrategicSchema(type);
}

Value strategic_merged(Value target, const Value& patch, StrategicSchema schema) {
  if (!target.is_object() || !patch.is_object()) refuse("the document and the patch must be objects");
  merge_object(target.get_object(), patch.get_object(), schema.type());
  return target;
}

void apply_strategic(Value& target, const Value& patch, StrategicSchema schema) {
  target = strategic_merged(target, patch, schema);
}

}  // namespace bascule::json
