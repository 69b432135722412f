// One pass over a NodeSet at rest, and one in which every pod is out of date.
#include "operator/nodeset/plan.hpp"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "operator/nodeset/pod_plan.hpp"
#include "operator/nodeset/records.hpp"
#include "operator/nodeset/revisions.hpp"
#include "operator/nodeset/slurm_node.hpp"

namespace bascule::op::nodeset {
namespace {

State make(int pods) {
  State state;
  state.spec.ns = "slurm";
  state.spec.name = "foo";
  state.spec.uid = Uid("u");
  state.spec.replicas = pods;
  state.spec.has_drain_finalizer = true;
  state.controller = Presence::kPresent;
  state.nodes_known = state.slurm.known = true;
  state.template_data = "template";
  const std::string hash = revision_hash("template", 0);
  RevisionView revision;
  revision.name = revision_name("foo", hash);
  revision.hash_label = hash;
  revision.data = "template";
  state.revisions = {revision};
  for (int i = 0; i < pods; ++i) {
    PodView pod;
    pod.name = pod.hostname = fmt::format("foo-{}", i);
    pod.name_label = pod.hostname_label = pod.name;
    pod.index_label = std::to_string(i);
    pod.mode_label = "StatefulSet";
    pod.hash_label = hash;
    pod.uid = Uid(pod.name);
    pod.node = fmt::format("k{}", i);
    pod.phase = PodPhase::kRunning;
    pod.ready = true;
    state.nodes[pod.node].name = pod.node;
    SlurmNodeView& node = state.slurm.nodes[pod.name];
    node.name = pod.name;
    node.states.base = slurm::NodeState::kIdle;
    node.comment = print_record(record_of(state.spec, pod));
    pod.slurm_conditions = conditions_of(node);
    state.pods.push_back(std::move(pod));
  }
  return state;
}

void plan(benchmark::State& bench, const char* text) {
  State state = make(static_cast<int>(bench.range(0)));
  state.template_data = text;
  Memory memory;
  std::size_t actions = 0;
  for (auto _ : bench) actions = plan_nodeset(state, memory, WallTime(std::chrono::hours(500'000))).actions.size();
  bench.counters["actions"] = static_cast<double>(actions);
}
BENCHMARK_CAPTURE(plan, at_rest, "template")->Arg(100)->Arg(1000)->Arg(5000)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(plan, update, "another")->Arg(100)->Arg(1000)->Arg(5000)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace bascule::op::nodeset
