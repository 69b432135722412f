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

std::string of(const std::vector<CtldPod>& pods) {
  std::string out;
  for (const LabelChange& change : plan_active_label(controller(true), pods, std::nullopt)) {
    out += (change.active ? "+" : "-") + change.pod.substr(change.pod.size() - 1) + " ";
  }
  return out;
}

// Slurm's programs that are told "standby" rest for a minute: jobs that end then run into their time limit.
TEST(ActivePod, AStandbyIsNobodysAddress) {
  const std::string first = "slurm-controller-0";
  const std::string second = "slurm-controller-1";
  EXPECT_EQ(of({{second, "u", false, false}}), "") << "the first is being made anew";
  EXPECT_EQ(of({{second, "u", false, std::nullopt}}), "");
  EXPECT_EQ(of({{second, "u", false, true}}), "+1 ") << "it has taken over";
  EXPECT_EQ(of({{first, "u", false, std::nullopt}, {second, "u", false, false}}), "+0 ");
  EXPECT_EQ(of({{first, "u", false, std::nullopt}, {second, "u", true, true}}), "") << "not yet back";
  EXPECT_EQ(of({{first, "u", false, false}, {second, "u", true, true}}), "");
  EXPECT_EQ(of({{first, "u", false, false}, {second, "u", true, false}}), "-1 +0 ") << "it has given back";
  EXPECT_EQ(of({{first, "u", false, std::nullopt}, {second, "u", true, false}}), "") << "it may be busy";
}

// Whoever waits for an answer of one that gives back is told "standby" in the end.
TEST(ActivePod, TheFirstIsWaitedForWhenTheBackupFallsSilent) {
  const std::string first = "slurm-controller-0";
  const std::string second = "slurm-controller-1";
  EXPECT_EQ(of({{first, "u", false, {}, "url", true}, {second, "u", true, {}, "url", true}}), "-1 +0 ");
  EXPECT_EQ(of({{first, "u", false, {}, "url", true}, {second, "u", true, true, "url", true}}), "");
  EXPECT_EQ(of({{first, "u", false, {}, "url", false}, {second, "u", true, {}, "url", true}}), "") << "it has no image";
  EXPECT_EQ(of({{first, "u", false, {}, {}, true}, {second, "u", true, {}, {}, true}}), "")
      << "24.11: the ping decides";
  const auto runs = [](const char* pod) { return slurmctld_runs(json::parse_yaml(pod)); };
  EXPECT_TRUE(runs("{status: {containerStatuses: [{name: x}, {name: slurmctld, state: {running: {}}}]}}"));
  EXPECT_FALSE(
      runs("{status: {containerStatuses: [{name: x, state: {running: {}}}, {name: slurmctld, state: {waiting: "
           "{}}}]}}"));
  EXPECT_FALSE(runs("{}"));
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
