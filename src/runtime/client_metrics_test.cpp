#include "runtime/client_metrics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/manual_loop.hpp"
#include "net/loopback.hpp"
#include "testing/run.hpp"

namespace bascule::runtime {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(ClientMetrics, CallsToTheApiServer) {
  Metrics metrics;
  const auto report = client_metrics(metrics, "10.0.0.1:443");
  report({"GET", "pods", 200, 20ms});
  report({"GET", "pods", 200, 3s});
  report({"POST", "pods", 0, 30s});
  const std::string text = metrics.text();
  EXPECT_THAT(text, HasSubstr(R"(rest_client_requests_total{code="200",host="10.0.0.1:443",method="GET"} 2)"));
  EXPECT_THAT(text, HasSubstr(R"(rest_client_requests_total{code="<error>",host="10.0.0.1:443",method="POST"} 1)"));
  const std::string get = R"(rest_client_request_duration_seconds_bucket{host="10.0.0.1:443",verb="GET",le=)";
  EXPECT_THAT(text, HasSubstr(get + R"("0.005"} 0)"));
  EXPECT_THAT(text, HasSubstr(get + R"("0.025"} 1)"));
  EXPECT_THAT(text, HasSubstr(get + R"("60"} 2)"));
  EXPECT_THAT(text, Not(HasSubstr(get + R"("0.01")")));
}

TEST(ClientMetrics, EventsThatWereNotWritten) {
  Metrics metrics;
  ManualLoop loop;
  const net::Handler handler = [](const net::ServerRequest& request, std::stop_token) -> Task<net::ServerResponse> {
    co_return net::ServerResponse{.body = request.body};
  };
  const auto transport = net::make_loopback(loop, handler);
  kube::Client client(loop, *transport, {});
  kube::EventRecorder events(client, "bridge", "host");
  const auto watched = watch_events(&metrics, events);
  EXPECT_THAT(metrics.text(), HasSubstr("bascule_events_dropped_total 0\n")) << "from the start";
  for (int i = 0; i < 30; ++i) {
    events.record({"v1", "Pod", {"ns", "p"}, Uid()}, kube::EventType::kNormal, "Waiting", "", std::to_string(i));
  }
  EXPECT_THAT(metrics.text(), HasSubstr("bascule_events_dropped_total 5\n")) << "25 of one object";
  bascule::testing::run(loop, events.stop(loop.now() + 1s));
  EXPECT_EQ(watch_events(nullptr, events), nullptr);
}

TEST(ClientMetrics, CopiesThatAreNotKeptUpToDate) {
  Metrics metrics;
  const auto report = cache_metrics(metrics);
  const auto says = [&](const std::string& line) {
    EXPECT_THAT(metrics.text(), HasSubstr("bascule_kubernetes_cache_failures{" + line + "\n"));
  };
  report({"pods", "", 0, 0});
  says(R"(namespace="",resource="pods"} 0)");
  report({"pods", "", 3, 0});
  report({"pods", "", 1, 0});  // another informer of pods
  says(R"(namespace="",resource="pods"} 4)");
  report({"pods", "", 0, 1});
  report({"pods", "team", 7, 0});
  says(R"(namespace="",resource="pods"} 3)");
  says(R"(namespace="team",resource="pods"} 7)");
  report({"pods", "", 0, 3});
  says(R"(namespace="",resource="pods"} 0)");
}

struct CountedWebhookTest : ::testing::Test {
  static Task<net::ServerResponse> answer(ManualLoop& loop, const net::ServerRequest& request) {
    co_await sleep_for(loop, 50ms, {});
    if (request.body == "throw") throw std::runtime_error("no");
    co_return net::ServerResponse{.status = request.body == "bad" ? 400 : 200};
  }
  int post(std::string target, std::string body) {
    net::ServerRequest request{.method = "POST", .target = std::move(target)};
    request.body = std::move(body);
    return testing::run(loop, handler(request, {})).status;
  }
  ManualLoop loop;
  Metrics metrics;
  net::Handler handler =
      counted_webhook(metrics, loop, {"/mutate"},
                      [this](const net::ServerRequest& request, std::stop_token) { return answer(loop, request); });
};

TEST_F(CountedWebhookTest, CountsWhatWasAnswered) {
  EXPECT_THAT(metrics.text(),
              HasSubstr(R"(controller_runtime_webhook_requests_total{code="500",webhook="/mutate"} 0)"));
  EXPECT_EQ(post("/mutate?timeout=10s", ""), 200);
  EXPECT_EQ(post("/mutate", "bad"), 400);
  EXPECT_EQ(post("/other", ""), 200);
  EXPECT_THROW(post("/mutate", "throw"), std::runtime_error);
  const std::string text = metrics.text();
  for (const char* code : {"200", "400", "500"}) {
    EXPECT_THAT(text, HasSubstr("controller_runtime_webhook_requests_total{code=\"" + std::string(code) +
                                "\",webhook=\"/mutate\"} 1"));
  }
  EXPECT_THAT(text, HasSubstr(R"(controller_runtime_webhook_latency_seconds_count{webhook="/mutate"} 3)"));
  EXPECT_THAT(text, HasSubstr(R"(controller_runtime_webhook_requests_in_flight{webhook="/mutate"} 0)"));
  EXPECT_THAT(text, Not(HasSubstr("/other")));
}

TEST_F(CountedWebhookTest, CountsWhatIsUnderWay) {
  Gate gate(loop);
  const net::ServerRequest request{.method = "POST", .target = "/mutate"};
  spawn(gate, [](net::Handler& h, const net::ServerRequest& r) -> Task<> { co_await h(r, {}); }(handler, request));
  EXPECT_THAT(metrics.text(), HasSubstr(R"(controller_runtime_webhook_requests_in_flight{webhook="/mutate"} 1)"));
  testing::run(loop, gate.close());
  EXPECT_THAT(metrics.text(), HasSubstr(R"(controller_runtime_webhook_requests_in_flight{webhook="/mutate"} 0)"));
}

TEST(LeaderMetric, ZeroUntilTold) {
  Metrics metrics;
  const Gauge leads = leader_metric(metrics, "lease");
  EXPECT_THAT(metrics.text(), HasSubstr(R"(leader_election_master_status{name="lease"} 0)"));
  leads.set(1);
  EXPECT_THAT(metrics.text(), HasSubstr(R"(leader_election_master_status{name="lease"} 1)"));
}

}  // namespace
}  // namespace bascule::runtime
