// Discovery, version and health.
#include <fmt/format.h>

#include <set>

#include "testing/fake_api_route.hpp"

namespace bascule::testing {

namespace {

json::Array verbs(std::initializer_list<std::string_view> list) {
  json::Array out;
  for (const std::string_view verb : list) out.emplace_back(verb);
  return out;
}

json::Value resource_list(const ApiStore& store, std::string_view group, std::string_view version) {
  json::Array resources;
  for (const ApiTable* table : store.tables()) {
    const ApiResource& r = table->resource;
    if (r.name.group != group || r.name.version != version) continue;
    json::Object entry{
        {"name", r.name.resource},
        {"singularName", r.singular},
        {"namespaced", r.name.namespaced},
        {"kind", r.name.kind},
        {"verbs", verbs({"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"})}};
    if (!r.short_names.empty()) {
      json::Array names;
      for (const std::string& name : r.short_names) names.emplace_back(name);
      entry["shortNames"] = std::move(names);
    }
    resources.push_back(std::move(entry));
    const auto sub = [&](std::string_view name, std::string_view kind, json::Array allowed) {
      resources.push_back(json::Object{{"name", fmt::format("{}/{}", r.name.resource, name)},
                                       {"singularName", ""},
                                       {"namespaced", r.name.namespaced},
                                       {"kind", kind},
                                       {"verbs", std::move(allowed)}});
    };
    if (r.status) sub("status", r.name.kind, verbs({"get", "patch", "update"}));
    if (r.scale) sub("scale", "Scale", verbs({"get", "patch", "update"}));
    if (r.name.kind == "Pod" && group.empty()) {
      sub("binding", "Binding", verbs({"create"}));
      sub("eviction", "Eviction", verbs({"create"}));
    }
  }
  if (resources.empty()) return nullptr;
  return json::Object{{"kind", "APIResourceList"},
                      {"apiVersion", "v1"},
                      {"groupVersion", group.empty() ? std::string(version) : fmt::format("{}/{}", group, version)},
                      {"resources", std::move(resources)}};
}

json::Value group_of(const ApiStore& store, std::string_view group) {
  std::vector<std::string> found;
  for (const ApiTable* table : store.tables()) {
    const kube::Resource& r = table->resource.name;
    if (r.group == group && std::ranges::find(found, r.version) == found.end()) found.push_back(r.version);
  }
  if (found.empty()) return nullptr;
  json::Array versions;
  for (const std::string& v : found) {
    versions.push_back(json::Object{{"groupVersion", fmt::format("{}/{}", group, v)}, {"version", v}});
  }
  json::Value preferred = versions[0];
  return json::Object{{"name", group}, {"versions", std::move(versions)}, {"preferredVersion", std::move(preferred)}};
}

net::ServerResponse plain(int status, std::string text) {
  net::ServerResponse out{.status = status, .headers = {}, .body = std::move(text), .stream = nullptr};
  out.headers.set("Content-Type", "text/plain; charset=utf-8");
  return out;
}

}  // namespace

std::optional<net::ServerResponse> FakeApi::discovery(const net::Target& target) const {
  const std::string_view path = target.path;
  if (path == "/readyz" || path == "/healthz" || path == "/livez") return plain(200, "ok");
  if (path == "/version") {
    return json_response(
        200, json::dump(json::Object{
                 {"major", "1"}, {"minor", "36"}, {"gitVersion", "v1.36.0-fake"}, {"platform", "linux/amd64"}}));
  }
  if (path == "/api") {
    return json_response(200, R"({"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[]})");
  }
  if (path == "/apis") {
    std::set<std::string> names;
    json::Array groups;
    for (const ApiTable* table : store_.tables()) {
      const std::string& name = table->resource.name.group;
      if (!name.empty() && names.insert(name).second) groups.push_back(group_of(store_, name));
    }
    return json_response(
        200, json::dump(json::Object{{"kind", "APIGroupList"}, {"apiVersion", "v1"}, {"groups", std::move(groups)}}));
  }
  std::vector<std::string_view> parts;
  for (std::size_t start = 1; start < path.size();) {
    const auto slash = std::min(path.find('/', start), path.size());
    parts.push_back(path.substr(start, slash - start));
    start = slash + 1;
  }
  if (parts.size() == 2 && parts[0] == "api") {
    const json::Value list = resource_list(store_, "", parts[1]);
    if (!list.is_null()) return json_response(200, json::dump(list));
  }
  if (parts.size() == 2 && parts[0] == "apis") {
    json::Value group = group_of(store_, parts[1]);
    if (!group.is_null()) {
      group.get_object()["kind"] = "APIGroup";
      group.get_object()["apiVersion"] = "v1";
      return json_response(200, json::dump(group));
    }
  }
  if (parts.size() == 3 && parts[0] == "apis") {
    const json::Value list = resource_list(store_, parts[1], parts[2]);
    if (!list.is_null()) return json_response(200, json::dump(list));
  }
  // A group or version that nobody serves is no Status but the text of Go's file server.
  const bool known = (parts.size() > 2 && parts[0] == "api" && parts[1] == "v1") ||
                     (parts.size() > 3 && parts[0] == "apis" && !resource_list(store_, parts[1], parts[2]).is_null());
  if (!known) return plain(404, "404 page not found\n");
  return std::nullopt;
}

}  // namespace bascule::testing
