// Seeded random objects, changes and patches for the tests, the benchmark and tools/oracle: any built-in type, by the
// table of strategic merge, so that every kind of list is met at every depth. Field names of scalars are invented.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "json/strategic.hpp"
#include "json/strategic_directives.hpp"
#include "json/strategic_types.hpp"
#include "json/value.hpp"

namespace bascule::json::random {

using detail::StrategicField;
using detail::StrategicType;

class Objects final {
 public:
  // `size`: about how many fields an object has.
  explicit Objects(std::uint64_t seed, std::size_t size = 3) : random_(seed), size_(size) {}

  Object object(const StrategicType* type, std::size_t depth = 6) {
    Object out;
    for (std::size_t n = pick(size_); n > 0; --n) out[scalar_name()] = scalar();
    if (!type || depth == 0) return out;
    std::vector<const std::pair<const std::string, StrategicField>*> fields;
    for (const auto& field : type->fields) fields.push_back(&field);
    std::ranges::shuffle(fields, random_);
    for (std::size_t i = 0; i < std::min(fields.size(), 1 + pick(size_)); ++i) {
      out[fields[i]->first] = value(fields[i]->second, depth - 1);
    }
    return out;
  }

  Value value(const StrategicField& field, std::size_t depth) {
    if (!field.list && !field.type) return map();
    if (!field.list) return object(field.type, depth);
    Array items;
    for (std::size_t n = pick(size_ + 2); n > 0; --n) items.push_back(item(field, depth, items));
    return items;
  }

  // Fields changed, added, dropped; items changed, added, dropped, shuffled.
  Object changed(const Object& from, const StrategicType* type, std::size_t depth = 6) {
    Object out;
    for (const auto& [key, value] : from) {
      if (one_in(8)) continue;
      const StrategicField* field = type ? type->find(key) : nullptr;
      out[key] = one_in(3) ? changed_value(value, field, depth) : value;
    }
    if (one_in(3)) {
      for (const auto& [key, value] : object(type, std::min<std::size_t>(depth, 2))) {
        if (!out.contains(key)) out[key] = value;
      }
    }
    return out;
  }

  // Something like a patch of `target`, with directives, now and then a senseless one.
  Object patch(const Object& target, const StrategicType* type, std::size_t depth = 6) {
    Object out;
    for (const auto& [key, value] : target) {
      const std::string name(key);
      if (one_in(3)) continue;
      if (one_in(8)) {
        out[name] = nullptr;
        continue;
      }
      const StrategicField* field = type ? type->find(name) : nullptr;
      if (value.is_object()) {
        out[name] = field && field->type && depth > 0 ? patch(value.get_object(), field->type, depth - 1) : map();
      } else if (value.is_array() && field) {
        patch_list(out, name, value.get_array(), *field, depth);
      } else if (!value.is_array()) {
        out[name] = scalar();
      }
    }
    if (one_in(2)) {
      for (const auto& [key, value] : object(type, std::min<std::size_t>(depth, 2))) {
        if (!out.contains(key)) out[key] = value;
      }
    }
    if (one_in(25)) out[kPatch] = one_in(2) ? "replace" : one_in(2) ? "delete" : "merge";
    if (one_in(12)) out[kRetainKeys] = names(out, target);
    return out;
  }

  // Operations on paths of `target`, most of them there.
  Array json_patch(const Value& target) {
    Array out;
    static constexpr std::string_view kOps[] = {"add", "remove",  "replace", "move", "copy",
                                                "add", "replace", "add",     "copy", "test"};
    for (std::size_t n = 1 + pick(2); n > 0; --n) {
      Object operation{{"op", kOps[pick(std::size(kOps) - 1)]}, {"path", path(target)}, {"from", path(target)}};
      operation["value"] = one_in(2) ? scalar() : Value(map());
      out.push_back(std::move(operation));
    }
    return out;
  }

  bool one_in(std::size_t n) { return pick(n - 1) == 0; }
  // 0 ... most
  std::size_t pick(std::size_t most) { return std::uniform_int_distribution<std::size_t>(0, most)(random_); }

 private:
  std::string word() {
    static constexpr std::string_view kWords[] = {"a",  "b",   "c",   "d", "e", "web",
                                                  "db", "x/y", "t~z", "ü", "0", "\"q\""};
    return std::string(kWords[pick(std::size(kWords) - 1)]);
  }
  std::string scalar_name() { return "s" + std::to_string(pick(5)); }

  Value scalar() {
    switch (pick(3)) {
      case 0:
        return static_cast<std::int64_t>(pick(9)) - 3;
      case 1:
        return one_in(2);
      default:
        return boost::json::string(word());
    }
  }

  Object map() {
    Object out;
    for (std::size_t n = pick(size_); n > 0; --n) out[word()] = boost::json::string(word());
    return out;
  }

  Value item(const StrategicField& field, std::size_t depth, const Array& others) {
    if (!field.type && field.merge_key.empty()) {
      Value member = boost::json::string(word());
      while (field.merges && std::ranges::find(others, member) != others.end()) {
        member = boost::json::string(word() + std::to_string(pick(99)));
      }
      return member;
    }
    Object out = object(field.type, depth);
    if (!field.merge_key.empty()) out[field.merge_key] = fresh_key(field, others);
    return out;
  }

  Value fresh_key(const StrategicField& field, const Array& others) {
    const bool number = field.merge_key.ends_with("ort");
    for (std::size_t range = 6;; range += 4) {
      const std::size_t n = pick(range);
      Value key = number ? Value(static_cast<std::int64_t>(n)) : Value(boost::json::string("k" + std::to_string(n)));
      const auto same = [&](const Value& other) { return equal(other.get_object().at(field.merge_key), key); };
      // A repeated key now and then, as 53/UDP and 53/TCP do.
      if (std::ranges::none_of(others, same) || one_in(400)) return key;
    }
  }

  Value changed_value(const Value& value, const StrategicField* field, std::size_t depth) {
    if (value.is_object()) {
      if (!field || !field->type) return map();
      return changed(value.get_object(), field->type, depth > 0 ? depth - 1 : 0);
    }
    if (!value.is_array() || !field) return scalar();
    Array items;
    for (const Value& old : value.get_array()) {
      if (one_in(6)) continue;
      items.push_back(old);
      if (!old.is_object() || !one_in(3)) continue;
      Object changed_item = changed(old.get_object(), field->type, depth > 0 ? depth - 1 : 0);
      if (!field->merge_key.empty()) changed_item[field->merge_key] = old.at(field->merge_key);
      items.back() = std::move(changed_item);
    }
    for (std::size_t n = pick(2); n > 0; --n) items.push_back(item(*field, std::min<std::size_t>(depth, 2), items));
    if (one_in(3)) shuffle(items);
    return items;
  }

  void patch_list(Object& out, const std::string& name, const Array& old, const StrategicField& field,
                  std::size_t depth) {
    Array items;
    for (const Value& item : old) {
      if (one_in(2)) continue;
      if (!item.is_object() || !field.type) {
        items.push_back(item);
        continue;
      }
      Object change;
      if (one_in(4)) {
        change[kPatch] = "delete";
      } else if (depth > 0) {
        change = patch(item.get_object(), field.type, depth - 1);
      }
      if (!field.merge_key.empty() && !one_in(60)) change[field.merge_key] = item.at(field.merge_key);
      items.push_back(std::move(change));
    }
    for (std::size_t n = pick(2); n > 0; --n) items.push_back(item(field, std::min<std::size_t>(depth, 2), Array()));
    if (one_in(3)) shuffle(items);
    if (field.type && one_in(20)) items.push_back(Object{{kPatch, one_in(4) ? "merge" : "replace"}});
    if (field.merges && !field.type && one_in(2)) {
      Array gone;
      for (const Value& item : old) {
        if (one_in(2) && std::ranges::find(items, item) == items.end()) gone.push_back(item);
      }
      out[std::string(kDeleteFromPrimitiveList) + "/" + name] = std::move(gone);
    }
    if (field.merges && one_in(2)) {
      out[std::string(kSetElementOrder) + "/" + name] = order(items, old, field);
      if (one_in(8)) return;
    }
    out[name] = std::move(items);
  }

  // Mostly the patch's items in their order, with live ones between them.
  Array order(const Array& items, const Array& old, const StrategicField& field) {
    const auto reference = [&](const Value& item) -> Value {
      if (field.merge_key.empty()) return item;
      const Value* key = item.is_object() ? item.get_object().if_contains(field.merge_key) : nullptr;
      return Object{{field.merge_key, key ? *key : Value("none")}};
    };
    Array out;
    const auto add = [&](const Value& item) {
      Value entry = reference(item);
      if (std::ranges::find(out, entry) == out.end()) out.push_back(std::move(entry));
    };
    for (const Value& item : items) {
      if (item.is_object() && item.get_object().contains(kPatch)) continue;
      if (!old.empty() && one_in(2)) add(old[pick(old.size() - 1)]);
      add(item);
    }
    if (one_in(6)) shuffle(out);
    return out;
  }

  Array names(const Object& patch, const Object& target) {
    Array out;
    for (const auto& [key, value] : patch) {
      if (!value.is_null() && !std::string_view(key).starts_with('$') && !one_in(40)) out.emplace_back(key);
    }
    for (const auto& [key, value] : target) {
      if (one_in(2)) out.emplace_back(key);
    }
    return out;
  }

  std::string path(const Value& target) {
    std::string out;
    const Value* at = &target;
    do {
      if (const Object* object = at->if_object(); object && !object->empty() && !one_in(30)) {
        const auto& pair = *(object->begin() + pick(object->size() - 1));
        at = &pair.value();
        out += "/";
        for (const char c : std::string_view(pair.key())) out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
      } else if (const Array* array = at->if_array(); array && !array->empty() && !one_in(20)) {
        const std::size_t index = pick(array->size() - 1);
        at = &(*array)[index];
        out += "/" + std::to_string(index);
      } else if (!at->is_structured() && !one_in(10)) {
        return out;
      } else {
        return out + (at->is_array() ? (one_in(2) ? "/-" : "/" + std::to_string(pick(5))) : "/" + std::string("new"));
      }
    } while (!one_in(4));
    return out;
  }

  void shuffle(Array& items) { std::shuffle(items.begin(), items.end(), random_); }

  std::mt19937_64 random_;
  std::size_t size_;
};

}  // namespace bascule::json::random
