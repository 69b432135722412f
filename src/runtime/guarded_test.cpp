#include "runtime/guarded.hpp"

#include <gtest/gtest.h>

#include "base/manual_loop.hpp"
#include "json/value.hpp"
#include "net/loopback.hpp"
#include "testing/run.hpp"

namespace bascule::runtime {
namespace {

using namespace std::chrono_literals;

// An API server that knows the tokens "prometheus" and "somebody", and lets the first get /metrics.
struct GuardedTest : ::testing::Test {
  Task<net::ServerResponse> answer(const net::ServerRequest& request) {
    ++calls;
    net::ServerResponse response{.status = away ? 500 : 201, .headers = {}, .body = {}, .stream = nullptr};
    const json::Value asked = json::parse(request.body);
    if (request.target.starts_with("/apis/authentication.k8s.io/v1/tokenreviews")) {
      const std::string token(json::string_at(asked, {"spec", "token"}));
      const bool known = token == "prometheus" || token == "somebody";
      response.body = json::dump(json::Object{
          {"status", json::Object{{"authenticated", known},
                                  {"user", json::Object{{"username", token}, {"groups", json::Array{"g"}}}}}}});
    } else if (request.target.starts_with("/apis/authorization.k8s.io/v1/subjectaccessreviews")) {
      const json::Value* what = json::find(asked, {"spec", "nonResourceAttributes"});
      const bool allowed = json::string_at(asked, {"spec", "user"}) == "prometheus" && what != nullptr &&
                           json::string_at(*what, {"path"}) == "/metrics" &&
                           json::string_at(*what, {"verb"}) == "get" &&
                           json::array_at(asked, {"spec", "groups"}) != nullptr;
      response.body = json::dump(json::Object{{"status", json::Object{{"allowed", allowed}}}});
    } else {
      response.status = 404;
    }
    co_return response;
  }
  int status(const std::string& authorization, const std::string& target = "/metrics") {
    net::ServerRequest request{.target = target};
    if (!authorization.empty()) request.headers.set("Authorization", authorization);
    return testing::run(loop, guard(request, {})).status;
  }

  ManualLoop loop;
  int calls = 0;
  bool away = false;
  std::unique_ptr<net::Transport> transport =
      net::make_loopback(loop, [this](const net::ServerRequest& request, std::stop_token) { return answer(request); });
  kube::Client client{loop, *transport, {}};
  net::Handler guard = guarded(client, [](const net::ServerRequest&, std::stop_token) -> Task<net::ServerResponse> {
    co_return net::ServerResponse{.status = 200, .headers = {}, .body = "x 1\n", .stream = nullptr};
  });
};

TEST_F(GuardedTest, OnlyWhoKubernetesLets) {
  EXPECT_EQ(status("Bearer prometheus"), 200);
  EXPECT_EQ(status("Bearer prometheus", "/metrics?a=b"), 200);
  EXPECT_EQ(status("Bearer prometheus", "/other"), 403);
  EXPECT_EQ(status("Bearer somebody"), 403);
  EXPECT_EQ(status("Bearer nobody"), 401);
  EXPECT_EQ(status("Basic prometheus"), 401);
  EXPECT_EQ(status("Bearer "), 401);
  EXPECT_EQ(status(""), 401);
}

TEST_F(GuardedTest, AVerdictIsKeptForAMinute) {
  EXPECT_EQ(status("Bearer prometheus"), 200);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(status("Bearer prometheus"), 200);
  EXPECT_EQ(calls, 2);
  loop.advance(2min);
  EXPECT_EQ(status("Bearer prometheus"), 200);
  EXPECT_EQ(calls, 4);
}

TEST_F(GuardedTest, NobodyIsLetInWhileTheApiServerIsAway) {
  away = true;
  EXPECT_EQ(status("Bearer prometheus"), 503);
  away = false;
  EXPECT_EQ(status("Bearer prometheus"), 200) << "what is not known is not kept";
}

}  // namespace
}  // namespace bascule::runtime
