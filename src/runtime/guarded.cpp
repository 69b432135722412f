#include "runtime/guarded.hpp"

#include <map>
#include <memory>

#include "base/log.hpp"

namespace bascule::runtime {

namespace {

using namespace std::chrono_literals;

constexpr Duration kKept = 1min;
constexpr std::size_t kMostKept = 256;
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
    try {
      status = co_await ask(std::move(token), std::move(path), std::move(stop));
    } catch (const std::exception& error) {
      log::limited(log::Level::kWarning, 1min, "whether a request is allowed cannot be learnt", {{"why", error}});
      co_return status;
    }
    if (known.size() >= kMostKept) known.clear();
    known.insert_or_assign(std::move(key), Verdict{status, kube.loop().now() + kKept});
    co_return status;
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
