#include "testing/fake_api.hpp"

#include <fmt/format.h>

#include "base/check.hpp"
#include "testing/fake_api_route.hpp"
#include "testing/fake_api_rules.hpp"

namespace bascule::testing {

FakeApi::FakeApi(Loop& loop, FakeApiOptions options)
    : loop_(loop), options_(std::move(options)), store_(loop, options_.history, options_.seed), writer_(loop, store_) {
  for (ApiResource& resource : builtin_resources()) store_.add(std::move(resource));
  writer_.namespaces_must_exist = options_.namespaces_must_exist;
  for (const char* name : {"default", "kube-system"}) {
    create(kube::resources::kNamespaces, json::Object{{"metadata", json::Object{{"name", name}}}});
  }
}

net::Handler FakeApi::handler() {
  return [this](const net::ServerRequest& request, std::stop_token stop) { return serve(request, std::move(stop)); };
}

void FakeApi::add_resource(kube::Resource resource, bool status, bool scale) {
  ApiResource out{.name = std::move(resource)};
  for (const char c : out.name.kind) out.singular += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  out.status = status;
  out.scale = scale;
  out.generation = true;
  out.unconditional = false;
  out.custom = true;
  store_.add(std::move(out));
}

ApiTable& FakeApi::table(const kube::Resource& resource) const {
  return store_.table(resource);
}

void FakeApi::remember() {
  remembered_.clear();
  for (const ApiTable* table : store_.tables()) {
    remembered_[table] = {.objects = table->list(""), .version = store_.version(), .made = loop_.now()};
  }
}

void FakeApi::end_watches() {
  ++watch_generation_;
  for (ApiTable* table : store_.tables()) table->news.notify();
}

// --- counting --------------------------------------------------------------------------------------------------------

void FakeApi::count(const ApiCall& call) {
  ++counts_[{call.verb, call.resource}];
}

std::size_t FakeApi::calls(std::string_view verb, std::string_view resource) const {
  std::size_t sum = 0;
  for (const auto& [key, n] : counts_) {
    if ((verb.empty() || key.first == verb) && (resource.empty() || key.second == resource)) sum += n;
  }
  return sum;
}

std::size_t FakeApi::write_calls() const {
  return calls("") - calls("get") - calls("list") - calls("watch");
}

void FakeApi::reset_counts() {
  counts_.clear();
  writes_.clear();
}

// --- from inside -----------------------------------------------------------------------------------------------------

json::Value FakeApi::create(const kube::Resource& resource, json::Value object) {
  ApiTable& t = table(resource);
  const std::string ns(resource.namespaced ? json::string_at(object, {"metadata", "namespace"}, "default") : "");
  const ObjectPtr made = writer_.commit(writer_.create(t, ns, std::move(object), {}));
  after_commit(t, *made);
  return t.full(*made);
}

Task<json::Value> FakeApi::create_admitted(kube::Resource resource, json::Value object) {
  ApiTable& t = table(resource);
  const std::string ns(resource.namespaced ? json::string_at(object, {"metadata", "namespace"}, "default") : "");
  Draft draft = writer_.create(t, ns, std::move(object), {.manager = "kube-controller-manager"});
  co_await admit(draft);
  const ObjectPtr made = writer_.commit(std::move(draft));
  after_commit(t, *made);
  co_return t.full(*made);
}

std::optional<json::Value> FakeApi::get(const kube::Resource& resource, const NamespacedName& key) const {
  const ApiTable& t = table(resource);
  const ObjectPtr found = t.find(key.ns, key.name);
  if (!found) return std::nullopt;
  return t.full(*found);
}

std::vector<json::Value> FakeApi::list(const kube::Resource& resource, std::string_view ns,
                                       std::string_view labels) const {
  const ApiTable& t = table(resource);
  const LabelSelector selector(labels);
  std::vector<json::Value> out;
  for (const ObjectPtr& object : t.list(ns)) {
    if (selector.matches(object->value)) out.push_back(t.full(*object));
  }
  return out;
}

json::Value FakeApi::update(const kube::Resource& resource, json::Value object, std::string_view subresource) {
  ApiTable& t = table(resource);
  const std::string ns(ns_of(object));
  const std::string name(name_of(object));
  return t.full(*writer_.commit(writer_.update(t, ns, name, subresource, std::move(object), {})));
}

json::Value FakeApi::patch(const kube::Resource& resource, const NamespacedName& key, const json::Value& patch,
                           std::string_view subresource) {
  ApiTable& t = table(resource);
  return t.full(*writer_.commit(writer_.patch(t, key.ns, key.name, subresource, PatchKind::kMerge, patch, {})));
}

bool FakeApi::remove(const kube::Resource& resource, const NamespacedName& key, const Deletion& how) {
  ApiTable& t = table(resource);
  if (!t.find(key.ns, key.name)) return false;
  writer_.remove(t, key.ns, key.name, how, false);
  return true;
}

void FakeApi::erase(const kube::Resource& resource, const NamespacedName& key) {
  ApiTable& t = table(resource);
  if (const ObjectPtr found = t.find(key.ns, key.name)) store_.remove(t, found);
}

// --- a request -------------------------------------------------------------------------------------------------------

namespace {

std::vector<std::string> segments_of(std::string_view path) {
  std::vector<std::string> out;
  for (std::size_t start = 0; start < path.size();) {
    const auto slash = std::min(path.find('/', start), path.size());
    if (slash > start) out.push_back(net::percent_decode(path.substr(start, slash - start)));
    start = slash + 1;
  }
  return out;
}

std::string verb_of(std::string_view method, bool named, bool watching) {
  if (method == "GET") return watching ? "watch" : named ? "get" : "list";
  if (method == "POST") return "create";
  if (method == "PUT") return "update";
  if (method == "PATCH") return "patch";
  if (method == "DELETE") return named ? "delete" : "deletecollection";
  return std::string(method);
}

PatchKind patch_kind(std::string_view type, const ApiResource& resource) {
  type = type.substr(0, type.find(';'));
  if (type == "application/json-patch+json") return PatchKind::kJson;
  if (type == "application/merge-patch+json") return PatchKind::kMerge;
  if (type == "application/apply-patch+yaml") return PatchKind::kApply;
  if (type == "application/strategic-merge-patch+json" && !resource.custom) return PatchKind::kStrategic;
  throw ApiFailure(415, "UnsupportedMediaType",
                   "the body of the request was in an unknown format - accepted media types include: "
                   "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml");
}

std::string manager_of(std::string_view said, std::string_view user_agent) {
  return std::string(!said.empty() ? said : user_agent.substr(0, user_agent.find('/')));
}

Task<net::ServerResponse> never(Loop& loop, std::stop_token stop) {
  while (co_await sleep_until(loop, TimePoint::max(), stop)) {
  }
  co_return net::ServerResponse{.status = 504, .headers = {}, .body = {}, .stream = nullptr};
}

// The head arrives, the body breaks after `bytes`.
net::ServerResponse cut(net::ServerResponse response, std::size_t bytes) {
  std::string begin = response.body.substr(0, bytes);
  response.body.clear();
  response.stream = [begin = std::move(begin)](net::BodySink& sink, std::stop_token) {
    return [](net::BodySink& to, std::string piece) -> Task<> {
      if (!piece.empty()) co_await to.write(std::move(piece));
      throw std::runtime_error("cut, as planned");
    }(sink, begin);
  };
  return response;
}

net::ServerResponse planned_status(const ApiFault& fault) {
  switch (fault.code) {
    case 409:
      return ApiFailure(409, "Conflict", "the object has been modified, as planned").response();
    case 410:
      return ApiFailure::expired("too old resource version, as planned").response();
    case 429:
      return ApiFailure::too_many(fault.retry_after).response();
    case 503:
      return ApiFailure(503, "ServiceUnavailable", "the server is currently unable to handle the request",
                        json::Object{{"retryAfterSeconds", fault.retry_after}})
          .response();
    case 504:
      return ApiFailure(504, "Timeout", "Timeout: request did not complete within the allotted timeout").response();
    case 403:
      return ApiFailure(403, "Forbidden", "forbidden, as planned").response();
    case 401:
      return ApiFailure(401, "Unauthorized", "Unauthorized").response();
    default:
      return ApiFailure(fault.code, fault.code == 500 ? "InternalError" : "", "Internal error occurred: as planned")
          .response();
  }
}

}  // namespace

FakeApi::Route FakeApi::route(const net::ServerRequest& request) {
  Route out;
  out.target = net::parse_target(request.target);
  const auto parts = segments_of(out.target.path);
  const bool core = !parts.empty() && parts[0] == "api";
  std::size_t at = core ? 2 : 3;
  if (parts.size() <= at || (!core && parts[0] != "apis")) return out;
  out.call.group = core ? "" : parts[1];
  const std::string& version = parts[at - 1];
  if (parts[at] == "namespaces" && parts.size() > at + 2 && parts[at + 2] != "status" && parts[at + 2] != "finalize") {
    out.call.key.ns = parts[at + 1];
    at += 2;
  }
  out.table = store_.table(out.call.group, version, parts[at]);
  if (parts.size() > at + 1) out.call.key.name = parts[at + 1];
  if (parts.size() > at + 2) out.subresource = parts[at + 2];
  out.call.resource = out.subresource.empty() ? parts[at] : parts[at] + "/" + out.subresource;
  out.call.verb = verb_of(request.method, !out.call.key.name.empty(), out.flag("watch"));
  if (!out.table) return out;
  if (request.method == "PATCH") out.patch = patch_kind(request.headers.get("Content-Type"), out.table->resource);
  if (request.method == "PATCH" && out.patch == PatchKind::kApply && out.query("fieldManager").empty()) {
    throw ApiFailure::invalid({"meta.k8s.io", "v1", "", "PatchOptions", false}, "", "fieldManager",
                              "Required value: is required for apply patch", "FieldValueRequired");
  }
  out.context = {.manager = manager_of(out.query("fieldManager"), request.headers.get("User-Agent")),
                 .force = out.flag("force"),
                 .dry_run = out.query("dryRun") == "All"};
  return out;
}

Task<net::ServerResponse> FakeApi::serve(const net::ServerRequest& request, std::stop_token stop) {
  using Kind = ApiFault::Kind;
  if (options_.accepts) {
    const std::string_view header = request.headers.get("Authorization");
    const std::string_view token = header.starts_with("Bearer ") ? header.substr(7) : std::string_view();
    if (!options_.accepts(token)) co_return ApiFailure(401, "Unauthorized", "Unauthorized").response();
  }
  Route route;
  std::optional<net::ServerResponse> early;
  try {
    route = this->route(request);
    const std::string_view agent = request.headers.get("User-Agent");
    if (on_call_ && !route.call.verb.empty()) on_call_(route.call, agent.substr(0, agent.find('/')));
    if (!route.table) {
      early = discovery(route.target);
      if (!early) throw ApiFailure::not_served();
    }
  } catch (const ApiFailure& e) {
    early = e.response();
  } catch (const std::invalid_argument& e) {
    early = ApiFailure::bad_request(e.what()).response();
  }
  if (early) co_return std::move(*early);

  count(route.call);
  const ApiFault fault = faults_ ? faults_(route.call) : ApiFault{};
  if (fault.before > Duration::zero()) co_await sleep_for(loop_, fault.before, stop);
  if (fault.kind == Kind::kStallBefore) co_return co_await never(loop_, stop);
  if (fault.kind == Kind::kStatus) co_return planned_status(fault);
  if (fault.kind == Kind::kCutBefore) co_return cut(json_response(200, ""), 0);

  net::ServerResponse response;
  response = co_await answer(route, request, fault);
  if (route.call.writes()) {
    writes_.push_back({loop_.wall(), route.call, response.status, std::string(request.headers.get("User-Agent")),
                       route.context.manager, request.body});
    if (writes_.size() > 100'000) writes_.pop_front();
  }
  if (fault.kind == Kind::kStallAfter) co_return co_await never(loop_, stop);
  if (fault.kind == Kind::kStatusAfter) co_return planned_status(fault);
  if (fault.after > Duration::zero() && !response.stream) co_await sleep_for(loop_, fault.after, stop);
  if (fault.kind == Kind::kCutAfter) co_return cut(std::move(response), 0);
  if (fault.kind == Kind::kHalf && !response.stream) {
    const std::size_t half = response.body.size() / 2;
    co_return cut(std::move(response), half);
  }
  co_return response;
}

Task<net::ServerResponse> FakeApi::answer(Route& route, const net::ServerRequest& request, const ApiFault& fault) {
  std::optional<net::ServerResponse> failed;
  const bool stale = fault.kind == ApiFault::Kind::kStale;
  try {
    if (route.call.verb == "watch") co_return watch(route, fault);
    if (route.call.verb == "list") co_return list_all(route, stale);
    if (route.call.verb == "get") co_return get_one(route, stale);
    co_return co_await write(route, request);
  } catch (const ApiFailure& e) {
    failed = e.response();
  } catch (const json::ParseError& e) {
    failed = ApiFailure::bad_request(e.what()).response();
  } catch (const json::ShapeError& e) {
    failed = ApiFailure::bad_request(e.what()).response();
  }
  co_return std::move(*failed);
}

}  // namespace bascule::testing
