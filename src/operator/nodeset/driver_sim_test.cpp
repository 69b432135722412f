// The operator's process killed at seeded moments while NodeSets are scaled, updated and loaded and slurmctld comes and
// goes. At every instant: no job dies with its pod, no more than maxUnavailable is missing for an update. After the
// storm: everything is as the objects say, and nothing is written any more.
#include <random>

#include "operator/nodeset/driver_test_world.hpp"

namespace bascule::op::nodeset {
namespace {

using ::testing::IsEmpty;

class DriverSimTest : public ::testing::TestWithParam<std::uint64_t> {};

struct Storm {
  explicit Storm(std::uint64_t seed, bool one_each = false) : world(8, seed), random(seed), daemon(one_each) {
    world.every_step = [this] { world.watch_claims(); };
  }

  int pick(int from, int to) { return std::uniform_int_distribution<int>(from, to)(random); }

  // What users, administrators and fate do.
  void mischief() {
    switch (pick(0, 10)) {
      case 0:
        daemon ? taint() : world.patch_nodeset("foo", fmt::format("{{spec: {{replicas: {}}}}}", pick(0, 4)));
        break;
      case 10:
        world.patch_nodeset("foo", fmt::format("{{spec: {{persistentVolumeClaimRetentionPolicy: {{whenScaled: {}, "
                                               "whenDeleted: {}}}}}}}",
                                               word(), word()));
        break;
      case 1:
        world.patch_nodeset("foo", fmt::format("{{spec: {{slurmd: {{image: \"slurmd:{}\"}}}}}}", pick(1, 3)));
        break;
      case 2:
      case 3:
      case 4:
        load();
        break;
      case 5:
        world.slurm.controller_up() ? world.slurm.stop_controller() : world.slurm.start_controller();
        break;
      case 6:
        cordon();
        break;
      default:
        kill();
        break;
    }
  }
  void load() {
    for (const json::Value& pod : world.api.list(r::kPods, "slurm")) {
      const auto* node = world.slurm.model().node(DriverWorld::slurm_name(pod));
      const bool free = node != nullptr && node->jobs.empty() && node->view.states.base == slurm::NodeState::kIdle &&
                        !node->view.states.has(slurm::NodeFlag::kDrain);
      if (free && pick(0, 1) == 0) jobs.push_back(world.job_on(node->view.name, std::chrono::seconds(pick(5, 60))));
    }
  }
  const char* word() { return pick(0, 1) == 0 ? "Retain" : "Delete"; }
  // Nodes that come and go, as far as pods of DaemonSet mode are concerned.
  void taint() {
    const std::string effect = pick(0, 1) == 0 ? "NoSchedule" : "NoExecute";
    world.api.patch(r::kNodes, {"", fmt::format("k{}", pick(0, 7))},
                    pick(0, 1) == 0
                        ? json::parse(R"({"spec":{"taints":null}})")
                        : json::parse(R"({"spec":{"taints":[{"key":"away","effect":")" + effect + "\"}]}}"));
    if (made < 2 && pick(0, 3) == 0) {
      world.api.create(r::kNodes, testing::make_node({.name = fmt::format("k{}", 8 + made++)}));
    }
  }
  void cordon() {
    const NamespacedName node{"", fmt::format("k{}", pick(0, 7))};
    const bool is = json::bool_at(*world.api.get(r::kNodes, node), {"spec", "unschedulable"});
    world.api.patch(r::kNodes, node, json::Object{{"spec", json::Object{{"unschedulable", !is}}}});
  }
  void kill() {
    if (!world.process.running()) {
      world.process.start();
      world.process.kill_after(static_cast<std::uint64_t>(pick(20, 3000)));
    } else if (pick(0, 1) == 0) {
      world.process.kill();
    }
  }
  void calm() {
    world.process.kill();
    world.process.start();
    world.slurm.start_controller();
    for (int i = 0; i < 8; ++i) {
      world.api.patch(r::kNodes, {"", fmt::format("k{}", i)},
                      json::parse(R"({"spec":{"unschedulable":null,"taints":null}})"));
    }
    world.patch_nodeset("foo", "{spec: {replicas: 3}}");
  }

  // None runs for so long that none waits any more for the pause after its requeue.
  bool jobs_end() {
    const auto runs = [this] {
      return std::ranges::any_of(jobs, [this](JobId job) {
        const auto* record = world.slurm.model().job(job);
        return record != nullptr && record->view.states.base == slurm::JobState::kRunning;
      });
    };
    Duration quiet{};
    for (Duration passed{}; passed < 30min && quiet < 3min; passed += 1s) {
      world.pass(1s, 1s);
      quiet = runs() ? Duration{} : quiet + 1s;
    }
    return quiet >= 3min;
  }

  DriverWorld world;
  std::mt19937_64 random;
  std::vector<JobId> jobs;
  bool daemon = false;
  int made = 0;  // nodes
};

void weather(Storm& storm) {
  DriverWorld& world = storm.world;
  world.nodeset("foo", 3,
                fmt::format(R"(
scalingMode: {}
revisionHistoryLimit: 1
volumeClaimTemplates: [{{metadata: {{name: data}}, spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Gi}}}}}}}}]
)",
                            storm.daemon ? "DaemonSet" : "StatefulSet"));
  world.process.start();
  ASSERT_TRUE(world.settles("foo", storm.daemon ? 8 : 3));
  for (int i = 0; i < 40; ++i) {
    storm.mischief();
    world.pass(std::chrono::milliseconds(storm.pick(100, 15'000)));
    ASSERT_THAT(world.killed_jobs, IsEmpty()) << "after " << i;
    ASSERT_THAT(world.lost_claims, IsEmpty()) << "after " << i;
  }
  storm.calm();
  const std::size_t wanted = storm.daemon ? 8 + static_cast<std::size_t>(storm.made) : 3;
  ASSERT_TRUE(world.settles("foo", wanted, 30min)) << world.events() << json::dump_pretty(world.nodeset_of("foo"));
  for (const JobId job : storm.jobs) {
    const auto* record = world.slurm.model().job(job);
    if (record == nullptr) continue;  // ended long ago
    const auto state = record->view.states.base;
    EXPECT_TRUE(state == slurm::JobState::kCompleted || state == slurm::JobState::kRunning ||
                state == slurm::JobState::kPending)
        << job.str() << " " << to_string(state);
  }
  ASSERT_TRUE(storm.jobs_end());
  world.pass(1min, 1s);
  world.api.reset_counts();
  world.slurm.forget_calls();
  world.pass(3min, 1s);
  EXPECT_EQ(world.api.write_calls(), 0u) << world.api.writes().back().body;
  EXPECT_EQ(world.slurm.calls("POST node") + world.slurm.calls("DELETE node"), 0u);
  EXPECT_THAT(world.killed_jobs, IsEmpty());
  EXPECT_THAT(world.lost_claims, IsEmpty());
}

TEST_P(DriverSimTest, SurvivesEverything) {
  Storm storm(GetParam());
  weather(storm);
}

TEST_P(DriverSimTest, OnePodANodeSurvivesEverything) {
  Storm storm(GetParam(), true);
  weather(storm);
}

INSTANTIATE_TEST_SUITE_P(Seeds, DriverSimTest, ::testing::Range<std::uint64_t>(1, 5));

}  // namespace
}  // namespace bascule::op::nodeset
