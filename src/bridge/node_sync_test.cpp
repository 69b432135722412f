// The node half between a fake API server and a fake slurmrestd, in simulated time.
#include "bridge/node_sync.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/log.hpp"
#include "bridge/names.hpp"
#include "bridge/rights_test.hpp"
#include "net/loopback.hpp"
#include "testing/fake_api.hpp"
#include "testing/fake_slurm.hpp"
#include "testing/objects.hpp"
#include "testing/run.hpp"

namespace bascule::bridge {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
namespace r = kube::resources;

class NodeSyncTest : public ::testing::Test {
 public:
  NodeSyncTest() {
    config_.scheduler_name = "slurm-bridge-scheduler";
    config_.partition = "slurm-bridge";
    slurm_.model().add_partition("slurm-bridge", true);
    Rights::of_chart().watch(api_);
  }
  ~NodeSyncTest() override { stop(); }

 protected:
  void start() {
    process_ = std::make_unique<Process>(*this);
    process_->nodes.start();
    process_->pods.start();
    process_->mirror.start();
    bascule::testing::run(loop_, process_->nodes.wait_synced({}, TimePoint::max()));
    bascule::testing::run(loop_, process_->pods.wait_synced({}, TimePoint::max()));
    process_->sync.start();
    settle();
  }
  void stop() {
    if (!process_) return;
    bascule::testing::run(loop_, process_->sync.stop());
    bascule::testing::run(loop_, process_->mirror.stop());
    bascule::testing::run(loop_, process_->nodes.stop());
    bascule::testing::run(loop_, process_->pods.stop());
    bascule::testing::run(loop_, process_->events.stop(loop_.now() + 1s));
    process_.reset();
  }
  void settle(Duration time = 40s) { loop_.advance(time); }

  void add_node(const std::string& name, bool external = true) {
    json::Value node = bascule::testing::make_node({.name = name});
    json::at_or_create(node, {"status", "addresses"}) =
        json::Array{json::Object{{"type", "InternalIP"}, {"address", "10.0.0." + name.substr(1)}}};
    if (external) json::at_or_create(node, {"metadata", "labels", names::kExternalNode}) = "true";
    api_.create(r::kNodes, std::move(node));
  }
  void patch(const std::string& name, std::string_view text) {
    api_.patch(r::kNodes, {"", name}, json::parse(text));
    settle();
  }
  // With a job that has it whole.
  JobId occupy_a_node() {
    slurm::JobDescription whole;
    whole.nodes = 1;
    whole.exclusive = true;
    const JobId job = slurm_.submit(std::move(whole));
    settle();
    return job;
  }
  json::Value kube_node(const std::string& name) { return *api_.get(r::kNodes, {"", name}); }
  bool is_tainted(const std::string& name) {
    return json::dump(kube_node(name)).find(names::kManagedNodeTaint) != std::string::npos;
  }
  std::optional<slurm::Node> slurm_node(const std::string& name) {
    return bascule::testing::run(loop_, client_.get_node(name));
  }
  std::string events() const {
    std::string all;
    for (const json::Value& event : api_.list(r::kEvents)) {
      all +=
          std::string(json::string_at(event, {"reason"})) + ": " + std::string(json::string_at(event, {"note"})) + "\n";
    }
    return all;
  }

  struct Process {
    explicit Process(NodeSyncTest& t)
        : nodes(t.kube_, {.resource = r::kNodes, .seed = 1}, kube::decode_node, interner),
          pods(t.kube_, {.resource = r::kPods, .seed = 2}, kube::decode_pod, interner),
          mirror(t.loop_, t.client_, {}),
          events(t.kube_, "slurm-bridge-controllers", "test"),
          sync({t.kube_, t.client_, nodes, mirror, events, nullptr, nullptr, &pods, t.must_lead_}, t.config_,
               {t.config_.scheduler_name, "cluster-uid"}, 4) {}
    json::Interner interner;
    kube::Informer<kube::Node> nodes;
    kube::Informer<kube::Pod> pods;
    slurm::ClusterMirror mirror;
    kube::EventRecorder events;
    NodeSync sync;
  };

  net::ServerResponse refusal() const {
    net::ServerResponse no;
    no.status = 500;
    no.headers.set("Content-Type", "application/json");
    no.body = json::dump(json::Object{{"errors", json::Array{json::Object{{"error_number", refusal_.number},
                                                                          {"description", refusal_.description}}}}});
    return no;
  }
  static slurm::ClientOptions slurm_options() {
    slurm::ClientOptions options;
    options.token = slurm::fixed_token("token");
    return options;
  }

  bool leads_ = true;
  std::function<void()> must_lead_ = [this] {
    if (!leads_) throw std::runtime_error("another leads");
  };
  ManualLoop loop_;
  Config config_;
  bascule::testing::FakeApi api_{loop_};
  bascule::testing::FakeSlurm slurm_{loop_};
  std::unique_ptr<net::Transport> to_api_ = net::make_loopback(loop_, api_.handler());
  // What slurmctld refuses of all that is asked of it.
  std::function<bool(const net::ServerRequest&)> refuses_;
  struct {
    int number = 2115;
    std::string description = "Requested topology configuration is not available";
  } refusal_;
  std::unique_ptr<net::Transport> to_slurm_ = net::make_loopback(
      loop_, [this, real = slurm_.handler()](const net::ServerRequest& request, std::stop_token stop) {
        if (!refuses_ || !refuses_(request)) return real(request, std::move(stop));
        return [](net::ServerResponse no) -> Task<net::ServerResponse> { co_return no; }(refusal());
      });
  kube::Client kube_{loop_, *to_api_, {.user_agent = kControllersAgent}};
  slurm::Client client_{loop_, *to_slurm_, slurm_options()};
  std::unique_ptr<Process> process_;
};

TEST_F(NodeSyncTest, RegistersAndTaints) {
  add_node("n1");
  add_node("n2", false);
  start();
  const auto node = slurm_node("n1");
  ASSERT_TRUE(node);
  EXPECT_EQ(node->address, "10.0.0.1");
  EXPECT_EQ(node->cpus, 8u);
  EXPECT_EQ(parse_mark(node->extra)->cluster, "cluster-uid");
  EXPECT_TRUE(is_tainted("n1"));
  EXPECT_FALSE(slurm_node("n2"));
  EXPECT_FALSE(is_tainted("n2"));
  EXPECT_THAT(events(), HasSubstr("SlurmRegistering"));
}

// It was stopped for a while, and its timers have yet to tell it so.
TEST_F(NodeSyncTest, WhoDoesNotLeadAnyLongerWritesNothing) {
  add_node("n1");
  add_node("n2");
  start();
  settle(10s);
  leads_ = false;
  add_node("n3");
  api_.patch(r::kNodes, {"", "n1"}, json::parse(R"({"spec":{"unschedulable":true}})"));
  api_.remove(r::kNodes, {"", "n2"});
  slurm::NodeUpdate drain;
  drain.state = "DRAIN";
  drain.reason = "bad DIMM";
  ASSERT_TRUE(slurm_.model().update_node(slurm_.now(), "n2", drain));
  api_.reset_counts();
  settle(30s);
  EXPECT_EQ(api_.calls("patch", "nodes") + api_.calls("patch", "nodes/status"), 0u);
  EXPECT_FALSE(slurm_node("n1")->states.has(slurm::NodeFlag::kDrain));
  EXPECT_TRUE(slurm_node("n2"));
  EXPECT_FALSE(slurm_node("n3"));
  leads_ = true;
  settle(60s);
  EXPECT_TRUE(slurm_node("n1")->states.has(slurm::NodeFlag::kDrain));
  EXPECT_TRUE(slurm_node("n3"));
}

// W46, W51: at rest nothing is written, here or there.
TEST_F(NodeSyncTest, AtRestNothingIsWritten) {
  for (int i = 1; i <= 20; ++i) add_node("n" + std::to_string(i));
  start();
  settle(2min);
  api_.reset_counts();
  slurm_.forget_calls();
  settle(10min);
  EXPECT_EQ(api_.write_calls(), 0u);
  EXPECT_EQ(slurm_.calls("POST node") + slurm_.calls("POST new/node") + slurm_.calls("GET node"), 0u);
}

// Slurm to Kubernetes: who took the node out, and why, is told on the node; nothing is repeated.
TEST_F(NodeSyncTest, ADrainInSlurmIsSeenOnTheNode) {
  add_node("n1");
  start();
  EXPECT_THAT(json::dump(kube_node("n1")), ::testing::Not(HasSubstr("SlurmReady")));
  slurm::NodeUpdate drain;
  drain.state = "DRAIN";
  drain.reason = "bad DIMM";
  ASSERT_TRUE(slurm_.model().update_node(slurm_.now(), "n1", drain));
  settle();
  EXPECT_THAT(json::dump(kube_node("n1")), HasSubstr(R"("reason":"Drained","message":"bad DIMM)"));
  EXPECT_THAT(events(), HasSubstr("SlurmDrained"));
  api_.reset_counts();
  settle(5min);
  EXPECT_EQ(api_.write_calls(), 0u);
  slurm::NodeUpdate back;
  back.state = "UNDRAIN";
  ASSERT_TRUE(slurm_.model().update_node(slurm_.now(), "n1", back));
  settle();
  EXPECT_THAT(json::dump(kube_node("n1")), HasSubstr(R"("status":"True","reason":"InService")"));
}

TEST_F(NodeSyncTest, CordonDrainsAndUncordonUndrains) {
  add_node("n1");
  start();
  patch("n1", R"({"spec":{"unschedulable":true}})");
  EXPECT_TRUE(slurm_node("n1")->states.has(slurm::NodeFlag::kDrain));
  EXPECT_THAT(slurm_node("n1")->reason, HasSubstr("(n1) is unschedulable"));
  patch("n1", R"({"spec":{"unschedulable":null}})");
  EXPECT_FALSE(slurm_node("n1")->states.has(slurm::NodeFlag::kDrain));
}

// Also one that the mirror has not seen yet when the bridge wants to undrain.
TEST_F(NodeSyncTest, AnAdministratorsDrainStands) {
  add_node("n1");
  start();
  patch("n1", R"({"spec":{"unschedulable":true}})");
  slurm::NodeUpdate theirs;
  theirs.state = "DRAIN";
  theirs.reason = "bad disk";
  bascule::testing::run(loop_, client_.update_node("n1", theirs));
  api_.patch(r::kNodes, {"", "n1"}, json::parse(R"({"spec":{"unschedulable":null}})"));
  settle();
  EXPECT_TRUE(slurm_node("n1")->states.has(slurm::NodeFlag::kDrain));
  EXPECT_EQ(slurm_node("n1")->reason, "bad disk");
  EXPECT_THAT(events(), HasSubstr("bad disk"));
}

// W50: a node that drains is looked at again although nothing happens to it.
TEST_F(NodeSyncTest, LabelGoneRemovesTheNodeWhenItIsIdle) {
  add_node("n1");
  start();
  const JobId job = occupy_a_node();
  patch("n1", R"({"metadata":{"labels":{"scheduler.slinky.slurm.net/external-node":null}}})");
  settle(5min);
  ASSERT_TRUE(slurm_node("n1"));
  EXPECT_TRUE(slurm_node("n1")->states.has(slurm::NodeFlag::kDrain));
  EXPECT_TRUE(is_tainted("n1"));
  bascule::testing::run(loop_, client_.cancel_job(job));
  settle(5min);
  EXPECT_FALSE(slurm_node("n1"));
  EXPECT_FALSE(is_tainted("n1"));
}

TEST_F(NodeSyncTest, ANodeThatAWaitingJobRequiresStaysInSlurm) {
  add_node("n1");
  start();
  slurm::JobDescription there;
  there.required_nodes = {"n1"};
  there.hold = true;
  const JobId job = slurm_.submit(there);
  settle(1min);
  patch("n1", R"({"metadata":{"labels":{"scheduler.slinky.slurm.net/external-node":null}}})");
  settle(5min);
  ASSERT_TRUE(slurm_node("n1"));
  EXPECT_THAT(events(), HasSubstr("n1 is removed when job"));
  bascule::testing::run(loop_, client_.cancel_job(job));
  settle(5min);
  EXPECT_FALSE(slurm_node("n1"));
}

// Slurm says that the node is in use, and nothing that it tells of the node changes when that is over.
TEST_F(NodeSyncTest, ANodeThatSlurmDoesNotRemoveYetIsToldAndTriedAgain) {
  add_node("n1");
  start();
  refuses_ = [](const net::ServerRequest& request) { return request.method == "DELETE"; };
  refusal_ = {2016, "Requested nodes are busy"};
  patch("n1", R"({"metadata":{"labels":{"scheduler.slinky.slurm.net/external-node":null}}})");
  settle(5min);
  EXPECT_TRUE(slurm_node("n1"));
  EXPECT_THAT(events(), HasSubstr("SlurmNodeRemoving: Slurm node n1 is not removed yet: "));
  EXPECT_THAT(events(), HasSubstr("Requested nodes are busy"));
  refuses_ = {};
  settle(kDrainLook + 5s);
  EXPECT_FALSE(slurm_node("n1"));
}

TEST_F(NodeSyncTest, ADeletedNodeLeavesSlurm) {
  add_node("n1");
  add_node("n2");
  start();
  api_.remove(r::kNodes, {"", "n1"});
  settle(2min);
  EXPECT_FALSE(slurm_node("n1"));
  EXPECT_TRUE(slurm_node("n2"));
}

// W49
TEST_F(NodeSyncTest, ASilentSlurmChangesNothing) {
  add_node("n1");
  start();
  slurm_.stop_controller();
  settle(10min);
  EXPECT_TRUE(is_tainted("n1"));
  slurm_.start_controller();
  settle(2min);
  EXPECT_TRUE(is_tainted("n1"));
  EXPECT_TRUE(slurm_node("n1"));
}

TEST_F(NodeSyncTest, OtherTaintsStayAsTheyAre) {
  add_node("n1");
  patch("n1", R"({"spec":{"taints":[{"key":"a","effect":"NoSchedule","timeAdded":"2026-01-01T00:00:00Z"},
      {"key":"b","value":"1","effect":"PreferNoSchedule"}]}})");
  start();
  EXPECT_TRUE(is_tainted("n1"));
  const std::string all = json::dump(*json::find(kube_node("n1"), {"spec", "taints"}));
  EXPECT_THAT(all, HasSubstr("2026-01-01T00:00:00Z"));
  EXPECT_THAT(all, HasSubstr("PreferNoSchedule"));
}

TEST_F(NodeSyncTest, PartitionsAreLookedUpAndLookedUpAgain) {
  add_node("n1");
  api_.patch(
      r::kNodes, {"", "n1"},
      json::parse(R"({"metadata":{"annotations":{"scheduler.slinky.slurm.net/external-node-partitions":"late"}}})"));
  start();
  EXPECT_FALSE(slurm_node("n1"));
  EXPECT_THAT(events(), HasSubstr("Slurm has no partition late"));
  slurm_.model().add_partition("late", false);
  settle(3min);
  ASSERT_TRUE(slurm_node("n1"));
  EXPECT_THAT(slurm_node("n1")->features, ::testing::ElementsAre("late"));
}

TEST_F(NodeSyncTest, SizeChangesRegisterAnew) {
  add_node("n1");
  start();
  const auto change = json::parse(R"({"status":{"allocatable":{"cpu":"4"}}})");
  api_.patch(r::kNodes, {"", "n1"}, change, "status");
  settle(3min);
  ASSERT_TRUE(slurm_node("n1"));
  EXPECT_EQ(slurm_node("n1")->cpus, 4u);
  EXPECT_FALSE(slurm_node("n1")->states.has(slurm::NodeFlag::kDrain));
}

// A topology that Slurm does not know keeps the node neither in service nor silent.
// What waits for the node by name would wait for ever.
TEST_F(NodeSyncTest, ANodeThatAJobRequiresIsRegisteredAnewAllTheSame) {
  add_node("n1");
  start();
  slurm::JobDescription there;
  there.required_nodes = {"n1"};
  there.hold = true;
  slurm_.submit(there);
  patch("n1", R"({"spec":{"unschedulable":true}})");
  settle(1min);
  api_.patch(r::kNodes, {"", "n1"}, json::parse(R"({"status":{"allocatable":{"cpu":"4"}}})"), "status");
  settle(3min);
  ASSERT_TRUE(slurm_node("n1"));
  EXPECT_EQ(slurm_node("n1")->cpus, 4u);
  patch("n1", R"({"spec":{"unschedulable":false}})");
  settle(1min);
  EXPECT_FALSE(slurm_node("n1")->states.has(slurm::NodeFlag::kDrain));
}

TEST_F(NodeSyncTest, ARefusedTopologyDoesNotHoldUpADrain) {
  add_node("n1");
  start();
  refuses_ = [](const net::ServerRequest& request) { return request.body.find("topology") != std::string::npos; };
  patch("n1", R"({"metadata":{"annotations":{"topology.slinky.slurm.net/spec":"nowhere:s9"}}})");
  EXPECT_THAT(events(), HasSubstr("SlurmRefused"));
  patch("n1", R"({"spec":{"unschedulable":true}})");
  EXPECT_TRUE(slurm_node("n1")->states.has(slurm::NodeFlag::kDrain));
  EXPECT_THAT(json::dump(kube_node("n1")), HasSubstr(R"("type":"SlurmReady","status":"False")"));
}

// A drain that Slurm refused, and that is not wanted any more, keeps no other node from being registered anew.
TEST_F(NodeSyncTest, ARefusedDrainDoesNotCount) {
  for (const char* name : {"n1", "n2"}) add_node(name);
  start();
  slurm::JobDescription both;
  both.nodes = 2;
  both.exclusive = true;
  slurm_.submit(both);
  settle();
  refuses_ = [](const net::ServerRequest& request) { return request.body.find("anew n1") != std::string::npos; };
  const auto size = [&](const std::string& name, std::string_view cpus) {
    json::Value change = json::parse(R"({"status":{"allocatable":{}}})");
    json::at_or_create(change, {"status", "allocatable", "cpu"}) = cpus;
    api_.patch(r::kNodes, {"", name}, change, "status");
    settle();
  };
  size("n1", "4");
  EXPECT_FALSE(slurm_node("n1")->states.has(slurm::NodeFlag::kDrain));
  size("n1", "8");
  size("n2", "4");
  EXPECT_TRUE(slurm_node("n2")->states.has(slurm::NodeFlag::kDrain));
}

// slurm-bridge registered them with their capacity, and all are busy: their jobs end, and nobody waits for all of them.
TEST_F(NodeSyncTest, OfManyBusyNodesThatDifferOneAtATimeIsDrained) {
  slurm::JobDescription whole;
  whole.nodes = 8;
  whole.exclusive = true;
  for (int i = 1; i <= 8; ++i) {
    const std::string name = "n" + std::to_string(i);
    std::string conf =
        "NodeName=" + name + " NodeAddr=10.0.0." + std::to_string(i) + " State=External CPUs=16 RealMemory=64000";
    bascule::testing::run(loop_, client_.add_node(std::move(conf)));
    add_node(name);
  }
  const JobId job = slurm_.submit(std::move(whole));
  const auto drained = [this] {
    return std::ranges::count_if(slurm_.model().nodes(),
                                 [](const auto& one) { return one.second.view.states.has(slurm::NodeFlag::kDrain); });
  };
  start();
  EXPECT_EQ(drained(), 1);
  settle(10min);
  EXPECT_EQ(drained(), 1);
  ASSERT_TRUE(slurm_.model().cancel(slurm_.now(), job));
  settle(10min);
  EXPECT_EQ(drained(), 0);
  for (int i = 1; i <= 8; ++i) EXPECT_EQ(slurm_node("n" + std::to_string(i))->cpus, 8u);
}

// What another cluster, or a bridge that is no more, has drained may stay so for long.
TEST_F(NodeSyncTest, ANodeThatAnotherClusterMakesAnewTakesNobodysTurn) {
  add_node("n1");
  start();
  bascule::testing::run(loop_, client_.add_node("NodeName=m1 NodeAddr=10.9.9.9 State=External CPUs=8 RealMemory=8000"));
  slurm::NodeUpdate theirs;
  theirs.extra = print_mark({config_.scheduler_name, "another", ""});
  theirs.state = "DRAIN";
  theirs.reason = reshape_reason("m1", {.cpus = 4, .memory = 4000}, "10.9.9.9");
  bascule::testing::run(loop_, client_.update_node("m1", theirs));
  occupy_a_node();
  const auto change = json::parse(R"({"status":{"allocatable":{"cpu":"4"}}})");
  api_.patch(r::kNodes, {"", "n1"}, change, "status");
  settle();
  EXPECT_TRUE(slurm_node("n1")->states.has(slurm::NodeFlag::kDrain));
}

// Two clusters register the same name at the same time: the second one leaves the first one's mark.
TEST_F(NodeSyncTest, ANodeThatAnotherClusterJustRegisteredStaysTheirs) {
  add_node("n1");
  slurm::NodeUpdate theirs;
  theirs.extra = print_mark({config_.scheduler_name, "another", ""});
  bool once = false;
  refuses_ = [&](const net::ServerRequest& request) {
    if (request.target.find("new/node") == std::string::npos || std::exchange(once, true)) return false;
    slurm_.add_nodes("NodeName=n1 NodeAddr=10.9.9.9 State=External CPUs=2 RealMemory=2000");
    EXPECT_TRUE(slurm_.model().update_node(slurm_.now(), "n1", theirs));
    return false;  // and the fake says that it exists
  };
  start();
  EXPECT_TRUE(once);
  EXPECT_EQ(parse_mark(slurm_node("n1")->extra)->cluster, "another");
  EXPECT_FALSE(is_tainted("n1"));
  EXPECT_THAT(events(), HasSubstr("SlurmNodeForeign"));
}

// The name in Slurm changes while a job runs: the machine is not there twice.
TEST_F(NodeSyncTest, ANodeRenamedInSlurmIsThereOnce) {
  add_node("n1");
  start();
  const JobId job = occupy_a_node();
  patch("n1", R"({"metadata":{"labels":{"slinky.slurm.net/slurm-nodename":"m1"}}})");
  settle(3min);
  EXPECT_TRUE(slurm_node("n1"));
  EXPECT_FALSE(slurm_node("m1"));
  bascule::testing::run(loop_, client_.cancel_job(job));
  settle(3min);
  EXPECT_FALSE(slurm_node("n1"));
  EXPECT_TRUE(slurm_node("m1"));
}

TEST_F(NodeSyncTest, ANodeThatLeftSlurmDoesNotSayThatItIsDrained) {
  add_node("n1");
  start();
  const JobId job = occupy_a_node();
  patch("n1", R"({"metadata":{"labels":{"scheduler.slinky.slurm.net/external-node":null}}})");
  EXPECT_THAT(json::dump(kube_node("n1")), HasSubstr("SlurmReady"));
  bascule::testing::run(loop_, client_.cancel_job(job));
  settle(5min);
  EXPECT_FALSE(slurm_node("n1"));
  EXPECT_THAT(json::dump(kube_node("n1")), ::testing::Not(HasSubstr("SlurmReady")));
}

// A new life of the controllers knows nothing of how long the node has been ill.
TEST_F(NodeSyncTest, ALostNodeStaysDrainedOverARestart) {
  add_node("n1");
  start();
  api_.patch(r::kNodes, {"", "n1"}, json::parse(R"({"status":{"conditions":[{"type":"Ready","status":"False"}]}})"),
             "status");
  settle(90s);
  ASSERT_TRUE(slurm_node("n1")->states.has(slurm::NodeFlag::kDrain));
  stop();
  start();
  for (int i = 0; i < 60; ++i) {
    settle(1s);
    ASSERT_TRUE(slurm_node("n1")->states.has(slurm::NodeFlag::kDrain)) << "after " << i << " s";
  }
}

// A node whose slurmd is a pod: the bridge comes later, to the partition in which the workers are.
TEST_F(NodeSyncTest, AWorkerOfANodeSetIsNotEvictedByTheTaint) {
  slurm_.add_nodes("NodeName=n1 CPUs=8 RealMemory=32000");
  add_node("n1", false);
  json::Value worker = bascule::testing::make_pod({.name = "gpu-n1", .ns = "slurm", .node = "n1"});
  json::at_or_create(worker, {"metadata", "ownerReferences"}) = json::parse(
      R"([{"apiVersion":"slinky.slurm.net/v1beta1","kind":"NodeSet","name":"gpu","uid":"u1","controller":true}])");
  api_.create(r::kPods, worker);
  start();
  settle(5min);
  EXPECT_FALSE(is_tainted("n1"));
  EXPECT_THAT(events(), HasSubstr("SlurmTaintWaits: pod slurm/gpu-n1 of NodeSet slurm/gpu does not tolerate"));
  // The NodeSet has got the toleration, and the next pod is of that template.
  api_.erase(r::kPods, {"slurm", "gpu-n1"});
  json::at_or_create(worker, {"spec", "tolerations"}) =
      json::parse(R"([{"key":"slinky.slurm.net/managed-node","operator":"Exists","effect":"NoExecute"}])");
  api_.create(r::kPods, worker);
  settle();
  EXPECT_TRUE(is_tainted("n1"));
}

TEST_F(NodeSyncTest, APodOfAnUnknownJobDrainsItsHybridNodeUntilItHasGone) {
  slurm_.add_nodes("NodeName=n1 CPUs=8 RealMemory=32000");
  add_node("n1", false);
  start();
  json::Value pod = bascule::testing::make_pod({.name = "a",
                                                .ns = "ml",
                                                .scheduler = config_.scheduler_name,
                                                .node = "n1",
                                                .labels = {{names::kSlurmJobId, "7"}}});
  api_.create(r::kPods, pod);
  json::Value lost = json::parse(R"({"status":{"conditions":[{"status":"False"}]}})");
  json::at_or_create(lost.at("status").at("conditions").at(0), {"type"}) = names::kSlurmJobKnown;
  settle();
  ASSERT_FALSE(slurm_node("n1")->states.has(slurm::NodeFlag::kDrain));
  api_.patch(r::kPods, {"ml", "a"}, lost, "status");
  settle();
  EXPECT_TRUE(slurm_node("n1")->states.has(slurm::NodeFlag::kDrain));
  EXPECT_THAT(slurm_node("n1")->reason, HasSubstr("has pod ml/a of the unknown job 7"));
  api_.erase(r::kPods, {"ml", "a"});
  settle();
  EXPECT_FALSE(slurm_node("n1")->states.has(slurm::NodeFlag::kDrain));
}

TEST_F(NodeSyncTest, AnEmptyNameIsToldAndNeverAskedFor) {
  add_node("n1");
  add_node("n2");
  patch("n1", R"({"metadata":{"labels":{"slinky.slurm.net/slurm-nodename":""}},
      "spec":{"taints":[{"key":"slinky.slurm.net/managed-node","value":"slurm-bridge-scheduler","effect":"NoExecute"}]}})");
  start();
  EXPECT_THAT(events(), HasSubstr("SlurmNameInvalid"));
  patch("n1", R"({"metadata":{"labels":{"scheduler.slinky.slurm.net/external-node":null}}})");
  settle(3min);
  EXPECT_FALSE(is_tainted("n1"));
}

// slurmctld was killed between saving its nodes and its jobs.
TEST_F(NodeSyncTest, ANodeThatSlurmHasAllocatedToNoJobIsFreed) {
  add_node("n1");
  add_node("n2");
  start();
  const JobId job = occupy_a_node();
  slurm_.stop_controller();
  slurm_.model().strand(slurm_.now(), "n1");
  slurm_.model().strand(slurm_.now(), "n2");
  settle(5s);
  slurm_.start_controller();
  settle(3min);
  EXPECT_TRUE(slurm_.model().job(job)->view.states.base == slurm::JobState::kRunning);
  const std::string freed = slurm_.model().job(job)->view.nodes == "n1" ? "n2" : "n1";
  EXPECT_EQ(slurm::print(slurm_node(freed)->states), "IDLE+DYNAMIC_NORM+EXTERNAL");
  EXPECT_EQ(slurm_node(freed)->reason, "");
  EXPECT_THAT(events(), HasSubstr("SlurmNodeStranded: Slurm node " + freed + " is allocated to no job"));
  EXPECT_THAT(events(), HasSubstr("SlurmInService"));
  slurm_.forget_calls();
  api_.reset_counts();
  settle(5min);
  EXPECT_EQ(slurm_.calls("POST node"), 0u);
  EXPECT_EQ(api_.write_calls(), 0u);
}

// Killed anywhere on the way: a job that came between goes on, and the node comes back.
TEST_F(NodeSyncTest, AStrandedNodeIsFreedWhereverTheControllersAreKilled) {
  add_node("n1");
  for (Duration until = 28s; until < 50s; until += 500ms) {
    SCOPED_TRACE(std::chrono::duration<double>(until).count());
    start();
    slurm_.model().strand(slurm_.now(), "n1");
    settle(until);
    stop();
    start();
    settle(2min);
    EXPECT_EQ(slurm_node("n1")->states.base, slurm::NodeState::kIdle);
    EXPECT_FALSE(slurm_node("n1")->states.has(slurm::NodeFlag::kDrain));
    stop();
  }
}

// The drain comes too late: the job that has started there is not put down with the node.
TEST_F(NodeSyncTest, AJobThatStartsOnAStrandedNodeGoesOn) {
  add_node("n1");
  start();
  slurm_.model().strand(slurm_.now(), "n1");
  std::optional<JobId> job;
  refuses_ = [&](const net::ServerRequest& request) {
    if (job || request.method != "POST" || request.target.find("/node/n1") == std::string::npos) return false;
    slurm::JobDescription whole;
    whole.nodes = 1;
    whole.exclusive = true;
    job = slurm_.submit(std::move(whole));
    loop_.advance(0s);
    return false;
  };
  settle(5min);
  ASSERT_TRUE(job);
  EXPECT_EQ(slurm_.model().job(*job)->view.states.base, slurm::JobState::kRunning);
  EXPECT_FALSE(slurm_node("n1")->states.has(slurm::NodeFlag::kDrain));
}

// All at once, and nobody asks the API server or Slurm more than a few times for each.
TEST_F(NodeSyncTest, ManyNodesAtOnce) {
  log::Capture quiet;
  constexpr std::size_t kMany = 300;
  for (std::size_t i = 1; i <= kMany; ++i) add_node("n" + std::to_string(i));
  start();
  EXPECT_EQ(slurm_.model().nodes().size(), kMany);
  EXPECT_LE(slurm_.calls("POST new/node"), kMany);
  EXPECT_LE(slurm_.calls("GET node"), 3 * kMany);
  EXPECT_LE(slurm_.calls("GET partitions"), 3u);
  EXPECT_LE(api_.calls("patch", "nodes"), kMany);
  api_.reset_counts();
  slurm_.forget_calls();
  settle(1min);
  EXPECT_EQ(api_.write_calls(), 0u);
  EXPECT_EQ(slurm_.calls("GET node") + slurm_.calls("POST node"), 0u);
}

TEST_F(NodeSyncTest, AnImpossibleNameIsToldOnTheNode) {
  add_node("n1");
  patch("n1", R"({"metadata":{"labels":{"slinky.slurm.net/slurm-nodename":"bad[name"}}})");
  start();
  EXPECT_THAT(events(), HasSubstr("SlurmNameInvalid"));
}

}  // namespace
}  // namespace bascule::bridge
