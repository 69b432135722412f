#include "operator/reconcile/active_pod.hpp"

#include <gtest/gtest.h>

#include "json/yaml.hpp"

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

// A39: the ping calls a standby up; its own /readyz does not.
TEST(ActivePod, TheirOwnWordCounts) {
  const std::vector<std::string> both{"slurm-controller-0", "slurm-controller-1"};
  const auto changes = [&](std::optional<bool> first, std::optional<bool> second) {
    std::string out;
    for (const LabelChange& change : plan_active_label(
             controller(true), {{"slurm-controller-0", "u", true, first}, {"slurm-controller-1", "u", false, second}},
             both)) {
      out += (change.active ? "+" : "-") + change.pod.substr(change.pod.size() - 1) + " ";
    }
    return out;
  };
  EXPECT_EQ(changes(false, true), "-0 +1 ") << "the elder has come back and does not serve yet";
  EXPECT_EQ(changes(std::nullopt, true), "-0 +1 ");
  EXPECT_EQ(changes(true, false), "");
  EXPECT_EQ(changes(std::nullopt, false), "") << "a standby alone is no news of the other";
  EXPECT_EQ(changes(false, false), "") << "none serves";
  EXPECT_EQ(changes(std::nullopt, std::nullopt), "") << "the ping decides";
}

TEST(ActivePod, OnlyWhoSpeaksHttpIsAsked) {
  const auto url = [](const char* pod) { return ready_url(controller(true), json::parse_yaml(pod)).value_or("none"); };
  EXPECT_EQ(url("{status: {podIP: 10.0.0.7}, spec: {containers: [{name: x}, {name: slurmctld, livenessProbe: {httpGet: "
                "{path: /livez}}}]}}"),
            "http://10.0.0.7:6817");
  EXPECT_EQ(url("{status: {podIP: 'fd00::7'}, spec: {containers: [{name: slurmctld, livenessProbe: {httpGet: {}}}]}}"),
            "http://[fd00::7]:6817");
  EXPECT_EQ(url("{spec: {containers: [{name: slurmctld, livenessProbe: {httpGet: {}}}]}}"), "none");
  EXPECT_EQ(url("{status: {podIP: 10.0.0.7}, spec: {containers: [{name: slurmctld, livenessProbe: {tcpSocket: {}}}]}}"),
            "none")
      << "Slurm 24.11";
}

TEST(ActivePod, AloneItServes) {
  EXPECT_EQ(plan(false, {false}, std::nullopt), "+0 ");
  EXPECT_EQ(plan(false, {true}, std::nullopt), "");
  EXPECT_EQ(plan(false, {}, std::nullopt), "");
}

}  // namespace
}  // namespace bascule::op::reconcile
