#include "runtime/health.hpp"

#include <gtest/gtest.h>

#include "base/manual_loop.hpp"
#include "testing/run.hpp"

namespace bascule::runtime {
namespace {

struct HealthTest : ::testing::Test {
  net::ServerResponse get(std::string target) {
    net::ServerRequest request;
    request.method = "GET";
    request.target = std::move(target);
    return testing::run(loop, handler(request, {}));
  }
  NamedCheck check(std::string name, const bool& good) {
    return {std::move(name),
            [&good] { return good ? std::optional<std::string>() : std::optional<std::string>("not yet"); }};
  }
  ManualLoop loop;
  bool webhook = false, caches = true;
  net::Handler handler = health_handler({}, {check("webhook", webhook), check("caches", caches)});
};

TEST_F(HealthTest, AliveBeforeReady) {
  EXPECT_EQ(get("/healthz").status, 200);
  EXPECT_EQ(get("/livez").status, 200);
  EXPECT_EQ(get("/readyz").status, 500) << "as the API server answers, not 503";
  webhook = true;
  EXPECT_EQ(get("/readyz").status, 200);
  EXPECT_EQ(get("/readyz").body, "ok");
  EXPECT_EQ(get("/readyz/").body, "ok");
  EXPECT_EQ(get("//readyz").body, "ok");
}

TEST_F(HealthTest, SaysWhichCheckFails) {
  EXPECT_EQ(get("/readyz").body, "[+]caches ok\n[-]webhook failed: not yet\nreadyz check failed\n");
  webhook = true;
  EXPECT_EQ(get("/readyz?verbose").body, "[+]caches ok\n[+]webhook ok\nreadyz check passed\n");
  EXPECT_EQ(get("/readyz?verbose=1").body, get("/readyz?verbose").body);
}

TEST_F(HealthTest, OneCheckAlone) {
  EXPECT_EQ(get("/readyz/caches").status, 200);
  EXPECT_EQ(get("/readyz/caches").body, "ok");
  EXPECT_EQ(get("/readyz/webhook").status, 500);
  EXPECT_EQ(get("/readyz/webhook").body, "internal server error: not yet\n");
  EXPECT_EQ(get("/readyz/other").status, 404);
  EXPECT_EQ(get("/readyz/webhook/x").status, 404);
  EXPECT_EQ(get("/readyzwebhook").status, 404);
  EXPECT_EQ(get("/").status, 404);
  EXPECT_EQ(get("").status, 404);
}

TEST_F(HealthTest, ChecksCanBeExcluded) {
  EXPECT_EQ(get("/readyz?exclude=webhook").status, 200);
  EXPECT_EQ(get("/readyz?exclude=webhook").body, "ok");
  EXPECT_EQ(get("/readyz?verbose&exclude=webhook&exclude=caches").body,
            "[+]caches excluded: ok\n[+]webhook excluded: ok\nreadyz check passed\n");
  EXPECT_EQ(get("/readyz?exclude=caches").status, 500);
  webhook = true;
  EXPECT_EQ(get("/readyz?exclude=nothing").body, "ok");
  EXPECT_EQ(get("/readyz?verbose&exclude=nothing").body,
            "[+]caches ok\n[+]webhook ok\nwarn: there is no check \"nothing\" to exclude\nreadyz check passed\n");
}

TEST_F(HealthTest, PingWhereThereAreNoChecks) {
  EXPECT_EQ(get("/livez?verbose").body, "[+]ping ok\nlivez check passed\n");
  EXPECT_EQ(get("/healthz/ping").body, "ok");
  EXPECT_EQ(get("/healthz?verbose").body, "[+]ping ok\nhealthz check passed\n");
}

TEST_F(HealthTest, BrokenTarget) {
  EXPECT_EQ(get("/readyz?exclude=%zz").status, 400);
}

TEST_F(HealthTest, MetricsAsText) {
  Metrics metrics;
  metrics.set("level", "Level", {}, 1);
  handler = metrics_handler(metrics);
  EXPECT_EQ(get("/metrics").status, 200);
  EXPECT_EQ(get("/metrics?x=%zz").headers.get("Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_NE(get("/metrics").body.find("level 1"), std::string::npos);
  EXPECT_EQ(get("/metric").status, 404);
}

}  // namespace
}  // namespace bascule::runtime
