// Makes strategic merge patches.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "json/strategic.hpp"
#include "json/strategic_directives.hpp"
#include "json/strategic_types.hpp"

namespace bascule::json {
namespace {

using detail::StrategicField;
using detail::StrategicType;

[[noreturn]] void refuse(const std::string& sentence) {
  throw PatchError("no strategic merge patch says this: " + sentence);
}

std::string directive(std::string_view prefix, std::string_view field) {
  return fmt::format("{}/{}", prefix, field);
}

bool structured(const Object& object) {
  return std::ranges::any_of(object, [](const auto& pair) { return pair.value().is_structured(); });
}

Object replaced_whole(const Object& to) {
  Object patch{{kPatch, "replace"}};
  for (const auto& [key, value] : to) patch[key] = value;
  return patch;
}

Object diff_objects(const Object& from, const Object& to, const StrategicType* type, bool retain_keys);

// Items with their merge keys; `together`: repeated keys stand next to each other.
struct Keyed {
  std::vector<std::string> ids;
  std::unordered_map<std::string, const Object*> items;
  bool repeated = false;
  bool together = true;
};

Keyed keyed(const Array& list, std::string_view merge_key, std::string_view field) {
  Keyed out;
  for (const Value& item : list) {
    const Object* object = item.if_object();
    const Value* key = object ? object->if_contains(merge_key) : nullptr;
    if (!key) refuse(fmt::format("an item of \"{}\" has no \"{}\"", field, merge_key));
    std::string id = dump(*key);
    if (!out.items.emplace(id, object).second) {
      out.repeated = true;
      if (out.ids.back() != id) out.together = false;
    }
    out.ids.push_back(std::move(id));
  }
  return out;
}

void diff_keyed(Object& patch, std::string_view name, const Array& from, const Array& to, const StrategicField& field) {
  const std::string& key = field.merge_key;
  const Keyed before = keyed(from, key, name);
  const Keyed after = keyed(to, key, name);
  if (!after.together) refuse(fmt::format("\"{}\" repeats a \"{}\" out of order", name, key));
  if (before.repeated || after.repeated) {
    Array whole{Object{{kPatch, "replace"}}};
    whole.insert(whole.end(), to.begin(), to.end());
    patch[name] = std::move(whole);
    return;
  }
  Array changes;
  Array order;
  for (std::size_t i = 0; i < to.size(); ++i) {
    const Object& item = to[i].get_object();
    order.push_back(Object{{key, item.at(key)}});
    const auto old = before.items.find(after.ids[i]);
    if (old == before.items.end()) {
      changes.push_back(item);
      continue;
    }
    Object change = diff_objects(*old->second, item, field.type, field.retain_keys);
    if (change.empty()) continue;
    change[key] = item.at(key);
    changes.push_back(std::move(change));
  }
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (after.items.contains(before.ids[i])) continue;
    changes.push_back(Object{{kPatch, "delete"}, {key, from[i].get_object().at(key)}});
  }
  if (changes.empty() && before.ids == after.ids) return;
  if (!order.empty()) patch[directive(kSetElementOrder, name)] = std::move(order);
  if (!changes.empty()) patch[name] = std::move(changes);
}

void diff_sets(Object& patch, std::string_view name, const Array& from, const Array& to) {
  const auto members = [&](const Array& list, bool& repeated) {
    std::unordered_set<std::string> out;
    for (const Value& item : list) {
      if (item.is_structured() || item.is_null()) refuse(fmt::format("\"{}\" is a set of scalars", name));
      if (!out.insert(dump(item)).second) repeated = true;
    }
    return out;
  };
  bool from_repeats = false;
  bool to_repeats = false;
  const auto before = members(from, from_repeats);
  const auto after = members(to, to_repeats);
  if (to_repeats) refuse(fmt::format("\"{}\" repeats a member of a set", name));
  Array added;
  for (const Value& item : to) {
    // Naming all of them makes the server drop the repetitions.
    if (from_repeats || !before.contains(dump(item))) added.push_back(item);
  }
  Array removed;
  std::unordered_set<std::string> named;
  for (const Value& item : from) {
    if (!after.contains(dump(item)) && named.insert(dump(item)).second) removed.push_back(item);
  }
  if (!to.empty()) patch[directive(kSetElementOrder, name)] = to;
  if (!added.empty()) patch[name] = std::move(added);
  if (!removed.empty()) patch[directive(kDeleteFromPrimitiveList, name)] = std::move(removed);
}

void diff_lists(Object& patch, std::string_view name, const Array& from, const Array& to, const StrategicType* type) {
  const StrategicField* field = type ? type->find(name) : nullptr;
  if (!field || !field->list) {
    refuse(fmt::format("{} has no list \"{}\", yet it changed", type ? type->name : "a map", name));
  }
  if (!field->merges) {
    patch[name] = to;
  } else if (!field->merge_key.empty()) {
    diff_keyed(patch, name, from, to, *field);
  } else {
    diff_sets(patch, name, from, to);
  }
}

void diff_field(Object& patch, std::string_view name, const Value& from, const Value& to, const StrategicType* type) {
  if (equal(from, to)) return;
  if (from.is_array() && to.is_array()) {
    diff_lists(patch, name, from.get_array(), to.get_array(), type);
    return;
  }
  if (!from.is_object() || !to.is_object()) {
    patch[name] = to;
    return;
  }
  const StrategicField* field = type ? type->find(name) : nullptr;
  if (!field || field->list) {
    refuse(fmt::format("{} has no object \"{}\", yet it changed", type ? type->name : "a map", name));
  }
  const Object& before = from.get_object();
  const Object& after = to.get_object();
  if (field->replaces) {
    patch[name] = to;
  } else if (!field->type && (structured(before) || structured(after))) {
    // The server cannot merge what lies inside a map.
    patch[name] = replaced_whole(after);
  } else if (Object inner = diff_objects(before, after, field->type, field->retain_keys); !inner.empty()) {
    patch[name] = std::move(inner);
  }
}

Object diff_objects(const Object& from, const Object& to, const StrategicType* type, bool retain_keys) {
  Object patch;
  for (const auto& [key, value] : to) {
    const Value* old = from.if_contains(key);
    if (old) {
      diff_field(patch, key, *old, value, type);
    } else if (!value.is_null()) {
      patch[key] = value;
    }
  }
  for (const auto& [key, value] : from) {
    if (!to.contains(key)) patch[key] = nullptr;
  }
  if (!retain_keys || patch.empty()) return patch;
  Array kept;
  for (const auto& [key, value] : to) {
    if (!value.is_null()) kept.emplace_back(key);
  }
  if (!kept.empty()) patch[kRetainKeys] = std::move(kept);
  return patch;
}

}  // namespace

Value diff_strategic(const Value& from, const Value& to, StrategicSchema schema) {
  if (!from.is_object() || !to.is_object()) refuse("both documents must be objects");
  return diff_objects(from.get_object(), to.get_object(), schema.type(), false);
}

}  // namespace bascule::json
