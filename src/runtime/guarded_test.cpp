#include "runtime/guarded.hpp"

#include <gtest/gtest.h>

#include <map>

#include "base/async.hpp"
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
    most_at_once = std::max(most_at_once, ++at_once);
    co_await sleep_for(loop, slow, {});
    --at_once;
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
  static net::ServerRequest request(const std::string& authorization, const std::string& target = "/metrics") {
    net::ServerRequest out{.target = target};
    if (!authorization.empty()) out.headers.set("Authorization", authorization);
    return out;
  }
  int status(const std::string& authorization, const std::string& target = "/metrics") {
    const net::ServerRequest asked = request(authorization, target);
    return testing::run(loop, guard(asked, {})).status;
  }
  // How many of `count` made-up tokens, all at once, got which status.
  std::map<int, int> strangers(int count) {
    std::vector<net::ServerRequest> requests;
    for (int i = 0; i < count; ++i) requests.push_back(request("Bearer made-up-" + std::to_string(++made_up)));
    std::map<int, int> out;
    std::vector<Task<>> tasks;
    for (const net::ServerRequest& one : requests) {
      tasks.push_back([](const net::Handler& g, const net::ServerRequest& r, std::map<int, int>& o) -> Task<> {
        const net::ServerResponse response = co_await g(r, {});
        ++o[response.status];
      }(guard, one, out));
    }
    testing::run(loop, when_all(loop, std::move(tasks)));
    return out;
  }
  int made_up = 0;

  ManualLoop loop;
  int calls = 0;
  int at_once = 0, most_at_once = 0;
  Duration slow{};
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

// Whoever reaches the port can make up tokens.
TEST_F(GuardedTest, StrangersHaveFewQuestionsAskedAtOnce) {
  slow = 1s;
  EXPECT_EQ(strangers(200), (std::map<int, int>{{401, 4}, {503, 196}}));
  EXPECT_EQ(most_at_once, 4);
  EXPECT_EQ(strangers(1), (std::map<int, int>{{401, 1}})) << "those were answered";
}

TEST_F(GuardedTest, StrangersDoNotDriveOutWhoIsKnown) {
  EXPECT_EQ(status("Bearer prometheus"), 200);
  for (int i = 0; i < 300; ++i) strangers(1);
  calls = 0;
  EXPECT_EQ(status("Bearer prometheus"), 200);
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace bascule::runtime
