// A random walk of the pure heart of the bridge: plan_unit and plan_pod_sync, with the mirror's and the indexes' own
// state machines, in a world of pods, nodes and a slurmctld that fail in every way we know of (unit_walk_test.hpp).
// After each step nothing may have been done that must not be; after each storm all that can run does, no job is left
// without its pods, and nothing is decided any more.
//
// UNIT_WALK_SEED: the first seed; UNIT_WALK_STEPS: how many steps together. A seed that fails is walked again, and
// told.
#include <gtest/gtest.h>

#include <array>

#include "bridge/unit_walk_pod_sync_test.hpp"
#include "bridge/unit_walk_scheduler_test.hpp"
#include "testing/from_environment.hpp"

namespace bascule::bridge::unit_walk {
namespace {

using slurm::JobState;

class Walk {
 public:
  explicit Walk(std::uint64_t seed) : world_(seed) {
    world_.mildness = std::array{1u, 3u, 10u}[seed % 3];
    world_.meanwhile = [this] { meanwhile(); };
    scheduler_ = std::make_unique<WalkScheduler>(world_);
    pod_sync_ = std::make_unique<WalkPodSync>(world_);
  }

  World& world() { return world_; }
  bool failed() const { return !world_.violations.empty(); }

  void storm(int steps) {
    world_.calm = false;
    for (int i = 0; i < steps && !failed(); ++i) {
      step();
      dead_.clear();
    }
  }

  // `end`: of all workloads.
  void settle(bool end) {
    become_calm(end);
    const TimePoint limit = world_.now + 2h;
    std::uint64_t decisions = world_.decisions;
    TimePoint quiet = world_.now;
    while (!failed()) {
      calm_step(end);
      const bool changed = std::exchange(decisions, world_.decisions) != world_.decisions;
      if (changed || waits()) quiet = world_.now;
      // Until Slurm has forgotten the jobs, too, when all is over.
      if (world_.now - quiet > (end ? 15min : 5min)) return check_rest(end);
      if (world_.now > limit) return world_.violated("no rest: " + what_is_left());
    }
  }

 private:
  // --- the storm ----------------------------------------------------------------------------------------------------
  void step() {
    const bool rests = depth_ == 0 && world_.one_in(100);
    world_.advance(1ms * world_.dice(rests ? 40'000 : depth_ == 0 && world_.one_in(10) ? 3000 : 150));
    Process& process = world_.one_in(2) ? static_cast<Process&>(*scheduler_) : *pod_sync_;
    switch (world_.dice(30)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
        return world_.one_in(world_.mildness) ? disturb() : mend();
      case 5:
        return make_loads();
      case 6:
        return remake(false);
      case 7:
      case 8:
        return live();
      case 9:
        return process.add_any();
      default:
        break;
    }
    if (world_.one_in(3)) process.look();
    while (process.hear() && !world_.one_in(8)) {
    }
    if (!world_.one_in(4)) process.work();
  }

  // While a call is on its way; a few deep.
  void meanwhile() {
    if (depth_ >= 3 || !world_.one_in(3)) return world_.advance(1ms * world_.dice(20));
    ++depth_;
    for (unsigned n = 1 + world_.dice(4); n > 0; --n) step();
    --depth_;
  }

  void disturb() {
    switch (world_.dice(5)) {
      case 0:
        return disturb_slurm();
      case 1:
        return disturb_jobs();
      case 2:
        return disturb_nodes();
      case 3:
        return disturb_process();
      default:
        return disturb_watch();
    }
  }
  void mend() {
    if (!world_.slurm_up && world_.one_in(4)) world_.start_slurm(World::Comeback::kWhole);
    if (world_.one_in(4)) world_.watches[world_.dice(2)].cut = false;
    if (world_.one_in(4)) mend_node("n" + std::to_string(1 + world_.dice(kNodes)));
  }
  void mend_node(const std::string& name) {
    world_.add_node(name);
    if (world_.slurm_up) update_node(name, "RESUME");
  }

  void disturb_slurm() {
    if (world_.slurm_up) {
      if (world_.one_in(8)) world_.stop_slurm();
      return;
    }
    const unsigned how = world_.dice(10);
    world_.start_slurm(how < 5   ? World::Comeback::kWhole
                       : how < 8 ? World::Comeback::kSaved
                       : how < 9 ? World::Comeback::kEmpty
                                 : World::Comeback::kEmptyIdsAnew);
  }

  JobId any(const std::function<bool(const slurm::Job&)>& such) {
    const std::vector<JobId> jobs = world_.jobs_that(such);
    return jobs.empty() ? JobId{} : jobs[world_.dice(static_cast<unsigned>(jobs.size()))];
  }
  // By administrators, other users and Slurm itself.
  void disturb_jobs() {
    if (!world_.slurm_up) return;
    const JobId running = any([](const slurm::Job& job) { return runs(job); });
    const JobId waiting = any([](const slurm::Job& job) { return job.states.base == JobState::kPending; });
    const JobId suspended = any([](const slurm::Job& job) { return job.states.base == JobState::kSuspended; });
    SlurmModel& model = world_.slurm.model;
    switch (world_.dice(9)) {
      case 0:
        model.end(world_.wall(), running, world_.one_in(2) ? JobState::kTimeout : JobState::kCancelled);
        break;
      case 1:
        model.end(world_.wall(), running, world_.one_in(2) ? JobState::kPreempted : JobState::kNodeFail);
        break;
      case 2:
      case 3:
        if (running) world_.requeue(running);
        break;
      case 4:
        if (running) world_.slurm.twists.at(running.value).suspended = true;
        break;
      case 5:
        if (suspended) world_.slurm.twists.at(suspended.value).suspended = false;
        break;
      case 6:
        hold(waiting, world_.one_in(2));
        break;
      case 7:
        if (waiting && world_.one_in(2)) model.end(world_.wall(), waiting, JobState::kCancelled);
        if (running && world_.one_in(6)) {
          model.fail_launch(world_.wall(), running);
          world_.slurm.twists.at(running.value).held_since = world_.now;
        }
        break;
      default:
        submit_another();
        break;
    }
    world_.observe();
  }
  void hold(JobId job, bool held) {
    // Who releases it has seen it first. Nobody does between two looks.
    if (job && !held && world_.now < world_.slurm.twists.at(job.value).held_since + 10s) return;
    slurm::JobDescription change;
    change.hold = held;
    if (job) (void)world_.slurm.model.update_job(world_.wall(), job, change);
  }
  void submit_another() {
    slurm::JobDescription asked;
    asked.partition = "p";
    asked.nodes = 1 + world_.dice(2);
    asked.exclusive = world_.one_in(2);
    try {
      world_.submit(asked, false);
    } catch (const SlurmRefused&) {
    }
  }

  void update_node(const std::string& name, std::string_view state) {
    slurm::NodeUpdate update;
    update.state = state;
    (void)world_.slurm.model.update_node(world_.wall(), name, update);
    world_.observe();
  }
  void disturb_nodes() {
    const std::string name = "n" + std::to_string(1 + world_.dice(kNodes));
    const bool there = world_.nodes.contains(name);
    switch (world_.dice(6)) {
      case 0:
        if (there && world_.one_in(3)) lose_node(name);
        break;
      case 1:
        world_.add_node(name, world_.one_in(2) ? "" : "gpu-only");
        break;
      case 2:
        world_.add_node(name);
        break;
      case 3:
        if (world_.slurm_up) update_node(name, world_.one_in(4) ? "DOWN" : "DRAIN");
        break;
      default:
        if (world_.slurm_up) update_node(name, "RESUME");
        break;
    }
  }
  // Its pods are removed by Kubernetes.
  void lose_node(const std::string& name) {
    world_.remove_node(name);
    for (const PodPtr& pod : all_pods()) {
      if (pod->node_name.view() != name) continue;
      world_.end(pod, kube::PodPhase::kFailed);
      if (const PodPtr now = world_.pod(pod->meta.key)) world_.remove(now);
    }
  }

  void disturb_process() {
    const bool scheduler = world_.one_in(2);
    if (world_.one_in(3)) return scheduler ? scheduler_->forget() : pod_sync_->forget();
    if (!world_.one_in(4)) return;
    world_.tell([&] { return std::string("killed: ") + (scheduler ? "scheduler" : "pod sync"); });
    // What it was doing notices on its way back.
    if (scheduler) {
      scheduler_->kill();
      dead_.push_back(std::exchange(scheduler_, std::make_unique<WalkScheduler>(world_)));
    } else {
      pod_sync_->kill();
      dead_.push_back(std::exchange(pod_sync_, std::make_unique<WalkPodSync>(world_)));
    }
  }
  void disturb_watch() {
    Watch& watch = world_.watches[world_.dice(2)];
    watch.cut = !watch.cut && world_.one_in(5);
  }

  // --- who uses the cluster -----------------------------------------------------------------------------------------
  std::vector<PodPtr> all_pods() const {
    std::vector<PodPtr> out;
    for (const auto& [key, pod] : world_.pods) out.push_back(pod);
    return out;
  }
  void make_loads() {
    if (world_.loads.size() >= 6) {
      auto it = world_.loads.begin();
      std::advance(it, world_.dice(static_cast<unsigned>(world_.loads.size())));
      if (world_.one_in(6)) finish(it->second);
      if (world_.one_in(6) && it->second.gang()) it->second.closed = it->second.closed.empty() ? "is closed" : "";
      return;
    }
    Load load;
    load.kind = static_cast<Load::Kind>(world_.dice(5));
    load.name = fmt::format("{}{}", "bjcwl"[static_cast<std::size_t>(load.kind)], ++loads_);
    load.size = load.kind == Load::Kind::kBare ? 1 : 1 + world_.dice(4);
    load.minimum = load.gang() ? 1 + world_.dice(load.size) : 1;
    if (load.kind == Load::Kind::kLeaderWorker) load.minimum = load.size;
    load.packed = load.gang() && world_.one_in(3);
    world_.loads.emplace(load.name, std::move(load));
  }
  void finish(Load& load) {
    load.over = true;
    for (const PodPtr& pod : all_pods()) {
      if (of(load, *pod)) world_.remove(pod);
    }
  }
  static bool of(const Load& load, const kube::Pod& pod) { return pod.meta.key.name.starts_with(load.name + "-"); }
  // Controllers make what is missing, and put away what is over.
  void remake(bool all) {
    std::erase_if(world_.loads, [this](const auto& one) {
      return one.second.over &&
             std::ranges::none_of(world_.pods, [&](const auto& pod) { return of(one.second, *pod.second); });
    });
    for (auto& [name, load] : world_.loads) {
      if (load.over) continue;
      if (load.gang()) {
        for (unsigned i = 0; i < load.size; ++i) {
          const std::string member = fmt::format("{}-{}", name, i);
          const PodPtr there = world_.pod({"ns", member});
          if (!there && (all || world_.one_in(2))) world_.add_pod(load, member);
          if (there && there->phase == kube::PodPhase::kFailed && (all || world_.one_in(4))) world_.remove(there);
        }
        continue;
      }
      unsigned living = 0;
      for (const PodPtr& pod : all_pods()) {
        if (!of(load, *pod)) continue;
        living += pod->phase == kube::PodPhase::kSucceeded || !(pod->terminal() || pod->deleting());
        const bool away = pod->phase == kube::PodPhase::kFailed || (pod->terminal() && !world_.calm);
        if (away && world_.one_in(4)) world_.remove(pod);
      }
      if (load.kind == Load::Kind::kBare && load.made > 0) {
        load.over = living == 0;
      } else if (living < load.size && (all || world_.one_in(2))) {
        world_.add_pod(load, fmt::format("{}-{}", name, load.made++));
      }
    }
  }
  // Kubelets, users, and whoever takes gates away.
  void live() {
    if (world_.pods.empty()) return;
    auto it = world_.pods.begin();
    std::advance(it, world_.dice(static_cast<unsigned>(world_.pods.size())));
    const PodPtr pod = it->second;
    if (!pod->scheduling_gates.empty()) return ungate(pod);
    if (pod->bound() && pod->phase == kube::PodPhase::kPending) {
      return world_.change(pod, [](kube::Pod& one) { one.phase = kube::PodPhase::kRunning; });
    }
    if (pod->bound() && (pod->deleting() || world_.one_in(8))) {
      return world_.end(pod, world_.one_in(3) ? kube::PodPhase::kFailed : kube::PodPhase::kSucceeded);
    }
    if (world_.one_in(12)) world_.remove(pod);
  }
  void ungate(const PodPtr& pod) {
    world_.change(pod, [](kube::Pod& one) { one.scheduling_gates.clear(); });
  }

  // --- the calm -----------------------------------------------------------------------------------------------------
  void become_calm(bool end) {
    world_.calm = true;
    if (!world_.slurm_up) world_.start_slurm(World::Comeback::kWhole);
    for (Watch& watch : world_.watches) watch.cut = false;
    for (std::size_t i = 1; i <= kNodes; ++i) mend_node("n" + std::to_string(i));
    for (auto& [id, twist] : world_.slurm.twists) twist.suspended = false;
    for (const JobId job : world_.jobs_that([](const slurm::Job& one) { return one.hold; })) hold(job, false);
    for (auto& [name, load] : world_.loads) {
      load.closed.clear();
      if (end) finish(load);
    }
    for (const PodPtr& pod : all_pods()) {
      if (!pod->scheduling_gates.empty()) ungate(pod);
    }
    world_.observe();
  }
  bool waits() const {
    return std::ranges::any_of(world_.pods,
                               [](const auto& one) { return wants_node(*one.second) || one.second->deleting(); });
  }
  // To when something is next. What runs makes room while somebody waits.
  void calm_step(bool end) {
    const TimePoint next = std::min(scheduler_->next(), pod_sync_->next());
    world_.advance(std::clamp<Duration>(next - world_.now, 1ms, 2s));
    for (Process* process : {static_cast<Process*>(scheduler_.get()), static_cast<Process*>(pod_sync_.get())}) {
      while (process->hear()) {
      }
      do {
        process->look();
      } while (process->asks());
      int rounds = 0;
      while (process->work()) {
        if (++rounds > 500) return world_.violated("decides without end at one moment");
      }
    }
    if (world_.now - lived_ < 1s) return;
    lived_ = world_.now;
    if (!end) remake(true);
    const bool crowded = waits();
    for (const PodPtr& pod : all_pods()) {
      if (!pod->bound() || pod->terminal()) continue;
      const auto seat = world_.seats.find(pod->meta.uid);
      const bool long_here = seat == world_.seats.end() || world_.now - seat->second.at > 60s;
      if (pod->deleting() || (crowded && long_here && world_.one_in(20))) {
        world_.end(pod, kube::PodPhase::kSucceeded);
      }
    }
  }

  void check_rest(bool end) {
    for (const JobId id : world_.jobs_that([](const slurm::Job& job) { return !job.states.ended(); })) {
      const std::uint32_t life = world_.slurm.twists.at(id.value).life;
      if (world_.lives.at(life).unit.empty()) continue;
      const bool used = std::ranges::any_of(world_.pods, [&](const auto& one) {
        const kube::Pod& pod = *one.second;
        return !pod.terminal() && world_.seats.contains(pod.meta.uid) && holder(pod) == life;
      });
      if (!used) world_.violated(fmt::format("job {} has no pod and is not given back", id.value));
    }
    for (const PodPtr& pod : all_pods()) {
      if (end) world_.violated("pod " + pod->meta.uid.str() + " is left");
      if (pod->bound() && !pod->terminal()) check_known(*pod);
    }
    if (end && scheduler_->remembers() + pod_sync_->remembers() > 0)
      world_.violated("units that are over are remembered");
  }
  // The job that the pod was bound by. Or one of its gang that got the id when slurmctld had lost that one, and runs
  // where it does: pinned there as a job whose start was lost, it holds the node as well.
  std::uint32_t holder(const kube::Pod& pod) const {
    const Seat& seat = world_.seats.at(pod.meta.uid);
    const JobId id = world_.lives.at(seat.life).id;
    const auto now = world_.slurm.twists.find(id.value);
    if (now == world_.slurm.twists.end() || world_.slurm.model.job(id) == nullptr) return seat.life;
    const Life& life = world_.lives.at(now->second.life);
    const bool holds = World::is_open(life) && life.unit == unit_of(pod) && life.runs.back().nodes.contains(seat.node);
    return holds ? now->second.life : seat.life;
  }
  // Its job holds its node, or it says that Slurm knows nothing of that.
  void check_known(const kube::Pod& pod) {
    const Seat& seat = world_.seats.at(pod.meta.uid);
    const Life& life = world_.lives.at(holder(pod));
    const bool holds = World::is_open(life) && life.runs.back().restarts == seat.restarts &&
                       life.runs.back().nodes.contains(seat.node);
    const bool says = std::ranges::any_of(pod.conditions, [](const auto& one) {
      return one.first == names::kSlurmJobKnown && one.second.status == "False";
    });
    if (holds == says) {
      world_.violated(fmt::format("pod {} {} its node by job {} and says {}", pod.meta.uid.str(),
                                  holds ? "holds" : "does not hold", life.id.value, says ? "otherwise" : "nothing"));
    }
  }
  std::string what_is_left() const {
    std::string text;
    for (const PodPtr& pod : all_pods()) {
      text += fmt::format("\n  pod {} on '{}' phase {} job {}{}", pod->meta.uid.str(), pod->node_name.view(),
                          static_cast<int>(pod->phase), label_of(*pod).value, pod->deleting() ? " deleting" : "");
    }
    for (const auto& [id, record] : world_.slurm.model.jobs()) {
      const slurm::Job job = world_.view_of(record);
      if (job.states.ended()) continue;
      text += fmt::format("\n  job {} {} on '{}' {}{} excludes '{}' of {}", id, slurm::print(job.states), job.nodes,
                          job.state_reason, job.hold ? " held" : "", job.excluded_nodes,
                          world_.lives.at(world_.slurm.twists.at(id).life).unit.str());
    }
    return text;
  }

  World world_;
  std::unique_ptr<WalkScheduler> scheduler_;
  std::unique_ptr<WalkPodSync> pod_sync_;
  std::vector<std::unique_ptr<Process>> dead_;
  int depth_ = 0;
  unsigned loads_ = 0;
  TimePoint lived_{};
};

struct Sum {
  std::uint64_t steps = 0, decisions = 0, bound = 0, jobs = 0;
};

// Three storms, each with its calm.
bool walk(std::uint64_t seed, bool telling, Sum& sum) {
  Walk walk(seed);
  World& world = walk.world();
  world.telling = telling;
  for (int i = 0; i < 3 && !walk.failed(); ++i) {
    walk.storm(1000);
    if (!walk.failed()) walk.settle(i == 2);
  }
  sum.steps += world.steps;
  sum.decisions += world.decisions;
  sum.bound += world.bound;
  sum.jobs += world.last_life;
  if (telling) {
    std::string text;
    for (const std::string& line : world.story) text += line + "\n";
    for (const std::string& line : world.violations) text += line + "\n";
    ADD_FAILURE() << "UNIT_WALK_SEED=" << seed << "\n" << text;
  }
  return !walk.failed();
}

TEST(UnitWalk, KeepsItsPromisesAndComesToRest) {
  const std::uint64_t first = bascule::testing::from_environment("UNIT_WALK_SEED", 1);
  const std::uint64_t steps = bascule::testing::from_environment("UNIT_WALK_STEPS", 800'000);
  Sum sum;
  std::uint64_t seed = first;
  for (; sum.steps < steps; ++seed) {
    if (walk(seed, false, sum)) continue;
    Sum again;
    walk(seed, true, again);
    break;
  }
  fmt::print("seeds {} to {}: {} steps, {} decisions, {} jobs, {} pods bound\n", first, seed - 1, sum.steps,
             sum.decisions, sum.jobs, sum.bound);
  EXPECT_GT(sum.bound, steps / 1000);
}

}  // namespace
}  // namespace bascule::bridge::unit_walk
