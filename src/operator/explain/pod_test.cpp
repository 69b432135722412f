// Pods in all the states that people ask about, as kubelet, kube-scheduler and the operator write them.
#include "operator/explain/pod.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/time.hpp"
#include "json/patch.hpp"
#include "json/yaml.hpp"

namespace bascule::op::explain {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

json::Value worker(std::string_view change) {
  json::Value pod = json::parse_yaml(R"({
    metadata: {name: gpu-1, namespace: slurm, uid: u1, creationTimestamp: "2026-05-01T10:00:00Z", annotations: {},
      labels: {app.kubernetes.io/name: slurmd, app.kubernetes.io/instance: gpu, nodeset.slinky.slurm.net/pod-hostname: gpu-1}},
    spec: {nodeName: k1}, status: {phase: Running, startTime: "2026-05-01T10:01:00Z"}})");
  return json::merged(pod, json::parse_yaml(change));
}

struct Case {
  const char* name;
  const char* pod;
  Stand stand;
  const char* state;
  const char* since;  // empty: not known
  const char* why;
  const char* remedy;  // part of it; empty: none at all
};

#define READY "{type: Ready, status: 'True', lastTransitionTime: '2026-05-01T10:02:00Z'}"
#define SLURM(state, message)                                                                                      \
  "{type: SlurmNodeState" state ", status: 'True', lastTransitionTime: '2026-05-01T11:00:00Z', message: '" message \
  "'"                                                                                                              \
  "}"

const Case kCases[] = {
    {"Idle", "{status: {conditions: [" READY "," SLURM("Idle", "") "]}}", Stand::kIdle, "idle", "2026-05-01T11:00:00Z",
     "", ""},
    {"Busy",
     "{metadata: {annotations: {nodeset.slinky.slurm.net/pod-deadline: '2026-05-01T12:00:00Z'}}, status: {conditions: "
     "[" READY "," SLURM("Mixed", "") "]}}",
     Stand::kBusy, "busy", "2026-05-01T11:00:00Z", "jobs until 2026-05-01T12:00:00Z", ""},
    {"BusyForEver",
     "{metadata: {annotations: {nodeset.slinky.slurm.net/pod-deadline: '2200-01-01T00:00:00Z'}}, status: {conditions: "
     "[" READY "," SLURM("Allocated", "") "]}}",
     Stand::kBusy, "busy", "2026-05-01T11:00:00Z", "its jobs have no time limit", ""},
    {"DrainingForScaleIn",
     "{metadata: {annotations: {nodeset.slinky.slurm.net/pod-cordon: 'true', "
     "nodeset.slinky.slurm.net/pod-cordon-cause: ScaleIn}}, status: {conditions: [" READY
     "," SLURM("Allocated", "x") "," SLURM("Drain", "slurm-operator: pod slurm/gpu-1 waits to be scaled in") "]}}",
     Stand::kDraining, "draining", "2026-05-01T11:00:00Z", "pod slurm/gpu-1 waits to be scaled in", "drain-limit"},
    {"DrainedBySomebodyElse",
     "{status: {conditions: [" READY "," SLURM("Idle", "broken fan") "," SLURM("Drain", "broken fan") "]}}",
     Stand::kDrained, "drained", "2026-05-01T11:00:00Z", "drained by somebody else: broken fan", "Whoever drained"},
    {"DrainedByTheUsersAnnotation",
     "{metadata: {annotations: {nodeset.slinky.slurm.net/pod-cordon: 'true'}}, status: {conditions: [" READY
     "," SLURM("Drain", "slurm-operator: pod slurm/gpu-1 was cordoned") "]}}",
     Stand::kDrained, "drained", "2026-05-01T11:00:00Z", "pod slurm/gpu-1 was cordoned", "Remove the annotation"},
    {"BeingUndrained",
     "{status: {conditions: [" READY "," SLURM("Idle", "") "," SLURM("Drain", "") "," SLURM("Undrain", "") "]}}",
     Stand::kIdle, "idle", "2026-05-01T11:00:00Z", "", ""},
    {"CordonedAndNotDrainedYet",
     "{metadata: {annotations: {nodeset.slinky.slurm.net/pod-cordon: 'true', "
     "nodeset.slinky.slurm.net/pod-cordon-cause: Node}}, status: {conditions: [" READY "," SLURM("Mixed", "") "]}}",
     Stand::kCordoned, "busy", "2026-05-01T11:00:00Z", "node k1 is cordoned", ""},
    {"Down", "{status: {conditions: [" READY "," SLURM("Down", "Not responding") "]}}", Stand::kDown, "down",
     "2026-05-01T11:00:00Z", "Not responding", "scontrol show node"},
    {"NotInSlurm", "{status: {conditions: [" READY "]}}", Stand::kUnregistered, "not in Slurm", "2026-05-01T10:02:00Z",
     "Slurm has no node of it, or the operator cannot ask", "log of container slurmd"},
    {"Unschedulable",
     "{spec: {nodeName: null}, status: {phase: Pending, conditions: [{type: PodScheduled, status: 'False', reason: "
     "Unschedulable, lastTransitionTime: '2026-05-01T10:00:30Z', message: '0/3 nodes are available'}]}}",
     Stand::kUnscheduled, "unschedulable", "2026-05-01T10:00:30Z", "0/3 nodes are available", "Make a Kubernetes node"},
    {"UnboundClaim",
     "{spec: {nodeName: null}, status: {phase: Pending, conditions: [{type: PodScheduled, status: 'False', reason: "
     "Unschedulable, lastTransitionTime: '2026-05-01T10:00:30Z', message: '0/3 nodes are available: pod has unbound "
     "immediate PersistentVolumeClaims.'}]}}",
     Stand::kVolume, "lacks a volume", "2026-05-01T10:00:30Z",
     "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.", "StorageClass has to exist"},
    {"NoVolumeFits",
     "{spec: {nodeName: null}, status: {phase: Pending, conditions: [{type: PodScheduled, status: 'False', reason: "
     "Unschedulable, message: '1 node(s) did not have enough free storage'}]}}",
     Stand::kVolume, "lacks a volume", "2026-05-01T10:00:00Z", "1 node(s) did not have enough free storage", "pvc"},
    {"NotLookedAt", "{spec: {nodeName: null}, status: {phase: Pending}}", Stand::kUnscheduled, "unscheduled",
     "2026-05-01T10:00:00Z", "the scheduler has not looked at it yet", "Make a Kubernetes node"},
    {"Gated",
     "{spec: {nodeName: null}, status: {phase: Pending, conditions: [{type: PodScheduled, status: 'False', reason: "
     "SchedulingGated, message: gated}]}}",
     Stand::kGated, "gated", "2026-05-01T10:00:00Z", "gated", "gates"},
    {"ImagePull",
     "{status: {phase: Pending, containerStatuses: [{name: slurmd, state: {waiting: {reason: PodInitializing}}}], "
     "initContainerStatuses: [{name: logfile, state: {waiting: {reason: ImagePullBackOff, message: 'no such "
     "image'}}}]}}",
     Stand::kImage, "ImagePullBackOff", "2026-05-01T10:01:00Z", "container logfile; no such image", "pull secret"},
    {"Crashing",
     "{status: {containerStatuses: [{name: slurmd, state: {waiting: {reason: CrashLoopBackOff, message: back-off}}, "
     "lastState: {terminated: {exitCode: 3, finishedAt: '2026-05-01T10:05:00Z'}}}]}}",
     Stand::kCrashing, "CrashLoopBackOff", "2026-05-01T10:05:00Z", "container slurmd; it ended with 3", "--previous"},
    {"ConfigIsMissing",
     "{status: {phase: Pending, containerStatuses: [{name: slurmd, state: {waiting: {reason: "
     "CreateContainerConfigError, message: 'secret \"x\" not found'}}}]}}",
     Stand::kConfig, "CreateContainerConfigError", "2026-05-01T10:01:00Z", "container slurmd; secret \"x\" not found",
     "lacks"},
    {"NotReady",
     "{status: {conditions: [{type: Ready, status: 'False', lastTransitionTime: '2026-05-01T10:03:00Z', message: "
     "'containers with unready status: [slurmd]'}]}}",
     Stand::kUnready, "not ready", "2026-05-01T10:03:00Z", "containers with unready status: [slurmd]", "probe"},
    {"Starting", "{status: {phase: Pending}}", Stand::kStarting, "starting", "2026-05-01T10:01:00Z", "", ""},
    {"Ending",
     "{metadata: {deletionTimestamp: '2026-05-01T12:00:30Z', deletionGracePeriodSeconds: 30}, status: {conditions: "
     "[" READY "," SLURM("Idle", "") "]}}",
     Stand::kEnding, "ending", "2026-05-01T12:00:00Z", "its containers have 30 s to end", "kubelet"},
    {"Failed",
     "{status: {phase: Failed, containerStatuses: [{name: slurmd, state: {terminated: {exitCode: 1, finishedAt: "
     "'2026-05-01T10:09:00Z'}}}]}}",
     Stand::kFailed, "failed", "2026-05-01T10:09:00Z", "container slurmd ended with 1", "kubectl logs"},
    {"Evicted", "{status: {phase: Failed, reason: Evicted, message: 'low on memory'}}", Stand::kFailed, "failed", "",
     "low on memory", "kubectl logs"}};

TEST(ExplainPod, EveryStateHasItsWordsItsTimeAndItsRemedy) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const PodStand pod = judge_pod(worker(c.pod), true);
    EXPECT_EQ(pod.pod, "gpu-1");
    EXPECT_EQ(pod.slurm_node, "gpu-1");
    EXPECT_EQ(pod.stand, c.stand);
    EXPECT_EQ(pod.state, c.state);
    EXPECT_EQ(pod.since ? print_rfc3339(*pod.since) : "", c.since);
    EXPECT_EQ(pod.why, c.why);
    if (*c.remedy == '\0') {
      EXPECT_THAT(remedy_of(pod), IsEmpty());
    } else {
      EXPECT_THAT(remedy_of(pod), HasSubstr(c.remedy));
    }
  }
}

TEST(ExplainPod, TheClaimsThatHaveNoVolumeAreNamed) {
  const json::Value pod =
      worker(R"({spec: {nodeName: null, volumes: [{name: a, persistentVolumeClaim: {claimName: a-gpu-1}},
    {name: b, persistentVolumeClaim: {claimName: b-gpu-1}}, {name: c, ephemeral: {}}, {name: d, emptyDir: {}}]},
    status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable,
    message: "pod has unbound immediate PersistentVolumeClaims"}]}})");
  PodStand stand = judge_pod(pod, true);
  name_claims(
      stand,
      {json::parse_yaml("{metadata: {name: a-gpu-1}, status: {phase: Bound}}"),
       json::parse_yaml("{metadata: {name: b-gpu-1}, spec: {storageClassName: fast}, status: {phase: Pending}}")});
  EXPECT_EQ(stand.why,
            "pod has unbound immediate PersistentVolumeClaims; PersistentVolumeClaim b-gpu-1 is Pending, of "
            "StorageClass fast; there is no PersistentVolumeClaim gpu-1-c");
}

TEST(ExplainPod, WhatIsNoWorkerHasNoStateInSlurm) {
  const json::Value pod = json::parse_yaml(R"({metadata: {name: c-0, labels: {app.kubernetes.io/name: slurmctld,
    controller.slinky.slurm.net/active: "true"}}, spec: {nodeName: k1}, status: {phase: Running, conditions: [
    {type: Ready, status: "True", lastTransitionTime: "2026-05-01T10:02:00Z"}]}})");
  const PodStand stand = judge_pod(pod, false);
  EXPECT_EQ(stand.state, "ready, serves");
  EXPECT_TRUE(stand.serves());
  EXPECT_EQ(print_rfc3339(stand.since.value()), "2026-05-01T10:02:00Z");
}

TEST(ExplainPod, APodOfAnyShapeIsJudged) {
  for (const char* text : {"{}", "{metadata: {name: a}, status: {conditions: 7, containerStatuses: {}}, spec: []}",
                           "{spec: {nodeName: 5}, status: {phase: Failed, containerStatuses: [3, {state: 4}]}}"}) {
    for (const bool is_worker : {true, false}) EXPECT_FALSE(judge_pod(json::parse_yaml(text), is_worker).state.empty());
  }
}

}  // namespace
}  // namespace bascule::op::explain
