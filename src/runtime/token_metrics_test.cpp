#include "runtime/token_metrics.hpp"

#include <gmock/gmock.h>

#include "base/manual_loop.hpp"

namespace bascule::runtime {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(TokenMetrics, CountDownWhileATokenSaysItsEnd) {
  ManualLoop loop;
  Metrics metrics;
  {
    TokenMetrics token(metrics, loop, {{"controller", "a"}});
    EXPECT_THAT(metrics.text(), Not(HasSubstr("bascule_slurm_token_"))) << "none is in use yet";
    token.set(loop.wall() - 1h, loop.wall() + 1h);
    loop.advance(600s);
    EXPECT_THAT(metrics.text(), HasSubstr("bascule_slurm_token_expiry_seconds{controller=\"a\"} 3000\n"));
    EXPECT_THAT(metrics.text(), HasSubstr("bascule_slurm_token_lifetime_seconds{controller=\"a\"} 7200\n"));
    loop.advance(4000s);
    EXPECT_THAT(metrics.text(), HasSubstr("bascule_slurm_token_expiry_seconds{controller=\"a\"} -1000\n"));
    token.set(std::nullopt, loop.wall() + 60s);
    EXPECT_THAT(metrics.text(), HasSubstr("bascule_slurm_token_expiry_seconds{controller=\"a\"} 60\n"));
    EXPECT_THAT(metrics.text(), Not(HasSubstr("lifetime_seconds{")));
    token.set(std::nullopt, std::nullopt);
    EXPECT_THAT(metrics.text(), Not(HasSubstr("expiry_seconds{"))) << "it never expires, or is no JWT";
    token.set(loop.wall(), loop.wall() + 60s);
    EXPECT_THAT(metrics.text(), HasSubstr("expiry_seconds{"));
  }
  EXPECT_THAT(metrics.text(), Not(HasSubstr("_seconds{"))) << "none is in use any more";
}

}  // namespace
}  // namespace bascule::runtime
