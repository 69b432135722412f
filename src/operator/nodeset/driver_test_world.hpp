// A cluster for the driver's tests, in simulated time: a fake API server with kubelets, a fake slurmrestd, a scheduler
// for worker pods and their slurmds, and the operator's process, which can be killed; on demand a second one beside it.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/base64.hpp"
#include "json/patch.hpp"
#include "json/yaml.hpp"
#include "kube/lease.hpp"
#include "net/loopback.hpp"
#include "operator/api/names.hpp"
#include "operator/api/resources.hpp"
#include "operator/nodeset/driver.hpp"
#include "operator/nodeset/perform.hpp"
#include "testing/fake_api.hpp"
#include "testing/fake_cluster.hpp"
#include "testing/fake_slurm.hpp"
#include "testing/objects.hpp"
#include "testing/process.hpp"
#include "testing/run.hpp"

namespace bascule::op::nodeset {

using namespace std::chrono_literals;
namespace r = kube::resources;

// Whether this process leads: it always does when it is alone (`identity` is empty).
class Leads {
 public:
  Leads(kube::Client& client, const std::string& identity) : changed_(client.loop()) {
    if (identity.empty()) return;
    elector_.emplace(client, kube::LeaseOptions{.key = {"slurm", "operator"}, .identity = identity, .seed = 6},
                     [this](bool now) {
                       lost_ = !now;
                       changed_.notify();
                     });
    elector_->start();
  }
  bool now() const { return !elector_ || elector_->leading(); }
  // False: it is to stop.
  Task<bool> begins(std::stop_token stop) {
    while (!now() && !stop.stop_requested()) co_await changed_.wait(stop);
    co_return !stop.stop_requested();
  }
  // Until it is to stop, or leads no longer.
  Task<> ends(std::stop_token stop) {
    while (!lost_ && !stop.stop_requested()) co_await changed_.wait(stop);
  }
  Task<> stop() {
    if (elector_) co_await elector_->stop();
  }

 private:
  Bell changed_;
  bool lost_ = false;
  std::optional<kube::LeaderElector> elector_;
};

// One life of the operator, as far as NodeSets go.
inline Task<> operator_main(testing::SimEnvironment& self, net::Transport& api, net::Transport& rest,
                            NodeSetDriver** out, std::string identity, const bool& may_act, std::stop_token stop) {
  const auto to_api = self.network.connect(self.loop, api);
  kube::Client client(self.loop, *to_api, {});
  json::Interner interner;
  using Dynamic = kube::Informer<kube::DynamicObject>;
  Dynamic nodesets(client, {.resource = kNodeSets, .seed = 1}, kube::decode_dynamic, interner);
  Dynamic controllers(client, {.resource = kControllers, .seed = 2}, kube::decode_dynamic, interner);
  Dynamic restapis(client, {.resource = kRestApis, .seed = 3}, kube::decode_dynamic, interner);
  Dynamic secrets(client, {.resource = r::kSecrets, .seed = 4}, kube::decode_dynamic, interner);
  Dynamic stateful_sets(client, {.resource = kStatefulSets, .seed = 5}, kube::decode_dynamic, interner);
  kube::EventRecorder events(client, "slurm-operator", "sim");
  SlurmClusters clusters({.loop = self.loop,
                          .controllers = controllers,
                          .restapis = restapis,
                          .secrets = secrets,
                          .connect = [&](const std::string&) { return self.network.connect(self.loop, rest); },
                          .metrics = nullptr},
                         {});
  Leads leads(client, identity);
  NodeSetDriver driver({client, nodesets, controllers, secrets, stateful_sets, clusters, events, nullptr},
                       {.may_act = [&leads, &may_act] { return may_act && leads.now(); }, .seed = 7});
  for (Dynamic* one : {&nodesets, &controllers, &restapis, &secrets, &stateful_sets}) one->start();
  bool synced = true;
  for (Dynamic* one : {&nodesets, &controllers, &restapis, &secrets, &stateful_sets}) {
    const bool has = co_await one->wait_synced(stop, TimePoint::max());
    synced = synced && has;
  }
  if (synced && co_await leads.begins(stop)) {
    clusters.start();
    driver.start();
    *out = &driver;
    co_await leads.ends(stop);
  }
  *out = nullptr;
  co_await driver.stop();
  co_await clusters.stop();
  for (Dynamic* one : {&nodesets, &controllers, &restapis, &secrets, &stateful_sets}) co_await one->stop();
  co_await events.stop(self.loop.now() + 1s);
  co_await leads.stop();
}

struct DriverWorld {
  // `late`: for how long requests may be on the way.
  explicit DriverWorld(int nodes = 4, std::uint64_t seed = 1, Duration tick = 100ms, Duration late = {})
      : api(loop, {.seed = seed}),
        cluster(api, {.tick = tick, .pod_start = 1s, .pod_run = 100'000h, .pod_stop = 1s}),
        slurm(loop),
        to_api(net::make_loopback(loop, api.handler())),
        to_rest(net::make_loopback(loop, slurm.handler())),
        network(loop, {.seed = seed, .late = late}),
        process(loop, network,
                [this](testing::SimEnvironment& self, std::stop_token stop) {
                  return operator_main(self, *to_api, *to_rest, &driver, identity("a"), may_act, std::move(stop));
                }),
        second(loop, network, [this](testing::SimEnvironment& self, std::stop_token stop) {
          return operator_main(self, *to_api, *to_rest, &seconds_driver_, identity("b"), may_act, std::move(stop));
        }) {
    api.add_resource(kNodeSets, true, true);
    api.add_resource(kControllers);
    api.add_resource(kRestApis);
    slurm.model().add_partition("all", true);
    for (int i = 0; i < nodes; ++i) api.create(r::kNodes, testing::make_node({.name = fmt::format("k{}", i)}));
    secret("slurm-key", "slurm.key", "key of slurm");
    secret("jwt-key", "jwt.key", "key of tokens");
    custom(kControllers, "slurm", R"(
slurmKeyRef: {name: slurm-key, key: slurm.key}
jwtKeyRef: {name: jwt-key, key: jwt.key}
slurmctld: {image: "slurmctld:26.05"}
)");
    custom(kRestApis, "slurm", "{controllerRef: {name: slurm}, slurmrestd: {image: \"slurmrestd:26.05\"}}");
    cluster.start();
  }
  ~DriverWorld() {
    process.kill();
    second.kill();
    testing::run(loop, cluster.stop());
  }

  void custom(const kube::Resource& resource, const std::string& name, std::string_view spec) {
    json::Value value = json::Object{{"apiVersion", resource.api_version()},
                                     {"kind", resource.kind},
                                     {"metadata", json::Object{{"name", name}, {"namespace", "slurm"}}}};
    value.get_object()["spec"] = json::parse_yaml(spec);
    api.create(resource, std::move(value));
  }
  void secret(const std::string& name, const std::string& key, std::string_view value) {
    api.create(r::kSecrets, json::Object{{"apiVersion", "v1"},
                                         {"kind", "Secret"},
                                         {"metadata", json::Object{{"name", name}, {"namespace", "slurm"}}},
                                         {"data", json::Object{{key, base64_encode(value)}}}});
  }
  void nodeset(const std::string& name, int replicas, std::string_view more = "{}") {
    json::Value spec = json::parse_yaml("{controllerRef: {name: slurm}, slurmd: {image: \"slurmd:26.05\"}}");
    spec = json::merged(spec, json::parse_yaml(more));
    spec.get_object()["replicas"] = replicas;
    custom(kNodeSets, name, json::dump(spec));
  }
  void patch_nodeset(const std::string& name, std::string_view yaml) {
    api.patch(kNodeSets, {"slurm", name}, json::parse_yaml(yaml));
  }
  json::Value nodeset_of(const std::string& name) { return *api.get(kNodeSets, {"slurm", name}); }
  std::int64_t status(const std::string& name, std::string_view field) {
    return json::int_at(nodeset_of(name), {"status", field}).value_or(-1);
  }

  // --- worker pods and slurmds ---------------------------------------------------------------------------------------

  // Binds worker pods, one on each node; registers those that run; marks those that stop, as their preStop hook does.
  void slurmds() {
    std::set<std::string> taken;
    std::vector<json::Value> pods = api.list(r::kPods, "slurm");
    for (const json::Value& pod : pods) taken.insert(std::string(json::string_at(pod, {"spec", "nodeName"})));
    for (const json::Value& pod : pods) {
      const NamespacedName key{"slurm", std::string(json::string_at(pod, {"metadata", "name"}))};
      if (json::string_at(pod, {"spec", "nodeName"}).empty()) {
        bind(key, pod, taken);
      } else if (json::find(pod, {"metadata", "deletionTimestamp"}) != nullptr) {
        prestop(pod);
      } else if (json::string_at(pod, {"status", "phase"}) == "Running") {
        enroll(pod);
      }
    }
    std::erase_if(stopped_, [&](const std::string& uid) {
      return std::ranges::none_of(
          pods, [&](const json::Value& pod) { return json::string_at(pod, {"metadata", "uid"}) == uid; });
    });
  }
  void bind(const NamespacedName& key, const json::Value& pod, std::set<std::string>& taken) {
    const std::shared_ptr<const WorkerPod> read = decode_worker_pod(json::dump(pod), interner_);
    for (const json::Value& node : api.list(r::kNodes)) {
      const std::string name(json::string_at(node, {"metadata", "name"}));
      if (taken.contains(name) || json::bool_at(node, {"spec", "unschedulable"})) continue;
      if (!read->view.target_node.empty() && read->view.target_node != name) continue;
      if (!claims_are_there(pod)) continue;
      taken.insert(name);
      testing::ApiWriter& writer = api.writer();
      const json::Value binding = testing::make_binding(key.name, name);
      writer.commit(writer.bind(api.store().table(r::kPods), key.ns, key.name, binding, {.manager = "scheduler"}));
      return;
    }
  }
  static std::string slurm_name(const json::Value& pod) {
    return std::string(json::string_at(pod, {"spec", "hostname"}));
  }
  void enroll(const json::Value& pod) {
    const std::string uid(json::string_at(pod, {"metadata", "uid"}));
    if (!slurm.controller_up() || !enrolled_.insert(uid).second) return;
    const std::string name = slurm_name(pod);
    if (slurm.model().node(name) != nullptr) return;
    ASSERT_TRUE(slurm.model().add_node(
        slurm.now(), fmt::format("NodeName={} NodeAddr={} State=CLOUD CPUs=4 RealMemory=1000 Feature=base", name, name),
        true));
  }
  void prestop(const json::Value& pod) {
    const std::string uid(json::string_at(pod, {"metadata", "uid"}));
    const std::string name = slurm_name(pod);
    const auto* node = slurm.model().node(name);
    if (node == nullptr || !enrolled_.contains(uid) || !stopped_.insert(uid).second) return;
    if (!node->jobs.empty()) killed_jobs.push_back(fmt::format("{} with {} jobs", name, node->jobs.size()));
    slurm::NodeUpdate down;
    down.state = "DOWN";
    if (node->view.reason.empty() || node->view.reason.starts_with(names::kReasonPrefix)) {
      down.reason = "slurm-operator: pod is terminating";
    }
    ASSERT_TRUE(slurm.model().update_node(slurm.now(), name, down));
  }

  // --- claims
  // ----------------------------------------------------------------------------------------------------------

  static std::vector<NamespacedName> claims_of(const json::Value& pod) {
    std::vector<NamespacedName> claims;
    const json::Array* volumes = json::array_at(pod, {"spec", "volumes"});
    for (const json::Value& volume : volumes != nullptr ? *volumes : json::Array{}) {
      const std::string_view name = json::string_at(volume, {"persistentVolumeClaim", "claimName"});
      if (!name.empty()) claims.push_back({"slurm", std::string(name)});
    }
    return claims;
  }
  std::string uid_of_claim(const NamespacedName& claim) {
    const auto found = api.get(kClaims, claim);
    if (!found || json::find(*found, {"metadata", "deletionTimestamp"}) != nullptr) return {};
    return std::string(json::string_at(*found, {"metadata", "uid"}));
  }
  bool claims_are_there(const json::Value& pod) {
    return std::ranges::all_of(claims_of(pod), [this](const auto& claim) { return !uid_of_claim(claim).empty(); });
  }
  // A bound pod has the claims it was bound with until it is gone.
  void watch_claims() {
    for (const json::Value& pod : api.list(r::kPods, "slurm")) {
      if (json::string_at(pod, {"spec", "nodeName"}).empty()) continue;
      for (const NamespacedName& claim : claims_of(pod)) {
        const std::string uid = uid_of_claim(claim);
        const std::string use = fmt::format("{}/{}", json::string_at(pod, {"metadata", "uid"}), claim.name);
        const auto [it, fresh] = claims_in_use_.try_emplace(use, uid);
        if (uid.empty() || it->second != uid) lost_claims.push_back(use);
      }
    }
  }

  // --- looking -------------------------------------------------------------------------------------------------------

  std::vector<std::string> pods(const std::string& nodeset) {
    std::vector<std::string> names;
    for (const json::Value& pod : api.list(r::kPods, "slurm", "app.kubernetes.io/instance=" + nodeset)) {
      names.emplace_back(json::string_at(pod, {"metadata", "name"}));
    }
    std::ranges::sort(names);
    return names;
  }
  std::size_t ready(const std::string& nodeset) {
    std::size_t count = 0;
    for (const json::Value& pod : api.list(r::kPods, "slurm", "app.kubernetes.io/instance=" + nodeset)) {
      const bool running = json::string_at(pod, {"status", "phase"}) == "Running";
      const auto* node = slurm.model().node(slurm_name(pod));
      const bool serves = node != nullptr && node->view.states.base != slurm::NodeState::kDown &&
                          !node->view.states.has(slurm::NodeFlag::kDrain);
      count += running && serves && json::find(pod, {"metadata", "deletionTimestamp"}) == nullptr;
    }
    return count;
  }
  std::string events() {
    std::string all;
    for (const json::Value& event : api.list(r::kEvents)) {
      all += fmt::format("{}: {}\n", json::string_at(event, {"reason"}), json::string_at(event, {"note"}));
    }
    return all;
  }
  // "reason kind/name -> kind/name by whom", of those that have a related object.
  std::vector<std::string> related_events() {
    const auto name = [](const json::Value& event, std::string_view field) {
      return fmt::format("{}/{}", json::string_at(event, {field, "kind"}), json::string_at(event, {field, "name"}));
    };
    std::vector<std::string> all;
    for (const json::Value& event : api.list(r::kEvents)) {
      if (!json::find(event, {"related"})) continue;
      all.push_back(fmt::format("{} {} -> {} by {}", json::string_at(event, {"reason"}), name(event, "regarding"),
                                name(event, "related"), json::string_at(event, {"reportingController"})));
    }
    return all;
  }
  JobId job_on(const std::string& node, std::optional<Duration> runs_for) {
    slurm::JobDescription job;
    job.nodes = 1;
    job.required_nodes = std::vector<std::string>{node};
    job.cpus_per_task = 1;
    if (runs_for) {
      job.time_limit = static_cast<std::uint32_t>(std::chrono::ceil<std::chrono::minutes>(*runs_for).count()) + 1;
    }
    const JobId id = slurm.submit(std::move(job), runs_for, false);
    slurm.model().catch_up(slurm.now());
    return id;
  }
  bool is_running(JobId id) { return slurm.model().job(id)->view.states.base == slurm::JobState::kRunning; }

  void pass(Duration time, Duration step = 250ms) {
    for (Duration done{}; done < time; done += step) {
      slurmds();
      loop.advance(step);
      if (every_step) every_step();
    }
  }
  bool until(const std::function<bool()>& done, Duration limit) {
    for (Duration passed{}; passed < limit && !done(); passed += 250ms) pass(250ms);
    return done();
  }
  // A new NodeSet, a process that starts with it, and all its pods; in DaemonSet mode they are `count`.
  bool runs(const std::string& name, int replicas, std::string_view more = "{}", std::size_t count = 0) {
    nodeset(name, replicas, more);
    process.start();
    return settles(name, count > 0 ? count : static_cast<std::size_t>(replicas));
  }
  bool settles(const std::string& nodeset, std::size_t count, Duration limit = 3min) {
    return until(
        [&] {
          return ready(nodeset) == count && pods(nodeset).size() == count &&
                 status(nodeset, "updatedReplicas") == static_cast<std::int64_t>(count);
        },
        limit);
  }

  ManualLoop loop;
  testing::FakeApi api;
  testing::FakeCluster cluster;
  testing::FakeSlurm slurm;
  std::unique_ptr<net::Transport> to_api, to_rest;
  testing::SimNetwork network;
  NodeSetDriver* driver = nullptr;
  testing::SimProcess process, second;
  bool may_act = true;
  bool two = false;  // there are two processes, one of which leads
  std::function<void()> every_step;
  std::vector<std::string> killed_jobs, lost_claims;

 private:
  std::string identity(const char* name) { return two ? fmt::format("{}-{}", name, ++lives_) : std::string(); }

  NodeSetDriver* seconds_driver_ = nullptr;
  int lives_ = 0;
  json::Interner interner_;
  std::set<std::string> enrolled_, stopped_;  // uids of pods
  std::map<std::string, std::string> claims_in_use_;
};

}  // namespace bascule::op::nodeset
