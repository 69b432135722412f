#include "runtime/guarded.hpp"

#include <map>
#include <memory>

#include "base/log.hpp"

namespace bascule::runtime {

namespace {

using namespace std::chrono_literals;

constexpr Duration kKept = 1min;
constexpr std::size_t kMostKept = 256;
constexpr std::size_t kMostAtOnce = 4;  // strangers' questions to the API server
constexpr std::string_view kBearer = "Bearer ";

const kube::Resource kTokenReviews{"authentication.k8s.io", "v1", "tokenreviews", "TokenReview", false};
const kube::Resource kAccessReviews{"authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", false};

struct Guard {
  Guard(kube::Client& client, net::Handler inner) : kube(client), handler(std::move(inner)) {}
  kube::Client& kube;
  net::Handler handler;
  struct Verdict {
    int status = 200;
    TimePoint until{};
  };
  std::map<std::string, Verdict> known;  // by path and token
  std::size_t asking = 0;

  Task<int> ask(std::string token, std::string path, std::stop_token stop) {
    const json::Value review = co_await kube.create(kTokenReviews, "",
                                                    json::Object{{"apiVersion", "authentication.k8s.io/v1"},
                                                                 {"kind", "TokenReview"},
                                                                 {"spec", json::Object{{"token", token}}}},
                                                    {}, stop);
    if (!json::bool_at(review, {"status", "authenticated"})) co_return 401;
    const json::Value* user = json::find(review, {"status", "user"});
    json::Object spec{{"nonResourceAttributes", json::Object{{"path", path}, {"verb", "get"}}},
                      {"user", user ? json::string_at(*user, {"username"}) : std::string_view()}};
    for (const char* field : {"uid", "groups", "extra"}) {
      const json::Value* value = user ? json::find(*user, {field}) : nullptr;
      if (value != nullptr) spec[field] = *value;
    }
    const json::Value access = co_await kube.create(
        kAccessReviews, "",
        json::Object{
            {"apiVersion", "authorization.k8s.io/v1"}, {"kind", "SubjectAccessReview"}, {"spec", std::move(spec)}},
        {}, stop);
    co_return json::bool_at(access, {"status", "allowed"}) ? 200 : 403;
  }

  Task<int> judge(std::string token, std::string path, std::stop_token stop) {
    std::string key = path + ' ' + token;
    const TimePoint now = kube.loop().now();
    if (const auto found = known.find(key); found != known.end() && now < found->second.until) {
      co_return found->second.status;
    }
    int status = 503;
    // A token costs nothing to make up. Those of a minute ago have their verdict; others come again.
    if (asking >= kMostAtOnce) co_return status;
    struct Counted {
      std::size_t& n;
      ~Counted() { --n; }
    } const counted{++asking};
    try {
      status = co_await ask(std::move(token), std::move(path), std::move(stop));
    } catch (const std::exception& error) {
      log::limited(log::Level::kWarning, 1min, "whether a request is allowed cannot be learnt", {{"why", error}});
      co_return status;
    }
    keep(std::move(key), status);
    co_return status;
  }

  // Made-up tokens do not drive out those that are good.
  void keep(std::string key, int status) {
    if (known.size() >= kMostKept) std::erase_if(known, [](const auto& one) { return one.second.status != 200; });
    if (known.size() >= kMostKept) known.clear();
    known.insert_or_assign(std::move(key), Verdict{status, kube.loop().now() + kKept});
  }
};

Task<net::ServerResponse> serve(std::shared_ptr<Guard> guard, const net::ServerRequest& request, std::stop_token stop) {
  const std::string_view header = request.headers.get("Authorization");
  int status = 401;
  if (header.starts_with(kBearer) && header.size() > kBearer.size()) {
    std::string path = request.target.substr(0, request.target.find('?'));
    status = co_await guard->judge(std::string(header.substr(kBearer.size())), std::move(path), stop);
  }
  if (status == 200) co_return co_await guard->handler(request, stop);
  net::ServerResponse response{.status = status, .headers = {}, .body = {}, .stream = nullptr};
  response.body = status == 401 ? "Unauthorized\n" : status == 403 ? "Forbidden\n" : "Service Unavailable\n";
  co_return response;
}

}  // namespace

net::Handler guarded(kube::Client& kube, net::Handler handler) {
  const auto guard = std::make_shared<Guard>(kube, std::move(handler));
  return [guard](const net::ServerRequest& request, std::stop_token stop) {
    return serve(guard, request, std::move(stop));
  };
}

}  // namespace bascule::runtime
