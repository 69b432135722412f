// Create, update, patch, delete and the subresources that are written.
#include <fmt/format.h>

#include "base/time.hpp"
#include "json/yaml.hpp"
#include "testing/fake_api_route.hpp"
#include "testing/fake_api_rules.hpp"

namespace bascule::testing {

namespace {

constexpr int kAttempts = 5;  // as a real server tries a patch again on a conflict that is not the client's

json::Value body_of(const net::ServerRequest& request, const ApiCall& call, PatchKind patch) {
  if (request.body.empty()) return json::Object();
  const std::string_view type = request.headers.get("Content-Type");
  const bool yaml = type.find("yaml") != std::string_view::npos && request.body.front() != '{';
  if (yaml) return json::parse_yaml(request.body);
  if (!type.empty() && type.find("json") == std::string_view::npos && type.find("yaml") == std::string_view::npos) {
    throw ApiFailure(415, "UnsupportedMediaType",
                     fmt::format("the body of the request was in an unknown format - accepted media types include: "
                                 "application/json, application/yaml ({} {})",
                                 call.verb, static_cast<int>(patch)));
  }
  return json::parse(request.body);
}

Deletion deletion_of(const json::Value& body, const net::Target& target) {
  Deletion out;
  if (const auto uid = json::string_at(body, {"preconditions", "uid"}); !uid.empty()) out.uid = uid;
  if (const auto v = json::string_at(body, {"preconditions", "resourceVersion"}); !v.empty()) out.version = v;
  out.grace = json::int_at(body, {"gracePeriodSeconds"});
  out.propagation = json::string_at(body, {"propagationPolicy"}, target.get("propagationPolicy"));
  if (const auto grace = target.get("gracePeriodSeconds"); !grace.empty()) out.grace = std::stoll(std::string(grace));
  return out;
}

}  // namespace

Task<net::ServerResponse> FakeApi::write(Route& route, const net::ServerRequest& request) {
  const json::Value body = body_of(request, route.call, route.patch);
  const std::string& verb = route.call.verb;
  const std::string& kind = route.table->resource.name.kind;
  if (verb == "delete" || verb == "deletecollection") {
    if (!route.subresource.empty()) throw ApiFailure(405, "MethodNotAllowed", "the server does not allow this method");
    co_return verb == "delete" ? remove_one(route, body) : remove_all(route, body);
  }
  if (verb == "create" && kind == "Pod" && route.subresource == "eviction") co_return evict(route, body);
  if (verb == "create" && kind == "ServiceAccount" && route.subresource == "token") {
    const auto account = writer_.need(*route.table, route.call.key.ns, route.call.key.name);
    json::Value answer = body;
    const auto seconds = json::int_at(body, {"spec", "expirationSeconds"}).value_or(3600);
    json::at_or_create(answer, {"status", "token"}) =
        fmt::format("token-{}-{}", uid_of(account->value), store_.make_uid());
    json::at_or_create(answer, {"status", "expirationTimestamp"}) =
        print_rfc3339(loop_.wall() + std::chrono::seconds(seconds));
    co_return json_response(201, json::dump(answer));
  }
  co_return co_await write_object(route, body);
}

Draft FakeApi::draft(const Route& route, const json::Value& body) {
  ApiTable& t = *route.table;
  const auto& [ns, name] = route.call.key;
  const std::string& sub = route.subresource;
  const bool known = sub.empty() || (sub == "status" && t.resource.status) || (sub == "scale" && t.resource.scale) ||
                     (sub == "binding" && t.resource.name.kind == "Pod") ||
                     (sub == "finalize" && t.resource.name.kind == "Namespace");
  if (!known) throw ApiFailure::not_served();
  if (sub == "binding") return writer_.bind(t, ns, name, body, route.context);
  if (route.call.verb == "create") return writer_.create(t, ns, body, route.context);
  if (route.call.verb == "update") return writer_.update(t, ns, name, sub, body, route.context);
  return writer_.patch(t, ns, name, sub, route.patch, body, route.context);
}

Task<> FakeApi::admit(Draft& draft) {
  if (!admission_) co_return;
  ApiTable& t = *draft.table;
  Admission admission{.operation = draft.before ? "UPDATE" : "CREATE",
                      .resource = t.resource,
                      .subresource = draft.subresource,
                      .key = {std::string(ns_of(draft.after)), std::string(name_of(draft.after))},
                      .object = t.full(ApiObject{.value = draft.after, .version = 0}),
                      .old = std::nullopt,
                      .dry_run = draft.context.dry_run};
  if (draft.before) admission.old = t.full(*draft.before);
  co_await admission_(admission);
  admission.object.get_object().stable_erase("kind");
  admission.object.get_object().stable_erase("apiVersion");
  draft.after = std::move(admission.object);
}

Task<net::ServerResponse> FakeApi::write_object(Route& route, const json::Value& body) {
  ApiTable& t = *route.table;
  for (int attempt = 0;; ++attempt) {
    Draft made = draft(route, body);
    const bool creates = !made.before;
    co_await admit(made);
    ObjectPtr object;
    try {
      object = writer_.commit(std::move(made));
    } catch (const Moved&) {
      if (attempt + 1 >= kAttempts) throw ApiFailure::modified(t.resource.name, route.call.key.name);
      continue;
    }
    if (!route.context.dry_run) after_commit(t, *object);
    if (route.subresource == "binding") co_return json_response(201, json::dump(success_status(201)));
    if (route.subresource == "scale") co_return json_response(200, json::dump(ApiWriter::scale_of(*object)));
    co_return json_response(creates ? 201 : 200, t.text_of(*object));
  }
}

void FakeApi::after_commit(const ApiTable& table, const ApiObject& object) {
  if (table.resource.name.kind != "CustomResourceDefinition") return;
  const json::Array* versions = json::array_at(object.value, {"spec", "versions"});
  if (!versions) return;
  for (const json::Value& version : *versions) {
    if (!json::bool_at(version, {"served"})) continue;
    add_resource(
        {std::string(json::string_at(object.value, {"spec", "group"})), std::string(json::string_at(version, {"name"})),
         std::string(json::string_at(object.value, {"spec", "names", "plural"})),
         std::string(json::string_at(object.value, {"spec", "names", "kind"})),
         json::string_at(object.value, {"spec", "scope"}) != "Cluster"},
        json::object_at(version, {"subresources", "status"}) != nullptr,
        json::object_at(version, {"subresources", "scale"}) != nullptr);
  }
}

// --- deletions -------------------------------------------------------------------------------------------------------

net::ServerResponse FakeApi::remove_one(const Route& route, const json::Value& body) {
  ApiTable& t = *route.table;
  const auto& [ns, name] = route.call.key;
  const bool dry = route.context.dry_run || json::array_at(body, {"dryRun"}) != nullptr;
  ObjectPtr last;
  const ObjectPtr left = writer_.remove(t, ns, name, deletion_of(body, route.target), dry, &last);
  if (left) return json_response(200, t.text_of(*left));
  if (t.resource.returns_deleted) return json_response(200, t.text_of(*last));
  json::Object details{{"name", name}};
  if (!t.resource.name.group.empty()) details["group"] = t.resource.name.group;
  details["kind"] = t.resource.name.resource;
  details["uid"] = uid_of(last->value);
  return json_response(200, json::dump(success_status(0, std::move(details))));
}

net::ServerResponse FakeApi::remove_all(const Route& route, const json::Value& body) {
  ApiTable& t = *route.table;
  const LabelSelector labels(route.query("labelSelector"));
  const FieldSelector fields(route.query("fieldSelector"), t.resource.name);
  const Deletion how = deletion_of(body, route.target);
  json::Array items;
  for (const ObjectPtr& object : t.list(route.call.key.ns)) {
    if (!labels.matches(object->value) || !fields.matches(object->value)) continue;
    items.push_back(object->value);
    writer_.remove(t, ns_of(object->value), name_of(object->value), how, route.context.dry_run);
  }
  const json::Value list = json::Object{
      {"kind", t.resource.name.kind + "List"},
      {"apiVersion", t.resource.name.api_version()},
      {"metadata", json::Object{{"resourceVersion", std::to_string(store_.version())}}},
      {"items", std::move(items)},
  };
  return json_response(200, json::dump(list));
}

net::ServerResponse FakeApi::evict(const Route& route, const json::Value& body) {
  ApiTable& t = *route.table;
  const auto& [ns, name] = route.call.key;
  const ObjectPtr pod = writer_.need(t, ns, name);
  const json::Value* options = json::find(body, {"deleteOptions"});
  const Deletion how = deletion_of(options ? *options : json::Value(json::Object()), route.target);
  if (how.uid && *how.uid != uid_of(pod->value)) {
    throw ApiFailure::conflict(t.resource.name, name,
                               fmt::format("Precondition failed: UID in precondition: {}, UID in object meta: {}",
                                           *how.uid, uid_of(pod->value)));
  }
  if (!deleting(pod->value) && pod_needs_grace(pod->value)) {
    Draft disrupted{.table = &t, .before = pod, .after = pod->value, .subresource = "status", .context = route.context};
    set_condition(disrupted.after, "DisruptionTarget", "True", "EvictionByEvictionAPI", "Eviction API: evicting",
                  loop_.wall());
    writer_.commit(std::move(disrupted));
  }
  writer_.remove(t, ns, name, {.uid = how.uid, .version = std::nullopt, .grace = how.grace}, route.context.dry_run);
  return json_response(201, json::dump(success_status(201)));
}

}  // namespace bascule::testing
