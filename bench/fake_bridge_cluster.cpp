// What the bridge works between in its benchmark of a flow of Jobs, in a process of its own: an API server over TLS
// with kubelets and a Job controller, and a slurmrestd; all of them the fakes of src/testing, by the real clock.
//
//   fake_bridge_cluster --kubeconfig FILE --nodes N
//
// Prints "ready SLURM_PORT" and serves until SIGTERM. Besides the API's paths it answers, as JSON,
//   GET /bench/state        nodes (of Slurm), pods, bound (pods that were given a node, so far), complete (Jobs), live
//                           (jobs in Slurm that have not ended), writes (through HTTP, so far), calls (of slurmrestd)
//   GET /bench/jobs?NUMBER  makes so many Jobs of one pod
//   GET /bench/gang?NUMBER  makes a PodGroup and a Job of so many pods that must start together
#include <fmt/format.h>

#include <iostream>
#include <string_view>

#include "serve.hpp"
#include "testing/fake_api.hpp"
#include "testing/fake_cluster.hpp"
#include "testing/fake_slurm.hpp"
#include "testing/objects.hpp"

namespace bascule {
namespace {

using namespace std::chrono_literals;
namespace r = kube::resources;
const kube::Resource kPodGroups{"scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", true};

class World final {
 public:
  World(net::IoLoop& loop, int nodes)
      : api_(loop),
        cluster_(api_, {.tick = 200ms, .pod_start = 200ms, .pod_run = 1s, .pod_stop = 200ms}),
        slurm_(loop) {
    api_.add_resource(kPodGroups);
    slurm_.model().add_partition("slurm-bridge", true);
    for (int i = 0; i < nodes; ++i) {
      const std::string name = fmt::format("n{}", i);
      api_.create(r::kNodes, testing::make_node({.name = name}));
      slurm_.add_nodes(fmt::format("NodeName={} NodeAddr=127.0.0.1 State=External CPUs=8 RealMemory=32000", name));
    }
    api_.store().on_event = [this](const testing::ApiTable& table, const testing::ApiEvent& event) {
      if (event.removed || table.resource.name.resource != "pods") return;
      const auto has_node = [](const testing::ObjectPtr& pod) {
        return pod && !json::string_at(pod->value, {"spec", "nodeName"}).empty();
      };
      if (has_node(event.after) && !has_node(event.before)) ++bound_;
    };
    cluster_.start();
  }

  net::Handler slurm() { return slurm_.handler(); }

  Task<net::ServerResponse> serve(const net::ServerRequest& request, std::stop_token stop) {
    const net::Target target = net::parse_target(request.target);
    if (target.path == "/bench/state") co_return testing::json_response(200, state());
    const bool gang = target.path == "/bench/gang";
    if (gang || target.path == "/bench/jobs") {
      const int count = bench::number(request.target.substr(request.target.find('?') + 1));
      gang ? make_gang(count) : make_jobs(count);
      co_return testing::json_response(200, "{}");
    }
    co_return co_await api_.handler()(request, std::move(stop));
  }

 private:
  static json::Value pod_template(json::Object labels = {}) {
    json::Value pod =
        testing::make_pod({.name = "x", .ns = "slurm-bridge", .scheduler = "slurm-bridge-scheduler", .cpu = "1"});
    // As the webhook does.
    json::at_or_create(pod, {"spec", "tolerations"}) = json::Array{json::Object{{"operator", "Exists"}}};
    return json::Object{{"metadata", json::Object{{"labels", std::move(labels)}}},
                        {"spec", *json::find(pod, {"spec"})}};
  }

  void make_jobs(int count) {
    for (int i = 0; i < count; ++i) {
      api_.create(r::kJobs, testing::make_job(
                                {.name = fmt::format("job{}", made_++), .ns = "slurm-bridge", .pod = pod_template()}));
    }
  }

  void make_gang(int count) {
    const std::string name = fmt::format("gang{}", made_++);
    api_.create(kPodGroups, json::Object{{"apiVersion", kPodGroups.api_version()},
                                         {"kind", "PodGroup"},
                                         {"metadata", json::Object{{"name", name}, {"namespace", "slurm-bridge"}}},
                                         {"spec", json::Object{{"minMember", count}}}});
    json::Value pod = pod_template({{"scheduling.x-k8s.io/pod-group", name}});
    api_.create(r::kJobs,
                testing::make_job({.name = name, .ns = "slurm-bridge", .parallelism = count, .pod = std::move(pod)}));
  }

  std::string state() {
    std::size_t complete = 0, live = 0;
    for (const testing::ObjectPtr& job : api_.store().table(r::kJobs).list("")) {
      complete += json::int_at(job->value, {"status", "succeeded"}).value_or(0) ==
                  json::int_at(job->value, {"spec", "completions"}).value_or(1);
    }
    for (const auto& [id, job] : slurm_.model().jobs()) live += !job.view.states.ended();
    return fmt::format(R"({{"nodes":{},"pods":{},"bound":{},"complete":{},"live":{},"writes":{},"calls":{}}})",
                       slurm_.model().nodes().size(), api_.count(r::kPods), bound_, complete, live, api_.write_calls(),
                       slurm_.all_calls());
  }

  testing::FakeApi api_;
  testing::FakeCluster cluster_;
  testing::FakeSlurm slurm_;
  std::size_t bound_ = 0;
  int made_ = 0;
};

[[noreturn]] void run(const std::string& kubeconfig, int nodes) {
  net::IoLoop loop;
  bench::serve_cluster(loop, kubeconfig, *new World(loop, nodes));
}

}  // namespace
}  // namespace bascule

int main(int argc, char** argv) {
  std::string kubeconfig;
  int nodes = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view flag = argv[i];
    if (flag == "--kubeconfig") kubeconfig = argv[i + 1];
    if (flag == "--nodes") nodes = bascule::bench::number(argv[i + 1]);
  }
  if (kubeconfig.empty() || nodes <= 0) {
    std::cerr << "usage: fake_bridge_cluster --kubeconfig FILE --nodes N\n";
    return 2;
  }
  bascule::run(kubeconfig, nodes);
}
