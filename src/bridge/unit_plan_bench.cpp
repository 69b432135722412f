// The scheduler's decisions, without the driver: as many units as wait, beside a table of 5,000 nodes. After every
// thousand decisions a node changes, so that each class of pods looks at all nodes anew: the share of that in a
// decision is the same however many wait, and a decision should cost the same too.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <array>

#include "bridge/names.hpp"
#include "bridge/node_table.hpp"
#include "bridge/unit_index.hpp"
#include "bridge/unit_plan.hpp"

namespace bascule::bridge {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kNodes = 5'000;
constexpr std::size_t kRack = 40;
constexpr std::size_t kChangeEvery = 1'000;  // decisions
constexpr std::array<const char*, 4> kCpus{"500m", "1", "4", "16"};

struct Cluster {
  Cluster() {
    config.partition = "main";
    slurm.synced = slurm.nodes_synced = slurm.reachable = true;
    slurm.full_as_of = now;
    for (std::size_t i = 0; i < kNodes; ++i) add_node(i);
  }

  std::shared_ptr<const kube::Node> node(std::size_t i, std::string_view how) {
    auto out = std::make_shared<kube::Node>();
    const std::string name = fmt::format("node-{:05}", i);
    out->meta.key = {"", name};
    out->meta.uid = Uid("uid-" + name);
    out->meta.labels = {{strings("bench/mood"), strings(how)},
                        {strings("kubernetes.io/arch"), strings("amd64")},
                        {strings("kubernetes.io/hostname"), strings(name)},
                        {strings("kubernetes.io/os"), strings("linux")},
                        {strings("node.kubernetes.io/instance-type"), strings(i % 2 == 0 ? "large" : "small")},
                        {strings("pool"), strings(i / kRack % 3 == 0 ? "gpu" : "cpu")},
                        {strings("topology.kubernetes.io/zone"), strings(fmt::format("zone-{}", i / 1000))}};
    out->taints = {{strings(names::kManagedNodeTaint), strings("bridge"), strings("NoExecute")}};
    out->allocatable = {{strings("cpu"), *Quantity::parse("64")},
                        {strings("memory"), *Quantity::parse("256Gi")},
                        {strings("pods"), Quantity(110)}};
    return out;
  }
  void add_node(std::size_t i) {
    auto record = std::make_shared<slurm::Node>();
    record->name = fmt::format("node-{:05}", i);
    record->partitions = {"all", "main"};
    nodes.on_slurm_node(nullptr, record);
    some_node = node(i, "calm");
    nodes.on_node(nullptr, some_node);
  }
  // One node changes so that every answer about nodes has to be found again.
  void change_a_node() {
    mood = mood == "calm" ? "wild" : "calm";
    const auto next = node(kNodes - 1, mood);
    nodes.on_node(some_node, next);
    some_node = next;
  }

  // A third has no wish, a third a node selector, a third a required affinity.
  PodPtr pod(std::size_t i) {
    auto out = std::make_shared<kube::Pod>();
    out->meta.key = {fmt::format("team-{}", i % 40), fmt::format("trainer-{:06}", i)};
    out->meta.uid = Uid(fmt::format("{:08x}-5f0c-4000-8000-{:012x}", i, i));
    out->scheduler_name = strings("bridge");
    out->phase = kube::PodPhase::kPending;
    out->requests = {{strings("cpu"), *Quantity::parse(kCpus[i / 3 % kCpus.size()])},
                     {strings("memory"), *Quantity::parse("4Gi")}};
    out->tolerations = {{strings(names::kManagedNodeTaint), strings("bridge"), strings("NoExecute"), false}};
    if (i % 3 == 1)
      out->node_selector = {{strings("topology.kubernetes.io/zone"), strings(fmt::format("zone-{}", i / 12 % 5))}};
    if (i % 3 == 2)
      out->required_node_affinity = strings(R"({"nodeSelectorTerms":[{"matchExpressions":[
          {"key":"pool","operator":"In","values":["gpu","big"]},
          {"key":"kubernetes.io/arch","operator":"In","values":["amd64"]},
          {"key":"topology.kubernetes.io/zone","operator":"NotIn","values":["zone-4"]}]}]})");
    return out;
  }

  UnitPlan plan(const UnitView& view, UnitMemory& memory) {
    return plan_unit(config, self, view, slurm, nodes, memory, now, wall);
  }

  json::Interner strings;
  Config config;
  Identity self{"bridge", "c0ffee00-1111-2222-3333-444455556666"};
  SlurmView slurm;
  NodeTable nodes;
  NodePtr some_node;  // the last one
  std::string mood = "calm";
  TimePoint now{1h};
  WallTime wall{std::chrono::sys_days{std::chrono::year{2026} / 1 / 1}};
};

struct Unit {
  Uid uid;
  Root root;
  UnitMemory memory;
};

// Every other unit has a job that waits in Slurm, described as it would be now; the rest have none yet.
class Units final {
 public:
  Units(Cluster& cluster, std::size_t count) : cluster_(cluster), index_(cluster.self, [](const Uid&) {}) {
    for (std::size_t i = 0; i < count; ++i) {
      const PodPtr pod = cluster.pod(i);
      index_.on_pod(nullptr, pod);
      Unit& unit = units_.emplace_back();
      unit.uid = unit_of(*pod);
      unit.root.key = pod->meta.key;
      unit.root.uid = pod->meta.uid;
      unit.root.annotations = {{cluster.strings("slurmjob.slinky.slurm.net/timelimit"), cluster.strings("60")}};
      if (i % 2 == 0) submit(unit, JobId{static_cast<std::uint32_t>(i + 1)});
    }
  }

  UnitView view(const Unit& unit) const {
    UnitView out;
    out.uid = unit.uid;
    out.pods = index_.pods(unit.uid);
    out.root = unit.root;
    out.jobs = index_.jobs(unit.uid, [this](JobId id) { return std::pair(jobs_.at(id), cluster_.now); });
    return out;
  }
  std::vector<Unit>& all() { return units_; }

 private:
  void submit(Unit& unit, JobId id) {
    const UnitPlan plan = cluster_.plan(view(unit), unit.memory);
    auto job = std::make_shared<slurm::Job>();
    job->id = id;
    job->admin_comment = *plan.submit->admin_comment;
    job->states.base = slurm::JobState::kPending;
    job->state_reason = "Resources";
    job->partition = "main";
    jobs_.emplace(id, job);
    index_.on_job({nullptr, job});
  }

  Cluster& cluster_;
  UnitIndex index_;
  std::unordered_map<JobId, std::shared_ptr<const slurm::Job>> jobs_;
  std::vector<Unit> units_;
};

// One iteration plans kChangeEvery units, going round those that wait.
void scheduler_decide(benchmark::State& state) {
  Cluster cluster;
  Units units(cluster, static_cast<std::size_t>(state.range(0)));
  std::size_t next = 0;
  std::size_t submits = 0;
  std::size_t updates = 0;
  for ([[maybe_unused]] const auto _ : state) {
    cluster.change_a_node();
    for (std::size_t i = 0; i < kChangeEvery; ++i) {
      Unit& unit = units.all()[next];
      next = (next + 1) % units.all().size();
      const UnitPlan plan = cluster.plan(units.view(unit), unit.memory);
      submits += plan.submit ? 1 : 0;
      updates += plan.update ? 1 : 0;
    }
  }
  const std::size_t decisions = static_cast<std::size_t>(state.iterations()) * kChangeEvery;
  if (submits != decisions / 2 || updates != 0) return state.SkipWithError("not the decisions that were meant");
  state.counters["decisions_per_s"] = benchmark::Counter(static_cast<double>(decisions), benchmark::Counter::kIsRate);
}
BENCHMARK(scheduler_decide)->ArgName("waiting")->Arg(100)->Arg(1'000)->Arg(10'000)->Unit(benchmark::kMillisecond);

// One class of pods against all nodes.
void scheduler_look(benchmark::State& state) {
  Cluster cluster;
  const std::vector<PodPtr> pods{cluster.pod(static_cast<std::size_t>(state.range(0)))};
  for ([[maybe_unused]] const auto _ : state) {
    cluster.change_a_node();
    benchmark::DoNotOptimize(cluster.nodes.candidates(pods, "main").usable);
  }
}
BENCHMARK(scheduler_look)->ArgName("kind")->DenseRange(0, 2)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace bascule::bridge
