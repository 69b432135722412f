#include "bridge/beside.hpp"

#include <gtest/gtest.h>

#include "base/log.hpp"
#include "base/manual_loop.hpp"
#include "testing/run.hpp"

namespace bascule::bridge {
namespace {

using namespace std::chrono_literals;

Task<> fail() {
  co_await std::suspend_never();
  throw std::runtime_error("stopped");
}
Task<> count(int& done) {
  ++done;
  co_return;
}

// Nobody waits for such work: what it throws must not end the process.
TEST(Beside, WorkThatFailsIsOverAndOthersGoOn) {
  log::Capture quiet;
  ManualLoop loop;
  Beside beside(loop);
  int done = 0;
  const auto work = [&done](std::stop_token) { return count(done); };
  EXPECT_TRUE(beside.start("a", Uid("1"), [](std::stop_token) { return fail(); }));
  EXPECT_TRUE(beside.start("a", Uid("2"), work));
  loop.advance(1s);
  EXPECT_EQ(done, 1);
  EXPECT_TRUE(beside.start("a", Uid("1"), work)) << "it may be told again";
  loop.advance(1s);
  EXPECT_EQ(done, 2);
  testing::run(loop, beside.stop());
}

}  // namespace
}  // namespace bascule::bridge
