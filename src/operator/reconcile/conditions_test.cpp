#include "operator/reconcile/conditions.hpp"

#include <gtest/gtest.h>

namespace bascule::op::reconcile {
namespace {

using namespace std::chrono_literals;

const WallTime kNow = std::chrono::sys_days(std::chrono::year(2026) / 11 / 28);

std::string text(const json::Object& status, std::size_t condition, std::string_view field) {
  return std::string(json::string_at(status.at("conditions").as_array().at(condition), {field}));
}

TEST(Conditions, ReadyWhenNothingIsWaitedFor) {
  const json::Object status = make_status({}, 3, json::Object(), kNow);
  EXPECT_EQ(text(status, 0, "type"), "Ready");
  EXPECT_EQ(text(status, 0, "status"), "True");
  EXPECT_EQ(text(status, 1, "status"), "False");
  EXPECT_EQ(text(status, 2, "status"), "False");
  EXPECT_FALSE(status_differs(status, status));
}

TEST(Conditions, A3_ANoteIsTheMessageOfReadyAlone) {
  Plan plan;
  plan.notes.emplace_back("lines");
  EXPECT_EQ(text(make_status(plan, 3, json::Object(), kNow), 0, "message"), "lines");
  EXPECT_EQ(text(make_status(plan, 3, json::Object(), kNow), 0, "status"), "True");
  plan.wait("pods");
  EXPECT_EQ(text(make_status(plan, 3, json::Object(), kNow), 0, "message"), "pods");
}

// They are to be copied: forty NodeSets with partitions are several kilobytes.
TEST(Conditions, A3_ALongNoteIsWhole) {
  Plan plan;
  plan.notes.emplace_back(std::string(20'000, 'x') + " the last line");
  EXPECT_TRUE(text(make_status(plan, 3, json::Object(), kNow), 0, "message").ends_with(" the last line"));
  plan.notes.emplace_back(std::string(20'000, 'x'));
  EXPECT_LE(text(make_status(plan, 3, json::Object(), kNow), 0, "message").size(), 32'768u);
}

TEST(Conditions, AFaultIsTold) {
  Plan plan;
  plan.faults.push_back({"BadSpec", "mend it"});
  plan.wait("pods");
  const json::Object status = make_status(plan, 3, json::Object(), kNow);
  EXPECT_EQ(text(status, 0, "reason"), "BadSpec");
  EXPECT_EQ(text(status, 0, "message"), "mend it; pods");
  EXPECT_EQ(text(status, 2, "status"), "True");
}

TEST(Conditions, TheTimeIsThatOfTheLastTurn) {
  Plan plan;
  plan.wait("a");
  const json::Object first = make_status(plan, 1, json::Object(), kNow);
  plan.waits[0].sentence = "b";
  const json::Object second = make_status(plan, 1, first, kNow + 1h);
  EXPECT_TRUE(status_differs(second, first));
  EXPECT_EQ(text(second, 0, "lastTransitionTime"), text(first, 0, "lastTransitionTime"));
  const json::Object third = make_status({}, 1, second, kNow + 2h);
  EXPECT_EQ(text(third, 0, "lastTransitionTime"), "2026-11-28T02:00:00Z");
}

TEST(Conditions, ALongMessageIsCutAtACharacter) {
  Plan plan;
  for (int i = 0; i < 200; ++i) plan.wait("größe überall");
  const std::string message = text(make_status(plan, 1, json::Object(), kNow), 0, "message");
  EXPECT_LE(message.size(), 1027u);
  EXPECT_NO_THROW(json::parse(json::dump(json::Value(message))));
}

TEST(Conditions, OthersConditionsAreNoDifference) {
  json::Object status = make_status({}, 1, json::Object(), kNow);
  json::Object live = status;
  live["conditions"].as_array().push_back(json::Object{{"type", "Theirs"}});
  EXPECT_FALSE(status_differs(status, live));
}

}  // namespace
}  // namespace bascule::op::reconcile
