#include "operator/reconcile/stale_pod.hpp"

#include <gtest/gtest.h>

#include "base/time.hpp"
#include "json/yaml.hpp"

namespace bascule::op::reconcile {
namespace {

const WallTime kNow = *parse_rfc3339("2026-05-01T12:00:00Z");

json::Value set(int generation = 2, int observed = 2) {
  return json::parse_yaml("{metadata: {generation: " + std::to_string(generation) +
                          "}, status: {updateRevision: new, observedGeneration: " + std::to_string(observed) + "}}");
}
json::Value pod(int ordinal, const std::string& revision, const std::string& ready, const std::string& since,
                const std::string& more = {}) {
  return json::parse_yaml(
      "{metadata: {name: c-" + std::to_string(ordinal) + ", uid: u" + std::to_string(ordinal) +
      ", creationTimestamp: '2026-05-01T11:00:00Z', labels: {controller-revision-hash: " + revision + "}" + more +
      "}, status: {conditions: [{type: Ready, status: '" + ready + "', lastTransitionTime: '" + since + "'}]}}");
}

// "c-0": what goes; "at 12:00:10": when to look again.
std::string plan(const json::Value& stateful_set, const std::vector<json::Value>& pods) {
  std::vector<const json::Value*> list;
  for (const json::Value& each : pods) list.push_back(&each);
  const StalePlan plan = plan_stale_pod(stateful_set, list, kNow);
  if (plan.remove) return plan.remove->name + " " + plan.remove->uid;
  return plan.wake ? "at " + print_rfc3339(*plan.wake).substr(11, 8) : "";
}

TEST(StalePod, OneThatNeverGetsReadyGivesWayToItsNewRevision) {
  EXPECT_EQ(plan(set(), {pod(0, "old", "False", "2026-05-01T11:59:00Z")}), "c-0 u0");
  json::Value unscheduled = pod(0, "old", "False", "x");
  unscheduled.as_object()["status"] = json::Object{};
  EXPECT_EQ(plan(set(), {unscheduled}), "c-0 u0") << "since it was made";
}

TEST(StalePod, WhatServesOrIsNewOrJustStartedStays) {
  EXPECT_EQ(plan(set(), {pod(0, "old", "True", "2026-05-01T11:00:00Z")}), "") << "Kubernetes replaces it itself";
  EXPECT_EQ(plan(set(), {pod(0, "new", "False", "2026-05-01T11:00:00Z")}), "") << "a new one would be no better";
  EXPECT_EQ(plan(set(), {pod(0, "old", "False", "2026-05-01T11:59:50Z")}), "at 12:00:10");
  EXPECT_EQ(plan(set(), {}), "");
}

// The clocks of kubelet and of this process may differ by an hour.
TEST(StalePod, OneThatIsNotReadySinceTheFutureHoldsNothingUp) {
  EXPECT_EQ(plan(set(), {pod(0, "old", "False", "2026-05-01T13:00:00Z")}), "c-0 u0");
  EXPECT_EQ(plan(set(), {pod(0, "old", "False", "2026-05-01T12:00:05Z")}), "at 12:00:25");
}

TEST(StalePod, UntilTheStatefulSetIsSeenNothingIsOld) {
  EXPECT_EQ(plan(set(3, 2), {pod(0, "old", "False", "2026-05-01T11:00:00Z")}), "");
  EXPECT_EQ(plan(json::Value(json::Object{}), {pod(0, "old", "False", "2026-05-01T11:00:00Z")}), "");
}

TEST(StalePod, OneAtATimeTheLastFirst) {
  const json::Value first = pod(0, "old", "False", "2026-05-01T11:00:00Z");
  EXPECT_EQ(plan(set(), {first, pod(1, "old", "False", "2026-05-01T11:00:00Z")}), "c-1 u1");
  EXPECT_EQ(plan(set(), {first, pod(1, "new", "True", "2026-05-01T11:00:00Z")}), "c-0 u0");
  EXPECT_EQ(plan(set(), {first, pod(1, "old", "False", "2026-05-01T11:00:00Z",
                                    ", deletionTimestamp: '2026-05-01T11:59:59Z'")}),
            "")
      << "one is going already";
}

}  // namespace
}  // namespace bascule::op::reconcile
