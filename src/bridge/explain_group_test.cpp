// Explanations of gangs against the fake API server.
#include "bridge/explain_test.hpp"

namespace bascule::bridge {
namespace {

const kube::Resource kWorkloadGroup{"scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", true};
const kube::Resource kSets{"leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet", true};

using ::testing::HasSubstr;
using ::testing::Not;

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
  value.at("metadata").get_object()["ownerReferences"] =
      json::Array{json::parse(R"({"apiVersion":"batch/v1","kind":"Job","name":"w","uid":"u","controller":true})")};
  add(value);
  const auto groups = explain_groups(GroupObject::kPodGroup, "w");
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].verdict, "1 of the 2 pods that must start together is there.");
}

// Over those of a PodGroup of Kubernetes' own those of the Job and of the Workload win.
TEST_F(ExplainTest, AGangSaysWhichOfItsObjectsHasWhatIsInVain) {
  const kube::Resource workloads{"scheduling.k8s.io", "v1alpha2", "workloads", "Workload", true};
  for (const kube::Resource& one : {kWorkloadGroup, workloads}) api.add_resource(one);
  api.create(kWorkloadGroup, json::parse(R"({"apiVersion":"scheduling.k8s.io/v1alpha2","kind":"PodGroup",
               "metadata":{"namespace":"ml","name":"w"},"spec":{"schedulingPolicy":{"gang":{"minCount":2}},
               "podGroupTemplateRef":{"workload":{"workloadName":"load"}}}})"));
  api.create(workloads, json::parse(R"({"apiVersion":"scheduling.k8s.io/v1alpha2","kind":"Workload",
               "metadata":{"namespace":"ml","name":"load"},"spec":{}})"));
  const json::Value job = api.create(
      kube::resources::kJobs,
      testing::make_job({.name = "j", .ns = "ml", .annotations = {{"slurmjob.slinky.slurm.net/acount", "x"}}}));
  json::Value value = pod("w-0", {});
  value.at("spec").get_object()["schedulingGroup"] = json::Object{{"podGroupName", "w"}};
  value.at("metadata").get_object()["ownerReferences"] =
      json::Array{json::Object{{"apiVersion", "batch/v1"},
                               {"kind", "Job"},
                               {"name", "j"},
                               {"uid", json::string_at(job, {"metadata", "uid"})},
                               {"controller", true}}};
  add(value);
  const Explanation e = explain("w-0");
  EXPECT_THAT(fact(e, "doubtful"), HasSubstr("acount is not known"));
  EXPECT_EQ(fact(e, "annotations"), "of Workload ml/load, Job ml/j and PodGroup ml/w");
  EXPECT_EQ(e.group->verdict, "1 of the 2 pods that must start together is there.");
  forbid("get", "jobs", {"batch"});
  EXPECT_EQ(explain("w-0").group->verdict, e.group->verdict) << "whoever may not read Jobs gets the rest";
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

TEST_F(ExplainTest, AGangSaysWhatToDoToo) {
  group(1);
  for (const auto& [reason, message, remedy] : kRemedies) {
    member("ring-0", {.job = "17", .reason = reason, .message = message});
    const GroupExplanation g = explain_groups(GroupObject::kPodGroup, "ring").at(0);
    EXPECT_THAT(g.next, HasSubstr(remedy)) << reason;
    EXPECT_THAT(g.next, Not(HasSubstr("bound"))) << reason;
    api.remove(kube::resources::kPods, {"ml", "ring-0"});
  }
}

// One member whose job runs already and is refused: the other's wait for its turn must not hide that.
TEST_F(ExplainTest, AGangPromisesNothingWhileSomebodyMustActForOneOfIts) {
  group(1);
  member("ring-0", {.job = "17", .reason = "Unschedulable", .message = "Slurm job 17 is PENDING (Priority)"});
  member("ring-1", {.job = "18", .reason = "NodeRefused", .message = "Slurm job 18 is RUNNING but the pod cannot"});
  const GroupExplanation g = explain_groups(GroupObject::kPodGroup, "ring").at(0);
  EXPECT_THAT(g.verdict, HasSubstr("2 wait: Slurm job 18 is RUNNING but the pod cannot."));
  EXPECT_THAT(g.next, HasSubstr("see to the node"));
}

TEST_F(ExplainTest, AGangSaysWhichOfItsJobsSlurmDoesNotKnow) {
  group(3);
  const std::string lost = "Slurm does not know job 17, which holds this pod's node; the pod is left running";
  member("ring-0", {.job = "17", .node = "n1", .phase = "Running", .unknown = lost});
  member("ring-1", {.job = "18", .node = "n2", .phase = "Running"});
  member("ring-2", {.node = "n3", .phase = "Running"});
  const GroupExplanation g = explain_groups(GroupObject::kPodGroup, "ring").at(0);
  EXPECT_EQ(g.verdict,
            "3 pods are on nodes, held by Slurm job 18; of 2 Slurm does not know a job: it may give their nodes to "
            "others.");
  EXPECT_EQ(g.next, "Drain those nodes, or delete the pods.");
  EXPECT_EQ(g.members[0].why, lost);
  EXPECT_EQ(g.members[1].why, "");
  EXPECT_EQ(g.members[2].why, "it has no Slurm job");
}

// The group is looked at before its first pod is bound, and never again.
TEST_F(ExplainTest, AGangThatRunsGoesOnWithoutItsGroup) {
  member("ring-0", {.job = "17", .node = "n1", .phase = "Running"});
  GroupExplanation g = explain_groups(GroupObject::kPodGroup, "ring").at(0);
  EXPECT_EQ(g.verdict, "1 pod is on nodes, held by Slurm job 17.");
  EXPECT_EQ(g.next,
            "They run; they are deleted if their Slurm job ends first. The pod's group, PodGroup ml/ring of "
            "scheduling.x-k8s.io/v1alpha1, does not exist; no other pod of it starts meanwhile.");
  group(1);
  forbid("get", "podgroups", {"scheduling.x-k8s.io"});
  g = explain_groups(GroupObject::kPodGroup, "ring").at(0);
  EXPECT_EQ(g.verdict, "1 pod is on nodes, held by Slurm job 17.");
  EXPECT_EQ(g.next, "They run; they are deleted if their Slurm job ends first.");
}

// Who asks may not read it; the bridge may.
TEST_F(ExplainTest, AGroupThatMayNotBeReadIsNotOneThatDoesNotExist) {
  group(2);
  member("ring-0", {.job = "17", .reason = "Unschedulable", .message = "Slurm job 17 is PENDING (Priority)"});
  member("ring-1", {.job = "17", .reason = "Unschedulable", .message = "Slurm job 17 is PENDING (Priority)"});
  forbid("get", "podgroups", {"scheduling.x-k8s.io"});
  const GroupExplanation g = explain_groups(GroupObject::kPodGroup, "ring").at(0);
  EXPECT_EQ(g.verdict,
            "2 pods are there; you may not read how many must start together; 2 wait: Slurm job 17 is PENDING "
            "(Priority).");
  EXPECT_THAT(g.next, HasSubstr("All are bound at once as soon as Slurm job 17 runs."));
  try {
    explain_groups(GroupObject::kPodGroup, "nowhere");
    FAIL();
  } catch (const NothingToExplain& error) {
    EXPECT_THAT(error.what(), HasSubstr("may not be read"));
  }
}

TEST_F(ExplainTest, AMemberThatIsOverHoldsItsNodeUntilTheLastIs) {
  group(2);
  member("ring-0", {.job = "17", .node = "n1", .phase = "Succeeded"});
  member("ring-1", {.job = "17", .node = "n2", .phase = "Running"});
  EXPECT_EQ(explain("ring-0").next, "Its node is free when the last pod of Slurm job 17 is over.");
  api.patch(kube::resources::kPods, {"ml", "ring-1"}, json::Object{{"status", json::Object{{"phase", "Succeeded"}}}},
            "status");
  EXPECT_EQ(explain("ring-0").next, "Slurm job 17 is cancelled and its nodes are free, or will be in a moment.");
}

TEST_F(ExplainTest, MembersOfAnotherSchedulerAreNotOver) {
  group(1);
  json::Value foreign = pod("ring-0", {}, {{std::string(names::kPodGroup), "ring"}});
  foreign.at("spec").get_object()["schedulerName"] = "default-scheduler";
  add(foreign);
  EXPECT_EQ(explain_groups(GroupObject::kPodGroup, "ring").at(0).verdict,
            "0 of the 1 pods that must start together are there.");
}

}  // namespace
}  // namespace bascule::bridge
