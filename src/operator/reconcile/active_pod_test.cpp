#include "operator/reconcile/active_pod.hpp"

#include <gtest/gtest.h>

namespace bascule::op::reconcile {
namespace {

Controller controller(bool ha) {
  Controller out;
  out.meta.name = "slurm";
  out.ha = ha;
  out.backups = ha ? 1 : 0;
  return out;
}

// "+0 -1": what is set and taken away.
std::string plan(bool ha, std::vector<bool> active, std::optional<std::vector<std::string>> answering) {
  std::vector<CtldPod> pods;
  for (std::size_t i = 0; i < active.size(); ++i) {
    pods.push_back({"slurm-controller-" + std::to_string(i), "u", active[i]});
  }
  std::string out;
  for (const LabelChange& change : plan_active_label(controller(ha), pods, answering)) {
    out += (change.active ? "+" : "-") + change.pod.substr(change.pod.size() - 1) + " ";
  }
  return out;
}

TEST(ActivePod, FollowsWhoAnswersByName) {  // W28
  using Hosts = std::vector<std::string>;
  EXPECT_EQ(plan(true, {false, false}, Hosts{"slurm-controller-0", "slurm-controller-1"}), "+0 ");
  EXPECT_EQ(plan(true, {true, false}, Hosts{"slurm-controller-1"}), "-0 +1 ");
  EXPECT_EQ(plan(true, {false, true}, Hosts{"slurm-controller-1.x", "slurm-controller-0.x"}), "-1 +0 ");
  EXPECT_EQ(plan(true, {true, true}, Hosts{"slurm-controller-0"}), "-1 ");
  EXPECT_EQ(plan(true, {false, true}, Hosts{"slurm-controller-10"}), "") << "another's name";
}

TEST(ActivePod, UnknownIsUnknown) {
  EXPECT_EQ(plan(true, {false, true}, std::nullopt), "");
  EXPECT_EQ(plan(true, {false, true}, std::vector<std::string>{}), "");
  EXPECT_EQ(plan(true, {false, false}, std::nullopt), "+0 ") << "else nobody ever finds out";
}

TEST(ActivePod, AloneItServes) {
  EXPECT_EQ(plan(false, {false}, std::nullopt), "+0 ");
  EXPECT_EQ(plan(false, {true}, std::nullopt), "");
  EXPECT_EQ(plan(false, {}, std::nullopt), "");
}

}  // namespace
}  // namespace bascule::op::reconcile
