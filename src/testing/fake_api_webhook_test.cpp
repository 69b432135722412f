#include "testing/fake_api_webhook.hpp"

#include "base/base64.hpp"
#include "testing/fake_api_test.hpp"

namespace bascule::testing {
namespace {

// A webhook that labels pods, and says no to those named "no".
Task<net::ServerResponse> label(const net::ServerRequest& request) {
  const Value review = json::parse(request.body);
  Object response{{"uid", json::string_at(review, {"request", "uid"})}, {"allowed", true}};
  if (json::string_at(review, {"request", "name"}) == "broken") throw std::runtime_error("broken");
  if (json::string_at(review, {"request", "name"}) == "no") {
    response["allowed"] = false;
    response["status"] = Object{{"code", 403}, {"message", "not this one"}};
  } else if (request.target.starts_with("/mutate")) {
    response["patch"] = base64_encode(R"([{"op":"add","path":"/metadata/labels","value":{"by":"webhook"}}])");
    response["patchType"] = "JSONPatch";
  }
  co_return json_response(
      200, json::dump(Object{
               {"apiVersion", "admission.k8s.io/v1"}, {"kind", "AdmissionReview"}, {"response", std::move(response)}}));
}

TEST_F(FakeApiTest, CallsWebhooks) {
  const auto far = net::make_loopback(loop, [](const net::ServerRequest& r, std::stop_token) { return label(r); });
  api.set_admission(
      call_webhooks(loop, *far,
                    {{.name = "m.example.com", .path = "/mutate", .mutating = true},
                     {.name = "v.example.com", .path = "/validate", .operations = {"CREATE", "UPDATE"}}}));
  EXPECT_EQ(post(kPods, make_pod({.name = "a"})).string({"metadata", "labels", "by"}), "webhook");
  const Answer denied = post(kPods, make_pod({.name = "no"}));
  EXPECT_EQ(denied.status, 403);
  EXPECT_EQ(denied.message(), "admission webhook \"m.example.com\" denied the request: not this one");
  EXPECT_EQ(post(kPods, make_pod({.name = "broken"})).status, 500);
  EXPECT_EQ(post("/api/v1/namespaces/default/configmaps", json::parse(R"({"metadata":{"name":"c"}})")).status, 201);
  EXPECT_EQ(api.count(kube::resources::kPods), 1u);
}

}  // namespace
}  // namespace bascule::testing
