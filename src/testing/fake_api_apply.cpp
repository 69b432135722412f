#include "testing/fake_api_apply.hpp"

#include <fmt/format.h>

#include "base/time.hpp"
#include "json/strategic_types.hpp"
#include "testing/fake_api_status.hpp"

namespace bascule::testing {

namespace {

using json::Array;
using json::Object;
using json::Value;
using json::detail::StrategicField;
using json::detail::StrategicType;

// A tree in the form of FieldsV1: f:NAME for fields, k:{...} for list items by key, v:VALUE for members of sets, "."
// for the item itself; a leaf is an empty object.
using Tree = Object;

std::string item_key(const Value& item, const StrategicField& field) {
  if (field.merge_key.empty()) return "v:" + json::dump(item);
  const Value* key = json::find(item, {field.merge_key});
  return "k:" + json::dump(Object{{field.merge_key, key ? *key : Value()}});
}

Tree tree_of(const Value& value, const StrategicType* type);

Tree tree_of_field(const Value& value, const StrategicField* field) {
  if (value.is_object()) {
    if (field && field->replaces) return {};
    return tree_of(value, field ? field->type : nullptr);
  }
  Tree out;
  if (!value.is_array() || !field || !field->merges) return out;
  for (const Value& item : value.get_array()) {
    Tree child = field->merge_key.empty() ? Tree() : tree_of(item, field->type);
    if (!field->merge_key.empty()) child["."] = Object();
    out[item_key(item, *field)] = std::move(child);
  }
  return out;
}

Tree tree_of(const Value& value, const StrategicType* type) {
  Tree out;
  for (const auto& [key, child] : value.get_object()) {
    out["f:" + std::string(key)] = tree_of_field(child, type ? type->find(std::string_view(key)) : nullptr);
  }
  return out;
}

// What of `a` is not in `b`: leaves.
Tree minus(const Tree& a, const Tree& b) {
  Tree out;
  for (const auto& [key, child] : a) {
    const Value* other = b.if_contains(key);
    if (!other) {
      out[key] = child;
    } else if (!child.get_object().empty() && !other->get_object().empty()) {
      Tree rest = minus(child.get_object(), other->get_object());
      if (!rest.empty()) out[key] = std::move(rest);
    }
  }
  return out;
}

void unite(Tree& a, const Tree& b) {
  for (const auto& [key, child] : b) {
    Value& mine = a[key];
    if (!mine.is_object()) mine = Object();
    unite(mine.get_object(), child.get_object());
  }
}

// --- walking a value by the keys of a tree ---------------------------------------------------------------------------

std::size_t index_of(const Array& list, std::string_view tree_key) {
  const Value wanted = json::parse(tree_key.substr(2));
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (tree_key[0] == 'v' && json::equal(list[i], wanted)) return i;
    if (tree_key[0] != 'k' || !list[i].is_object()) continue;
    const auto& [name, value] = *wanted.get_object().begin();
    const Value* found = list[i].get_object().if_contains(name);
    if (found && json::equal(*found, value)) return i;
  }
  return list.size();
}

const Value* step(const Value* at, std::string_view tree_key) {
  if (!at) return nullptr;
  if (tree_key == ".") return at;
  if (tree_key[0] == 'f') return at->is_object() ? at->get_object().if_contains(tree_key.substr(2)) : nullptr;
  if (!at->is_array()) return nullptr;
  const std::size_t i = index_of(at->get_array(), tree_key);
  return i < at->get_array().size() ? &at->get_array()[i] : nullptr;
}

std::string printed(std::string_view path, std::string_view tree_key) {
  if (tree_key[0] == 'f') return fmt::format("{}.{}", path, tree_key.substr(2));
  if (tree_key[0] == 'v') return fmt::format("{}[={}]", path, tree_key.substr(2));
  const Value key = json::parse(tree_key.substr(2));
  const auto& [name, value] = *key.get_object().begin();
  return fmt::format("{}[{}={}]", path, std::string_view(name), json::dump(value));
}

// Leaves that both own and whose values differ.
void find_conflicts(const Tree& mine, const Tree& theirs, const Value* wanted, const Value* live,
                    const std::string& path, std::vector<std::string>& out) {
  for (const auto& [key, child] : mine) {
    const Value* other = theirs.if_contains(key);
    if (!other || key == ".") continue;
    const Value* a = step(wanted, key);
    const Value* b = step(live, key);
    const std::string here = printed(path, key);
    if (child.get_object().empty() || other->get_object().empty()) {
      if (!a || !b || !json::equal(*a, *b)) out.push_back(here);
    } else {
      find_conflicts(child.get_object(), other->get_object(), a, b, here, out);
    }
  }
}

// Takes the leaves of `tree` out of `value`.
void prune(Value& value, const Tree& tree) {
  for (const auto& [key, child] : tree) {
    const bool leaf = child.get_object().empty() || child.get_object().contains(".");
    if (key == ".") continue;
    if (key[0] == 'f') {
      if (!value.is_object()) continue;
      Value* inner = value.get_object().if_contains(std::string_view(key).substr(2));
      if (!inner) continue;
      if (leaf) {
        value.get_object().stable_erase(std::string_view(key).substr(2));
      } else {
        prune(*inner, child.get_object());
        const bool empty =
            (inner->is_object() && inner->get_object().empty()) || (inner->is_array() && inner->get_array().empty());
        if (empty) value.get_object().stable_erase(std::string_view(key).substr(2));
      }
    } else if (value.is_array()) {
      Array& list = value.get_array();
      const std::size_t i = index_of(list, key);
      if (i == list.size()) continue;
      if (leaf) {
        list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        prune(list[i], child.get_object());
      }
    }
  }
}

void merge_into(Value& live, const Value& wanted, const StrategicType* type);

void merge_field(Value& live, const Value& wanted, const StrategicField* field) {
  if (wanted.is_object() && live.is_object() && !(field && field->replaces)) {
    return merge_into(live, wanted, field ? field->type : nullptr);
  }
  if (!wanted.is_array() || !live.is_array() || !field || !field->merges) {
    live = wanted;
    return;
  }
  for (const Value& item : wanted.get_array()) {
    const std::size_t i = index_of(live.get_array(), item_key(item, *field));
    if (i == live.get_array().size()) {
      live.get_array().push_back(item);
    } else if (!field->merge_key.empty()) {
      merge_into(live.get_array()[i], item, field->type);
    }
  }
}

void merge_into(Value& live, const Value& wanted, const StrategicType* type) {
  for (const auto& [key, value] : wanted.get_object()) {
    if (value.is_null()) continue;
    merge_field(live.get_object()[key], value, type ? type->find(std::string_view(key)) : nullptr);
  }
}

// --- managers --------------------------------------------------------------------------------------------------------

struct Manager {
  std::string name;
  bool applies = false;
  std::string subresource;
  std::string time;
  Tree fields;
};

std::vector<Manager> managers_of(const Value& object) {
  std::vector<Manager> out;
  const Array* entries = json::array_at(object, {"metadata", "managedFields"});
  if (!entries) return out;
  for (const Value& entry : *entries) {
    const Object* fields = json::object_at(entry, {"fieldsV1"});
    out.push_back({std::string(json::string_at(entry, {"manager"})), json::string_at(entry, {"operation"}) == "Apply",
                   std::string(json::string_at(entry, {"subresource"})), std::string(json::string_at(entry, {"time"})),
                   fields ? *fields : Tree()});
  }
  return out;
}

void write_managers(Value& object, const std::vector<Manager>& managers, const std::string& api_version) {
  Array entries;
  for (const Manager& m : managers) {
    if (m.fields.empty()) continue;
    Object entry{{"manager", m.name},         {"operation", m.applies ? "Apply" : "Update"},
                 {"apiVersion", api_version}, {"time", m.time},
                 {"fieldsType", "FieldsV1"},  {"fieldsV1", m.fields}};
    if (!m.subresource.empty()) entry["subresource"] = m.subresource;
    entries.push_back(std::move(entry));
  }
  if (entries.empty()) {
    object.get_object()["metadata"].get_object().stable_erase("managedFields");
  } else {
    object.get_object()["metadata"].get_object()["managedFields"] = std::move(entries);
  }
}

// Without what the system sets.
Value owned_part(const Value& object) {
  Value out = object;
  Object& fields = out.get_object();
  fields.erase("kind");
  fields.erase("apiVersion");
  if (Value* meta = fields.if_contains("metadata"); meta && meta->is_object()) {
    for (const char* key : {"name", "namespace", "generateName", "uid", "resourceVersion", "creationTimestamp",
                            "generation", "managedFields", "deletionTimestamp", "deletionGracePeriodSeconds"}) {
      meta->get_object().stable_erase(key);
    }
    if (meta->get_object().empty()) fields.stable_erase("metadata");
  }
  return out;
}

Manager& entry_of(std::vector<Manager>& managers, const ApplyRequest& request, bool applies) {
  for (Manager& m : managers) {
    if (m.name == request.manager && m.applies == applies && m.subresource == request.subresource) return m;
  }
  return managers.emplace_back(Manager{request.manager, applies, request.subresource, "", {}});
}

const StrategicType* type_of(const ApiResource& resource) {
  return resource.custom ? nullptr : json::detail::strategic_type(resource.name.kind);
}

}  // namespace

Value applied(const ApiResource& resource, const Value* live, const Value& configuration, const ApplyRequest& request) {
  const StrategicType* type = type_of(resource);
  const Value wanted = owned_part(configuration);
  const Tree fields = tree_of(wanted, type);
  std::vector<Manager> managers = live ? managers_of(*live) : std::vector<Manager>();
  const Tree before = entry_of(managers, request, true).fields;

  Array causes;
  Tree others;
  for (Manager& m : managers) {
    if (&m == &entry_of(managers, request, true)) continue;
    std::vector<std::string> conflicts;
    if (live) find_conflicts(fields, m.fields, &wanted, live, "", conflicts);
    for (const std::string& field : conflicts) {
      causes.push_back(Object{
          {"reason", "FieldManagerConflict"},
          {"message", m.applies ? fmt::format("conflict with \"{}\"", m.name)
                                : fmt::format("conflict with \"{}\" using {}", m.name, resource.name.api_version())},
          {"field", field}});
    }
    if (!conflicts.empty() && request.force) m.fields = minus(m.fields, fields);
    unite(others, m.fields);
  }
  if (!causes.empty() && !request.force) {
    const std::string first(json::string_at(causes[0], {"message"}));
    const std::string message =
        causes.size() == 1
            ? fmt::format("Apply failed with 1 conflict: {}: {}", first, json::string_at(causes[0], {"field"}))
            : fmt::format("Apply failed with {} conflicts: {} and others", causes.size(), first);
    throw ApiFailure(409, "Conflict", message, Object{{"causes", causes}});
  }

  Value out = live ? *live : Value(Object{{"metadata", Object()}});
  prune(out, minus(minus(before, fields), others));
  merge_into(out, wanted, type);
  Manager& mine = entry_of(managers, request, true);
  const bool changed =
      !json::equal(Value(mine.fields), Value(fields)) || !live || !json::equal(owned_part(out), owned_part(*live));
  mine.fields = fields;
  if (changed || mine.time.empty()) mine.time = print_rfc3339(request.now);
  if (!out.get_object()["metadata"].is_object()) out.get_object()["metadata"] = Object();
  write_managers(out, managers, resource.name.api_version());
  return out;
}

void take_ownership(const ApiResource& resource, const Value& before, Value& after, const ApplyRequest& request) {
  std::vector<Manager> managers = managers_of(before);
  if (managers.empty()) return;
  const StrategicType* type = type_of(resource);
  const Value old_part = owned_part(before);
  const Value new_part = owned_part(after);
  const Tree old_tree = tree_of(old_part, type);
  const Tree new_tree = tree_of(new_part, type);
  // Leaves that are new, and leaves on both sides whose values differ.
  Tree changed = minus(new_tree, old_tree);
  const std::function<Tree(const Tree&, const Tree&, const Value*, const Value*)> differing =
      [&](const Tree& a, const Tree& b, const Value* x, const Value* y) {
        Tree out;
        for (const auto& [key, child] : a) {
          const Value* other = b.if_contains(key);
          if (!other || key == ".") continue;
          const Value* p = step(x, key);
          const Value* q = step(y, key);
          if (p && q && json::equal(*p, *q)) continue;
          if (child.get_object().empty() || other->get_object().empty()) {
            out[key] = Object();
          } else if (Tree inner = differing(child.get_object(), other->get_object(), p, q); !inner.empty()) {
            out[key] = std::move(inner);
          }
        }
        return out;
      };
  unite(changed, differing(new_tree, old_tree, &new_part, &old_part));
  const Tree gone = minus(old_tree, new_tree);
  for (Manager& m : managers) m.fields = minus(minus(m.fields, changed), gone);
  if (!changed.empty()) {
    Manager& mine = entry_of(managers, request, false);
    unite(mine.fields, changed);
    mine.time = print_rfc3339(request.now);
  }
  write_managers(after, managers, resource.name.api_version());
}

}  // namespace bascule::testing
