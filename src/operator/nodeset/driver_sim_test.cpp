// The operator's process killed at seeded moments while NodeSets are scaled, updated and loaded and slurmctld comes and
// goes; in rough storms the API server fails too: watches end, are silent or too old, calls are refused, slow or done
// without an answer; and there are two processes, of which one may be frozen while it leads. At every instant: no job
// dies with its pod, no claim goes under its pod. After the storm: everything is as the objects say, and nothing is
// written any more.
#include <array>
#include <random>

#include "operator/nodeset/driver_test_world.hpp"
#include "testing/from_environment.hpp"

namespace bascule::op::nodeset {
namespace {

using ::testing::IsEmpty;

class DriverSimTest : public ::testing::TestWithParam<std::uint64_t> {};

enum class Sky { kFair, kRough, kTwoProcesses };

// How the API server serves, in percent of the calls or watches.
struct Service {
  int silent = 0;  // watches, until whoever watches gives up
  int gone = 0;    // watches: 410
  int cut = 0;     // watches, somewhere
  int refused = 0;
  int slow = 0;
  int lost = 0;  // done, and nobody is told
};

struct Storm {
  explicit Storm(std::uint64_t seed, bool one_each = false, Sky above = Sky::kFair)
      : world(8, seed, 100ms, above == Sky::kFair ? Duration() : 34s),
        random(seed),
        daemon(one_each),
        sky(above),
        dice(seed) {
    world.every_step = [this] {
      world.watch_claims();
      if (is_calm) run_all();
    };
    world.two = sky == Sky::kTwoProcesses;
    if (sky == Sky::kFair) return;
    world.api.set_faults([this](const testing::ApiCall& call) { return fault_of(call); });
  }

  int pick(int from, int to) { return std::uniform_int_distribution<int>(from, to)(random); }

  // What users, administrators and fate do.
  void mischief() {
    if (sky != Sky::kFair && pick(0, 2) == 0) return serve_badly();
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
    testing::SimProcess& process = world.two && pick(0, 1) == 0 ? world.second : world.process;
    if (!process.running()) {
      process.start();
      process.kill_after(static_cast<std::uint64_t>(pick(20, 3000)));
    } else if (process.frozen()) {
      process.thaw();
    } else if (world.two && pick(0, 1) == 0) {
      process.freeze_after(static_cast<std::uint64_t>(pick(0, 500)));
    } else if (pick(0, 1) == 0) {
      process.kill();
    }
  }

  // Anew for each of them: well, badly or not at all; what was broken stays so until then.
  void serve_badly() {
    const auto some = [this] {
      constexpr std::array kPercent{0, 0, 0, 10, 50, 100};
      return kPercent.at(static_cast<std::size_t>(pick(0, 5)));
    };
    service = {some(), some(), some(), some(), some(), some()};
    if (pick(0, 2) == 0) service = {};
    if (pick(0, 1) == 0) world.api.end_watches();
  }
  bool falls(int percent) { return std::uniform_int_distribution<int>(1, 100)(dice) <= percent; }
  testing::ApiFault fault_of(const testing::ApiCall& call) {
    using Kind = testing::ApiFault::Kind;
    testing::ApiFault fault;
    const auto one_of = [this](auto... all) {
      const std::array from{all...};
      return from.at(std::uniform_int_distribution<std::size_t>(0, from.size() - 1)(dice));
    };
    if (falls(service.slow)) (falls(50) ? fault.before : fault.after) = one_of(500ms, 3000ms, 8000ms);
    if (call.verb == "watch") {
      if (falls(service.silent)) {
        fault.kind = Kind::kSilent;
      } else if (falls(service.gone)) {
        fault.kind = one_of(Kind::kErrorEvent, Kind::kStatus);
        fault.code = one_of(410, 500);
      } else if (falls(service.cut)) {
        fault.kind = Kind::kHalf;
        fault.bytes = one_of(1u, 1000u, 5000u);
      }
    } else if (falls(service.refused)) {
      fault.kind = one_of(Kind::kStatus, Kind::kStatus, Kind::kCutBefore, Kind::kStallBefore);
      fault.code = one_of(429, 500, 503);
    } else if (falls(service.lost)) {
      fault.kind = one_of(Kind::kCutAfter, Kind::kHalf, Kind::kStallAfter, Kind::kStatusAfter);
      fault.code = one_of(500, 504);
    }
    return fault;
  }

  // As the kubelet does: also one that has ended because it leads no longer.
  void run_all() {
    for (testing::SimProcess* process : {&world.process, &world.second}) {
      if (process == &world.second && !world.two) continue;
      if (!process->running()) process->start();
      process->thaw();
      process->kill_after(std::uint64_t{1} << 60);
    }
  }
  void calm() {
    service = {};
    // Whoever has lived through a rough storm goes on with what he remembers of it.
    if (sky == Sky::kFair || pick(0, 1) == 0) world.process.kill();
    is_calm = true;
    run_all();
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
  bool is_calm = false;
  int made = 0;  // nodes
  Sky sky = Sky::kFair;
  Service service;
  std::mt19937_64 dice;  // of `service`
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
  if (world.two) world.second.start();
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
  // So long a watch may be silent.
  world.pass(storm.sky == Sky::kFair ? 1min : 6min, 1s);
  world.api.reset_counts();
  world.slurm.forget_calls();
  world.pass(3min, 1s);
  for (const testing::ApiWrite& write : world.api.writes()) {
    EXPECT_EQ(write.call.resource, "leases") << write.body;
  }
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

TEST_P(DriverSimTest, AnApiServerThatFailsIsSurvived) {
  Storm storm(GetParam(), false, Sky::kRough);
  weather(storm);
}

TEST_P(DriverSimTest, OnePodANodeSurvivesAnApiServerThatFails) {
  Storm storm(GetParam(), true, Sky::kRough);
  weather(storm);
}

TEST_P(DriverSimTest, TwoProcessesSurviveEverything) {
  Storm storm(GetParam(), GetParam() % 2 == 0, Sky::kTwoProcesses);
  weather(storm);
}

// Between its look at the Slurm node and the deletion somebody else leads, keeps the pod, and its node gets a job.
class FrozenDriverTest : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(FrozenDriverTest, ALeaderOfBeforeDeletesNoPodByALookOfBefore) {
  DriverWorld world;
  world.two = true;
  ASSERT_TRUE(world.runs("foo", 3));
  const std::string node = DriverWorld::slurm_name(*world.api.get(r::kPods, {"slurm", "foo-2"}));
  world.second.start();
  world.pass(5s);
  bool asked = false;
  world.slurm.set_faults([&](const net::ServerRequest& request) {
    const bool looks = request.method == "GET" && request.target.find("/node/" + node) != std::string::npos;
    const bool drained = world.slurm.model().node(node)->view.states.has(slurm::NodeFlag::kDrain);
    if (looks && drained && !asked) world.process.freeze_after(GetParam());
    asked |= looks && drained;
    return testing::FakeSlurmFault{};
  });
  world.patch_nodeset("foo", "{spec: {replicas: 2}}");
  const bool froze = world.until([&] { return world.process.frozen(); }, 1min);
  ASSERT_TRUE(froze || GetParam() > 0);
  world.slurm.set_faults(nullptr);
  world.patch_nodeset("foo", "{spec: {replicas: 3}}");
  ASSERT_TRUE(world.settles("foo", 3));
  const JobId job = world.job_on(node, std::nullopt);
  ASSERT_TRUE(world.is_running(job));
  world.process.thaw();
  world.pass(1min);
  EXPECT_TRUE(world.is_running(job));
  EXPECT_THAT(world.killed_jobs, IsEmpty());
  EXPECT_FALSE(world.process.running());
}

// The same to the instant: the lease is over when the answer about the Slurm node comes.
TEST(FormerLeaderTest, NothingIsDoneByALookOfBefore) {
  DriverWorld world;
  ASSERT_TRUE(world.runs("foo", 3));
  const std::string node = DriverWorld::slurm_name(*world.api.get(r::kPods, {"slurm", "foo-2"}));
  const auto loses_the_lease = [&](std::string_view change) {
    world.may_act = true;
    world.slurm.set_faults([&world, &node](const net::ServerRequest& request) {
      const bool looks = request.method == "GET" && request.target.find("/node/" + node) != std::string::npos;
      if (looks && world.slurm.model().node(node)->view.states.has(slurm::NodeFlag::kDrain)) {
        world.may_act = false;
      }
      return testing::FakeSlurmFault{};
    });
    world.patch_nodeset("foo", change);
    return world.until([&] { return !world.may_act; }, 1min);
  };
  ASSERT_TRUE(loses_the_lease("{spec: {replicas: 2}}"));
  world.pass(5s);
  EXPECT_EQ(world.api.calls("delete", "pods"), 0u);
  world.slurm.forget_calls();
  ASSERT_TRUE(loses_the_lease("{spec: {replicas: 3}}"));
  world.pass(5s);
  EXPECT_EQ(world.slurm.calls("POST node"), 0u);
  EXPECT_TRUE(world.slurm.model().node(node)->view.states.has(slurm::NodeFlag::kDrain));
  world.slurm.set_faults(nullptr);
  world.may_act = true;
  EXPECT_TRUE(world.settles("foo", 3));
}

INSTANTIATE_TEST_SUITE_P(Effects, FrozenDriverTest, ::testing::Range<std::uint64_t>(0, 8));

// More with BASCULE_SEEDS.
INSTANTIATE_TEST_SUITE_P(Seeds, DriverSimTest,
                         ::testing::Range<std::uint64_t>(1,
                                                         1 + bascule::testing::from_environment("BASCULE_SEEDS", 4)));

}  // namespace
}  // namespace bascule::op::nodeset
