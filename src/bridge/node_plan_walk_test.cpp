// Random walks of node_plan.hpp: one node, everybody who may act on it, and what must always hold.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "bridge/node_world_test.hpp"
#include "testing/from_environment.hpp"

namespace bascule::bridge {
namespace {

using namespace std::chrono_literals;
using namespace node_world;
using ::testing::HasSubstr;

// One node, everybody who may act on it, and a Slurm that does as told.
class Walk {
 public:
  explicit Walk(unsigned seed) : keeps_reasons_(seed % 2 == 0), random_(seed) {}

  void step() {
    world_.now += Duration(1s) * (random_() % 40);
    if (random_() % 3 == 0) disturb();
    act();
  }

  void settle() {
    admin_drain_ = slurm_ && drained() && !is_our_drain();
    if (slurm_) set(*slurm_, slurm::NodeFlag::kReserved, false);
    world_.slurm_known = world_.nodes_known = true;
    for (int i = 0; i < 30; ++i) {  // one in eight comes to nothing
      if (slurm_) make_idle();
      world_.now += 61s;
      act();
    }
    const NodePlan plan = look();
    EXPECT_TRUE(plan.idle()) << "not at rest: " << describe(plan);
    check_rest();
  }

 private:
  bool drained() const { return slurm_->states.has(slurm::NodeFlag::kDrain); }
  bool is_our_drain() const {
    return is_our_reason(slurm_->reason, kSelf.cluster) && !is_schedulable_reason(slurm_->reason);
  }
  bool is_stranded() const { return slurm_->states.base == slurm::NodeState::kAllocated; }
  bool is_hybrid() const { return slurm_ && !slurm_->states.has(slurm::NodeFlag::kExternal); }
  // What is down for our reason nobody but us puts into service again, unless it has a slurmd, which comes back.
  void make_idle() {
    if (is_stranded()) return;
    if (slurm_->states.base == slurm::NodeState::kDown) {
      if (!is_hybrid() && is_our_reason(slurm_->reason, kSelf.cluster)) return;
      if (!drained()) slurm_->reason.clear();
    }
    slurm_->states.base = slurm::NodeState::kIdle;
    slurm_->alloc_cpus = 0;
    set(*slurm_, slurm::NodeFlag::kCompleting, false);
  }
  std::string describe(const NodePlan& plan) const {
    std::string text;
    if (plan.add) text += " add " + *plan.add;
    if (plan.update) text += " update";
    if (plan.state) text += " state " + plan.state->reason.value_or("");
    if (plan.remove) text += " remove";
    if (plan.taint) text += " taint";
    return text + (slurm_ ? " slurm " + slurm::print(slurm_->states) + " " + slurm_->reason : " absent");
  }
  NodePlan look() { return world_.plan(exists_ ? std::vector<Kube>{kube_} : std::vector<Kube>{}, slurm_); }

  void act() {
    const NodePlan plan = look();
    if (!world_.slurm_known || !world_.nodes_known) EXPECT_TRUE(plan.idle());
    if (random_() % 8 == 0) return;  // crashed, or Slurm refused
    if (plan.add) {
      ASSERT_FALSE(slurm_);
      ASSERT_THAT(*plan.add, HasSubstr(" NodeAddr=10."));
      slurm_ = registered();
      slurm_->extra.clear();
      slurm_->cpus = static_cast<std::uint32_t>(kube_.cpus);
      slurm_->memory = static_cast<std::uint64_t>(kube_.mib);
      slurm_->address = kube_.ip;
      slurm_->partitions = {kube_.partitions.empty() ? "none" : "bridge"};
      if (!kube_.partitions.empty()) slurm_->features = {kube_.partitions};
      if (random_() % 8 == 0) return;
    }
    if (plan.update) {
      ASSERT_TRUE(slurm_);
      if (plan.update->extra) slurm_->extra = *plan.update->extra;
      if (plan.update->features) slurm_->features = *plan.update->features;
      if (plan.update->topology) slurm_->topology = *plan.update->topology;
    }
    if (plan.state) change_state(*plan.state);
    if (plan.remove) remove();
    if (plan.taint == true) ASSERT_FALSE(is_hybrid() && world_.worker) << "evicts a worker";
    if (plan.taint == false) ASSERT_FALSE(slurm_) << "frees a node that Slurm gives away";
    if (plan.taint) kube_.taint = *plan.taint ? "slurm-bridge-scheduler" : "";
  }

  void change_state(const slurm::NodeUpdate& update) {
    ASSERT_TRUE(slurm_);
    if (update.state == "RESUME") {
      ASSERT_EQ(slurm_->states.base, slurm::NodeState::kDown);
      slurm_->states.base = slurm::NodeState::kIdle;
    }
    if (update.state == "DOWN") {
      ASSERT_TRUE(drained() && is_stranded() && !is_hybrid() && parse_mark(slurm_->extra)) << "ends a job";
      ASSERT_EQ(update.reason, slurm_->reason);
      slurm_->states.base = slurm::NodeState::kDown;
      return;
    }
    if (update.state != "DRAIN") {
      ASSERT_TRUE(drained() ? is_our_drain() : is_our_reason(slurm_->reason, kSelf.cluster))
          << "undoes an administrator's drain: " << slurm::print(slurm_->states) << " " << slurm_->reason;
      slurm_->reason = keeps_reasons_ ? update.reason.value_or("") : "";
    } else {
      ASSERT_FALSE(drained() && !is_our_drain()) << "writes over an administrator's reason";
      slurm_->reason = *update.reason;
    }
    set(*slurm_, slurm::NodeFlag::kDrain, update.state == "DRAIN");
  }

  void remove() {
    ASSERT_TRUE(slurm_);
    ASSERT_TRUE(slurm_->states.has(slurm::NodeFlag::kExternal)) << "removes a node of slurmd";
    ASSERT_TRUE(parse_mark(slurm_->extra) && parse_mark(slurm_->extra)->cluster == "c1");
    ASSERT_TRUE(drained());
    ASSERT_FALSE(slurm_->states.has(slurm::NodeFlag::kReserved)) << "Slurm refuses it";
    ASSERT_TRUE(slurm_->states.base == slurm::NodeState::kIdle || slurm_->states.base == slurm::NodeState::kDown)
        << "removes a busy node";
    slurm_.reset();
  }

  void disturb() {
    switch (random_() % 16) {
      case 0:
        kube_.external = !kube_.external;
        break;
      case 1:
        kube_.cordoned = !kube_.cordoned;
        break;
      case 2:
        kube_.ready = kube_.ready == "True" ? "False" : "True";
        break;
      case 3:
        kube_.cpus = 4 + static_cast<std::int64_t>(random_() % 2) * 4;
        break;
      case 4:
        kube_.mib = 900 + static_cast<std::int64_t>(random_() % 3) * 50;
        break;
      case 5:
        kube_.partitions = random_() % 2 ? "bridge" : "";
        break;
      case 6:
        kube_.topology = random_() % 2 ? "a:1" : "";
        break;
      case 7:
        exists_ = !exists_;
        break;
      case 8:
        world_.slurm_known = !world_.slurm_known;
        break;
      case 9:
        kube_.unreachable = !kube_.unreachable;
        break;
      case 10:
        world_.may_reshape = !world_.may_reshape;
        break;
      case 11:
        kube_.ip = random_() % 2 ? "10.0.0.1" : "10.0.0.2";
        break;
      case 12:
        if (world_.worker = std::nullopt; random_() % 2 == 0) {
          world_.worker = NodePod{NodePod::Why::kWorker, {"slurm", "w"}, "slurm/set"};
        }
        break;
      case 13:
        if (world_.adrift = std::nullopt; random_() % 2 == 0) {
          world_.adrift = NodePod{NodePod::Why::kAdrift, {"ml", "a"}, "7"};
        }
        break;
      default:
        disturb_slurm();
        break;
    }
  }
  void disturb_slurm() {
    if (!slurm_) {
      if (random_() % 6 == 0) {  // slurmd registers it
        slurm_ = registered();
        if (random_() % 2 == 0) slurm_->extra.clear();
        slurm_->states.flags = 0;
      }
      return;
    }
    switch (random_() % 10) {
      case 0:
        set(*slurm_, slurm::NodeFlag::kDrain, true);
        slurm_->reason = "bad disk";
        break;
      case 1:
        set(*slurm_, slurm::NodeFlag::kDrain, false);
        slurm_->reason.clear();
        break;
      case 2:
        slurm_->states.base = slurm::NodeState::kMixed;
        slurm_->alloc_cpus = 1;
        break;
      case 3:
        make_idle();
        break;
      case 4:
        if (!is_hybrid()) break;  // SlurmdTimeout
        slurm_->states.base = slurm::NodeState::kDown;
        if (slurm_->reason.empty()) slurm_->reason = "Not responding";
        break;
      case 5:  // an epilog fails
        if (!is_hybrid() || drained()) break;
        set(*slurm_, slurm::NodeFlag::kDrain, true);
        if (slurm_->reason.empty()) slurm_->reason = "Epilog error";
        break;
      case 6:
        set(*slurm_, slurm::NodeFlag::kReserved, random_() % 2 == 0);
        break;
      case 7:
        if (is_hybrid()) slurm_->partitions = {random_() % 2 == 0 ? "bridge" : "other"};
        break;
      case 8:  // slurmctld is killed
        if (is_hybrid() || slurm_->states.base != slurm::NodeState::kIdle) break;
        slurm_->states.base = slurm::NodeState::kAllocated;
        break;
      default:
        if (random_() % 8 == 0) slurm_.reset();  // scontrol delete
    }
  }

  void check_rest() const {
    const bool ours = slurm_ && parse_mark(slurm_->extra) && slurm_->states.has(slurm::NodeFlag::kExternal);
    if (!exists_) {
      EXPECT_FALSE(ours) << "left over in Slurm";
      return;
    }
    if (kube_.external && kube_.ready == "True") ASSERT_TRUE(slurm_) << "not registered";
    if (!kube_.external) EXPECT_FALSE(ours) << "not removed";
    if (!slurm_) {
      EXPECT_TRUE(kube_.taint.empty() || kube_.external);
      return;
    }
    if (admin_drain_) return;
    EXPECT_FALSE(ours && is_stranded());
    const bool shared =
        kube_.external || !kube_.taint.empty() || slurm_->partitions == std::vector<std::string>{"bridge"};
    const bool out = kube_.cordoned || kube_.ready != "True" || (is_hybrid() && world_.adrift);
    if (!shared) {
      EXPECT_TRUE(out || !is_hybrid() || !drained()) << "given back drained: " << slurm_->reason;
      return;
    }
    EXPECT_TRUE(!kube_.taint.empty() || (is_hybrid() && world_.worker));
    // Of one that is down nothing can be started either.
    const bool down = slurm_->states.base == slurm::NodeState::kDown;
    EXPECT_EQ(drained() || down, out) << slurm::print(slurm_->states) << " " << slurm_->reason;
    if (ours && kube_.ready == "True") EXPECT_EQ(slurm_->cpus, kube_.cpus);
  }

  bool keeps_reasons_;  // at an undrain, as Slurm 24.11 does without accounting
  std::mt19937 random_;
  World world_;
  Kube kube_;
  bool exists_ = true;
  bool admin_drain_ = false;
  std::optional<slurm::Node> slurm_;
};

// More with BASCULE_SEEDS.
TEST(NodePlanWalk, KeepsItsPromisesAndComesToRest) {
  const std::uint64_t seeds = bascule::testing::from_environment("BASCULE_SEEDS", 2000);
  for (unsigned seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Walk walk(seed);
    for (int i = 0; i < 60; ++i) walk.step();
    walk.settle();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace bascule::bridge
