// The whole operator where a change would cost jobs: a changed key, a partition that goes.
#include "operator/reconcile/operator_sim_world_test.hpp"

namespace bascule::op::reconcile::test {
namespace {

// Busy workers keep the key they were made with: a slurmctld with another would have them DOWN and their jobs lost.
TEST(JobsSim, AChangedKeyWaitsForTheJobs) {
  World w(16);
  start_with_busy_worker(w, 13min);
  ASSERT_EQ(json::int_at(w.get(kNodeSets, "gpu"), {"status", "slurmAllocated"}), 1);
  const auto made_of = [&w] {
    return json::dump(*json::find(w.get(kStatefulSets, "slurm-controller"), {"spec", "template"}));
  };
  const auto key_of = [&w](const kube::Resource& resource, const std::string& name) {
    return std::string(json::string_at(
        w.get(resource, name), {"spec", "template", "metadata", "annotations", "slinky.slurm.net/slurm-key-hash"}));
  };
  const auto keys = [&] {
    std::vector<std::string> out{key_of(kDeployments, "slurm-restapi"), key_of(kStatefulSets, "slurm-accounting")};
    for (const json::Value& pod : w.api.list(kube::resources::kPods)) {
      out.emplace_back(json::string_at(pod, {"metadata", "annotations", "slinky.slurm.net/slurm-key-hash"}));
    }
    return out;
  };
  const std::vector<std::string> old_keys = keys();
  ASSERT_EQ(old_keys.size(), 3u);
  const std::string before = made_of();
  w.api.patch(kSecrets, {"slurm", "auth"},
              json::Object{{"data", json::Object{{"slurm.key", base64_encode("rotated")}}}});
  w.settle(5s);
  // Any new pod would have the new key.
  w.patch(kControllers, "slurm", "{spec: {slurmctld: {image: newer}}}");
  w.settle();
  drain(w, "gpu-0");
  w.settle();
  EXPECT_EQ(made_of(), before);
  EXPECT_EQ(keys(), old_keys) << "with another key than slurmctld's it is not heard";
  EXPECT_THAT(w.ready(kControllers, "slurm"), HasSubstr("False the key in Secret auth has changed"));
  w.loop.advance(1min);
  w.api.reset_counts();
  w.loop.advance(10min);
  EXPECT_EQ(w.api.calls("patch", "statefulsets") + w.api.calls("patch", "controllers/status"), 0u);
  w.settle(2min);  // the job ends
  EXPECT_THAT(made_of(), HasSubstr("newer"));
  EXPECT_EQ(w.ready(kControllers, "slurm"), "True ");
  const std::string key = key_of(kStatefulSets, "slurm-controller");
  EXPECT_NE(key, old_keys.front());
  EXPECT_EQ(keys(), std::vector(3, key));
}

// Also a pod that is made anew meanwhile is heard.
TEST(JobsSim, WhoIsMadeAnewWhileAKeyOfAnotherNameWaitsHasTheOneInUse) {
  World w(26);
  start_with_busy_worker(w, 1h);
  const auto before = w.children();
  w.api.patch(kSecrets, {"slurm", "auth"},
              json::Object{{"data", json::Object{{"slurm2.key", base64_encode("another")}}}});
  w.patch(kAccountings, "slurm", "{spec: {slurmKeyRef: {key: slurm2.key}}}");
  w.settle(5s);
  w.patch(kControllers, "slurm", "{spec: {slurmKeyRef: {key: slurm2.key}}}");
  w.settle();
  EXPECT_THAT(w.ready(kControllers, "slurm"), HasSubstr("False the key in Secret auth has changed"));
  EXPECT_EQ(w.children(), before);
  std::vector<json::Value> pods = w.api.list(kube::resources::kPods);
  ASSERT_EQ(pods.size(), 1u);
  w.api.remove(kube::resources::kPods, {"slurm", std::string(json::string_at(pods[0], {"metadata", "name"}))},
               {.grace = 0});
  w.settle();
  pods = w.api.list(kube::resources::kPods);
  ASSERT_EQ(pods.size(), 1u);
  EXPECT_THAT(json::dump(pods[0]), ::testing::Not(HasSubstr("slurm2.key")));
}

// A status is seldom of this moment.
TEST(JobsSim, BeforeAChangedKeyIsTakenSlurmctldIsAsked) {
  World w(19);
  w.slurm.model().add_partition("all", true);
  w.slurm.add_nodes("NodeName=gpu-0 CPUs=4 RealMemory=1000 Feature=gpu");
  w.process.start();
  w.whole_cluster();
  w.add(kNodeSets, "gpu", "{controllerRef: {name: slurm}, slurmd: {image: slurmd}, replicas: 0}");
  w.settle();
  slurm::JobDescription job;
  job.nodes = 1;
  w.slurm.submit(job, 3min, false);
  w.loop.advance(1ms);
  const std::string before = w.children().at("StatefulSet slurm-controller");
  w.api.patch(kSecrets, {"slurm", "auth"},
              json::Object{{"data", json::Object{{"slurm.key", base64_encode("rotated")}}}});
  w.settle(2min);
  EXPECT_EQ(w.children().at("StatefulSet slurm-controller"), before);
  EXPECT_THAT(w.ready(kControllers, "slurm"), HasSubstr("False the key in Secret auth has changed"));
  w.settle(2min);
  EXPECT_EQ(w.children().at("StatefulSet slurm-controller"), before) << "the next job may start any moment";
  drain(w, "gpu-0");
  w.settle(15s);
  EXPECT_NE(w.children().at("StatefulSet slurm-controller"), before);
  EXPECT_EQ(w.ready(kControllers, "slurm"), "True ");
}

// What the statuses said last may be of any age.
TEST(JobsSim, WithoutSlurmctldsAnswerAChangedKeyIsNotTakenWhereWorkersAre) {
  World w(20);
  w.slurm.model().add_partition("all", true);
  w.slurm.add_nodes("NodeName=gpu-0 CPUs=4 RealMemory=1000 Feature=gpu");
  w.process.start();
  w.whole_cluster();
  w.add(kNodeSets, "gpu",
        "{controllerRef: {name: slurm}, slurmd: {image: slurmd}, replicas: 1, updateStrategy: {type: OnDelete}}");
  w.settle();
  const std::vector<json::Value> pods = w.api.list(kube::resources::kPods);
  ASSERT_EQ(pods.size(), 1u);
  w.api.patch(kube::resources::kPods, {"slurm", std::string(json::string_at(pods[0], {"metadata", "name"}))},
              json::parse_yaml("{status: {phase: Running, conditions: [{type: Ready, status: 'True', "
                               "lastTransitionTime: '2026-01-01T00:00:00Z'}]}}"),
              "status");
  w.settle();
  const json::Value set = w.get(kNodeSets, "gpu");
  ASSERT_EQ(json::int_at(set, {"status", "slurmIdle"}), 1) << json::dump(set);
  ASSERT_EQ(json::int_at(set, {"status", "readyReplicas"}), 1);
  const std::string before = w.children().at("StatefulSet slurm-controller");
  drain(w, "gpu-0");
  w.settle();
  w.slurm.stop_controller();
  w.api.patch(kSecrets, {"slurm", "auth"},
              json::Object{{"data", json::Object{{"slurm.key", base64_encode("rotated")}}}});
  w.settle(5min);
  EXPECT_EQ(w.children().at("StatefulSet slurm-controller"), before);
  EXPECT_THAT(w.ready(kControllers, "slurm"), HasSubstr("It is not known whether jobs run"));
  // One that is not ready for a moment, as when its kubelet is away, runs its jobs all the same.
  const auto set_ready = [&](std::string_view status) {
    w.api.patch(kube::resources::kPods, {"slurm", std::string(json::string_at(pods[0], {"metadata", "name"}))},
                json::parse_yaml(fmt::format("{{status: {{conditions: [{{type: Ready, status: '{}', "
                                             "lastTransitionTime: '2026-01-01T00:00:00Z'}}]}}}}",
                                             status)),
                "status");
  };
  set_ready("False");
  w.settle(2min);
  ASSERT_EQ(json::int_at(w.get(kNodeSets, "gpu"), {"status", "readyReplicas"}), 0);
  EXPECT_EQ(w.children().at("StatefulSet slurm-controller"), before);
  set_ready("True");
  w.settle(10s);
  w.slurm.start_controller();
  w.settle(2min);
  EXPECT_NE(w.children().at("StatefulSet slurm-controller"), before);
  EXPECT_EQ(w.ready(kControllers, "slurm"), "True ");
  // Where no worker is, none is lost.
  w.patch(kNodeSets, "gpu", "{spec: {replicas: 0}}");
  w.settle(2min);
  ASSERT_EQ(json::int_at(w.get(kNodeSets, "gpu"), {"status", "readyReplicas"}), 0);
  const std::string after = w.children().at("StatefulSet slurm-controller");
  w.slurm.stop_controller();
  w.api.patch(kSecrets, {"slurm", "auth"}, json::Object{{"data", json::Object{{"slurm.key", base64_encode("third")}}}});
  w.settle(2min);
  EXPECT_NE(w.children().at("StatefulSet slurm-controller"), after);
}

std::string slurm_conf_of(World& w) {
  return std::string(json::string_at(w.get(kConfigMaps, "slurm-config"), {"data", "slurm.conf"}));
}

// slurmctld ends the jobs of a partition that is no longer in slurm.conf.
TEST(JobsSim, APartitionStaysWhileJobsRunThereThoughItsNodeSetHasGoneOrHasAnotherHostname) {
  for (const bool gone : {true, false}) {
    SCOPED_TRACE(gone);
    World w(25);
    w.slurm.model().add_partition("gpu", true);
    w.slurm.add_nodes("NodeName=gpu-0 CPUs=4 RealMemory=1000 Feature=gpu");
    w.process.start();
    w.whole_cluster();
    w.add(kNodeSets, "gpu",
          "{controllerRef: {name: slurm}, slurmd: {image: slurmd}, replicas: 0, partition: {enabled: true}}");
    w.settle();
    ASSERT_THAT(slurm_conf_of(w), HasSubstr("PartitionName=gpu"));
    slurm::JobDescription job;
    job.nodes = 1;
    w.slurm.submit(job, 3min, false);
    w.loop.advance(1ms);
    if (gone) {
      w.api.erase(kNodeSets, {"slurm", "gpu"});
    } else {
      w.patch(kNodeSets, "gpu", "{spec: {template: {spec: {hostname: big}}}}");
    }
    for (int second = 0; second < 120; ++second) {
      w.settle(1s);
      ASSERT_THAT(slurm_conf_of(w), ::testing::AllOf(HasSubstr("NodeSet=gpu"), HasSubstr("PartitionName=gpu")));
    }
    EXPECT_EQ(slurm_conf_of(w).contains("PartitionName=big"), !gone);
    EXPECT_THAT(w.ready(kControllers, "slurm"), HasSubstr("slurm.conf keeps the lines of gpu"));
    w.settle(2min);
    EXPECT_THAT(slurm_conf_of(w), HasSubstr("PartitionName=gpu")) << "the next job may start there any moment";
    w.slurm.stop_controller();
    drain(w, "gpu-0");  // as a worker that goes
    w.settle(1min);
    EXPECT_THAT(slurm_conf_of(w), HasSubstr("PartitionName=gpu")) << "not known";
    w.slurm.start_controller();
    w.settle(1min);
    EXPECT_FALSE(slurm_conf_of(w).contains("=gpu"));
    EXPECT_EQ(w.ready(kControllers, "slurm"), "True ");
    w.loop.advance(1min);
    w.api.reset_counts();
    w.slurm.forget_calls();
    w.loop.advance(5min);
    EXPECT_EQ(w.api.write_calls(), 0u);
  }
}

// What slurmctld is made of went on from an older slurm.conf than the one in place.
TEST(JobsSim, LinesThatWentDoNotComeBackWhileTheWatchOfConfigMapsIsLate) {
  World w(28);
  start_with_busy_worker(w, 4min);
  w.patch(kNodeSets, "gpu", "{spec: {partition: {enabled: true}}}");
  w.settle();
  ASSERT_THAT(slurm_conf_of(w), HasSubstr("PartitionName=gpu"));
  w.api.set_faults([](const testing::ApiCall& call) -> testing::ApiFault {
    if (!call.is("watch", "configmaps")) return {};
    return {.kind = testing::ApiFault::Kind::kSilent};
  });
  w.api.end_watches();
  w.loop.advance(5s);
  w.api.reset_counts();
  w.patch(kNodeSets, "gpu", "{spec: {partition: {enabled: false}}}");
  bool went = false;
  for (int second = 0; second < 300; ++second) {
    w.settle(1s);
    if (second % 20 == 0) w.patch(kSecrets, "jwt", fmt::format("{{metadata: {{annotations: {{a: b{}}}}}}}", second));
    const bool there = slurm_conf_of(w).contains("PartitionName=gpu");
    ASSERT_FALSE(went && there) << second;
    went = went || !there;
  }
  EXPECT_TRUE(went);
  EXPECT_LE(w.api.calls("patch", "configmaps"), 2u);
}

}  // namespace
}  // namespace bascule::op::reconcile::test
