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
  ManualLoop loop;
  bool good = false;
  net::Handler handler = health_handler({}, {{"webhook", [this]() -> std::optional<std::string> {
                                                if (good) return std::nullopt;
                                                return "not yet";
                                              }}});
};

TEST_F(HealthTest, AliveBeforeReady) {
  EXPECT_EQ(get("/healthz").status, 200);
  EXPECT_EQ(get("/livez").status, 200);
  EXPECT_EQ(get("/readyz").status, 503);
  good = true;
  EXPECT_EQ(get("/readyz").status, 200);
  EXPECT_EQ(get("/readyz").body, "ok");
}

TEST_F(HealthTest, SaysWhichCheckFails) {
  EXPECT_EQ(get("/readyz").body, "[-]webhook failed: not yet\nreadyz check failed\n");
  EXPECT_EQ(get("/readyz/webhook").status, 503);
  EXPECT_EQ(get("/readyz/other").status, 404);
  EXPECT_EQ(get("/").status, 404);
  good = true;
  EXPECT_EQ(get("/readyz?verbose").body, "[+]webhook ok\nreadyz check passed\n");
}

}  // namespace
}  // namespace bascule::runtime
