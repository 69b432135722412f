// What the operator works between in its benchmark of scale, in a process of its own: an API server over TLS with
// kubelets, a scheduler for worker pods, slurmds that register, and a slurmrestd; all of them the fakes of src/testing,
// by the real clock. It begins with a Controller, a RestApi, as many nodes as pods, and NodeSets of equal size without
// a pod: who works on them is the client.
//
//   fake_operator_cluster --kubeconfig FILE --sets N --each M
//
// Prints "ready SLURM_PORT" and serves until SIGTERM. Besides the API's paths it answers, as JSON,
//   GET /bench/state   pods, available (the sum of what the NodeSets' status says), writes (through HTTP, so far)
//   GET /bench/change  asks for one pod more of one NodeSet, and answers when the pod is there: us
#include <fmt/format.h>

#include <iostream>
#include <string_view>
#include <vector>

#include "base/base64.hpp"
#include "json/yaml.hpp"
#include "operator/api/resources.hpp"
#include "serve.hpp"
#include "testing/fake_api.hpp"
#include "testing/fake_cluster.hpp"
#include "testing/fake_slurm.hpp"
#include "testing/objects.hpp"

namespace bascule {
namespace {

using namespace std::chrono_literals;
namespace r = kube::resources;

struct Flags {
  std::string kubeconfig;
  int sets = 0;
  int each = 0;
};

class World final {
 public:
  World(net::IoLoop& loop, const Flags& flags)
      : loop_(loop),
        flags_(flags),
        api_(loop),
        cluster_(api_, {.tick = 500ms, .pod_start = 1s, .pod_run = 100'000h, .pod_stop = 1s}),
        slurm_(loop) {
    for (const kube::Resource* resource :
         {&op::kControllers, &op::kAccountings, &op::kRestApis, &op::kLoginSets, &op::kNodeSets, &op::kTokens}) {
      api_.add_resource(*resource, true, true);
    }
    slurm_.model().add_partition("all", true);
    secret("slurm-key", "slurm.key");
    secret("jwt-key", "jwt.key");
    custom(op::kControllers, "slurm",
           "{slurmKeyRef: {name: slurm-key, key: slurm.key}, jwtKeyRef: {name: jwt-key, key: jwt.key}, "
           "slurmctld: {image: 'slurmctld:26.05'}}");
    custom(op::kRestApis, "slurm", "{controllerRef: {name: slurm}, slurmrestd: {image: 'slurmrestd:26.05'}}");
    // Spare ones for the pods that changes add.
    for (int i = 0; i < flags.sets * flags.each + 100; ++i) {
      api_.create(r::kNodes, testing::make_node({.name = fmt::format("k{}", i)}));
    }
    api_.store().on_event = [this](const testing::ApiTable& table, const testing::ApiEvent& event) {
      const std::string& name = table.resource.name.resource;
      if (!event.removed && name == "pods") changed_pods_.push_back(event.after);
      if (!event.removed && (name == "statefulsets" || name == "deployments")) workloads_changed_ = true;
    };
    for (int i = 0; i < flags.sets; ++i) {
      custom(op::kNodeSets, fmt::format("set{}", i),
             fmt::format("{{controllerRef: {{name: slurm}}, replicas: {}, slurmd: {{image: 'slurmd:26.05'}}}}",
                         flags.each));
    }
    cluster_.start();
    arm();
  }

  net::Handler slurm() { return slurm_.handler(); }

  Task<net::ServerResponse> serve(const net::ServerRequest& request, std::stop_token stop) {
    const net::Target target = net::parse_target(request.target);
    if (target.path == "/bench/state") co_return testing::json_response(200, state());
    if (target.path == "/bench/change") co_return co_await change(stop);
    co_return co_await api_.handler()(request, std::move(stop));
  }

 private:
  void custom(const kube::Resource& resource, const std::string& name, std::string_view spec) {
    api_.create(resource, json::Object{{"apiVersion", resource.api_version()},
                                       {"kind", resource.kind},
                                       {"metadata", json::Object{{"name", name}, {"namespace", "slurm"}}},
                                       {"spec", json::parse_yaml(spec)}});
  }
  void secret(const std::string& name, const std::string& key) {
    api_.create(r::kSecrets, json::Object{{"apiVersion", "v1"},
                                          {"kind", "Secret"},
                                          {"metadata", json::Object{{"name", name}, {"namespace", "slurm"}}},
                                          {"data", json::Object{{key, base64_encode("a key of " + name)}}}});
  }

  // --- what others do in a cluster -----------------------------------------------------------------------------------

  void arm() {
    loop_.call_at(loop_.now() + 100ms, [this] {
      for (const testing::ObjectPtr& pod : std::exchange(changed_pods_, {})) look_at(pod->value);
      if (std::exchange(workloads_changed_, false)) run_workloads();
      arm();
    });
  }

  void look_at(const json::Value& pod) {
    const std::string name(json::string_at(pod, {"metadata", "name"}));
    testing::ApiTable& pods = api_.store().table(r::kPods);
    const testing::ObjectPtr now = pods.find("slurm", name);
    if (!now) return;
    if (json::string_at(now->value, {"spec", "nodeName"}).empty()) {
      testing::ApiWriter& writer = api_.writer();
      const json::Value binding = testing::make_binding(name, fmt::format("k{}", next_node_++));
      writer.commit(writer.bind(pods, "slurm", name, binding, {.manager = "scheduler"}));
    } else if (json::string_at(now->value, {"status", "phase"}) == "Running") {
      const std::string node(json::string_at(now->value, {"spec", "hostname"}));
      if (slurm_.model().node(node) != nullptr) return;
      const std::string conf =
          fmt::format("NodeName={} NodeAddr={} State=CLOUD CPUs=4 RealMemory=1000 Feature=base", node, node);
      (void)slurm_.model().add_node(slurm_.now(), conf, true);
    }
  }

  // The controllers of workloads: pods are as wanted at once.
  void run_workloads() {
    for (const kube::Resource* resource : {&op::kStatefulSets, &op::kDeployments}) {
      for (const json::Value& one : api_.list(*resource)) {
        const std::int64_t replicas = json::int_at(one, {"spec", "replicas"}).value_or(1);
        const std::int64_t generation = json::int_at(one, {"metadata", "generation"}).value_or(0);
        api_.patch(*resource,
                   {std::string(json::string_at(one, {"metadata", "namespace"})),
                    std::string(json::string_at(one, {"metadata", "name"}))},
                   json::Object{{"status", json::Object{{"observedGeneration", generation},
                                                        {"replicas", replicas},
                                                        {"readyReplicas", replicas},
                                                        {"updatedReplicas", replicas}}}},
                   "status");
      }
    }
  }

  // --- what the benchmark asks ---------------------------------------------------------------------------------------

  std::string state() {
    std::int64_t available = 0;
    for (const testing::ObjectPtr& set : api_.store().table(op::kNodeSets).list("")) {
      available += json::int_at(set->value, {"status", "availableReplicas"}).value_or(0);
    }
    return fmt::format(R"({{"pods":{},"available":{},"writes":{}}})", api_.count(r::kPods), available,
                       api_.write_calls());
  }

  Task<net::ServerResponse> change(std::stop_token stop) {
    const std::size_t before = api_.count(r::kPods);
    const TimePoint start = loop_.now();
    const json::Value more =
        json::Object{{"spec", json::Object{{"replicas", static_cast<std::int64_t>(flags_.each + ++changes_)}}}};
    api_.patch(op::kNodeSets, {"slurm", "set0"}, more);
    while (api_.count(r::kPods) == before && loop_.now() - start < 60s) {
      co_await api_.store().table(r::kPods).news.wait(stop, start + 60s);
      if (stop.stop_requested()) break;
    }
    const auto took = std::chrono::duration_cast<std::chrono::microseconds>(loop_.now() - start).count();
    co_return testing::json_response(200, fmt::format(R"({{"us":{}}})", took));
  }

  net::IoLoop& loop_;
  const Flags& flags_;
  testing::FakeApi api_;
  testing::FakeCluster cluster_;
  testing::FakeSlurm slurm_;
  std::vector<testing::ObjectPtr> changed_pods_;
  bool workloads_changed_ = false;
  int next_node_ = 0;
  int changes_ = 0;
};

[[noreturn]] void run(const Flags& flags) {
  net::IoLoop loop;
  bench::serve_cluster(loop, flags.kubeconfig, *new World(loop, flags));
}

}  // namespace
}  // namespace bascule

int main(int argc, char** argv) {
  bascule::Flags flags;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view flag = argv[i];
    if (flag == "--kubeconfig") flags.kubeconfig = argv[i + 1];
    if (flag == "--sets") flags.sets = bascule::bench::number(argv[i + 1]);
    if (flag == "--each") flags.each = bascule::bench::number(argv[i + 1]);
  }
  if (flags.kubeconfig.empty() || flags.sets <= 0 || flags.each <= 0) {
    std::cerr << "usage: fake_operator_cluster --kubeconfig FILE --sets N --each M\n";
    return 2;
  }
  bascule::run(flags);
}
