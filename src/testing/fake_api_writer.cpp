#include "testing/fake_api_writer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/time.hpp"
#include "json/patch.hpp"
#include "testing/fake_api_rules.hpp"
#include "testing/fake_api_status.hpp"

namespace bascule::testing {

namespace {

using json::Array;
using json::Object;
using json::Value;

Object& meta_of(Value& object) {
  Value& meta = json::at_or_create(object, {"metadata"});
  if (!meta.is_object()) meta = Object();
  return meta.get_object();
}

// Fields of `from` in `to` as they were, or absent.
void keep_fields(const Object& from, Object& to, std::initializer_list<std::string_view> fields) {
  for (const std::string_view field : fields) {
    if (const Value* old = from.if_contains(field)) {
      to[field] = *old;
    } else {
      to.stable_erase(field);
    }
  }
}

// Everything but metadata and status.
bool same_spec(const Value& a, const Value& b) {
  const auto covers = [](const Object& x, const Object& y) {
    return std::ranges::all_of(x, [&](const auto& field) {
      if (field.key() == "metadata" || field.key() == "status") return true;
      const Value* other = y.if_contains(field.key());
      return other && json::equal(field.value(), *other);
    });
  };
  return covers(a.get_object(), b.get_object()) && covers(b.get_object(), a.get_object());
}

}  // namespace

ObjectPtr ApiWriter::need(const ApiTable& table, std::string_view ns, std::string_view name) const {
  ObjectPtr found = table.find(ns, name);
  if (!found) throw ApiFailure::not_found(table.resource.name, name);
  return found;
}

void ApiWriter::strip_type(const ApiTable& table, Value& body) const {
  if (!body.is_object()) throw ApiFailure::bad_request("the body is not an object");
  Object& object = body.get_object();
  const std::string_view kind = json::string_at(body, {"kind"}, table.resource.name.kind);
  const std::string api = table.resource.name.api_version();
  const std::string_view version = json::string_at(body, {"apiVersion"}, api);
  if (kind != table.resource.name.kind || version != api) {
    throw ApiFailure::bad_request(
        fmt::format("{} in version \"{}\" cannot be handled as a {}", kind, version, table.resource.name.kind));
  }
  object.stable_erase("kind");
  object.stable_erase("apiVersion");
  if (const Value* meta = object.if_contains("metadata"); meta && !meta->is_object()) {
    throw ApiFailure::bad_request("metadata is not an object");
  }
}

void ApiWriter::check_namespace(const ApiTable& table, std::string_view ns, std::string_view name) const {
  if (!table.resource.name.namespaced) return;
  const ApiTable& namespaces = store_.table(kube::resources::kNamespaces);
  const ObjectPtr found = namespaces.find("", ns);
  if (!found && namespaces_must_exist) throw ApiFailure::not_found(kube::resources::kNamespaces, ns);
  if (found && deleting(found->value)) {
    throw ApiFailure::forbidden(
        table.resource.name, name,
        fmt::format("unable to create new content in namespace {} because it is being terminated", ns));
  }
}

Draft ApiWriter::create(ApiTable& table, std::string_view ns, Value body, WriteContext context) {
  strip_type(table, body);
  Object& meta = meta_of(body);
  const std::string said(json::string_at(body, {"metadata", "namespace"}));
  if (table.resource.name.namespaced) {
    if (!said.empty() && said != ns) {
      throw ApiFailure::bad_request(
          fmt::format("the namespace of the provided object does not match the namespace sent on the request"));
    }
    meta["namespace"] = ns;
  } else {
    meta.stable_erase("namespace");
  }
  if (!json::string_at(body, {"metadata", "resourceVersion"}).empty()) {
    throw ApiFailure(500, "", "resourceVersion should not be set on objects to be created");
  }
  if (name_of(body).empty() && json::string_at(body, {"metadata", "generateName"}).empty()) {
    throw ApiFailure::invalid(table.resource.name, "", "metadata.name",
                              "Required value: name or generateName is required", "FieldValueRequired");
  }
  check_namespace(table, ns, name_of(body));
  set_defaults(table.resource, body);
  return {
      .table = &table, .before = nullptr, .after = std::move(body), .subresource = "", .context = std::move(context)};
}

ObjectPtr ApiWriter::commit_new(Draft& draft) {
  ApiTable& table = *draft.table;
  Object& meta = meta_of(draft.after);
  if (name_of(draft.after).empty()) {
    const std::string base(json::string_at(draft.after, {"metadata", "generateName"}));
    do {
      meta["name"] = base + store_.name_suffix();
    } while (table.find(ns_of(draft.after), name_of(draft.after)));
  }
  for (const char* field : {"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"}) meta.stable_erase(field);
  if (!draft.applied) meta.stable_erase("managedFields");
  check_new(table.resource, draft.after);
  if (table.find(ns_of(draft.after), name_of(draft.after))) {
    throw ApiFailure::already_exists(table.resource.name, name_of(draft.after));
  }
  meta["uid"] = store_.make_uid();
  meta["creationTimestamp"] = print_rfc3339(loop_.wall());
  meta.stable_erase("generation");
  if (table.resource.generation) meta["generation"] = 1;
  set_initial_state(table.resource, draft.after, loop_.wall());
  if (draft.context.dry_run) {
    const auto object = std::make_shared<ApiObject>();
    object->value = std::move(draft.after);
    return object;
  }
  return store_.put(table, nullptr, std::move(draft.after));
}

Draft ApiWriter::update(ApiTable& table, std::string_view ns, std::string_view name, std::string_view subresource,
                        Value body, WriteContext context) {
  ObjectPtr before = table.find(ns, name);
  if (!before && table.resource.name.kind == "Lease" && name_of(body) == name) {
    return create(table, ns, std::move(body), std::move(context));  // PUT of a Lease creates it
  }
  before = need(table, ns, name);
  if (subresource != "scale") {
    strip_type(table, body);
    if (name_of(body) != name) {
      throw ApiFailure::bad_request(
          fmt::format("the name of the object ({}) does not match the name on the URL ({})", name_of(body), name));
    }
  }
  const std::string_view version = json::string_at(body, {"metadata", "resourceVersion"});
  if (version.empty() && !table.resource.unconditional) {
    throw ApiFailure::invalid(table.resource.name, name, "metadata.resourceVersion",
                              "Invalid value: 0: must be specified for an update");
  }
  const std::string_view uid = uid_of(body);
  if (!uid.empty() && uid != uid_of(before->value)) {
    throw ApiFailure::conflict(table.resource.name, name,
                               fmt::format("StorageError: invalid object, Code: 4, AdditionalErrorMsg: Precondition "
                                           "failed: UID in precondition: {}, UID in object meta: {}",
                                           uid, uid_of(before->value)));
  }
  return replace(table, std::move(before), subresource, std::move(body), std::move(context));
}

// `body` is what the whole object (or the Scale) shall be; keeps what the endpoint may not write.
Draft ApiWriter::replace(ApiTable& table, ObjectPtr before, std::string_view subresource, Value body,
                         WriteContext context) {
  const Value& old = before->value;
  const std::string_view version = json::string_at(body, {"metadata", "resourceVersion"});
  if (!version.empty() && version != std::to_string(before->version)) {
    throw ApiFailure::modified(table.resource.name, name_of(old));
  }
  // In a patch a foreign uid is an invalid value (422); only an update takes it as a precondition (409, see update()).
  if (const std::string_view uid = uid_of(body); !uid.empty() && uid != uid_of(old)) {
    throw ApiFailure::invalid(table.resource.name, name_of(old), "metadata.uid",
                              fmt::format("Invalid value: \"{}\": field is immutable", uid));
  }
  Draft draft{.table = &table,
              .before = before,
              .after = {},
              .subresource = std::string(subresource),
              .context = std::move(context)};
  if (subresource == "scale") {
    draft.after = old;
    const auto replicas = json::int_at(body, {"spec", "replicas"});
    json::at_or_create(draft.after, {"spec", "replicas"}) = replicas.value_or(0);
    return draft;
  }
  if (subresource == "status") {
    draft.after = old;
    Object& after = draft.after.get_object();
    if (const Value* status = body.get_object().if_contains("status")) {
      after["status"] = *status;
    } else {
      after.stable_erase("status");
    }
    // A custom resource's status endpoint writes nothing else; those of built-in kinds also take labels and
    // annotations.
    if (!table.resource.custom) {
      keep_fields(meta_of(body), after["metadata"].get_object(),
                  {"labels", "annotations", "finalizers", "managedFields"});
    } else {
      keep_fields(meta_of(body), after["metadata"].get_object(), {"managedFields"});
    }
    return draft;
  }
  draft.after = std::move(body);
  if (table.resource.status) keep_fields(old.get_object(), draft.after.get_object(), {"status"});
  return draft;
}

Draft ApiWriter::patch(ApiTable& table, std::string_view ns, std::string_view name, std::string_view subresource,
                       PatchKind kind, const Value& body, WriteContext context) {
  const ObjectPtr before = table.find(ns, name);
  if (!before && (kind != PatchKind::kApply || !subresource.empty())) {
    throw ApiFailure::not_found(table.resource.name, name);
  }
  if (kind == PatchKind::kApply) {
    Value wanted = body;
    strip_type(table, wanted);
    meta_of(wanted)["name"] = name;
    if (const std::string_view uid = uid_of(wanted); !before && !uid.empty()) {
      throw ApiFailure::conflict(table.resource.name, name,
                                 fmt::format("uid mismatch: the provided object specified uid {}, and no existing "
                                             "object was found",
                                             uid));
    }
    const bool status = subresource == "status";
    if (!status && table.resource.status) wanted.get_object().stable_erase("status");
    ApplyRequest request{context.manager, context.force, std::string(subresource), loop_.wall()};
    Value after = applied(table.resource, before ? &before->value : nullptr, wanted, request);
    Draft draft;
    if (!before) {
      meta_of(after)["name"] = name;
      draft = create(table, ns, std::move(after), std::move(context));
    } else {
      if (const std::string_view v = json::string_at(wanted, {"metadata", "resourceVersion"}); !v.empty()) {
        meta_of(after)["resourceVersion"] = v;
      }
      if (const std::string_view uid = uid_of(wanted); !uid.empty()) meta_of(after)["uid"] = uid;
      draft = replace(table, before, subresource, std::move(after), std::move(context));
    }
    draft.applied = true;
    return draft;
  }
  Value whole = subresource == "scale" ? scale_of(*before) : table.full(*before);
  try {
    if (kind == PatchKind::kJson) json::apply_patch(whole, body);
    if (kind == PatchKind::kMerge) json::apply_merge(whole, body);
    if (kind == PatchKind::kStrategic) {
      json::apply_strategic(whole, body, json::StrategicSchema::of(table.resource.name.kind));
    }
  } catch (const json::PatchError& e) {
    if (kind == PatchKind::kStrategic) throw ApiFailure(500, "", e.what());
    throw ApiFailure(422, "Invalid", "the server rejected our request due to an error in our request");
  }
  if (!whole.is_object()) throw ApiFailure::bad_request("the patched object is not an object");
  if (subresource != "scale") strip_type(table, whole);
  return replace(table, before, subresource, std::move(whole), std::move(context));
}

Draft ApiWriter::bind(ApiTable& table, std::string_view ns, std::string_view name, const Value& binding,
                      WriteContext context) {
  const ObjectPtr before = need(table, ns, name);
  const kube::Resource shown{"", "v1", "pods/binding", "Binding", true};
  const std::string_view uid = json::string_at(binding, {"metadata", "uid"});
  if (!uid.empty() && uid != uid_of(before->value)) {
    throw ApiFailure::conflict(shown, name,
                               fmt::format("StorageError: invalid object, Code: 4, AdditionalErrorMsg: Precondition "
                                           "failed: UID in precondition: {}, UID in object meta: {}",
                                           uid, uid_of(before->value)));
  }
  const std::string_view version = json::string_at(binding, {"metadata", "resourceVersion"});
  const std::string_view now_at = json::string_at(before->value, {"metadata", "resourceVersion"});
  if (!version.empty() && version != now_at) {
    throw ApiFailure::conflict(shown, name,
                               fmt::format("StorageError: invalid object, Code: 4, AdditionalErrorMsg: Precondition "
                                           "failed: ResourceVersion in precondition: {}, ResourceVersion in object "
                                           "meta: {}",
                                           version, now_at));
  }
  const std::string node(json::string_at(binding, {"target", "name"}));
  if (node.empty()) {
    throw ApiFailure::invalid({"", "v1", "bindings", "Binding", true}, name, "target.name", "Required value",
                              "FieldValueRequired");
  }
  if (deleting(before->value)) {
    throw ApiFailure::conflict(shown, name, fmt::format("pod {} is being deleted, cannot be assigned to a host", name));
  }
  if (const std::string_view now = json::string_at(before->value, {"spec", "nodeName"}); !now.empty()) {
    throw ApiFailure::conflict(shown, name, fmt::format("pod {} is already assigned to node \"{}\"", name, now));
  }
  const Array* gates = json::array_at(before->value, {"spec", "schedulingGates"});
  if (gates && !gates->empty()) {
    throw ApiFailure::conflict(shown, name, fmt::format("pod {} has non-empty .spec.schedulingGates", name));
  }
  Draft draft{.table = &table,
              .before = before,
              .after = before->value,
              .subresource = "binding",
              .context = std::move(context)};
  json::at_or_create(draft.after, {"spec", "nodeName"}) = node;
  for (const char* map : {"annotations", "labels"}) {
    const Object* extra = json::object_at(binding, {"metadata", map});
    if (!extra) continue;
    for (const auto& [key, value] : *extra) {
      json::at_or_create(draft.after, {"metadata", map, std::string_view(key)}) = value;
    }
  }
  set_condition(draft.after, "PodScheduled", "True", "", "", loop_.wall());
  return draft;
}

ObjectPtr ApiWriter::commit(Draft draft) {
  ApiTable& table = *draft.table;
  if (!draft.before) return commit_new(draft);
  const Value& old = draft.before->value;
  if (table.find(ns_of(old), name_of(old)) != draft.before) throw Moved();
  const Object& old_meta = old.get_object().at("metadata").get_object();
  Object& meta = meta_of(draft.after);
  keep_fields(old_meta, meta,
              {"name", "namespace", "generateName", "uid", "creationTimestamp", "generation", "deletionTimestamp",
               "deletionGracePeriodSeconds", "resourceVersion"});
  if (!draft.applied) {
    keep_fields(old_meta, meta, {"managedFields"});
    take_ownership(table.resource, old, draft.after,
                   {draft.context.manager, false, draft.subresource == "status" ? "status" : "", loop_.wall()});
  }
  if (json::equal(old, draft.after)) return draft.before;
  if (draft.subresource != "binding") check_change(table.resource, old, draft.after);
  // A binding sets spec.nodeName, and yet the real server leaves the generation alone.
  if (table.resource.generation && draft.subresource != "binding" && !same_spec(old, draft.after)) {
    meta_of(draft.after)["generation"] = json::int_at(old, {"metadata", "generation"}).value_or(0) + 1;
  }
  if (draft.context.dry_run) {
    const auto object = std::make_shared<ApiObject>();
    object->value = std::move(draft.after);
    return object;
  }
  const bool last_finalizer = deleting(draft.after) && finalizers_of(draft.after).empty() &&
                              json::int_at(draft.after, {"metadata", "deletionGracePeriodSeconds"}).value_or(0) == 0 &&
                              !finalizers_of(old).empty();
  if (last_finalizer) {
    // One event, as the real server: the removal, with the object as the update left it.
    const auto object = std::make_shared<ApiObject>();
    object->value = std::move(draft.after);
    object->version = draft.before->version;
    store_.remove(table, object);
    return object;
  }
  return store_.put(table, draft.before, std::move(draft.after));
}

Value ApiWriter::scale_of(const ApiObject& object) {
  const Value& value = object.value;
  Object meta;
  keep_fields(value.get_object().at("metadata").get_object(), meta,
              {"name", "namespace", "uid", "resourceVersion", "creationTimestamp"});
  std::string selector;
  if (const Object* labels = json::object_at(value, {"spec", "selector", "matchLabels"})) {
    for (const auto& [key, v] : *labels) {
      selector += fmt::format("{}{}={}", selector.empty() ? "" : ",", std::string_view(key),
                              v.is_string() ? json::view(v.get_string()) : "");
    }
  }
  return Object{{"kind", "Scale"},
                {"apiVersion", "autoscaling/v1"},
                {"metadata", std::move(meta)},
                {"spec", Object{{"replicas", json::int_at(value, {"spec", "replicas"}).value_or(0)}}},
                {"status", Object{{"replicas", json::int_at(value, {"status", "replicas"}).value_or(0)},
                                  {"selector", selector}}}};
}

}  // namespace bascule::testing
