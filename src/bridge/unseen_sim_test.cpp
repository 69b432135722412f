// Pods that the webhook has not seen, and what is said to whom about annotations: scheduler and pod sync as whole
// processes in simulated time.
#include "bridge/bridge_sim_test.hpp"

namespace bascule::bridge {
namespace {

using ::testing::HasSubstr;

struct Unseen : ::testing::Test {
  void start() {
    w.scheduler.start();
    w.loop.advance(1ms);  // names of events are made of the time of the start
    w.pod_sync.start();
  }
  void taint(const std::string& node) {
    json::Array taints{
        json::Object{{"key", names::kManagedNodeTaint}, {"value", "slurm-bridge-scheduler"}, {"effect", "NoExecute"}}};
    w.api.patch(r::kNodes, {"", node}, json::Object{{"spec", json::Object{{"taints", std::move(taints)}}}});
  }
  void add_pod(const std::string& name, json::Object annotations = {}) {
    annotations["fake/run-for"] = "forever";
    w.api.create(r::kPods, testing::make_pod({.name = name,
                                              .ns = "slurm-bridge",
                                              .scheduler = "slurm-bridge-scheduler",
                                              .tolerates = false,
                                              .annotations = std::move(annotations)}));
  }
  std::string tolerations(const std::string& name) {
    return json::dump(*json::array_at(*w.api.get(r::kPods, {"slurm-bridge", name}), {"spec", "tolerations"}));
  }
  std::string node_of(const std::string& name) {
    return std::string(json::string_at(*w.api.get(r::kPods, {"slurm-bridge", name}), {"spec", "nodeName"}));
  }
  // "Kind/name REASON note" of every event about annotations.
  std::vector<std::string> doubts() {
    std::vector<std::string> out;
    for (const json::Value& event : w.api.list(r::kEvents)) {
      if (json::string_at(event, {"reason"}) != "SlurmAnnotationDoubtful") continue;
      out.push_back(std::string(json::string_at(event, {"regarding", "kind"})) + " " +
                    std::string(json::string_at(event, {"note"})));
    }
    std::ranges::sort(out);
    return out;
  }

  World w{1, 2};
};

// As slurm-bridge's scheduler does: not every namespace is the webhook's, and it may be switched off.
TEST_F(Unseen, APodWithoutTheTolerationGetsItBeforeItIsBound) {
  taint("n1");
  taint("n2");
  start();
  add_pod("p");
  w.loop.advance(5s);
  ASSERT_NE(node_of("p"), "");
  EXPECT_THAT(tolerations("p"), HasSubstr(R"({"key":"slinky.slurm.net/managed-node","operator":"Equal",)"
                                          R"("value":"slurm-bridge-scheduler","effect":"NoExecute"})"));
  EXPECT_THAT(tolerations("p"), HasSubstr("node.kubernetes.io/not-ready")) << "what it had stays";
  std::vector<std::string> order;
  for (const testing::ApiWrite& write : w.api.writes()) {
    if (write.body.find("managed-node") != std::string::npos) order.emplace_back("toleration");
    if (write.call.is("create", "pods/binding")) order.emplace_back("binding");
  }
  EXPECT_THAT(order, ::testing::ElementsAre("toleration", "binding"));
  w.check();
}

Task<> judge(bool refuse) {
  if (refuse) throw testing::ApiFailure(403, "Forbidden", "a policy of the site");
  co_return;
}

TEST_F(Unseen, AGangIsBoundWhenAllItsPodsTolerate) {
  taint("n1");
  taint("n2");
  bool refuses = true;
  w.api.set_admission([&refuses](testing::Admission& review) {
    const bool adds = review.operation == "UPDATE" && review.key.name == "gang-1" &&
                      json::dump(review.object).find("managed-node") != std::string::npos;
    return judge(adds && refuses);
  });
  start();
  w.add_group("gang", 2);
  for (const char* name : {"gang-0", "gang-1"}) {
    json::Value pod = testing::make_pod({.name = name,
                                         .ns = "slurm-bridge",
                                         .scheduler = "slurm-bridge-scheduler",
                                         .tolerates = false,
                                         .labels = {{std::string(names::kPodGroup), "gang"}}});
    w.api.create(r::kPods, pod);
  }
  w.loop.advance(10s);
  EXPECT_EQ(node_of("gang-0") + node_of("gang-1"), "");
  EXPECT_THAT(json::dump(*w.api.get(r::kPods, {"slurm-bridge", "gang-1"})), HasSubstr("a policy of the site"));
  refuses = false;
  w.loop.advance(2min);
  EXPECT_NE(node_of("gang-0"), "");
  EXPECT_NE(node_of("gang-1"), "");
}

// Admission sees the Job's pods, whose annotations do not count, and never the Job.
TEST_F(Unseen, AMisspeltAnnotationIsSaidOfItsObjectAndAPod) {
  start();
  w.api.create(r::kJobs, testing::make_job({.name = "j",
                                            .ns = "slurm-bridge",
                                            .parallelism = 2,
                                            .annotations = {{"slurmjob.slinky.slurm.net/time-limit", "5"}},
                                            .pod = w.pod_template()}));
  w.loop.advance(10s);
  const std::string note =
      "slurmjob.slinky.slurm.net/time-limit is not known and has no effect; did you mean "
      "slurmjob.slinky.slurm.net/timelimit?";
  EXPECT_THAT(doubts(), ::testing::ElementsAre("Job " + note, "Pod " + note)) << "once, not once a pod";
  EXPECT_TRUE(w.run(1min)) << "it runs all the same";
}

TEST_F(Unseen, ASharedNodeWithAGpuOfADevicePluginIsSaid) {
  start();
  json::Value pod = testing::make_pod({.name = "gpu",
                                       .ns = "slurm-bridge",
                                       .scheduler = "slurm-bridge-scheduler",
                                       .annotations = {{"slurmjob.slinky.slurm.net/exclusive", "false"}}});
  json::at_or_create(pod.at("spec").at("containers").as_array()[0], {"resources", "limits", "nvidia.com/gpu"}) = "1";
  for (const char* node : {"n1", "n2"}) {
    w.api.patch(r::kNodes, {"", node}, json::parse(R"({"status":{"allocatable":{"nvidia.com/gpu":"4"}}})"), "status");
  }
  w.api.create(r::kPods, pod);
  w.loop.advance(5s);
  EXPECT_THAT(doubts(), ::testing::ElementsAre(HasSubstr("may give other GPUs of the node than Slurm did")));
}

TEST_F(Unseen, WhatIsWellWrittenIsNotSpokenOf) {
  start();
  add_pod("p", {{"slurmjob.slinky.slurm.net/timelimit", "5"}, {"slurmjob.slinky.slurm.net/exclusive", "false"}});
  w.loop.advance(5s);
  EXPECT_NE(node_of("p"), "");
  EXPECT_THAT(doubts(), ::testing::IsEmpty());
}

}  // namespace
}  // namespace bascule::bridge
