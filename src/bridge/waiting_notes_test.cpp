#include "bridge/waiting_notes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "net/loopback.hpp"
#include "testing/fake_api.hpp"
#include "testing/objects.hpp"
#include "testing/run.hpp"

namespace bascule::bridge {
namespace {

using namespace std::chrono_literals;
namespace r = kube::resources;

struct WaitingNotesTest : ::testing::Test {
  ~WaitingNotesTest() override {
    bascule::testing::run(loop, beside.stop());
    bascule::testing::run(loop, events.stop(loop.now() + 1s));
  }

  PodPtr pod(const std::string& name, WallTime created, const std::string& ns = "ns") {
    const json::Value made = api.create(r::kPods, bascule::testing::make_pod({.name = name, .ns = ns}));
    auto decoded = std::make_shared<kube::Pod>(*kube::decode_pod(json::dump(made), interner));
    decoded->meta.created = created;
    return decoded;
  }
  PodPtr now(const NamespacedName& key) {
    const auto found = api.get(r::kPods, key);
    if (!found) return nullptr;
    auto pod = std::make_shared<kube::Pod>(*kube::decode_pod(json::dump(*found), interner));
    if (bound.contains(key)) pod->node_name = interner("n");
    return pod;
  }
  void tell(const Waiting& waiting) {
    notes.tell(waiting);
    loop.advance(1ms);
  }
  // Whether the pod has been told when it was looked at each second.
  bool told_within(const PodPtr& pod, Duration limit) {
    const Waiting waiting{"Priority", "it waits", {}, {pod}};
    const TimePoint end = loop.now() + limit;
    while (loop.now() < end) {
      tell(waiting);
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
  std::vector<NamespacedName> again;
  std::set<NamespacedName> bound;
  Beside beside{loop};
  WaitingNotes notes{{client, events, beside, [this](const NamespacedName& key) { return now(key); },
                      [this](const kube::Pod& pod) { again.push_back(pod.meta.key); }},
                     10s};
};

// It was deleted while its unit was at work: nobody would say so again.
TEST_F(WaitingNotesTest, NothingIsRememberedOfAPodThatIsGone) {
  const PodPtr gone = pod("a", loop.wall() - 1h);
  api.erase(r::kPods, gone->meta.key);
  tell({"Priority", "it waits", {}, {gone}});
  EXPECT_EQ(notes.size(), 0u);
}

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
    tell({last, "it waits for " + last, {}, {seen}});
    seen = now(seen->meta.key);
    loop.advance(1s);
  }
  EXPECT_LE(api.calls("patch", "pods/status"), 20u);
  last = "QOSMaxJobsPerUserLimit";
  const Waiting stays{last, "it waits for " + last, {}, {seen}};
  const auto left = notes.untold_for({stays});
  ASSERT_TRUE(left && *left <= 5min);
  loop.advance(*left);
  tell(stays);
  seen = now(seen->meta.key);
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
    tell(waiting);
    loop.advance(1s);
  }
  EXPECT_LE(api.calls("patch", "pods/status"), 25u);
  EXPECT_EQ(api.list({"events.k8s.io", "v1", "events", "Event", true}).size(), 1u);
}

// A webhook on one namespace's pods/status hangs: the others' pods are told all the same.
TEST_F(WaitingNotesTest, ANamespaceThatHangsHoldsUpNoOthersNotes) {
  std::vector<PodPtr> many;
  for (int i = 0; i < 40; ++i) many.push_back(pod("p" + std::to_string(i), loop.wall() - 1h, "a"));
  api.set_faults([](const bascule::testing::ApiCall& call) -> bascule::testing::ApiFault {
    if (!call.is("patch", "pods/status") || call.key.ns != "a") return {};
    return {.kind = bascule::testing::ApiFault::Kind::kStatus, .code = 500, .before = 10s};
  });
  tell({"Priority", "it waits", {}, many});
  const PodPtr other = pod("p", loop.wall() - 1h, "b");
  tell({"Priority", "it waits", {}, {other}});
  EXPECT_EQ(now(other->meta.key)->scheduled.reason, "Priority");
  loop.advance(11s);
  EXPECT_FALSE(again.empty()) << "what was not written is tried again";
}

// What is said last counts when the turn comes, and a pod that waits no more is told nothing.
TEST_F(WaitingNotesTest, WhatWaitsForItsTurnIsToldAsItIsThen) {
  api.set_faults([](const bascule::testing::ApiCall& call) -> bascule::testing::ApiFault {
    return {.before = call.is("patch", "pods/status") ? 10s : 0s};
  });
  std::vector<PodPtr> pods;
  for (int i = 0; i < 8; ++i) pods.push_back(pod("p" + std::to_string(i), loop.wall() - 1h));
  tell({"Priority", "it waits", {}, pods});
  tell({"Resources", "it waits", {}, {pods[6]}});
  api.patch(r::kPods, pods[0]->meta.key,
            json::Object{{"metadata", json::Object{{"labels", json::Object{{"a", "b"}}}}}});
  bound.insert(pods[7]->meta.key);
  loop.advance(1min);
  EXPECT_EQ(now(pods[0]->meta.key)->scheduled.status, "") << "it changed while it was being told, and may be bound";
  EXPECT_EQ(now(pods[1]->meta.key)->scheduled.reason, "Priority");
  EXPECT_EQ(now(pods[6]->meta.key)->scheduled.reason, "Resources");
  EXPECT_EQ(now(pods[7]->meta.key)->scheduled.status, "");
  EXPECT_EQ(api.calls("patch", "pods/status"), 7u);
}

}  // namespace
}  // namespace bascule::bridge
