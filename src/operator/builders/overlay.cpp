#include "operator/builders/overlay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "json/strategic.hpp"

namespace bascule::op {

namespace {

constexpr std::string_view kTemplateField = "spec.template.spec";
constexpr std::string_view kProbes[] = {"livenessProbe", "readinessProbe", "startupProbe"};
constexpr std::string_view kHooks[] = {"preStop", "postStart"};
constexpr std::string_view kHandlers[] = {"exec", "httpGet", "tcpSocket", "grpc", "sleep"};
constexpr std::string_view kSources[] = {"value", "valueFrom"};

void clean(json::Value& value) {
  if (json::Object* object = value.if_object()) {
    std::vector<std::string> gone;
    for (auto& [key, item] : *object) {
      if (item.is_null() || std::string_view(key).starts_with('$')) {
        gone.emplace_back(key);
      } else {
        clean(item);
      }
    }
    for (const std::string& key : gone) object->stable_erase(key);
  } else if (json::Array* array = value.if_array()) {
    for (json::Value& item : *array) clean(item);
  }
}

// The list is taken out of the object; absent: empty.
json::Array take_list(json::Object& object, std::string_view key, const Subject& subject, std::string_view field) {
  json::Value* found = object.if_contains(key);
  if (!found) return {};
  if (!found->is_array()) subject.fault(fmt::format("{}.{}", field, key), "is no list; write its items with dashes");
  json::Array list = std::move(found->get_array());
  object.stable_erase(key);
  return list;
}

json::Object& as_item(json::Value& item, const Subject& subject, std::string_view field) {
  if (!item.is_object()) subject.fault(field, "has an item that is no object; write it as in - name: x");
  return item.get_object();
}

std::string_view name_of(const json::Value& item) {
  return json::string_at(item, {"name"});
}

json::Value* by_name(json::Array& list, std::string_view name) {
  const auto found = std::ranges::find(list, name, name_of);
  return found == list.end() ? nullptr : &*found;
}

// Of things that may have one of several: ours goes when the user brings one.
void give_way(json::Value* ours, const json::Value* theirs, std::span<const std::string_view> choices) {
  if (!ours || !theirs || !ours->is_object() || !theirs->is_object()) return;
  const auto brings = [&](std::string_view choice) { return theirs->get_object().contains(choice); };
  if (std::ranges::none_of(choices, brings)) return;
  for (const std::string_view choice : choices) ours->get_object().stable_erase(choice);
}

void merge_env(json::Object& base, const json::Object& user) {
  json::Value* ours = base.if_contains("env");
  const json::Value* theirs = user.if_contains("env");
  if (!ours || !theirs || !ours->is_array() || !theirs->is_array()) return;
  for (const json::Value& item : theirs->get_array()) {
    give_way(by_name(ours->get_array(), name_of(item)), &item, kSources);
  }
}

bool same_port(const json::Value& a, const json::Value& b) {
  if (!name_of(a).empty() && name_of(a) == name_of(b)) return true;
  return json::int_at(a, {"containerPort"}) == json::int_at(b, {"containerPort"}) &&
         json::string_at(a, {"protocol"}, "TCP") == json::string_at(b, {"protocol"}, "TCP");
}

void merge_ports(json::Object& base, json::Array user, const Subject& subject, std::string_view field) {
  if (user.empty()) return;
  json::Value& ports = base["ports"];
  if (!ports.is_array()) ports = json::Array{};
  json::Array& list = ports.get_array();
  const std::size_t ours = list.size();
  for (json::Value& port : user) {
    as_item(port, subject, fmt::format("{}.ports", field));
    const auto end = list.begin() + static_cast<std::ptrdiff_t>(ours);
    const auto found = std::find_if(list.begin(), end, [&](const json::Value& own) { return same_port(own, port); });
    if (found == end) {
      list.push_back(std::move(port));
      continue;
    }
    for (auto& [key, value] : port.get_object()) {
      if (key != "name" && key != "containerPort") found->get_object()[key] = std::move(value);
    }
  }
}

json::Array union_of(json::Array list, const json::Array& needed) {
  for (const json::Value& item : needed) {
    if (std::ranges::none_of(list, [&](const json::Value& have) { return json::equal(have, item); })) {
      list.push_back(item);
    }
  }
  return list;
}

json::Array copy_list(const json::Value& object, json::Path path) {
  const json::Array* list = json::array_at(object, path);
  return list ? *list : json::Array{};
}

void put_back(json::Value& object, json::Path path, const json::Array& needed) {
  if (needed.empty()) return;
  json::at_or_create(object, path) = union_of(copy_list(object, path), needed);
}

// What would replace a list or an object of ours by something else is a mistake.
void check_kinds(const json::Object& base, const json::Object& user, const Subject& subject, std::string_view field) {
  for (const auto& [key, value] : user) {
    const json::Value* ours = base.if_contains(key);
    if (!ours || !ours->is_structured() || ours->kind() == value.kind()) continue;
    subject.fault(fmt::format("{}.{}", field, std::string_view(key)),
                  ours->is_array() ? "is no list; write its items with dashes" : "is no object; indent its fields");
  }
}

void apply(json::Value& base, json::Object user, std::string_view kind, const Subject& subject,
           std::string_view field) {
  check_kinds(base.get_object(), user, subject, field);
  try {
    json::apply_strategic(base, json::Value(std::move(user)), json::StrategicSchema::of(kind));
  } catch (const json::PatchError& error) {
    subject.fault(field, fmt::format("cannot be merged: {}", error.what()));
  } catch (const json::ShapeError& error) {
    subject.fault(field, fmt::format("cannot be merged: {}", error.what()));
  }
}

json::Object cleaned(const json::Value& patch, const Subject& subject, std::string_view field) {
  if (!patch.is_object()) subject.fault(field, "is no object; write fields below it");
  json::Value copy = patch;
  clean(copy);
  return std::move(copy.get_object());
}

json::Array merge_containers(json::Array base, json::Array user, const Subject& subject, std::string_view field) {
  const std::size_t ours = base.size();
  for (json::Value& container : user) {
    as_item(container, subject, field);
    const std::string name(name_of(container));
    if (name.empty()) subject.fault(field, "has a container without a name; give it one");
    json::Value* own = by_name(base, name);
    if (own && static_cast<std::size_t>(own - base.data()) < ours) {
      *own = overlay_container(std::move(*own), container, subject, fmt::format("{}[{}]", field, name));
    } else if (own) {
      subject.fault(field, fmt::format("names the container {} twice; rename one", name));
    } else {
      base.push_back(std::move(container));
    }
  }
  return base;
}

json::Array merge_volumes(json::Array base, json::Array user, const Subject& subject) {
  for (json::Value& volume : user) {
    as_item(volume, subject, fmt::format("{}.volumes", kTemplateField));
    if (json::Value* own = by_name(base, name_of(volume))) {
      *own = std::move(volume);
    } else {
      base.push_back(std::move(volume));
    }
  }
  return base;
}

}  // namespace

json::Value overlay_container(json::Value base, const json::Value& patch, const Subject& subject,
                              std::string_view field) {
  json::Object user = cleaned(patch, subject, field);
  json::Object& own = base.get_object();
  user.stable_erase("name");
  if (json::Array args = take_list(user, "args", subject, field); !args.empty()) {
    json::Array all = copy_list(base, {"args"});
    for (json::Value& arg : args) all.push_back(std::move(arg));
    own["args"] = std::move(all);
  }
  merge_ports(own, take_list(user, "ports", subject, field), subject, field);
  merge_env(own, user);
  for (const std::string_view probe : kProbes) give_way(own.if_contains(probe), user.if_contains(probe), kHandlers);
  const json::Value theirs(std::move(user));
  for (const std::string_view hook : kHooks) {
    give_way(json::find(base, {"lifecycle", hook}), json::find(theirs, {"lifecycle", hook}), kHandlers);
  }
  const json::Array capabilities = copy_list(base, {"securityContext", "capabilities", "add"});
  apply(base, theirs.get_object(), "Container", subject, field);
  put_back(base, {"securityContext", "capabilities", "add"}, capabilities);
  return base;
}

json::Value overlay_pod_spec(json::Value base, const json::Value& patch, const Subject& subject) {
  json::Object user = cleaned(patch, subject, kTemplateField);
  json::Object& own = base.get_object();
  for (const std::string_view key : {"initContainers", "containers"}) {
    const std::string field = fmt::format("{}.{}", kTemplateField, key);
    json::Array all =
        merge_containers(copy_list(base, {key}), take_list(user, key, subject, kTemplateField), subject, field);
    if (!all.empty()) own[key] = std::move(all);
  }
  if (json::Array volumes = take_list(user, "volumes", subject, kTemplateField); !volumes.empty()) {
    own["volumes"] = merge_volumes(copy_list(base, {"volumes"}), std::move(volumes), subject);
  }
  const json::Array tolerations = copy_list(base, {"tolerations"});
  const json::Array searches = copy_list(base, {"dnsConfig", "searches"});
  apply(base, std::move(user), "PodSpec", subject, kTemplateField);
  put_back(base, {"tolerations"}, tolerations);
  put_back(base, {"dnsConfig", "searches"}, searches);
  return base;
}

}  // namespace bascule::op
