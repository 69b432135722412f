// The operator as a whole process between a fake API server and a fake slurmrestd, in simulated time.
#pragma once

#include "operator/reconcile/operator.hpp"

#include <random>

#include "net/loopback.hpp"
#include "operator/builders/ssh_keys.hpp"
#include "operator/builders/token.hpp"
#include "operator/reconcile/apply.hpp"
#include "operator/reconcile/children.hpp"
#include "operator/reconcile/test_view.hpp"
#include "runtime/metrics.hpp"
#include "testing/fake_api.hpp"
#include "testing/fake_cluster.hpp"
#include "testing/fake_slurm.hpp"
#include "testing/process.hpp"
#include "testing/run.hpp"

namespace bascule::op::reconcile::test {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing::SimEnvironment;

inline Task<StringMap> quick_host_keys(int& made) {
  StringMap keys;
  for (const std::string_view file : kHostKeyFiles) keys[std::string(file)] = "key " + std::to_string(made);
  ++made;
  co_return keys;
}

struct World {
  explicit World(std::uint64_t seed, std::vector<std::string> namespaces = {})
      : api(loop, {.seed = seed}),
        cluster(api),
        slurm(loop),
        to_api(net::make_loopback(loop, api.handler())),
        to_rest(net::make_loopback(loop, slurm.handler())),
        network(loop, {.seed = seed}),
        process(loop, network, [this, namespaces](SimEnvironment& self, std::stop_token stop) {
          return live(self, namespaces, std::move(stop));
        }) {
    for (const kube::Resource* resource :
         {&kControllers, &kAccountings, &kRestApis, &kLoginSets, &kNodeSets, &kTokens}) {
      api.add_resource(*resource, true, true);
    }
    api.create(kSecrets, secret("auth", "slurm.key", "auth-key"));
    api.create(kSecrets, secret("jwt", "jwt.key", "jwt-key"));
    api.create(kSecrets, secret("db", "password", "password"));
    api.create(kSecrets, secret("sssd", "sssd.conf", "[sssd]"));
    cluster.start();
  }
  ~World() {
    process.kill();
    testing::run(loop, cluster.stop());
  }

  Task<> live(SimEnvironment& self, std::vector<std::string> namespaces, std::stop_token stop) {
    const auto way = self.network.connect(self.loop, *to_api);
    kube::Client client(self.loop, *way, {});
    OperatorOptions options;
    options.namespaces = std::move(namespaces);
    options.instance = "sim";
    options.reconcile.make_host_keys = [this] { return quick_host_keys(host_keys_made); };
    options.connect = [this, &self](const std::string& url) {
      if (!url.ends_with(":6817")) return self.network.connect(self.loop, *to_rest);
      return net::make_loopback(self.loop,
                                [this, url](const net::ServerRequest&, std::stop_token) { return readiness(url); });
    };
    Operator work(client, std::move(options), &metrics);
    co_await work.run(stop);
  }

  // What the slurmctld there says to /readyz.
  Task<net::ServerResponse> readiness(std::string url) {
    co_return net::ServerResponse{.status = url == serving ? 204 : 500};
  }

  void add(const kube::Resource& resource, std::string_view name, std::string_view spec,
           std::string_view ns = "slurm") {
    api.create(resource, json::Object{{"apiVersion", resource.api_version()},
                                      {"kind", resource.kind},
                                      {"metadata", json::Object{{"name", name}, {"namespace", ns}}},
                                      {"spec", json::parse_yaml(spec)}});
  }
  void patch(const kube::Resource& resource, const std::string& name, std::string_view change) {
    api.patch(resource, {"slurm", name}, json::parse_yaml(change));
  }
  // Controllers of workloads: pods are as wanted at once.
  void run_workloads() {
    for (const kube::Resource* resource : {&kStatefulSets, &kDeployments}) {
      for (const json::Value& one : api.list(*resource)) {
        const std::int64_t replicas = json::int_at(one, {"spec", "replicas"}).value_or(1);
        const std::int64_t generation = json::int_at(one, {"metadata", "generation"}).value_or(0);
        const json::Value status = json::Object{{"status", json::Object{{"observedGeneration", generation},
                                                                        {"replicas", replicas},
                                                                        {"readyReplicas", replicas},
                                                                        {"updatedReplicas", replicas}}}};
        api.patch(*resource,
                  {std::string(json::string_at(one, {"metadata", "namespace"})),
                   std::string(json::string_at(one, {"metadata", "name"}))},
                  status, "status");
      }
    }
  }
  void settle(Duration time = 30s) {
    for (Duration done{}; done < time; done += 1s) {
      loop.advance(1s);
      run_workloads();
    }
  }
  json::Value get(const kube::Resource& resource, const std::string& name) {
    return api.get(resource, {"slurm", name}).value_or(json::Value());
  }
  std::string ready(const kube::Resource& resource, const std::string& name) {
    const json::Value object = get(resource, name);
    const json::Array* conditions = json::array_at(object, {"status", "conditions"});
    if (!conditions) return "no conditions";
    const json::Value& first = conditions->at(0);
    return std::string(json::string_at(first, {"status"})) + " " + std::string(json::string_at(first, {"message"}));
  }
  std::string events() {
    std::string out;
    for (const json::Value& event : api.list(kube::resources::kEvents)) {
      out +=
          std::string(json::string_at(event, {"reason"})) + ": " + std::string(json::string_at(event, {"note"})) + "\n";
    }
    return out;
  }
  // "kind -> kind/name by whom", of the first event with this note.
  std::string related_of(std::string_view note) {
    for (const json::Value& event : api.list(kube::resources::kEvents)) {
      if (json::string_at(event, {"note"}) != note) continue;
      return fmt::format("{} -> {}/{} by {}", json::string_at(event, {"regarding", "kind"}),
                         json::string_at(event, {"related", "kind"}), json::string_at(event, {"related", "name"}),
                         json::string_at(event, {"reportingController"}));
    }
    return "no such event";
  }
  void whole_cluster() {
    add(kAccountings, "slurm", kAccounting);
    add(kControllers, "slurm",
        R"({slurmKeyRef: {name: auth, key: slurm.key}, jwtKeyRef: {name: jwt, key: jwt.key},
            slurmctld: {image: slurmctld}, logfile: {image: alpine}, accountingRef: {name: slurm}})");
    add(kRestApis, "slurm", kRestApi);
    add(kLoginSets, "login", kLoginSet);
    add(kTokens, "ada", "{jwtKeyRef: {name: jwt, key: jwt.key}, username: ada, lifetime: 1000h}");
  }
  // Children as far as a person would compare them.
  std::map<std::string, std::string> children() {
    std::map<std::string, std::string> out;
    for (const kube::Resource* resource : {&kServices, &kConfigMaps, &kStatefulSets, &kDeployments, &kBudgets}) {
      for (const json::Value& one : api.list(*resource)) {
        out[resource->kind + " " + std::string(json::string_at(one, {"metadata", "name"}))] =
            std::string(json::string_at(one, {"metadata", "annotations", kStamp}));
      }
    }
    return out;
  }

  ManualLoop loop;
  testing::FakeApi api;
  testing::FakeCluster cluster;
  testing::FakeSlurm slurm;
  std::unique_ptr<net::Transport> to_api, to_rest;
  testing::SimNetwork network;
  runtime::Metrics metrics;
  int host_keys_made = 0;
  std::string serving;  // URL of the slurmctld that does
  testing::SimProcess process;
};

// A whole cluster, and a worker whose job runs for so long.
inline void start_with_busy_worker(World& w, Duration run) {
  w.slurm.model().add_partition("all", true);
  w.slurm.add_nodes("NodeName=gpu-0 CPUs=4 RealMemory=1000 Feature=gpu");
  w.process.start();
  w.whole_cluster();
  w.add(kNodeSets, "gpu", "{controllerRef: {name: slurm}, slurmd: {image: slurmd}, replicas: 1}");
  w.settle();
  slurm::JobDescription job;
  job.nodes = 1;
  w.slurm.submit(job, run, false);
  w.settle();
}

// By an administrator.
inline void drain(World& w, const std::string& node) {
  slurm::NodeUpdate change;
  change.state = "DRAIN";
  change.reason = "another key";
  ASSERT_TRUE(w.slurm.model().update_node(w.slurm.now(), node, change));
}

// Visits so far of a kind's objects, by the name of its queue.
inline std::size_t visits(World& w, const std::string& queue) {
  std::size_t sum = 0;
  const std::string text = w.metrics.text();
  const std::string head = "controller_runtime_reconcile_total{controller=\"" + queue + "\"";
  for (auto at = text.find(head); at != std::string::npos; at = text.find(head, at + 1)) {
    sum += std::stoul(text.substr(text.find("} ", at) + 2));
  }
  return sum;
}

}  // namespace bascule::op::reconcile::test
