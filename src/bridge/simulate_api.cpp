#include "bridge/simulate_api.hpp"

#include <algorithm>
#include <cctype>

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

Task<> silence(ManualLoop& loop, std::stop_token stop) {
  while (co_await sleep_for(loop, 24h, stop)) {
  }
}

// Lets the loop run until the task has ended.
void run(ManualLoop& loop, Task<> task) {
  Gate gate(loop);
  spawn(gate, std::move(task));
  BASCULE_CHECK(loop.run_until([&gate] { return gate.count() == 0; }, 1h), "a memory answers at once");
}

Task<> wait_synced(kube::Informer<kube::Job>& informer) {
  (void)co_await informer.wait_synced({}, TimePoint::max());
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
    kinds_["/apis/" + resource.api_version()].push_back(discovered(resource));
    if (json::string_at(object, {"kind"}) == "Job" && json::string_at(object, {"apiVersion"}) == "batch/v1") {
      jobs_.push_back(object);
    }
  }
  transport_ = net::make_loopback(loop, [this](const net::ServerRequest& request, std::stop_token stop) {
    return serve(request, std::move(stop));
  });
  client_ = std::make_unique<kube::Client>(loop, *transport_, kube::ClientOptions{});
  informer_ = std::make_unique<kube::Informer<kube::Job>>(
      *client_, kube::InformerOptions{.resource = kube::resources::kJobs}, kube::decode_job, interner);
  owners_ = std::make_unique<Owners>(*client_, *informer_);
  informer_->start();
  run(loop_, wait_synced(*informer_));
}

SimulatedApi::~SimulatedApi() {
  run(loop_, informer_->stop());
}

Owners::Found SimulatedApi::root_of(PodPtr pod) {
  Owners::Found found = "nobody looked";
  run(loop_, find_root(*owners_, std::move(pod), found));
  return found;
}

Task<net::ServerResponse> SimulatedApi::serve(const net::ServerRequest& request, std::stop_token) {
  const std::string target = request.target;
  const std::string path = target.substr(0, target.find('?'));
  if (path == kube::resource_path(kube::resources::kJobs, {})) {
    if (target.find("watch=") != std::string::npos) {
      net::ServerResponse response;
      response.headers.set("Content-Type", "application/json");
      response.stream = [this](net::BodySink&, std::stop_token stop) { return silence(loop_, std::move(stop)); };
      co_return response;
    }
    co_return answer(200, json::Object{{"kind", "JobList"},
                                       {"apiVersion", "batch/v1"},
                                       {"metadata", json::Object{{"resourceVersion", "1"}}},
                                       {"items", jobs_}});
  }
  if (std::ranges::count(path, '/') == 3 && path.starts_with("/apis/")) {
    // A kind that the file has nothing of is not served: whether it may be read is not known, and the pod speaks.
    const auto kinds = kinds_.find(path);
    if (kinds == kinds_.end()) co_return net::ServerResponse{.status = 404};
    co_return answer(200, json::Object{{"kind", "APIResourceList"}, {"resources", kinds->second}});
  }
  const auto found = objects_.find(path);
  co_return found == objects_.end() ? not_found(path) : answer(200, *found->second);
}

}  // namespace bascule::bridge
