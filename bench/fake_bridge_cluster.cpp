// What the bridge works between in its benchmarks of flow and scale, in a process of its own: an API server over TLS
// with kubelets and a Job controller, and a slurmrestd; all of them the fakes of src/testing, by the real clock.
//
//   fake_bridge_cluster --kubeconfig FILE --nodes N [--join 1] [--tick MS]
//
// --join: the nodes are not in Slurm, and bear the label by which the bridge brings them in. --tick: how often kubelets
// and controllers look, which takes a while where there are ten thousands of pods.
// Prints "ready SLURM_PORT" and serves until SIGTERM. Besides the API's paths it answers, as JSON,
//   GET /bench/state           nodes (of Slurm), pods, bound (pods that were given a node, so far), complete (Jobs),
//                              live (jobs in Slurm that have not ended), writes (through HTTP, so far), calls (of
//                              slurmrestd), and of these tables (of jobs), looks (at their states) and asks (about one)
//   GET /bench/jobs?NUMBER     makes so many Jobs of one pod, which runs for a second
//   GET /bench/endless?NUMBER  ... which runs until it is deleted
//   GET /bench/waiting?NUMBER  ... which waits for a partition that is down
//   GET /bench/others?NUMBER   makes so many pods of another scheduler, which run
//   GET /bench/gang?NUMBER     makes a PodGroup and a Job of so many pods that must start together
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

struct Flags {
  std::string kubeconfig;
  int nodes = 0;
  bool join = false;
  int tick = 200;
};

class World final {
 public:
  World(net::IoLoop& loop, const Flags& flags)
      : nodes_(flags.nodes),
        api_(loop),
        cluster_(api_,
                 {.tick = std::chrono::milliseconds(flags.tick), .pod_start = 200ms, .pod_run = 1s, .pod_stop = 200ms}),
        slurm_(loop, {.unread = unread()}) {
    api_.add_resource(kPodGroups);
    slurm_.model().add_partition("slurm-bridge", true);
    slurm_.model().add_partition("closed", false);
    slurm_.model().set_partition_up(slurm_.now(), "closed", false);
    for (int i = 0; i < flags.nodes; ++i) {
      const std::string name = fmt::format("n{}", i);
      json::Object labels;
      if (flags.join) labels["scheduler.slinky.slurm.net/external-node"] = "true";
      api_.create(r::kNodes, testing::make_node({.name = name, .labels = std::move(labels)}));
      if (flags.join) continue;
      slurm_.add_nodes(fmt::format("NodeName={} NodeAddr=127.0.0.1 State=External CPUs=8 RealMemory=32000", name));
    }
    api_.store().on_event = [this](const testing::ApiTable& table, const testing::ApiEvent& event) {
      if (event.removed) return;
      const auto became = [&event](bool (*is)(const json::Value&)) {
        return event.before && is(event.after->value) && !is(event.before->value);
      };
      if (table.resource.name.resource == "pods") bound_ += became(has_node);
      if (table.resource.name.resource == "jobs") complete_ += became(is_complete);
    };
    cluster_.start();
  }

  net::Handler slurm() { return slurm_.handler(); }

  Task<net::ServerResponse> serve(const net::ServerRequest& request, std::stop_token stop) {
    const net::Target target = net::parse_target(request.target);
    if (target.path == "/bench/state") co_return testing::json_response(200, state());
    if (target.path.starts_with("/bench/")) {
      make(target.path.substr(7), bench::number(request.target.substr(request.target.find('?') + 1)));
      co_return testing::json_response(200, "{}");
    }
    co_return co_await api_.handler()(request, std::move(stop));
  }

 private:
  // What slurmrestd says of a job besides, to its size of about 4.9 KB.
  static std::string unread() {
    std::string fields;
    for (int i = 0; i < 80; ++i) {
      fields += fmt::format(R"(,"unread_{}":{{"set":true,"infinite":false,"number":{}}})", i, i);
    }
    return fields;
  }
  static bool has_node(const json::Value& pod) { return !json::string_at(pod, {"spec", "nodeName"}).empty(); }
  static bool is_complete(const json::Value& job) {
    return json::int_at(job, {"status", "succeeded"}).value_or(0) ==
           json::int_at(job, {"spec", "completions"}).value_or(1);
  }

  static json::Value pod_template(json::Object labels = {}, json::Object annotations = {}) {
    json::Value pod =
        // One CPU to Slurm, and room on the node for others' pods, of which Slurm does not know.
        testing::make_pod({.name = "x", .ns = "slurm-bridge", .scheduler = "slurm-bridge-scheduler", .cpu = "500m"});
    tolerate_all(pod);  // as the webhook does
    return json::Object{
        {"metadata", json::Object{{"labels", std::move(labels)}, {"annotations", std::move(annotations)}}},
        {"spec", *json::find(pod, {"spec"})}};
  }
  static void tolerate_all(json::Value& pod) {
    json::at_or_create(pod, {"spec", "tolerations"}) = json::Array{json::Object{{"operator", "Exists"}}};
  }

  void make(std::string_view what, int count) {
    if (what == "gang") return make_gang(count);
    if (what == "others") return make_others(count);
    json::Object of_job, of_pod;
    if (what == "waiting") of_job["slurmjob.slinky.slurm.net/partition"] = "closed";
    if (what == "endless") {  // eight on a node
      of_job["slurmjob.slinky.slurm.net/exclusive"] = "false";
      of_pod["fake/run-for"] = "forever";
    }
    for (int i = 0; i < count; ++i) {
      const std::string name = fmt::format("job{}", made_++);
      // As the Job controller writes them, which make a good part of a pod in a cache.
      const std::string uid = fmt::format("5f0c7a52-3d4e-4b8c-9a61-{:012}", made_);
      json::Object labels{{"batch.kubernetes.io/job-name", name},
                          {"batch.kubernetes.io/controller-uid", uid},
                          {"job-name", name},
                          {"controller-uid", uid}};
      api_.create(r::kJobs, testing::make_job({.name = name,
                                               .ns = "slurm-bridge",
                                               .annotations = of_job,
                                               .pod = pod_template(std::move(labels), of_pod)}));
    }
  }

  void make_others(int count) {
    for (int i = 0; i < count; ++i) {
      json::Value pod = testing::make_pod({.name = fmt::format("other{}", made_++),
                                           .ns = "kube-system",
                                           .node = fmt::format("n{}", i % nodes_),
                                           .annotations = {{"fake/run-for", "forever"}}});
      tolerate_all(pod);
      api_.create(r::kPods, std::move(pod));
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
    std::size_t live = 0;
    for (const auto& [id, job] : slurm_.model().jobs()) live += !job.view.states.ended();
    return fmt::format(
        R"({{"nodes":{},"pods":{},"bound":{},"complete":{},"live":{},"writes":{},"calls":{},"tables":{},"looks":{},"asks":{}}})",
        slurm_.model().nodes().size(), api_.count(r::kPods), bound_, complete_, live, api_.write_calls(),
        slurm_.all_calls(), slurm_.calls("GET jobs"), slurm_.calls("GET jobs/state"), slurm_.calls("GET job"));
  }

  const int nodes_;
  testing::FakeApi api_;
  testing::FakeCluster cluster_;
  testing::FakeSlurm slurm_;
  std::size_t bound_ = 0, complete_ = 0;
  int made_ = 0;
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
    if (flag == "--nodes") flags.nodes = bascule::bench::number(argv[i + 1]);
    if (flag == "--join") flags.join = bascule::bench::number(argv[i + 1]) != 0;
    if (flag == "--tick") flags.tick = bascule::bench::number(argv[i + 1]);
  }
  if (flags.kubeconfig.empty() || flags.nodes <= 0 || flags.tick <= 0) {
    std::cerr << "usage: fake_bridge_cluster --kubeconfig FILE --nodes N [--join 1] [--tick MS]\n";
    return 2;
  }
  bascule::run(flags);
}
