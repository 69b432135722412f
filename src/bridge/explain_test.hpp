// A fake API server with pods, and what a user reads who asks it why.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "bridge/explain_read.hpp"
#include "bridge/names.hpp"
#include "net/loopback.hpp"
#include "testing/fake_api.hpp"
#include "testing/objects.hpp"
#include "testing/run.hpp"

namespace bascule::bridge {

inline const kube::Resource kCoscheduling{"scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", true};

struct ExplainTest : ::testing::Test {
  ExplainTest() { api.add_resource(kCoscheduling); }

  struct Stand {
    std::string job = {};
    std::string node = {};
    std::string phase = "Pending";
    std::string reason = {};  // of PodScheduled=False
    std::string message = {};
    std::string unknown = {};  // of SlurmJobKnown=False
  };
  json::Value pod(const std::string& name, const Stand& stand, json::Object labels = {}) {
    if (!stand.job.empty()) labels[std::string(names::kSlurmJobId)] = stand.job;
    json::Value value = testing::make_pod({.name = name,
                                           .ns = "ml",
                                           .scheduler = "slurm-bridge-scheduler",
                                           .node = stand.node,
                                           .labels = std::move(labels)});
    json::Object status{{"phase", stand.phase}};
    json::Array conditions;
    if (!stand.reason.empty()) {
      conditions.push_back(json::Object{
          {"type", "PodScheduled"}, {"status", "False"}, {"reason", stand.reason}, {"message", stand.message}});
    }
    if (!stand.unknown.empty()) {
      conditions.push_back(json::Object{{"type", names::kSlurmJobKnown},
                                        {"status", "False"},
                                        {"reason", "SlurmJobUnknown"},
                                        {"message", stand.unknown}});
    }
    if (!conditions.empty()) status["conditions"] = std::move(conditions);
    value.get_object()["status"] = std::move(status);
    return value;
  }
  void add(const json::Value& value) {
    json::Value made = api.create(kube::resources::kPods, value);
    made.get_object()["status"] = value.at("status");
    api.update(kube::resources::kPods, std::move(made), "status");
  }
  void member(const std::string& name, const Stand& stand) {
    add(pod(name, stand, {{std::string(names::kPodGroup), "ring"}}));
  }
  void group(int minimum, const char* phase = "") {
    api.create(kCoscheduling, json::Object{{"apiVersion", "scheduling.x-k8s.io/v1alpha1"},
                                           {"kind", "PodGroup"},
                                           {"metadata", json::Object{{"namespace", "ml"}, {"name", "ring"}}},
                                           {"spec", json::Object{{"minMember", minimum}}}});
    if (*phase != '\0') {
      api.patch(kCoscheduling, {"ml", "ring"}, json::Object{{"status", json::Object{{"phase", phase}}}}, "status");
    }
  }
  // About pod ml/a, at that minute.
  void event(const std::string& minute, const std::string& reason, const std::string& note,
             json::Object regarding = {{"kind", "Pod"}}) {
    regarding["namespace"] = "ml";
    regarding["name"] = "a";
    api.create(kube::resources::kEvents,
               json::Object{{"apiVersion", "events.k8s.io/v1"},
                            {"kind", "Event"},
                            {"metadata", json::Object{{"namespace", "ml"}, {"name", "e" + minute}}},
                            {"eventTime", "2026-01-01T00:" + minute + ":00.000000Z"},
                            {"reason", reason},
                            {"note", note},
                            {"type", "Normal"},
                            {"action", "Acting"},
                            {"reportingController", "c"},
                            {"reportingInstance", "i"},
                            {"regarding", std::move(regarding)}});
  }
  // Whoever asks may not `verb` such objects of these API groups.
  void forbid(std::string verb, std::string resource, std::vector<std::string> groups) {
    api.set_faults([=](const testing::ApiCall& call) {
      const bool meant = call.is(verb, resource) && std::ranges::find(groups, call.group) != groups.end();
      return meant ? testing::ApiFault{.kind = testing::ApiFault::Kind::kStatus, .code = 403} : testing::ApiFault{};
    });
  }
  static std::string fact(const Explanation& e, std::string_view name) {
    for (const auto& [key, value] : e.facts) {
      if (key == name) return value;
    }
    return {};
  }
  Explanation explain(const std::string& name) {
    return testing::run(loop, read_pod_explanation(client, NamespacedName{"ml", name}));
  }
  std::vector<GroupExplanation> explain_groups(GroupObject kind, const std::string& name) {
    return testing::run(loop, read_group_explanations(client, kind, NamespacedName{"ml", name}));
  }

  ManualLoop loop;
  testing::FakeApi api{loop};
  std::unique_ptr<net::Transport> transport = net::make_loopback(loop, api.handler());
  kube::Client client{loop, *transport, {}};
};

// What is to be done about each reason; every message is one that the scheduler writes, or stands for it.
struct Remedy {
  const char* reason;
  const char* message;
  const char* remedy;
};
inline const Remedy kRemedies[] = {
    {"Unschedulable", "no node that Slurm may use fits the pod: no nodes", "Make a node fit"},
    {"Unschedulable", "Slurm job 9, which was requeued, goes to this pod", "Nothing to do"},
    {"InvalidRequest", "a sentence", "Correct what the sentence names"},
    {"SlurmRefused", "a sentence", "tried again"},
    {"SlurmUnreachable", "a sentence", "scontrol ping"},
    {"SubmitInDoubt", "a sentence", "Nothing to do"},
    {"Submitting", "a sentence", "Nothing to do"},
    {"OwnerUnknown", "a sentence", "Create the object"},
    {"SlurmUnknown", "a sentence", "nothing is guessed"},
    {"SlurmJobEnded", "Slurm job 9 ended (CANCELLED) before the pod could run", "sacct"},
    {"NodeRefused", "Slurm job 9 is RUNNING but the pod cannot start: node n1 is cordoned", "see to the node"},
    {"ForeignJob", "a sentence", "Remove the label"},
    {"GangClosed", "PodGroup ml/ring is Failed", "Make a new group"},
    {"VolumeNotReady", "Slurm job 9 is RUNNING; the pod's volumes are being made", "kubectl describe pvc"},
    {"SlurmStarting", "Slurm job 9 is RUNNING; waiting for its node list", "a matter of a second"},
    {"SlurmJobSUSPENDED", "Slurm job 9 is SUSPENDED", "scontrol resume"},
    {"SlurmJobCOMPLETING", "Slurm job 9 is COMPLETING", "scontrol show job 9"},
    {"KubernetesRefused", "a sentence", "admission policy"},
    {"Unschedulable", "Slurm job 9 is PENDING; Kubernetes does not let pod a be changed: no", "admission policy"},
    {"KubernetesFails", "a sentence", "failurePolicy"}};

}  // namespace bascule::bridge
