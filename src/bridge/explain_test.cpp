// Explanations of pods against the fake API server: what a user reads who asks why.
#include "bridge/explain_test.hpp"

#include <fmt/format.h>

#include "bridge/claim_plan.hpp"

namespace bascule::bridge {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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

// A label may name a job that has ended, or that runs already: what is said decides, not that there is one.
TEST_F(ExplainTest, EveryReasonSaysWhatToDoWhateverJobThePodNames) {
  int number = 0;
  for (const auto& [reason, message, remedy] : kRemedies) {
    for (const char* job : {"", "17"}) {
      const std::string name = "p-" + std::to_string(++number);
      add(pod(name, {.job = job, .reason = reason, .message = message}));
      const Explanation e = explain(name);
      EXPECT_THAT(e.next, HasSubstr(remedy)) << reason;
      EXPECT_THAT(e.next, Not(HasSubstr("bound as soon as"))) << reason;
    }
  }
  add(pod("few", {.job = "17", .reason = "InsufficientPods", .message = "PodGroup ml/ring has 1 of the 2 pods"}));
  EXPECT_THAT(explain("few").next, HasSubstr("when they are there"));
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
  event("01", "FailedScheduling", "Slurm job 17 is PENDING");
  event("02", "FailedScheduling", why);
  event("03", "FailedScheduling", why);
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

// docs/why-does-my-pod-wait.md, SlurmJobUnknown and NoSlurmJob.
TEST_F(ExplainTest, APodWhoseJobSlurmDoesNotKnowSaysSo) {
  const std::string lost = "Slurm does not know job 17, which holds this pod's node; the pod is left running";
  add(pod("a", {.job = "17", .node = "n1", .phase = "Running", .unknown = lost}));
  Explanation e = explain("a");
  EXPECT_EQ(e.verdict, "The pod is on node n1, but " + lost + ".");
  EXPECT_EQ(e.next, "Slurm may give the node to others: drain it, or delete the pod.");
  add(pod("b", {.job = "17",
                .node = "n1",
                .phase = "Running",
                .unknown = lost + ": slurmctld was started after the pod was made and may have lost a job that is not "
                                  "over"}));
  EXPECT_THAT(explain("b").next,
              HasSubstr("This job may as well have ended while nobody looked: delete the pod then."));
  add(pod("c", {.node = "n1", .phase = "Running"}));
  e = explain("c");
  EXPECT_EQ(e.verdict, "The pod is on node n1 without a Slurm job.");
  EXPECT_EQ(
      e.next,
      "Somebody bound it past the bridge, unless its schedulerName is another scheduler's: Slurm does not know of "
      "it and may give the node to others, so delete the pod.");
}

// The Job is not seen by admission, and an event about it goes after an hour.
TEST_F(ExplainTest, SaysWhoseAnnotationsCountAndWhatInThemIsInVain) {
  const json::Value job = api.create(
      kube::resources::kJobs,
      testing::make_job({.name = "j", .ns = "ml", .annotations = {{"slurmjob.slinky.slurm.net/acount", "x"}}}));
  json::Value owned = pod("a", {});
  json::at_or_create(owned, {"metadata", "ownerReferences"}) =
      json::Array{json::Object{{"apiVersion", "batch/v1"},
                               {"kind", "Job"},
                               {"name", "j"},
                               {"uid", json::string_at(job, {"metadata", "uid"})},
                               {"controller", true}}};
  add(owned);
  EXPECT_EQ(fact(explain("a"), "annotations"), "of Job ml/j");
  EXPECT_EQ(fact(explain("a"), "doubtful"),
            "slurmjob.slinky.slurm.net/acount is not known and has no effect; did you mean "
            "slurmjob.slinky.slurm.net/account?");
  forbid("get", "jobs", {"batch"});
  EXPECT_EQ(fact(explain("a"), "annotations"), "") << "whoever may not read Jobs gets the rest";
  add(pod("b", {}));
  EXPECT_EQ(fact(explain("b"), "annotations") + fact(explain("b"), "doubtful"), "");
}

TEST_F(ExplainTest, BoundAndOver) {
  add(pod("a", {.job = "17", .node = "n1", .phase = "Running"}));
  EXPECT_EQ(explain("a").verdict, "The pod is on node n1, held by Slurm job 17.");
  add(pod("b", {.job = "18", .node = "n1", .phase = "Failed"}));
  EXPECT_EQ(explain("b").verdict, "The pod ran and failed.");
}

// The role `view` has the events of the core API alone.
TEST_F(ExplainTest, WhoMayReadOnlyCoreEventsGetsThem) {
  add(pod("a", {}));
  api.create({"", "v1", "events", "Event", true},
             json::parse(R"({"apiVersion":"v1","kind":"Event","metadata":{"namespace":"ml","name":"e"},
               "involvedObject":{"kind":"Pod","namespace":"ml","name":"a"},"reason":"FailedScheduling","message":"later",
               "lastTimestamp":"2026-01-01T00:00:00Z"})"));
  forbid("list", "events", {"events.k8s.io"});
  const Explanation e = explain("a");
  ASSERT_EQ(e.events.size(), 1u);
  EXPECT_EQ(e.events[0].note, "later");
  EXPECT_EQ(e.events[0].time, "2026-01-01T00:00:00Z");
  EXPECT_EQ(fact(e, "events"), "");
}

TEST_F(ExplainTest, WhoMayReadNoEventsGetsTheVerdict) {
  add(pod("a", {.job = "17", .reason = "Unschedulable", .message = "Slurm job 17 is PENDING"}));
  forbid("list", "events", {"events.k8s.io", ""});
  const Explanation e = explain("a");
  EXPECT_EQ(e.verdict, "The pod waits: Slurm job 17 is PENDING.");
  EXPECT_EQ(fact(e, "events"), "you may not read them");
}

// A StatefulSet makes pods of one name one after the other.
TEST_F(ExplainTest, EventsOfAnEarlierPodOfThatNameAreNotItsOwn) {
  add(pod("a", {}));
  const std::string uid(json::string_at(*api.get(kube::resources::kPods, {"ml", "a"}), {"metadata", "uid"}));
  event("01", "Earlier", "", {{"kind", "Pod"}, {"uid", "another"}});
  event("02", "Own", "", {{"kind", "Pod"}, {"uid", uid}});
  event("03", "Untold", "");
  event("04", "OfAJob", "", {{"kind", "Job"}});
  const Explanation e = explain("a");
  ASSERT_EQ(e.events.size(), 2u);
  EXPECT_EQ(e.events[0].reason, "Own");
  EXPECT_EQ(e.events[1].reason, "Untold");
}

TEST_F(ExplainTest, EventsInOrderWithoutTerminalCodes) {
  add(pod("a", {}));
  for (const char* minute : {"02", "01"}) event(minute, "Reason" + std::string(minute), "a\x1b[2Jnote");
  const Explanation e = explain("a");
  ASSERT_EQ(e.events.size(), 2u);
  EXPECT_EQ(e.events[0].reason, "Reason01");
  EXPECT_THAT(to_text(e, false), HasSubstr("  2026-01-01T00:01:00.000000Z  Reason01  a?[2Jnote\n"));
  EXPECT_EQ(json::string_at(to_json(e).at("events").as_array()[1], {"reason"}), "Reason02");
}

}  // namespace
}  // namespace bascule::bridge
