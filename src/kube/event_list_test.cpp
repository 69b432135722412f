#include "kube/event_list.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "json/yaml.hpp"

namespace bascule::kube {
namespace {

TEST(EventList, TheNewestAreKeptInTheOrderTheyWereLastSeen) {
  const json::Value list = json::parse_yaml(R"({items: [
    {reason: Third, note: c, eventTime: "2026-01-01T10:00:00Z", series: {lastObservedTime: "2026-01-01T10:30:00Z"}},
    {reason: First, note: a, deprecatedLastTimestamp: "2026-01-01T10:10:00Z"},
    {reason: Second, note: b, eventTime: "2026-01-01T10:20:00Z"}]})");
  const std::vector<PastEvent> all = newest_events(list, 10);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0], (PastEvent{"2026-01-01T10:10:00Z", "First", "a"}));
  EXPECT_EQ(all[2], (PastEvent{"2026-01-01T10:30:00Z", "Third", "c"}));
  EXPECT_EQ(newest_events(list, 1), std::vector{all[2]});
  EXPECT_TRUE(newest_events(json::Object{}, 3).empty());
}

TEST(EventList, ThoseOfTheCoreApiAreReadToo) {
  const json::Value list = json::parse_yaml(R"({items: [
    {reason: A, message: a, lastTimestamp: "2026-01-01T10:10:00Z"},
    {reason: B, message: b, eventTime: "2026-01-01T10:20:00Z", lastTimestamp: null}]})");
  EXPECT_EQ(newest_events(list, 3),
            (std::vector{PastEvent{"2026-01-01T10:10:00Z", "A", "a"}, PastEvent{"2026-01-01T10:20:00Z", "B", "b"}}));
}

TEST(EventList, AnEarlierObjectOfThatNameHasItsOwn) {
  const json::Value list = json::parse_yaml(R"({items: [
    {reason: A, regarding: {kind: Pod, uid: u}}, {reason: B, involvedObject: {kind: Pod, uid: other}},
    {reason: C, involvedObject: {kind: Pod}}, {reason: D, regarding: {kind: Job, uid: u}}, {reason: E}]})");
  const std::vector<PastEvent> own = newest_events(events_about(list, "Pod", "u"), 9);
  EXPECT_EQ(own, (std::vector{PastEvent{"", "A", ""}, PastEvent{"", "C", ""}}));
}

}  // namespace
}  // namespace bascule::kube
