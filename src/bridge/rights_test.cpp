#include "bridge/rights_test.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <regex>

namespace bascule::bridge {

namespace {

std::vector<std::string> words(const std::string& list) {
  std::vector<std::string> out;
  static const std::regex kWord(R"re([^\s,"]+|"")re");
  for (std::sregex_iterator it(list.begin(), list.end(), kWord), end; it != end; ++it) {
    out.push_back(it->str() == "\"\"" ? "" : it->str());
  }
  return out;
}

// Rights that no request of a simulation shows.
const std::set<std::string> kElsewhere{
    // Kubernetes itself asks for it when a claim's status is written, from 1.36 on.
    "slurm-bridge-scheduler may patch resourceclaims/binding of resource.k8s.io",
    // Used where no simulation comes: volume_watch (a free volume is taken), group_status (tested by itself), pod_sync
    // (what Slurm calls the node that a job is held to).
    "slurm-bridge-scheduler may patch persistentvolumes of ",
    "slurm-bridge-scheduler may patch podgroups/status of scheduling.k8s.io",
    "slurm-bridge-controllers may get nodes of ",
};

class Judged final : public ::testing::Environment {
 public:
  void TearDown() override {
    const auto& program = *::testing::UnitTest::GetInstance();
    EXPECT_THAT(Rights::of_chart().missing(), ::testing::IsEmpty()) << "the chart's role lacks a right";
    const bool whole = program.test_to_run_count() == program.total_test_count();
    if (whole) EXPECT_THAT(Rights::of_chart().unused(), ::testing::IsEmpty()) << "nobody uses it; or no test does";
  }
};
const auto* const kJudged = ::testing::AddGlobalTestEnvironment(new Judged);

}  // namespace

Rights& Rights::of_chart() {
  static Rights rights;
  return rights;
}

Rights::Rights() {
  std::ifstream file(BASCULE_SOURCE_DIR "/deploy/charts/slurm-bridge/templates/rbac.yaml");
  static const std::regex kRule(
      R"re(- \{apiGroups: \[(.*?)\], resources: \[(.*?)\](?:, resourceNames: \[(.*?)\])?, verbs: \[(.*?)\]\})re");
  std::string agent;
  for (std::string line; std::getline(file, line);) {
    if (line.find("eq $component \"scheduler\"") != std::string::npos) agent = kSchedulerAgent;
    if (line.find("eq $component \"controllers\"") != std::string::npos) agent = kControllersAgent;
    if (line.find("{{- else }}") != std::string::npos) agent.clear();
    std::smatch part;
    if (agent.empty() || !std::regex_search(line, part, kRule)) continue;
    for (const std::string& group : words(part[1])) {
      for (const std::string& resource : words(part[2])) {
        for (const std::string& verb : words(part[4])) {
          rights_.push_back({agent, verb, group, resource, words(part[3])});
        }
      }
    }
  }
}

void Rights::watch(testing::FakeApi& api) {
  api.on_call([this](const testing::ApiCall& call, std::string_view agent) { used(agent, call); });
}

void Rights::used(std::string_view agent, const testing::ApiCall& call) {
  if (agent != kSchedulerAgent && agent != kControllersAgent) return;
  bool may = false;
  for (Right& one : rights_) {
    const bool named = one.names.empty() || std::ranges::find(one.names, call.key.name) != one.names.end();
    if (one.agent != agent || one.verb != call.verb || one.group != call.group || one.resource != call.resource)
      continue;
    if (!named) continue;
    may = one.used = true;
  }
  if (!may) missing_.insert(fmt::format("{} may {} {} of {}", agent, call.verb, call.resource, call.group));
}

std::vector<std::string> Rights::unused() const {
  std::vector<std::string> out;
  for (const Right& one : rights_) {
    std::string text = fmt::format("{} may {} {} of {}", one.agent, one.verb, one.resource, one.group);
    if (!one.used && !kElsewhere.contains(text)) out.push_back(std::move(text));
  }
  return out;
}

TEST(Rights, AreReadFromTheChart) {
  Rights& rights = Rights::of_chart();
  rights.used(kSchedulerAgent, {.verb = "create", .group = "", .resource = "pods/binding", .key = {"ns", "p"}});
  rights.used(kControllersAgent, {.verb = "delete", .group = "", .resource = "pods", .key = {"ns", "p"}});
  rights.used(kSchedulerAgent, {.verb = "get", .group = "", .resource = "namespaces", .key = {"", "kube-system"}});
  rights.used("kubectl", {.verb = "delete", .group = "", .resource = "nodes", .key = {"", "n"}});
  EXPECT_THAT(rights.missing(), ::testing::IsEmpty());
}

}  // namespace bascule::bridge
