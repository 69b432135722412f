// What a user reads who asks why, against the fake API server.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/time.hpp"
#include "json/yaml.hpp"
#include "net/loopback.hpp"
#include "operator/api/resources.hpp"
#include "operator/explain/read.hpp"
#include "testing/fake_api.hpp"
#include "testing/run.hpp"

namespace bascule::op::explain {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const WallTime kNow = *parse_rfc3339("2026-05-01T12:00:00Z");

struct ExplainTest : ::testing::Test {
  ExplainTest() {
    for (const kube::Resource* one : {&kNodeSets, &kControllers, &kLoginSets, &kRestApis, &kAccountings, &kTokens}) {
      api.add_resource(*one, true);
    }
  }
  void put(const kube::Resource& resource, std::string_view name, std::string_view rest) {
    json::Value object = json::parse_yaml(rest);
    json::Object& fields = object.get_object();
    fields["apiVersion"] = resource.api_version();
    fields["kind"] = resource.kind;
    json::Object meta = fields["metadata"].is_object() ? fields["metadata"].get_object() : json::Object();
    meta["name"] = name;
    meta["namespace"] = "slurm";
    fields["metadata"] = std::move(meta);
    const json::Value status = fields["status"];
    json::Value made = api.create(resource, object);
    if (status.is_null()) return;
    made.get_object()["status"] = status;
    api.update(resource, std::move(made), "status");
  }
  void pod(std::string_view name, std::string_view app, std::string_view instance, std::string_view conditions) {
    put(kube::resources::kPods, name,
        fmt::format(
            "{{metadata: {{labels: {{app.kubernetes.io/name: {}, app.kubernetes.io/instance: {}, "
            "nodeset.slinky.slurm.net/pod-hostname: {}}}}}, spec: {{nodeName: k1, containers: [{{name: c, image: "
            "i}}]}}, status: {{phase: Running, conditions: [{{type: Ready, status: 'True', lastTransitionTime: "
            "'2026-05-01T10:00:00Z'}}, {}]}}}}",
            app, instance, name, conditions));
  }
  Explanation read(const kube::Resource& resource, const std::string& name) {
    return testing::run(loop, read_explanation(client, resource, NamespacedName{"slurm", name}));
  }

  ManualLoop loop;
  testing::FakeApi api{loop};
  std::unique_ptr<net::Transport> transport = net::make_loopback(loop, api.handler());
  kube::Client client{loop, *transport, {}};
};

TEST_F(ExplainTest, WhatIsNotThereIsNamedWithTheRemedy) {
  try {
    read(kNodeSets, "gone");
    FAIL();
  } catch (const NothingToExplain& error) {
    EXPECT_STREQ(error.what(), "there is no NodeSet slurm/gone; -n chooses the namespace");
  }
}

TEST_F(ExplainTest, ANodeSetThatScalesInSaysWhichWorkerIsBusyWithWhatAndSinceWhen) {
  put(kControllers, "slurm", "{spec: {}, status: {conditions: [{type: Ready, status: 'True'}]}}");
  put(kNodeSets, "gpu", R"({spec: {controllerRef: {name: slurm}, replicas: 1}, status: {desired: 1, replicas: 2,
      availableReplicas: 1, slurmIdle: 1, slurmAllocated: 1, slurmDrain: 1, conditions: [{type: Ready, status: "False",
      observedGeneration: 1, reason: Waiting, lastTransitionTime: "2026-05-01T11:58:00Z", message: "1 of 1 pods are available:
      pod slurm/gpu-10 waits to be scaled in: jobs run on Slurm node gpu-10 (17) until 2026-05-01T12:30:00Z; Slurm is so and so"}]}})");
  pod("gpu-10", "slurmd", "gpu",
      "{type: SlurmNodeStateMixed, status: 'True'}, {type: SlurmNodeStateDrain, status: 'True', message: "
      "'slurm-operator: pod slurm/gpu-10 waits to be scaled in', lastTransitionTime: '2026-05-01T11:58:01Z'}");
  pod("gpu-2", "slurmd", "gpu",
      "{type: SlurmNodeStateIdle, status: 'True', lastTransitionTime: '2026-05-01T11:00:00Z'}");
  pod("other-0", "slurmd", "other", "{type: SlurmNodeStateIdle, status: 'True'}");
  const Explanation e = read(kNodeSets, "gpu");
  EXPECT_EQ(e.object, "NodeSet slurm/gpu");
  EXPECT_EQ(e.verdict, "The operator waits for the NodeSet to be as it should.");
  EXPECT_EQ(print_rfc3339(e.since.value()), "2026-05-01T11:58:00Z");
  EXPECT_THAT(e.waits, ElementsAre("1 of 1 pods are available",
                                   "pod slurm/gpu-10 waits to be scaled in: jobs run on Slurm node gpu-10 (17) until "
                                   "2026-05-01T12:30:00Z",
                                   "Slurm is so and so"));
  ASSERT_EQ(e.pods.size(), 2u);
  EXPECT_EQ(e.pods[0].pod, "gpu-2");
  EXPECT_EQ(e.pods[1].state, "draining");
  EXPECT_THAT(e.next, ElementsAre(HasSubstr("goes on by itself when its jobs have ended")));
  const std::string text = to_text(e, kNow, false);
  EXPECT_THAT(text, HasSubstr("Since 2026-05-01T11:58:00Z (2m0s).\n  - 1 of 1 pods are available\n"));
  EXPECT_THAT(text, HasSubstr("  gpu-2   k1    gpu-2     idle      2026-05-01T11:00:00Z (1h0m0s)  -\n"));
  EXPECT_THAT(text, HasSubstr("  Controller slurm  ready"));
  const json::Value value = to_json(e);
  EXPECT_EQ(json::string_at(value, {"since"}), "2026-05-01T11:58:00Z");
  EXPECT_EQ(json::string_at(json::array_at(value, {"pods"})->at(1), {"slurmNode"}), "gpu-10");
}

constexpr std::string_view kRefused =
    "2026-05-01T11:50:00Z watching /etc/slurm\n2026-05-01T11:55:00Z /etc/slurm has changed, reconfiguring\n"
    "scontrol: error: _parse_next_key: Parsing error at unrecognized key: NoSuchKey\nscontrol: fatal: Unable to "
    "process "
    "configuration file\n2026-05-01T11:55:01Z slurmctld did not take the new configuration, next try in 2 s\n";

TEST(RefusalTest, A31_TheLastTryCountsInScontrolsOwnWords) {
  const std::string log(kRefused);
  EXPECT_EQ(
      refusal_in(log),
      "scontrol: error: _parse_next_key: Parsing error at unrecognized key: NoSuchKey, scontrol: fatal: Unable to "
      "process configuration file");
  const std::string again = log + "2026-05-01T11:55:03Z /etc/slurm has changed, reconfiguring\n";
  EXPECT_EQ(refusal_in(again), refusal_in(log)) << "it is being tried";
  EXPECT_EQ(refusal_in(again + "2026-05-01T11:55:04Z slurmctld took the new configuration\n"), std::nullopt);
  EXPECT_EQ(refusal_in(""), std::nullopt);
  EXPECT_EQ(refusal_in("x slurmctld did not take the new configuration, next try in 60 s"),
            "scontrol reconfigure failed");
}

TEST(RefusalTest, A31_AControllerSaysItBeforeAndAfterTheOperator) {
  const auto said = [](std::string_view conditions) {
    Found found;
    found.object = json::parse_yaml("{metadata: {name: slurm, namespace: slurm, generation: 1}, status: {conditions: " +
                                    std::string(conditions) + "}}");
    found.reconfigure_logs.emplace_back("slurm-controller-0", kRefused);
    return explain(kControllers, found);
  };
  for (const std::string_view conditions :
       {"[{type: Ready, status: 'True', observedGeneration: 1}]",
        "[{type: Ready, status: 'False', observedGeneration: 1, message: older}, {type: Degraded, status: 'True', "
        "observedGeneration: 1}]"}) {
    const Explanation e = said(conditions);
    EXPECT_THAT(e.verdict, ::testing::AnyOf(HasSubstr("older configuration"), HasSubstr("not as it should be")));
    EXPECT_THAT(e.waits,
                Contains(HasSubstr("pod slurm-controller-0: scontrol: error: _parse_next_key: Parsing error")));
    EXPECT_THAT(e.next, ElementsAre(HasSubstr("in spec.extraConf of the Controller")));
  }
}

TEST(RefusalTest, WhereScontrolKnowsNoCauseSlurmctldsLogIsNamed) {
  const auto said = [](std::string_view words) {
    Found found;
    found.object = json::parse_yaml("{metadata: {name: slurm, namespace: hpc, generation: 1}}");
    found.reconfigure_logs.emplace_back(
        "slurm-controller-0",
        fmt::format("2026-05-01T11:55:00Z /etc/slurm has changed, reconfiguring\n{}2026-05-01T11:55:01Z slurmctld did "
                    "not take the new configuration, next try in 2 s\n",
                    words));
    return explain(kControllers, found);
  };
  for (const std::string_view words : {"slurm_reconfigure error: Unspecified error\n", ""}) {
    EXPECT_THAT(said(words).next, ElementsAre(HasSubstr("Correct what slurmctld's log (`kubectl -n hpc logs "
                                                        "slurm-controller-0 -c logfile`) names")));
  }
  EXPECT_THAT(said("scontrol: fatal: no\n").next, ElementsAre(HasSubstr("Correct what scontrol names")));
}

// slurmctld would take the key with the configuration (builders/scripts.hpp); there is nothing to correct.
TEST(RefusalTest, AConfigurationThatWaitsWithTheKeyIsNotCalledWrong) {
  const std::string kept = std::string(kRefused) +
                           "2026-05-01T11:56:00Z slurmctld keeps its configuration, /etc/slurm/slurm.key is another "
                           "than this pod was made for\n";
  EXPECT_TRUE(keeps_for_key(kept));
  EXPECT_FALSE(keeps_for_key(kRefused));
  EXPECT_FALSE(keeps_for_key(kept + "2026-05-01T11:57:00Z /etc/slurm has changed, reconfiguring\n"));
  Found found;
  found.object = json::parse_yaml(
      "{metadata: {name: slurm, namespace: slurm, generation: 1}, status: {conditions: [{type: Ready, status: 'False', "
      "observedGeneration: 1, message: the key has changed}]}}");
  found.reconfigure_logs.emplace_back("slurm-controller-0", kept);
  const Explanation e = explain(kControllers, found);
  EXPECT_THAT(e.waits, Contains(HasSubstr("pod slurm-controller-0: it has another key of auth/slurm")));
  EXPECT_THAT(e.next, Not(Contains(HasSubstr("Correct what scontrol names"))));
}

TEST(GoingTest, ANodeSetThatNobodyLetsGoSaysWhatToDo) {
  Found found;
  found.object = json::parse_yaml(
      "{metadata: {name: gpu, namespace: slurm, deletionTimestamp: '2026-05-01T11:00:00Z'}, spec: {controllerRef: "
      "{name: "
      "gone}}}");
  found.neighbours.emplace_back("Controller gone", nullptr);
  const Explanation e = explain(kNodeSets, found);
  EXPECT_EQ(e.verdict, "The NodeSet is being deleted.");
  EXPECT_THAT(e.next, ElementsAre(HasSubstr("drain"), HasSubstr("kubectl -n slurm patch nodeset gpu --type=merge")))
      << "and no Controller is asked for";
}

TEST_F(ExplainTest, AControllerShowsAllThatRefersToIt) {
  put(kControllers, "slurm", R"({spec: {accountingRef: {name: db}}, status: {conditions: [{type: Ready, status: "True",
      observedGeneration: 1, lastTransitionTime: "2026-05-01T10:00:00Z"}]}})");
  put(kRestApis, "api", R"({spec: {controllerRef: {name: slurm}}, status: {conditions: [
      {type: Ready, status: "False", message: "Deployment api-restapi: 0 of 1 pods are ready"}]}})");
  put(kNodeSets, "gpu", "{spec: {controllerRef: {name: slurm}}}");
  put(kNodeSets, "elsewhere", "{spec: {controllerRef: {name: another}}}");
  pod("slurm-controller-0", "slurmctld", "slurm", "{type: ContainersReady, status: 'True'}");
  const Explanation e = read(kControllers, "slurm");
  EXPECT_EQ(e.verdict, "The Controller is as it should be.");
  std::vector<std::string> beside;
  for (const Neighbour& one : e.neighbours) beside.push_back(one.object + " " + one.state + " " + one.says);
  EXPECT_THAT(beside,
              ElementsAre("Accounting db missing ", "RestApi api waits Deployment api-restapi: 0 of 1 pods are ready",
                          "NodeSet gpu waits the operator has not said anything about it yet"));
  EXPECT_THAT(e.next, ElementsAre("Create Accounting db.", "`bascule explain restapi/api` says more.",
                                  "`bascule explain nodeset/gpu` says more."));
  ASSERT_EQ(e.pods.size(), 1u);
  EXPECT_EQ(e.pods[0].state, "ready");
  EXPECT_THAT(to_text(e, kNow, false), Not(HasSubstr("IN SLURM")));
}

TEST_F(ExplainTest, EachVerdict) {
  const struct {
    const char* name;
    const char* rest;
    const char* verdict;
    const char* next;
  } cases[] = {
      {"silent", "{spec: {}}", "The operator has not said anything about the LoginSet yet.", "does an operator run"},
      {"bad",
       "{spec: {}, status: {conditions: [{type: Ready, status: 'False', observedGeneration: 1, message: a; b}, {type: "
       "Degraded, status: 'True'}]}}",
       "The LoginSet is not as it should be, and somebody has to mend something.", "Correct what the sentences name"},
      {"old", "{spec: {}, status: {conditions: [{type: Ready, status: 'True', observedGeneration: 0}]}}",
       "The operator has not looked at the newest change of the LoginSet yet.", "log of Deployment"},
      {"going",
       "{metadata: {deletionTimestamp: '2026-05-01T11:00:00Z', finalizers: [x/y]}, spec: {}, status: {conditions: "
       "[{type: Ready, status: 'True'}]}}",
       "The LoginSet is being deleted.", ""}};
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    json::Value object = json::parse_yaml(c.rest);
    json::Object& fields = object.get_object();
    if (!fields["metadata"].is_object()) fields["metadata"] = json::Object{};
    fields["metadata"].get_object()["generation"] = 1;
    const Explanation e = explain(kLoginSets, {.object = object});
    EXPECT_EQ(e.verdict, c.verdict);
    if (*c.next == '\0') {
      EXPECT_THAT(e.next, IsEmpty());
    } else {
      EXPECT_THAT(e.next, Contains(HasSubstr(c.next)));
    }
    EXPECT_THAT(to_text(e, kNow, true), HasSubstr(c.verdict));
  }
}

TEST_F(ExplainTest, ANodeSetWithoutItsControllerIsNotAsItShouldBe) {
  put(kNodeSets, "gpu", R"({spec: {controllerRef: {name: slurm}}, status: {conditions: [{type: Ready, status: "True",
      observedGeneration: 1, reason: AsSpecified, lastTransitionTime: "2026-05-01T10:00:00Z"}]}})");
  const Explanation e = read(kNodeSets, "gpu");
  EXPECT_THAT(e.verdict, HasSubstr("Controller slurm of the NodeSet does not exist: its pods are left as they are"));
  EXPECT_FALSE(e.since);
  EXPECT_THAT(e.next, ElementsAre(HasSubstr("delete the NodeSet"), "Create Controller slurm."));
}

TEST_F(ExplainTest, ASlurmctldWithoutPodsShowsWhyItsStatefulSetMakesNone) {
  put(kControllers, "slurm", "{spec: {}}");
  put(kStatefulSets, "slurm-controller", "{spec: {}}");
  put(kube::resources::kEvents, "e-1",
      "{reason: FailedCreate, note: exceeded quota, eventTime: '2026-05-01T11:00:00Z', regarding: {kind: StatefulSet, "
      "name: slurm-controller, namespace: slurm}}");
  const Explanation bare = read(kControllers, "slurm");
  ASSERT_EQ(bare.events.size(), 1u);
  EXPECT_EQ(bare.events[0].note, "exceeded quota");
  pod("slurm-controller-0", "slurmctld", "slurm", "{type: x, status: 'True'}");
  EXPECT_THAT(read(kControllers, "slurm").events, IsEmpty()) << "of another time";
}

TEST_F(ExplainTest, TheEventsAreTheObjectsOwn) {
  put(kNodeSets, "gpu", "{spec: {controllerRef: {name: slurm}}}");
  for (const char* kind : {"NodeSet", "LoginSet"}) {
    put(kube::resources::kEvents, std::string("e-") + (kind[0] == 'N' ? "1" : "2"),
        fmt::format(
            "{{reason: Of{0}, note: words, eventTime: '2026-05-01T11:00:00Z', regarding: {{kind: {0}, name: gpu, "
            "namespace: slurm}}}}",
            kind));
  }
  const Explanation e = read(kNodeSets, "gpu");
  ASSERT_EQ(e.events.size(), 1u);
  EXPECT_EQ(e.events[0].reason, "OfNodeSet");
  EXPECT_THAT(e.next, Contains("Create Controller slurm."));
}

TEST(ExplainNames, AreKubectls) {
  EXPECT_EQ(resource_of("nss"), &kNodeSets);
  EXPECT_EQ(resource_of("controllers"), &kControllers);
  EXPECT_EQ(resource_of("pod"), nullptr);
  EXPECT_EQ(resource_of(""), nullptr);
}

}  // namespace
}  // namespace bascule::op::explain
