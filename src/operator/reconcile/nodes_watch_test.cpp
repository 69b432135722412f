#include "operator/reconcile/nodes_watch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/manual_loop.hpp"

namespace bascule::op::reconcile {
namespace {

using namespace std::chrono_literals;

struct Watched {
  ManualLoop loop;
  int asked = 0, woken = 0;
  Duration takes = 1s;
  bool open = true;
  NodesWatch watch{loop, [this](NamespacedName, std::stop_token stop) { return ask(std::move(stop)); },
                   [this](const NamespacedName&) { ++woken; }};
  NodesStand look() { return watch.look({"slurm", "slurm"}).nodes(); }
  Task<ClusterStand> ask(std::stop_token stop) {
    ++asked;
    co_await sleep_for(loop, takes, stop);
    co_return ClusterStand{.rest = NodesStand::kClear, .open = open};
  }
};

TEST(NodesWatchTest, AsksAtMostEachTenSecondsAndSaysMeanwhileWhatWasSaidLast) {
  Watched w;
  EXPECT_EQ(w.look(), NodesStand::kAsked);
  EXPECT_EQ(w.look(), NodesStand::kAsked);
  w.loop.advance(1s);
  EXPECT_EQ(w.woken, 1);
  w.takes = 25s;
  for (int second = 0; second < 35; ++second) {
    EXPECT_EQ(w.look(), NodesStand::kOpen) << second;
    w.loop.advance(1s);
  }
  EXPECT_EQ(w.asked, 2) << "after ten seconds, for 25";
  EXPECT_EQ(w.woken, 2);
}

TEST(NodesWatchTest, ThatNothingRunsIsGoodForTenSeconds) {
  Watched w;
  w.open = false;
  w.look();
  w.loop.advance(1s);
  EXPECT_EQ(w.look(), NodesStand::kClear);
  EXPECT_EQ(w.watch.last({"slurm", "slurm"}).nodes(), NodesStand::kClear);
  w.loop.advance(10s);
  EXPECT_EQ(w.watch.last({"slurm", "slurm"}).nodes(), NodesStand::kAsked);
  EXPECT_EQ(w.asked, 1) << "by look() alone";
  EXPECT_EQ(w.look(), NodesStand::kAsked);
  w.watch.let_go({"slurm", "slurm"});
  w.loop.advance(1s);
  EXPECT_EQ(w.woken, 1) << "nobody wants to know any more";
}

// What was done on an answer is not taken back because the caches do not have it yet.
TEST(NodesWatchTest, AnAnswerIsGoodForTenSecondsAlsoWhenNothingWaitsAnyMore) {
  Watched w;
  w.open = false;
  w.look();
  w.loop.advance(1s);
  w.watch.let_go({"slurm", "slurm"});
  EXPECT_EQ(w.watch.last({"slurm", "slurm"}).nodes(), NodesStand::kClear);
  w.loop.advance(10s);
  w.watch.let_go({"slurm", "slurm"});
  EXPECT_EQ(w.watch.last({"slurm", "slurm"}).nodes(), NodesStand::kAsked);
}

}  // namespace
}  // namespace bascule::op::reconcile
