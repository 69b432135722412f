#include "operator/nodeset/order.hpp"

#include <random>

#include "operator/nodeset/test_support.hpp"

namespace bascule::op::nodeset {
namespace {

struct Made {
  PodView pod;
  std::optional<WallTime> deadline = {};
};

PodView running(int ordinal) {
  PodView pod;
  pod.name = fmt::format("ordinal-{}", ordinal);
  pod.node = "k";
  pod.phase = PodPhase::kRunning;
  pod.ready = true;
  pod.ready_since = pod.created = kNow;
  return pod;
}
Made with(std::string name, auto change, std::optional<WallTime> deadline = {}) {
  Made made{running(0), deadline};
  made.pod.name = std::move(name);
  change(made.pod);
  return made;
}
const auto kPlain = [](PodView&) {};
const auto kCordoned = [](PodView& pod) { pod.cordon = "true"; };

void expect_order(const std::vector<Made>& wanted) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 20; ++round) {
    std::vector<const Made*> mixed;
    for (const Made& made : wanted) mixed.push_back(&made);
    std::ranges::shuffle(mixed, random);
    std::ranges::sort(
        mixed, [](const Made* a, const Made* b) { return goes_first({&a->pod, a->deadline}, {&b->pod, b->deadline}); });
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(mixed[i]->pod.name, wanted[i].pod.name) << i;
  }
}

TEST(ScaleInOrder, Ordinals) {
  expect_order({{running(2)}, {running(1)}, {running(0)}});
}

TEST(ScaleInOrder, CordonedFirst) {
  expect_order({with("a-1", kCordoned), with("a-0", kCordoned), with("b-2", kPlain)});
}

TEST(ScaleInOrder, W20_OnlyTheTextThatCordonsCountsAsCordon) {
  expect_order({with("a-2", [](PodView& pod) { pod.cordon = "True"; }), with("a-1", kPlain)});
  expect_order({with("a-1", kCordoned), with("a-2", [](PodView& pod) { pod.cordon = "1"; })});
}

TEST(ScaleInOrder, Deadlines) {
  expect_order(
      {with("a-0", kPlain), with("a-1", kPlain, kNow - 1h), with("a-2", kPlain, kNow), with("a-3", kPlain, kNow + 1h)});
}

TEST(ScaleInOrder, Costs) {
  const auto cost = [](const char* text) { return [text](PodView& pod) { pod.deletion_cost = text; }; };
  expect_order({with("a-0", cost("-10")), with("a-1", kPlain), with("a-2", cost("10"))});
  PodView pod;
  const std::pair<const char*, int> rows[] = {{"1", 1},   {"-5", -5}, {"0", 0}, {"+10", 0},
                                              {"008", 0}, {"1x", 0},  {"", 0},  {"99999999999", 0}};
  for (const auto& [text, wanted] : rows) {
    pod.deletion_cost = text;
    EXPECT_EQ(deletion_cost(pod), wanted) << text;
  }
}

TEST(ScaleInOrder, Mixed) {
  const auto cost = [](const char* text) { return [text](PodView& pod) { pod.deletion_cost = text; }; };
  expect_order({with("cheap-0", cost("-10")),
                with("cordoned-0", kCordoned),
                {running(1)},
                {running(0)},
                with("cordoned-now-0", kCordoned, kNow),
                with("now-0", kPlain, kNow),
                with("cordoned-later-0", kCordoned, kNow + 1h),
                with("later-0", kPlain, kNow + 1h),
                with("dear-0", cost("1")),
                with(
                    "dearest-0",
                    [](PodView& pod) {
                      pod.cordon = "true";
                      pod.deletion_cost = "100";
                    },
                    kNow)});
}

TEST(ScaleInOrder, States) {
  const auto state = [](PodPhase phase, bool ready) {
    return [=](PodView& pod) {
      pod.phase = phase;
      pod.ready = ready;
    };
  };
  const auto ready_at = [](WallTime when, WallTime made) {
    return [=](PodView& pod) {
      pod.ready_since = when;
      pod.created = made;
    };
  };
  expect_order({with("unscheduled-0",
                     [](PodView& pod) {
                       pod.node.clear();
                       pod.phase = PodPhase::kPending;
                       pod.ready = false;
                     }),
                with("pending-0", state(PodPhase::kPending, false)),
                with("unknown-0", state(PodPhase::kUnknown, false)),
                with("not-ready-0", state(PodPhase::kRunning, false)),
                with("cordoned-0", kCordoned),
                {running(1)},
                with("no-time-0", ready_at(WallTime{}, kNow)),
                with("now-0", ready_at(kNow, kNow)),
                with("long-0", ready_at(kNow - 1h, kNow)),
                with("oldest-0", ready_at(kNow - 1h, kNow - 2h)),
                with("deadline-0", kPlain, kNow),
                with("dear-0", [](PodView& pod) { pod.deletion_cost = "1"; })});
}

}  // namespace
}  // namespace bascule::op::nodeset
