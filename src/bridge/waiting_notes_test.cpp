#include "bridge/waiting_notes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/loopback.hpp"
#include "testing/fake_api.hpp"
#include "testing/objects.hpp"
#include "testing/run.hpp"

namespace bascule::bridge {
namespace {

using namespace std::chrono_literals;
namespace r = kube::resources;

struct WaitingNotesTest : ::testing::Test {
  ~WaitingNotesTest() override { bascule::testing::run(loop, events.stop(loop.now() + 1s)); }

  PodPtr pod(const std::string& name, WallTime created) {
    const json::Value made = api.create(r::kPods, bascule::testing::make_pod({.name = name, .ns = "ns"}));
    auto decoded = std::make_shared<kube::Pod>(*kube::decode_pod(json::dump(made), interner));
    decoded->meta.created = created;
    return decoded;
  }
  // Whether the pod has been told when it was looked at each second.
  bool told_within(const PodPtr& pod, Duration limit) {
    const Waiting waiting{"Priority", "it waits", {}, {pod}};
    const TimePoint end = loop.now() + limit;
    while (loop.now() < end) {
      bascule::testing::run(loop, notes.tell(waiting, {}));
      if (api.calls("patch", "pods/status") > 0) return true;
      const auto left = notes.untold_for({waiting});
      EXPECT_TRUE(left && *left <= 10s) << "looked at again in time";
      loop.advance(1s);
    }
    return false;
  }

  ManualLoop loop;
  json::Interner interner;
  bascule::testing::FakeApi api{loop};
  std::unique_ptr<net::Transport> to_api = net::make_loopback(loop, api.handler());
  kube::Client client{loop, *to_api, {}};
  kube::EventRecorder events{client, "bridge", "test"};
  WaitingNotes notes{client, events, 10s};
};

TEST_F(WaitingNotesTest, AYoungPodIsNotTold) {
  const PodPtr young = pod("p", loop.wall() - 3s);
  EXPECT_FALSE(told_within(young, 5s));
  EXPECT_TRUE(told_within(young, 10s));
}

// The API server's clock is an hour ahead of ours.
TEST_F(WaitingNotesTest, APodOfTheFutureIsToldToo) {
  EXPECT_TRUE(told_within(pod("p", loop.wall() + 1h), 30s));
}

// Slurm's reason goes to and fro each second: that costs ever fewer writes, and what stays is told.
TEST_F(WaitingNotesTest, AReasonThatFlipsIsToldEverMoreSeldom) {
  PodPtr seen = pod("p", loop.wall() - 1h);
  std::string last;
  for (int second = 0; second < 3600; ++second) {
    last = second % 2 == 0 ? "Priority" : "Resources";
    bascule::testing::run(loop, notes.tell({last, "it waits for " + last, {}, {seen}}, {}));
    seen = kube::decode_pod(json::dump(*api.get(r::kPods, seen->meta.key)), interner);
    loop.advance(1s);
  }
  EXPECT_LE(api.calls("patch", "pods/status"), 20u);
  last = "QOSMaxJobsPerUserLimit";
  const Waiting stays{last, "it waits for " + last, {}, {seen}};
  const auto left = notes.untold_for({stays});
  ASSERT_TRUE(left && *left <= 5min);
  loop.advance(*left);
  bascule::testing::run(loop, notes.tell(stays, {}));
  seen = kube::decode_pod(json::dump(*api.get(r::kPods, seen->meta.key)), interner);
  EXPECT_EQ(seen->scheduled.reason, last);
  loop.advance(1h);
  EXPECT_FALSE(notes.untold_for({{"Priority", "again", {}, {seen}}})) << "long after, at once";
}

// A policy that lets nobody write the condition: the event says it, ever more seldom, and nothing else is held up.
TEST_F(WaitingNotesTest, WhoMayNotWriteTheConditionWritesTheEvent) {
  const Waiting waiting{"Priority", "it waits", {}, {pod("p", loop.wall() - 1h)}};
  api.set_faults([](const bascule::testing::ApiCall& call) -> bascule::testing::ApiFault {
    if (!call.is("patch", "pods/status")) return {};
    return {.kind = bascule::testing::ApiFault::Kind::kStatus, .code = 403};
  });
  for (int second = 0; second < 3600; ++second) {
    bascule::testing::run(loop, notes.tell(waiting, {}));
    loop.advance(1s);
  }
  EXPECT_LE(api.calls("patch", "pods/status"), 25u);
  EXPECT_EQ(api.list({"events.k8s.io", "v1", "events", "Event", true}).size(), 1u);
}

}  // namespace
}  // namespace bascule::bridge
