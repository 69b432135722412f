// NodeSets in a storm: users change their minds, administrators drain, jobs flow, slurmctld goes away, the operator is
// refused, left without answers and killed between any two actions. Promises are checked at every step; after every
// storm the NodeSet must come to rest as its spec says, with no action left.
#include <gtest/gtest.h>

#include "base/time.hpp"
#include "operator/nodeset/records.hpp"
#include "operator/nodeset/sim_operator.hpp"
#include "testing/from_environment.hpp"

namespace bascule::op::nodeset {
namespace {

using namespace sim;

struct Storm {
  bool daemon = false;
  bool change_mode = false;
  bool lose_state = false;
  bool outages = true;
  bool schedule = false;
  bool refuse = false;
};

void change_spec(World& world, const Storm& storm) {
  Spec& spec = world.spec;
  const std::array<IntOrPercent, 6> limits{{{1, false}, {2, false}, {3, false}, {25, true}, {50, true}, {100, true}}};
  switch (world.pick(0, 9)) {
    case 0:
    case 1:
    case 2:
      spec.replicas = world.pick(0, 7);
      break;
    case 3:
    case 4:
      world.template_version = world.pick(1, 4);
      world.own_version = world.pick(1, 4);
      break;
    case 5:
      spec.max_unavailable = limits[static_cast<std::size_t>(world.pick(0, 5))];
      break;
    case 6:
      spec.update = world.chance(0.7) ? UpdateType::kRollingUpdate : UpdateType::kOnDelete;
      if (storm.schedule && world.chance(0.5)) {
        spec.update = UpdateType::kScheduledUpdate;
        spec.scheduled = ScheduledUpdate{world.now + std::chrono::minutes(world.pick(-5, 20)), 10min, {}};
      }
      break;
    case 7:
      spec.when_scaled = world.chance(0.5) ? Retention::kDelete : Retention::kRetain;
      spec.when_deleted = world.chance(0.5) ? Retention::kDelete : Retention::kRetain;
      break;
    case 8:
      spec.padding = static_cast<std::uint32_t>(world.pick(0, 3));
      spec.history_limit = world.pick(0, 3);
      spec.min_ready = std::chrono::seconds(world.pick(0, 1) * 15);
      spec.prune_records = world.chance(0.5);
      break;
    default:
      if (storm.change_mode) {
        spec.mode = spec.mode == ScalingMode::kDaemonSet ? ScalingMode::kStatefulSet : ScalingMode::kDaemonSet;
      }
  }
  ++spec.generation;
}

void disturb_pods(World& world) {
  if (world.pods.empty()) return;
  sim::Pod& pod = world.any_of(world.pods)->second;
  switch (world.pick(0, 6)) {
    case 0:
      pod.view.cordon = "true";
      if (!pod.view.cordon_cause) break;
      pod.view.cordon_cause.reset();
      break;
    case 1:
      if (!pod.view.cordon_cause) pod.view.cordon.reset();
      break;
    case 2:
      world.remove(pod, false);
      break;
    case 3:
      if (pod.view.phase == PodPhase::kRunning && !pod.view.terminating) {
        pod.view.phase = world.chance(0.5) ? PodPhase::kFailed : PodPhase::kSucceeded;
        pod.view.ready = false;
      }
      break;
    case 4:
      pod.view.ready = false;
      break;
    default:
      pod.view.deletion_cost = std::to_string(world.pick(-2, 2));
  }
}

void disturb_nodes(World& world, const Storm& storm) {
  NodeView& node = world.any_of(world.nodes)->second;
  switch (world.pick(0, 5)) {
    case 0:
      node.unschedulable = true;
      break;
    case 1:
    case 2:
      node.unschedulable = false;
      break;
    case 3:
      node.topology = fmt::format("topo-switch:s{}", world.pick(0, 1));
      break;
    case 4:
      node.features = fmt::format("f{}", world.pick(0, 1));
      break;
    default:
      if (storm.daemon) node.matches = world.chance(0.7);
  }
}

void disturb_slurm(World& world, const Storm& storm) {
  if (world.chance(0.3) && storm.outages) world.slurm_up = !world.slurm_up;
  if (!world.slurm_up) return;
  if (storm.lose_state && world.chance(0.1)) {
    world.slurm_nodes.clear();
    world.given_up.clear();
    world.jobs.clear();
    for (auto& [name, pod] : world.pods) {
      pod.registered = false;
      pod.deaf = pod.view.ready && world.chance(0.5);
    }
    return;
  }
  if (world.slurm_nodes.empty()) return;
  SlurmNodeView& node = world.any_of(world.slurm_nodes)->second;
  switch (world.pick(0, 4)) {
    case 0:
      flag(node, NodeFlag::kDrain, true);
      node.reason = fmt::format("admin: bad disk {}", world.pick(0, 9));
      node.reason_since = world.now;
      break;
    case 1:
      node.states.base = NodeState::kDown;
      std::erase_if(world.jobs, [&](const sim::Job& job) { return job.node == node.name; });
      node.reason = fmt::format("admin: rack {} moves", world.pick(0, 9));
      node.reason_since = world.now;
      break;
    default:
      if (node.reason.find("admin") == std::string::npos) break;
      flag(node, NodeFlag::kDrain, false);
      if (node.states.base == NodeState::kDown) node.states.base = NodeState::kIdle;
      node.reason.clear();
  }
}

void disturb(World& world, const Storm& storm) {
  if (world.chance(0.06)) change_spec(world, storm);
  if (world.chance(0.10)) disturb_pods(world);
  if (world.chance(0.06)) disturb_nodes(world, storm);
  if (world.chance(0.06)) disturb_slurm(world, storm);
}

std::string said(const World& world, const Operator& op) {
  std::string text;
  for (const std::string& violation : world.violations) text += violation + "\n";
  text += "last actions:\n";
  for (const std::string& line : op.log) text += line + "\n";
  text += "waits:\n";
  for (const std::string& line : op.last.waits) text += line + "\n";
  for (const auto& [name, pod] : world.pods) {
    text += fmt::format("pod {} on {} hash {} ready {} registered {} terminating {} cordon {}/{} phase {}\n", name,
                        pod.view.node, pod.view.hash_label.value_or("-"), pod.view.ready, pod.registered,
                        pod.view.terminating, pod.view.cordon.value_or("-"), pod.view.cordon_cause.value_or("-"),
                        static_cast<int>(pod.view.phase));
  }
  for (const auto& [name, node] : world.slurm_nodes) {
    text += fmt::format("slurm {} {} {}\n", name, slurm::print(node.states), node.reason);
  }
  return text;
}

// Nothing disturbs any more: everything must come to rest as the spec says.
void come_to_rest(World& world, Operator& op) {
  world.slurm_up = true;
  for (auto& [name, node] : world.nodes) node.unschedulable = false;
  for (auto& [name, node] : world.slurm_nodes) flag(node, NodeFlag::kInvalidReg, false);
  const bool refuses = std::exchange(world.refuses, false);
  const Faults storm_faults = op.faults;
  op.faults = {0, 0, 0, 0};
  int quiet = 0;
  for (int i = 0; i < 1000 && quiet < 15; ++i) {
    world.jobs_flow = i < 30;
    world.pass(std::chrono::seconds(5));
    op.step();
    const bool still = op.last.at_rest() && op.last.events.empty() && !op.last.wake;
    quiet = still && world.jobs.empty() ? quiet + 1 : 0;
  }
  world.jobs_flow = true;
  world.refuses = refuses;
  op.faults = storm_faults;
  ASSERT_GE(quiet, 15) << "does not come to rest\n" << said(world, op);
}

// Out of service until an administrator has looked at it; others may have to wait for it.
bool is_held(const SlurmNodeView& node) {
  return node.reason.find("admin") != std::string::npos || is_refusal(node.reason) ||
         (is_given_up(node) && !node.states.has(NodeFlag::kNotResponding));
}

bool give_back(World& world) {
  bool any = false;
  for (auto& [name, node] : world.slurm_nodes) {
    if (!is_held(node)) continue;
    any = true;
    flag(node, NodeFlag::kDrain, false);
    if (node.states.base == NodeState::kDown) node.states.base = NodeState::kIdle;
    node.reason.clear();
  }
  return any;
}

void check_rest(const World& world, const Operator& op) {
  const bool held = std::ranges::any_of(world.slurm_nodes, [](const auto& node) { return is_held(node.second); });
  if (world.nodeset_gone) {
    EXPECT_TRUE(world.pods.empty()) << said(world, op);
    return;
  }
  std::size_t wanted = static_cast<std::size_t>(world.spec.replicas);
  if (world.spec.mode == ScalingMode::kDaemonSet) {
    wanted = static_cast<std::size_t>(
        std::ranges::count_if(world.nodes, [](const auto& node) { return node.second.matches; }));
  }
  const bool mixed =
      std::ranges::any_of(world.pods, [&](const auto& pod) { return !is_of_mode(pod.second.view, world.spec.mode); });
  if (held && mixed) return;
  EXPECT_EQ(world.pods.size(), wanted) << said(world, op);
  std::size_t updated = 0;
  for (const auto& [name, pod] : world.pods) {
    EXPECT_TRUE(pod.view.healthy()) << name << "\n" << said(world, op);
    EXPECT_FALSE(pod.view.cordon_cause) << name << "\n" << said(world, op);
    if (pod.view.hash_label == world.status.hash) ++updated;
    const auto node = world.slurm_nodes.find(slurm_name_of(pod.view));
    ASSERT_NE(node, world.slurm_nodes.end()) << name << "\n" << said(world, op);
    if (is_drained_by_us(node->second)) EXPECT_TRUE(pod.view.cordoned()) << name << "\n" << said(world, op);
    EXPECT_FALSE(pod.view.slurm_conditions.empty()) << name << "\n" << said(world, op);
    const auto lost = world.given_up.find(node->first);
    const bool by_slurm =
        node->second.reason == "Not responding" || node->second.reason == "Node unexpectedly rebooted";
    if (lost == world.given_up.end() || !by_slurm || pod.view.cordoned()) continue;
    const auto record = parse_record(lost->second);
    EXPECT_TRUE(!record || (record->pod == name && record->node == pod.view.node))
        << name << ": Slurm gave up " << record->node << ", not " << pod.view.node << "\n"
        << said(world, op);
  }
  if (world.spec.update == UpdateType::kRollingUpdate && !held) EXPECT_EQ(updated, wanted) << said(world, op);
  EXPECT_EQ(world.status.replicas, static_cast<std::int32_t>(wanted));
  EXPECT_EQ(world.status.ready, static_cast<std::int32_t>(wanted));
}

// The NodeSet is deleted in the middle of everything: no job is lost, no pod and no node record stays.
void end(World& world, Operator& op, std::uint64_t seed) {
  world.spec.deleted = world.now;
  for (int i = 0; i < 100 && !world.nodeset_gone; ++i) {
    world.pass(std::chrono::milliseconds(world.pick(100, 8000)));
    op.step();
  }
  world.slurm_up = true;
  op.faults = {0, 0, 0, 0};
  for (int i = 0; i < 500 && !world.nodeset_gone; ++i) {
    world.pass(5s);
    op.step();
  }
  EXPECT_TRUE(world.violations.empty() && world.nodeset_gone) << "seed " << seed << " end\n" << said(world, op);
  for (int i = 0; i < 20; ++i) world.pass(5s);
  EXPECT_TRUE(world.pods.empty()) << "seed " << seed << "\n" << said(world, op);
  EXPECT_FALSE(world.reservation) << "seed " << seed;
  for (const auto& [name, claim] : world.claims) {
    for (const OwnerView& owner : claim.owners) {
      EXPECT_NE(owner.kind, OwnerView::Kind::kNodeSet) << "seed " << seed << " " << name;
    }
  }
}

std::size_t weather(std::uint64_t seed, Storm storm, int steps) {
  World world(seed);
  world.spec.mode = storm.daemon ? ScalingMode::kDaemonSet : ScalingMode::kStatefulSet;
  world.spec.replicas = 4;
  world.return_to_service = world.chance(0.5);
  world.refuses = storm.refuse;
  Operator op(world);
  for (int i = 1; i <= steps; ++i) {
    disturb(world, storm);
    world.pass(std::chrono::milliseconds(world.pick(100, 8000)));
    op.step();
    if (!world.violations.empty()) {
      ADD_FAILURE() << "seed " << seed << " step " << i << "\n" << said(world, op);
      break;
    }
    if (i % 400 != 0) continue;
    come_to_rest(world, op);
    check_rest(world, op);
    if (give_back(world)) {
      come_to_rest(world, op);
      check_rest(world, op);
    }
    if (::testing::Test::HasFailure()) {
      ADD_FAILURE() << "seed " << seed << " step " << i;
      break;
    }
  }
  if (!::testing::Test::HasFailure()) end(world, op, seed);
  return op.actions;
}

// NODESET_SEED: the first seed; NODESET_WORLDS: how many worlds instead of three.
void storms(Storm storm) {
  constexpr int kSteps = 1200;
  std::size_t actions = 0;
  const std::uint64_t first = bascule::testing::from_environment("NODESET_SEED", 1);
  const std::uint64_t worlds = bascule::testing::from_environment("NODESET_WORLDS", 3);
  for (std::uint64_t seed = first; seed < first + worlds; ++seed) {
    actions += weather(seed, storm, kSteps);
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(actions, worlds * kSteps / 4);
}

TEST(NodeSetSim, StatefulSet) {
  storms({});
}
TEST(NodeSetSim, DaemonSet) {
  storms({.daemon = true});
}
TEST(NodeSetSim, ChangesOfMode) {
  storms({.change_mode = true});
}
TEST(NodeSetSim, SlurmLosesItsState) {
  storms({.lose_state = true});
}
// Hosts that have less than they should, for a time.
TEST(NodeSetSim, SlurmRefusesRegistrations) {
  storms({.refuse = true});
  storms({.daemon = true, .refuse = true});
}
// A worker that a user has cordoned, and that is drained for it, is updated though none but it counts as serving.
TEST(NodeSetSim, AWorkerThatAUserTookOutOfServiceIsNoLoss) {
  weather(132, {.lose_state = true}, 1200);
}
// The finalizer's removal was sent and is not seen: a reservation would be left behind.
TEST(NodeSetSim, NoReservationIsMadeWhileItsFinalizerGoes) {
  weather(579, {.schedule = true}, 1200);
}
TEST(NodeSetSim, ScheduledUpdates) {
  storms({.schedule = true});
}

}  // namespace
}  // namespace bascule::op::nodeset
