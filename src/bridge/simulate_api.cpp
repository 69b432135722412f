#include "bridge/simulate_api.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <ranges>
#include <utility>

#include "base/check.hpp"
#include "net/loopback.hpp"

namespace bascule::bridge {

namespace {

using namespace std::chrono_literals;

// Plurals as Kubernetes guesses them.
std::string plural(std::string_view kind) {
  std::string out;
  for (const char c : kind) out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (out.ends_with('s') || out.ends_with('x')) return out + "es";
  if (out.ends_with('y')) return out.substr(0, out.size() - 1) + "ies";
  return out + "s";
}

kube::Resource resource_of(const json::Value& object) {
  const std::string_view api_version = json::string_at(object, {"apiVersion"});
  const std::size_t slash = api_version.find('/');
  const bool core = slash == std::string_view::npos;
  const std::string_view ns = json::string_at(object, {"metadata", "namespace"});
  const std::string_view kind = json::string_at(object, {"kind"});
  return {std::string(core ? "" : api_version.substr(0, slash)),
          std::string(core ? api_version : api_version.substr(slash + 1)), plural(kind), std::string(kind),
          !ns.empty()};
}

std::string path_of(const json::Value& object) {
  return kube::resource_path(resource_of(object), json::string_at(object, {"metadata", "namespace"}),
                             json::string_at(object, {"metadata", "name"}));
}

json::Value discovered(const kube::Resource& resource) {
  return json::Object{{"name", resource.resource}, {"kind", resource.kind}, {"namespaced", resource.namespaced}};
}

net::ServerResponse answer(int status, const json::Value& body) {
  net::ServerResponse response;
  response.status = status;
  response.headers.set("Content-Type", "application/json");
  response.body = json::dump(body);
  return response;
}

net::ServerResponse not_found(const std::string& path) {
  return answer(404, json::Object{{"kind", "Status"},
                                  {"apiVersion", "v1"},
                                  {"status", "Failure"},
                                  {"reason", "NotFound"},
                                  {"message", "not in the file"},
                                  {"details", json::Object{{"name", path.substr(path.rfind('/') + 1)}}},
                                  {"code", 404}});
}

// "/apis/GROUP/VERSION", or "/api/v1", of an object's path, and the name of its resource.
std::pair<std::string, std::string> kind_of(const std::string& path) {
  std::vector<std::string> parts;
  for (const auto part : std::views::split(std::string_view(path).substr(1), '/')) {
    parts.emplace_back(std::string_view(part));
  }
  const std::size_t above = parts.front() == "api" ? 2 : 3;  // api, v1; apis, group, version
  const bool namespaced = parts.size() > above + 2 && parts[above] == "namespaces";
  const std::size_t at = above + (namespaced ? 2 : 0);
  std::string group;
  for (std::size_t i = 0; i < std::min(above, parts.size()); ++i) group += "/" + parts[i];
  return {group, at < parts.size() ? parts[at] : ""};
}

// Another status than 404: what the file does not have of a kind need not be away.
net::ServerResponse nothing_of(std::string_view group, std::string_view resource) {
  const std::string_view versionless = group.substr(0, group.rfind('/'));
  const bool core = versionless == "/api";
  const std::string_view of = core ? "" : versionless.substr(versionless.rfind('/') + 1);
  return answer(422, json::Object{{"kind", "Status"},
                                  {"apiVersion", "v1"},
                                  {"status", "Failure"},
                                  {"message", fmt::format("the file has no {}{}{}", resource, core ? "" : " of ", of)},
                                  {"code", 422}});
}

// Lets the loop run until the task has ended.
void run(ManualLoop& loop, Task<> task) {
  Gate gate(loop);
  spawn(gate, std::move(task));
  BASCULE_CHECK(loop.run_until([&gate] { return gate.count() == 0; }, 1h), "a memory answers at once");
}

Task<> find_root(Owners& owners, PodPtr pod, Owners::Found& found) {
  found = co_await owners.root_of(std::move(pod), {});
}

}  // namespace

SimulatedApi::SimulatedApi(ManualLoop& loop, const std::vector<json::Value>& objects, json::Interner& interner)
    : loop_(loop) {
  for (const json::Value& object : objects) {
    objects_.insert_or_assign(path_of(object), &object);
    const kube::Resource resource = resource_of(object);
    kinds_[(resource.group.empty() ? "/api/" : "/apis/") + resource.api_version()].insert_or_assign(
        resource.resource, discovered(resource));
  }
  transport_ =
      net::make_loopback(loop, [this](const net::ServerRequest& request, std::stop_token) { return serve(request); });
  client_ = std::make_unique<kube::Client>(loop, *transport_, kube::ClientOptions{});
  jobs_ = std::make_unique<kube::Informer<kube::Job>>(
      *client_, kube::InformerOptions{.resource = kube::resources::kJobs}, kube::decode_job, interner);
  owners_ = std::make_unique<Owners>(*client_, *jobs_);
}

SimulatedApi::~SimulatedApi() = default;

Owners::Found SimulatedApi::root_of(PodPtr pod) {
  Owners::Found found = "nobody looked";
  run(loop_, find_root(*owners_, std::move(pod), found));
  return found;
}

Task<net::ServerResponse> SimulatedApi::serve(const net::ServerRequest& request) const {
  const std::string path = request.target.substr(0, request.target.find('?'));
  if (const auto found = objects_.find(path); found != objects_.end()) co_return answer(200, *found->second);
  const auto [group, resource] = kind_of(path);
  const auto kinds = kinds_.find(group);
  if (!resource.empty()) {
    const bool others = kinds != kinds_.end() && kinds->second.contains(resource);
    co_return others ? not_found(path) : nothing_of(group, resource);
  }
  // A group that the file has nothing of is not served: whether it may be read is not known, and the pod speaks.
  if (kinds == kinds_.end()) co_return net::ServerResponse{.status = 404};
  json::Array list;
  for (const auto& [name, entry] : kinds->second) list.push_back(entry);
  co_return answer(200, json::Object{{"kind", "APIResourceList"}, {"resources", std::move(list)}});
}

}  // namespace bascule::bridge
