#include "bridge/webhook.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/async.hpp"
#include "base/manual_loop.hpp"

namespace bascule::bridge {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string review(std::string_view operation, std::string_view ns, std::string_view spec,
                   std::string_view old_object = "null") {
  return fmt::format(
      R"({{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"u","operation":"{}",
      "namespace":"{}","resource":{{"group":"","version":"v1","resource":"pods"}},"userInfo":{{"username":"ada"}},
      "object":{{"metadata":{{"name":"p"}},"spec":{}}},"oldObject":{}}}}})",
      operation, ns, spec, old_object);
}

class WebhookTest : public testing::Test {
 protected:
  net::ServerResponse call(std::string method, std::string target, std::string body) {
    net::ServerRequest request;
    request.method = std::move(method);
    request.target = std::move(target);
    request.body = std::move(body);
    const net::Handler handler =
        make_webhook(config_, [this](std::string ns, std::stop_token) { return labels(std::move(ns)); });
    net::ServerResponse response;
    Gate gate(loop_);
    spawn(gate, run(handler, request, response));
    loop_.run_ready();
    EXPECT_EQ(gate.count(), 0u);
    return response;
  }
  Task<std::optional<json::Object>> labels(std::string ns) {
    asked_.push_back(ns);
    co_return known_;
  }
  static Task<> run(const net::Handler& handler, const net::ServerRequest& request, net::ServerResponse& response) {
    response = co_await handler(request, {});
  }
  void select() { config_.managed_namespace_selector = LabelSelector{{{"team", "In", {"hpc"}}}}; }

  ManualLoop loop_;
  Config config_;
  std::optional<json::Object> known_;
  std::vector<std::string> asked_;
};

TEST_F(WebhookTest, PatchesAndValidates) {
  config_.managed_namespaces = {"hpc"};
  const auto mutated = call("POST", "/mutate--v1-pod?timeout=10s", review("CREATE", "hpc", "{}"));
  EXPECT_EQ(mutated.status, 200);
  EXPECT_THAT(mutated.body, AllOf(HasSubstr(R"("allowed":true)"), HasSubstr(R"("patchType":"JSONPatch")")));
  const auto refused =
      call("POST", "/validate--v1-pod", review("CREATE", "hpc", R"({"topologySpreadConstraints":[{}]})"));
  EXPECT_EQ(refused.status, 200);
  EXPECT_THAT(refused.body, AllOf(HasSubstr(R"("allowed":false)"), HasSubstr("topologySpreadConstraints")));
  EXPECT_THAT(asked_, testing::IsEmpty());
}

TEST_F(WebhookTest, SaysWhatItDoesNotUnderstand) {
  EXPECT_EQ(call("POST", "/other", "").status, 404);
  EXPECT_EQ(call("GET", "/mutate--v1-pod", "").status, 405);
  for (const char* body : {"", "{", "null", "[]", "{}", "\xff", R"({"kind":"AdmissionReview"})"}) {
    const auto response = call("POST", "/validate--v1-pod", body);
    EXPECT_EQ(response.status, 400) << body;
    EXPECT_GT(response.body.size(), 10u);
  }
  EXPECT_EQ(call("POST", "/validate--v1-pod", std::string(100'000, '[')).status, 400);
}

TEST_F(WebhookTest, AsksForTheNamespaceOnlyWhenItMatters) {
  select();
  known_ = json::Object{{"team", "hpc"}};
  EXPECT_THAT(call("POST", "/mutate--v1-pod", review("CREATE", "a", "{}")).body, HasSubstr("JSONPatch"));
  EXPECT_THAT(asked_, testing::ElementsAre("a"));
  asked_.clear();
  static_cast<void>(
      call("POST", "/mutate--v1-pod", review("CREATE", "a", R"({"schedulerName":"slurm-bridge-scheduler"})")));
  static_cast<void>(call("POST", "/mutate--v1-pod", review("UPDATE", "a", "{}", "{}")));
  EXPECT_THAT(asked_, testing::IsEmpty());
  known_ = json::Object{{"team", "web"}};
  EXPECT_THAT(call("POST", "/mutate--v1-pod", review("CREATE", "b", "{}")).body,
              AllOf(HasSubstr(R"("allowed":true)"), testing::Not(HasSubstr("JSONPatch"))));
}

TEST_F(WebhookTest, UnknownNamespaceIsDeniedToBeTriedAgain) {
  select();
  for (const char* path : {"/mutate--v1-pod", "/validate--v1-pod"}) {
    EXPECT_THAT(call("POST", path, review("CREATE", "a", "{}")).body,
                AllOf(HasSubstr(R"("allowed":false)"), HasSubstr(R"("code":503)"), HasSubstr("try again")));
  }
}

// Whatever of a review is bent, there is an answer, and it is JSON or a sentence.
TEST(WebhookRandom, BentReviewsAreAnswered) {
  const unsigned seed = 11;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  Config config;
  config.managed_namespaces = {"hpc"};
  const std::string good =
      review("UPDATE", "hpc", R"({"containers":[{"name":"m","resources":{"limits":{"cpu":"1"}}}]})",
             R"({"metadata":{"labels":{"scheduler.slinky.slurm.net/slurm-jobid":"1"}}})");
  for (int i = 0; i < 3000; ++i) {
    std::string bent = good;
    for (unsigned k = random() % 4; k < 4; ++k) bent[random() % bent.size()] = "{}[]\",:1nt "[random() % 11];
    for (const std::string_view path : {kMutatePath, kValidatePath}) {
      const auto response = respond(config, path, bent, nullptr);
      ASSERT_TRUE(response.status == 200 || response.status == 400);
      if (response.status == 200) static_cast<void>(json::parse(response.body));
    }
  }
}

}  // namespace
}  // namespace bascule::bridge
