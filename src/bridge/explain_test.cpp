// Explanations against the fake API server: what a user reads who asks why.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bridge/claim_plan.hpp"
#include "bridge/explain_read.hpp"
#include "bridge/names.hpp"
#include "net/loopback.hpp"
#include "testing/fake_api.hpp"
#include "testing/objects.hpp"
#include "testing/run.hpp"

namespace bascule::bridge {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const kube::Resource kCoscheduling{"scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", true};
const kube::Resource kWorkloadGroup{"scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", true};
const kube::Resource kSets{"leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet", true};

struct ExplainTest : ::testing::Test {
  ExplainTest() { api.add_resource(kCoscheduling); }

  struct Stand {
    std::string job = {};
    std::string node = {};
    std::string phase = "Pending";
    std::string reason = {};  // of PodScheduled=False
    std::string message = {};
  };
  json::Value pod(const std::string& name, const Stand& stand, json::Object labels = {}) {
    if (!stand.job.empty()) labels[std::string(names::kSlurmJobId)] = stand.job;
    json::Value value = testing::make_pod({.name = name,
                                           .ns = "ml",
                                           .scheduler = "slurm-bridge-scheduler",
                                           .node = stand.node,
                                           .labels = std::move(labels)});
    json::Object status{{"phase", stand.phase}};
    if (!stand.reason.empty()) {
      status["conditions"] = json::Array{json::Object{
          {"type", "PodScheduled"}, {"status", "False"}, {"reason", stand.reason}, {"message", stand.message}}};
    }
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

TEST_F(ExplainTest, APodThatIsNotThereIsNamedWithTheRemedy) {
  try {
    explain("gone");
    FAIL();
  } catch (const NothingToExplain& error) {
    EXPECT_STREQ(error.what(), "there is no pod ml/gone; -n chooses the namespace");
  }
}

TEST_F(ExplainTest, APodWhoseJobWaits) {
  add(pod("train-0", {.job = "17", .reason = "Unschedulable", .message = "Slurm job 17 is PENDING (Priority)"}));
  const Explanation e = explain("train-0");
  EXPECT_EQ(e.verdict, "The pod waits: Slurm job 17 is PENDING (Priority).");
  EXPECT_EQ(e.next, "It is bound as soon as Slurm job 17 runs. `scontrol show job 17` tells what Slurm thinks.");
  EXPECT_FALSE(e.group);
}

TEST_F(ExplainTest, EveryReasonSaysWhatToDo) {
  const std::pair<const char*, const char*> expected[] = {
      {"Unschedulable", "Make a node fit"},      {"InvalidRequest", "Correct what the sentence names"},
      {"SlurmRefused", "tried again"},           {"SlurmUnreachable", "scontrol ping"},
      {"SubmitInDoubt", "Nothing to do"},        {"OwnerUnknown", "Create the object"},
      {"SlurmUnknown", "nothing is guessed"},    {"SlurmJobEnded", "sacct"},
      {"InsufficientPods", "when that is over"}, {"NodeRefused", "see to the node"},
      {"ForeignJob", "Remove the label"},        {"SlurmStarting", "a matter of a second"},
      {"KubernetesRefused", "admission policy"}, {"KubernetesFails", "failurePolicy"}};
  int number = 0;
  for (const auto& [reason, remedy] : expected) {
    const std::string name = "p-" + std::to_string(++number);
    add(pod(name, {.reason = reason, .message = "a sentence"}));
    EXPECT_THAT(explain(name).next, HasSubstr(remedy)) << reason;
  }
}

// A pod that asks for two GPUs by class, and the claim that the bridge makes for it.
struct ExplainClaims : ExplainTest {
  ExplainClaims() { api.add_resource(kResourceClaims); }

  std::string add_asking(const std::string& name, const Stand& stand) {
    json::Value value = pod(name, stand);
    json::at_or_create(value, {"spec", "containers"}).as_array()[0].as_object()["resources"] =
        json::Object{{"limits", json::Object{{"deviceclass.resource.kubernetes.io/gpu.example.com", "2"}}}};
    add(value);
    json::Interner interner;
    return claim_key(*kube::decode_pod(json::dump(*api.get(kube::resources::kPods, {"ml", name})), interner)).name;
  }
  void add_claim(const std::string& name, bool allocated, json::Array finalizers = {}) {
    api.create(
        kResourceClaims,
        json::Object{{"apiVersion", "resource.k8s.io/v1"},
                     {"kind", "ResourceClaim"},
                     {"metadata", json::Object{{"namespace", "ml"}, {"name", name}, {"finalizers", finalizers}}}});
    if (!allocated) return;
    json::Array results;
    for (const char* device : {"gpu-0", "gpu-1"}) {
      results.push_back(
          json::Object{{"request", "gpu"}, {"driver", "gpu.example.com"}, {"pool", "n1"}, {"device", device}});
    }
    api.patch(kResourceClaims, {"ml", name},
              json::Object{
                  {"status", json::Object{{"allocation",
                                           json::Object{{"devices", json::Object{{"results", std::move(results)}}}}}}}},
              "status");
  }
  std::string fact(const Explanation& e, std::string_view name) {
    for (const auto& [key, value] : e.facts) {
      if (key == name) return value;
    }
    return {};
  }
};

TEST_F(ExplainClaims, EveryClaimThatIsNotReadySaysWhatTheAdministratorCanDo) {
  const std::string begin = "the pod's devices are not claimed yet: ";
  const std::pair<std::string, const char*> expected[] = {
      {"device gpu.example.com/n1/gpu-0 is held by claim other/train-1-slurm-7",
       "`kubectl delete resourceclaim train-1-slurm-7 -n other`"},
      {"ResourceClaim ml/a-slurm-1 is not this bridge's; delete it", "`kubectl delete resourceclaim a-slurm-1 -n ml`"},
      {"ResourceClaim ml/a-slurm-1 of an earlier try is being deleted", "`kubectl get -o yaml resourceclaim a-slurm-1"},
      {"ResourceClaim ml/a-slurm-1 of an earlier try is replaced", "Nothing to do"},
      {"ResourceClaim ml/a-slurm-1 was changed by somebody else", "Nothing to do"},
      {"the claim went while it was looked at", "Nothing to do"}};
  int number = 0;
  for (const auto& [problem, remedy] : expected) {
    const std::string name = "p-" + std::to_string(++number);
    add_asking(name, {.job = "17", .reason = "ClaimNotReady", .message = begin + problem});
    const Explanation e = explain(name);
    EXPECT_EQ(e.verdict, fmt::format("The pod waits: {}{}.", begin, problem));
    EXPECT_THAT(e.next, HasSubstr(remedy)) << problem;
    EXPECT_THAT(e.next, Not(HasSubstr("as soon as Slurm job 17 runs"))) << problem;
  }
}

TEST_F(ExplainClaims, DevicesThatSlurmDidNotGiveAreComparedWithWhatIsPublished) {
  const char* why =
      "Slurm job 17 is RUNNING but the pod cannot start: node n1 has no devices for the pod: it asks for 2 "
      "of class gpu.example.com, and Slurm job 17 has 1 there that are free";
  add_asking("a", {.job = "17", .reason = "NodeRefused", .message = why});
  EXPECT_THAT(explain("a").next, HasSubstr("kubectl get resourceslices"));
  add_asking("b", {.job = "17",
                   .reason = "NodeRefused",
                   .message = std::string(why) + "; gpu.example.com/n1/gpu-1 is held by claim x/y"});
  EXPECT_THAT(explain("b").next, HasSubstr("`kubectl get -o yaml resourceclaim y -n x`"));
}

TEST_F(ExplainClaims, SaysSinceWhenItWaitsAndSinceWhenForThis) {
  const char* why = "the pod's devices are not claimed yet: ResourceClaim ml/a was changed by somebody else";
  add_asking("a", {.job = "17", .reason = "ClaimNotReady", .message = why});
  api.patch(kube::resources::kPods, {"ml", "a"},
            json::Object{{"status", json::Object{{"conditions", json::Array{json::Object{{"type", "PodScheduled"},
                                                                                         {"status", "False"},
                                                                                         {"reason", "ClaimNotReady"},
                                                                                         {"message", why},
                                                                                         {"lastTransitionTime",
                                                                                          "2026-01-01T00:00:00Z"}}}}}}},
            "status");
  const std::pair<const char*, const char*> said[] = {{"01", "Slurm job 17 is PENDING"}, {"02", why}, {"03", why}};
  for (const auto& [minute, note] : said) {
    api.create(kube::resources::kEvents,
               json::Object{{"apiVersion", "events.k8s.io/v1"},
                            {"kind", "Event"},
                            {"metadata", json::Object{{"namespace", "ml"}, {"name", std::string("e") + minute}}},
                            {"eventTime", std::string("2026-01-01T00:") + minute + ":00.000000Z"},
                            {"reason", "FailedScheduling"},
                            {"note", note},
                            {"type", "Warning"},
                            {"action", "Scheduling"},
                            {"reportingController", "c"},
                            {"reportingInstance", "i"},
                            {"regarding", json::Object{{"kind", "Pod"}, {"namespace", "ml"}, {"name", "a"}}}});
  }
  const Explanation e = explain("a");
  EXPECT_EQ(fact(e, "waits since"), "2026-01-01T00:00:00Z");
  EXPECT_EQ(fact(e, "says so since"), "2026-01-01T00:02:00.000000Z");
  EXPECT_EQ(fact(e, "claim"), "");
}

TEST_F(ExplainClaims, ABoundPodsClaim) {
  const std::string lost = add_asking("lost", {.job = "17", .node = "n1"});
  Explanation e = explain("lost");
  EXPECT_EQ(e.verdict, "The pod is on node n1, held by Slurm job 17. Its ResourceClaim ml/" + lost +
                           " does not exist any more: kubelet cannot start it.");
  EXPECT_THAT(e.next, HasSubstr("Delete the pod"));
  EXPECT_EQ(fact(e, "claim"), "ml/" + lost + " does not exist");

  add_claim(add_asking("a", {.job = "17", .node = "n1"}), true);
  e = explain("a");
  EXPECT_EQ(e.verdict, "The pod is on node n1, held by Slurm job 17.");
  EXPECT_THAT(e.next, HasSubstr("log of the driver"));
  EXPECT_THAT(fact(e, "claim"), HasSubstr(" allocated: gpu-0, gpu-1 of pool n1 (gpu.example.com), since "));

  const std::string going = add_asking("going", {.job = "18", .node = "n1", .phase = "Running"});
  add_claim(going, true, {"resource.kubernetes.io/delete-protection"});
  api.remove(kResourceClaims, {"ml", going});
  e = explain("going");
  EXPECT_THAT(e.verdict, HasSubstr("and stays until the pod has ended."));
  EXPECT_EQ(e.next, "It runs; it is deleted if its Slurm job ends first.");
}

TEST_F(ExplainTest, BoundAndOver) {
  add(pod("a", {.job = "17", .node = "n1", .phase = "Running"}));
  EXPECT_EQ(explain("a").verdict, "The pod is on node n1, held by Slurm job 17.");
  add(pod("b", {.job = "18", .node = "n1", .phase = "Failed"}));
  EXPECT_EQ(explain("b").verdict, "The pod ran and failed.");
}

TEST_F(ExplainTest, EventsInOrderWithoutTerminalCodes) {
  add(pod("a", {}));
  for (const char* minute : {"02", "01"}) {
    api.create(kube::resources::kEvents,
               json::Object{{"apiVersion", "events.k8s.io/v1"},
                            {"kind", "Event"},
                            {"metadata", json::Object{{"namespace", "ml"}, {"name", std::string("e") + minute}}},
                            {"eventTime", std::string("2026-01-01T00:") + minute + ":00.000000Z"},
                            {"reason", "Reason" + std::string(minute)},
                            {"note", "a\x1b[2Jnote"},
                            {"type", "Normal"},
                            {"action", "Acting"},
                            {"reportingController", "c"},
                            {"reportingInstance", "i"},
                            {"regarding", json::Object{{"kind", "Pod"}, {"namespace", "ml"}, {"name", "a"}}}});
  }
  const Explanation e = explain("a");
  ASSERT_EQ(e.events.size(), 2u);
  EXPECT_EQ(e.events[0].reason, "Reason01");
  EXPECT_THAT(to_text(e, false), HasSubstr("  2026-01-01T00:01:00.000000Z  Reason01  a?[2Jnote\n"));
  EXPECT_EQ(json::string_at(to_json(e).at("events").as_array()[1], {"reason"}), "Reason02");
}

TEST_F(ExplainTest, AGangThatIsShortOfAPod) {
  group(3);
  const char* why = "PodGroup ml/ring has 2 of the 3 pods that must start together";
  member("ring-0", {.reason = "InsufficientPods", .message = why});
  member("ring-1", {.reason = "InsufficientPods", .message = why});
  const Explanation e = explain("ring-1");
  ASSERT_TRUE(e.group);
  EXPECT_EQ(to_text(*e.group, false),
            "PodGroup ml/ring\n"
            "2 of the 3 pods that must start together are there.\n"
            "The others wait for 1 more; Slurm gets one job for all of them then.\n"
            "\n"
            "  POD     STANDS  SLURM JOB  NODE  WHY\n"
            "  ring-0  waits   -          -     PodGroup ml/ring has 2 of the 3 pods that must start together\n"
            "  ring-1  waits   -          -     PodGroup ml/ring has 2 of the 3 pods that must start together\n");
  EXPECT_THAT(to_text(e, false), HasSubstr("PodGroup ml/ring\n2 of the 3"));
}

TEST_F(ExplainTest, GatedAndForeignMembersDoNotCount) {
  group(3);
  member("ring-0", {});
  json::Value gated = pod("ring-1", {}, {{std::string(names::kPodGroup), "ring"}});
  gated.at("spec").get_object()["schedulingGates"] = json::Array{json::Object{{"name", "later"}}};
  add(gated);
  json::Value foreign = pod("ring-2", {}, {{std::string(names::kPodGroup), "ring"}});
  foreign.at("spec").get_object()["schedulerName"] = "default-scheduler";
  add(foreign);
  const auto groups = explain_groups(GroupObject::kPodGroup, "ring");
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].verdict, "1 of the 3 pods that must start together is there.");
  EXPECT_EQ(groups[0].next,
            "The others wait for 2 more; Slurm gets one job for all of them then. 1 pod would count without scheduling "
            "gates: whoever set them removes them. 1 pod belongs to another scheduler and does not count.");
  EXPECT_EQ(groups[0].members[1].why, "scheduling gates: later");
  EXPECT_EQ(groups[0].members[2].stands, "other scheduler");
}

TEST_F(ExplainTest, AGangWhoseJobWaitsIsExplainedOnce) {
  group(2);
  for (const char* name : {"ring-10", "ring-2"}) {
    member(name, {.job = "17", .reason = "Unschedulable", .message = "Slurm job 17 is PENDING (Resources)"});
  }
  const auto groups = explain_groups(GroupObject::kPodGroup, "ring");
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(to_text(groups[0], false),
            "PodGroup ml/ring\n"
            "2 pods are there, 2 must start together; 2 wait: Slurm job 17 is PENDING (Resources).\n"
            "All are bound at once as soon as Slurm job 17 runs. `scontrol show job 17` tells what Slurm thinks.\n"
            "\n"
            "  POD      STANDS  SLURM JOB  NODE  WHY\n"
            "  ring-2   waits   17         -     as above\n"
            "  ring-10  waits   17         -     as above\n");
}

TEST_F(ExplainTest, ALatecomerCountsOnAnotherJob) {
  group(2);
  member("ring-0", {.job = "17", .node = "n1", .phase = "Running"});
  member("ring-1", {.job = "17", .node = "n2", .phase = "Running"});
  member("ring-2", {.job = "18", .reason = "Unschedulable", .message = "Slurm job 18 is PENDING (Priority)"});
  const GroupExplanation g = explain_groups(GroupObject::kPodGroup, "ring").at(0);
  EXPECT_EQ(g.verdict,
            "3 pods are there, 2 must start together; 2 have nodes, 1 waits: Slurm job 18 is PENDING (Priority).");
  EXPECT_EQ(g.next, "Those who wait are bound as soon as Slurm job 18 has nodes for them.");
  EXPECT_EQ(g.members[2].job, "18");
  const json::Value value = to_json(g);
  EXPECT_EQ(json::int_at(value, {"minimum"}), 2);
  EXPECT_EQ(json::string_at(value.at("members").as_array()[0], {"node"}), "n1");
}

TEST_F(ExplainTest, AllPlaced) {
  group(2);
  member("ring-0", {.job = "17", .node = "n1", .phase = "Running"});
  member("ring-1", {.job = "17", .node = "n2"});
  const GroupExplanation g = explain_groups(GroupObject::kPodGroup, "ring").at(0);
  EXPECT_EQ(g.verdict, "2 pods are on nodes, held by Slurm job 17.");
  EXPECT_EQ(g.members[1].stands, "starts");
}

TEST_F(ExplainTest, AClosedGroupAndOneThatIsNotThere) {
  group(2, "Failed");
  member("ring-0", {});
  EXPECT_EQ(explain_groups(GroupObject::kPodGroup, "ring").at(0).verdict,
            "The group is Failed: none of its pods starts any more.");
  add(pod("lost", {}, {{std::string(names::kPodGroup), "other"}}));
  const GroupExplanation g = explain_groups(GroupObject::kPodGroup, "other").at(0);
  EXPECT_THAT(g.verdict, HasSubstr("PodGroup ml/other of scheduling.x-k8s.io/v1alpha1, does not exist"));
  EXPECT_THAT(g.next, HasSubstr("create it, or take the label scheduling.x-k8s.io/pod-group from the pods"));
  try {
    explain_groups(GroupObject::kPodGroup, "nowhere");
    FAIL();
  } catch (const NothingToExplain& error) {
    EXPECT_THAT(error.what(), HasSubstr("no pod of namespace ml names the group nowhere"));
    EXPECT_THAT(error.what(), HasSubstr("does not exist"));
  }
}

TEST_F(ExplainTest, AGroupWithoutPodsAndOneOfTheWorkloadApi) {
  group(4);
  const GroupExplanation empty = explain_groups(GroupObject::kPodGroup, "ring").at(0);
  EXPECT_EQ(empty.next, "It starts when 4 pods name it by the label scheduling.x-k8s.io/pod-group.");
  EXPECT_THAT(to_text(empty, false), Not(HasSubstr("POD ")));

  api.add_resource(kWorkloadGroup);
  api.create(kWorkloadGroup, json::parse(R"({"apiVersion":"scheduling.k8s.io/v1alpha2","kind":"PodGroup",
               "metadata":{"namespace":"ml","name":"w"},"spec":{"schedulingPolicy":{"gang":{"minCount":2}}}})"));
  json::Value value = pod("w-0", {});
  value.at("spec").get_object()["schedulingGroup"] = json::Object{{"podGroupName", "w"}};
  add(value);
  const auto groups = explain_groups(GroupObject::kPodGroup, "w");
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].verdict, "1 of the 2 pods that must start together is there.");
}

TEST_F(ExplainTest, EveryGroupOfALeaderWorkerSet) {
  api.add_resource(kSets);
  api.create(kSets, json::parse(R"({"apiVersion":"leaderworkerset.x-k8s.io/v1","kind":"LeaderWorkerSet",
    "metadata":{"namespace":"ml","name":"serve"},"spec":{"leaderWorkerTemplate":{"size":2}}})"));
  const auto put = [this](const std::string& name, const std::string& index, const std::string& key, Stand stand) {
    add(pod(name, stand,
            {{std::string(names::kLwsName), "serve"},
             {std::string(names::kLwsGroupIndex), index},
             {std::string(names::kLwsGroupKey), key}}));
  };
  put("serve-10", "10", "aa", {});
  put("serve-2", "2", "ff", {.job = "5", .node = "n1", .phase = "Running"});
  put("serve-2-1", "2", "ff", {.job = "5", .node = "n2", .phase = "Running"});
  const auto groups = explain_groups(GroupObject::kLeaderWorkerSet, "serve");
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].group, "LeaderWorkerSet ml/serve, group 2");
  EXPECT_EQ(groups[0].verdict, "2 pods are on nodes, held by Slurm job 5.");
  EXPECT_EQ(groups[1].group, "LeaderWorkerSet ml/serve, group 10");
  EXPECT_EQ(groups[1].verdict, "1 of the 2 pods that must start together is there.");
}

}  // namespace
}  // namespace bascule::bridge
