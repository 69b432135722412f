#include "bridge/queue.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bridge/names.hpp"
#include "bridge/record.hpp"
#include "net/loopback.hpp"
#include "testing/fake_api.hpp"
#include "testing/fake_slurm.hpp"
#include "testing/objects.hpp"
#include "testing/run.hpp"

namespace bascule::bridge {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

constexpr std::int64_t kNow = 1'800'000'000;
const WallTime kWallNow{std::chrono::seconds(kNow)};

struct QueueTest : ::testing::Test {
  slurm::Job& job(std::uint32_t id, slurm::JobState state, const std::string& name) {
    slurm::Job& made = jobs.emplace_back();
    made.id = JobId{id};
    made.states.base = state;
    made.name = name;
    made.user = "ada";
    made.account = "physics";
    made.qos = "normal";
    made.partition = "batch";
    return made;
  }
  kube::Pod& pod(const std::string& ns, const std::string& name, const std::string& job_id = {}) {
    auto made = std::make_shared<kube::Pod>();
    made->meta.key = {ns, name};
    made->meta.uid = Uid("uid-" + ns + name);
    made->meta.created = kWallNow - 60s;
    made->phase = kube::PodPhase::kPending;
    if (!job_id.empty()) made->meta.labels = {{interner(names::kSlurmJobId), interner(job_id)}};
    pods.push_back(made);
    return *made;
  }
  static std::string record(std::vector<NamespacedName> names) {
    JobRecord out{"bridge", "cluster", Uid("u"), "spec", std::move(names), {}, false};
    for (const NamespacedName& name : out.pods) out.uids.emplace_back("uid-" + name.ns + name.name);
    return print_record(out);
  }
  // A farm with everything: two pods' jobs, a gang of another namespace, native jobs, pods without a job.
  void farm() {
    slurm::Job& high = job(30, slurm::JobState::kPending, "sweep");
    high.priority = 900;
    high.state_reason = "Resources";
    high.start_time = kNow + 3600;
    slurm::Job& low = job(21, slurm::JobState::kPending, "train");
    low.partition = "slurm-bridge";
    low.priority = 100;
    low.state_reason = "Priority";
    slurm::Job& native = job(12, slurm::JobState::kRunning, "a-simulation-with-a-very-long-name");
    native.nodes = "n[1-8],n12";
    native.start_time = kNow - 93'784;
    slurm::Job& gang = job(9, slurm::JobState::kRunning, "ring");
    gang.partition = "slurm-bridge";
    gang.nodes = "g[1-2]";
    gang.start_time = kNow - 67;
    gang.external = true;
    gang.admin_comment = record({{"vision", "ring-0"}, {"vision", "ring-1"}});
    job(5, slurm::JobState::kCompleted, "over");
    job(6, slurm::JobState::kCancelled, "ending").states.flags =
        static_cast<std::uint32_t>(slurm::JobFlag::kCompleting);
    pod("ml", "train-0", "21");
    kube::Pod& lost = pod("ml", "eval-0");
    lost.scheduled = {true, interner("False"), interner("InvalidRequest"), interner("a sentence")};
    pod("ml", "later-0").scheduling_gates = {interner("gate")};
  }

  json::Interner interner;
  std::vector<slurm::Job> jobs;
  std::vector<std::shared_ptr<kube::Pod>> pods;
  std::vector<PodPtr> all() const { return {pods.begin(), pods.end()}; }
  std::vector<QueueRow> queue(const QueueFilter& filter = {}) const {
    return make_queue(jobs, all(), filter, kWallNow).rows;
  }
  static std::vector<std::uint32_t> ids(const std::vector<QueueRow>& rows) {
    std::vector<std::uint32_t> out;
    for (const QueueRow& row : rows) out.push_back(row.job.value);
    return out;
  }
};

TEST_F(QueueTest, Table) {
  farm();
  EXPECT_EQ(to_text(queue(), false, false),
            "JOBID  PARTITION     NAME                      USER  STATE                 TIME        NODES  "
            "NODELIST(REASON)  NAMESPACE/POD\n"
            "6      batch         ending                    ada   CANCELLED+COMPLETING  0:00        -      -           "
            "      -\n"
            "9      slurm-bridge  ring                      ada   RUNNING               1:07        2      g[1-2]      "
            "      vision/ring-0 +1\n"
            "12     batch         a-simulation-with-a-ver…  ada   RUNNING               1-02:03:04  9      n[1-8],n12  "
            "      -\n"
            "30     batch         sweep                     ada   PENDING               0:00        -      (Resources) "
            "      -\n"
            "21     slurm-bridge  train                     ada   PENDING               0:00        1      (Priority)  "
            "      ml/train-0\n"
            "-      -             -                         -     WAITING               -           1      "
            "(InvalidRequest)  ml/eval-0\n"
            "-      -             -                         -     GATED                 -           1      -           "
            "      ml/later-0\n");
}

TEST_F(QueueTest, WideCutsNothing) {
  farm();
  const std::string text = to_text(queue({.ns = "vision", .partition = ""}), true, false);
  EXPECT_EQ(text,
            "JOBID  PARTITION     NAME  USER  STATE    TIME  NODES  NODELIST(REASON)  ACCOUNT  QOS     PRIORITY  "
            "EXPECTED  NAMESPACE/POD\n"
            "9      slurm-bridge  ring  ada   RUNNING  1:07  2      g[1-2]            physics  normal  -         -     "
            "    vision/ring-0,vision/ring-1\n");
  EXPECT_NE(to_text(queue(), true, false).find("2027-01-15T09:00:00Z"), std::string::npos);
}

TEST_F(QueueTest, Filters) {
  farm();
  EXPECT_THAT(ids(queue({.ns = "ml", .partition = ""})), ElementsAre(21, 0, 0));
  EXPECT_THAT(ids(queue({.ns = "", .partition = "slurm-bridge"})), ElementsAre(9, 21));
  EXPECT_THAT(ids(queue({.ns = "none", .partition = ""})), ElementsAre());
}

TEST_F(QueueTest, APartitionHidesPodsWithoutAJobAndSaysSo) {
  farm();
  EXPECT_EQ(make_queue(jobs, all(), {.ns = "", .partition = "batch"}, kWallNow).without_job, 2u);
  EXPECT_EQ(make_queue(jobs, all(), {.ns = "vision", .partition = "batch"}, kWallNow).without_job, 0u);
  EXPECT_EQ(make_queue(jobs, all(), {.ns = "ml", .partition = ""}, kWallNow).without_job, 0u);
}

// A job that waits may have several partitions, and so may who asks.
TEST_F(QueueTest, APartitionIsOneOfAList) {
  job(1, slurm::JobState::kPending, "wide").partition = "gpu,debug";
  job(2, slurm::JobState::kPending, "narrow").partition = "gpu-long";
  job(3, slurm::JobState::kRunning, "other").partition = "debug";
  EXPECT_THAT(ids(queue({.ns = "", .partition = "debug"})), ElementsAre(3, 1));
  EXPECT_THAT(ids(queue({.ns = "", .partition = "gpu"})), ElementsAre(1));
  EXPECT_THAT(ids(queue({.ns = "", .partition = "gpu-long,gpu"})), ElementsAre(1, 2));
}

TEST_F(QueueTest, JsonHasNumbersAndNulls) {
  farm();
  const json::Value value = to_json(queue());
  const json::Array& rows = value.at("queue").as_array();
  ASSERT_EQ(rows.size(), 7u);
  EXPECT_EQ(json::int_at(rows[3], {"job"}), 30);
  EXPECT_EQ(json::int_at(rows[3], {"priority"}), 900);
  EXPECT_EQ(json::string_at(rows[3], {"expectedStart"}), "2027-01-15T09:00:00Z");
  EXPECT_EQ(json::int_at(rows[2], {"seconds"}), 93'784);
  EXPECT_TRUE(rows[6].at("job").is_null());
  EXPECT_EQ(json::string_at(rows[6].at("pods").as_array()[0], {"namespace"}), "ml");
}

TEST_F(QueueTest, AGangWithoutAJobIsOneRow) {
  for (const char* name : {"w-10", "w-2"}) {
    pod("ml", name).meta.labels = {{interner(names::kPodGroup), interner("ring")}};
  }
  const auto rows = queue();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].name, "ring");
  EXPECT_EQ(rows[0].nodes, 2u);
  EXPECT_EQ(rows[0].pods.front().name, "w-2");
}

TEST_F(QueueTest, APodWhoseJobIsOverWaitsAgain) {
  job(5, slurm::JobState::kCancelled, "over");
  pod("ml", "a", "5");
  const auto rows = queue();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].state, "WAITING");
}

// Two clusters at one Slurm have pods of the same names, and a label may name an id that was given anew.
TEST_F(QueueTest, JobsOfAnotherClusterShowNoPods) {
  farm();
  pod("ml", "stale-0", "9");
  const auto rows = queue({.ns = "", .partition = "", .cluster = "this"});
  ASSERT_EQ(rows[1].job.value, 9u);
  EXPECT_THAT(rows[1].pods, ElementsAre());
  EXPECT_EQ(rows[1].nodes, 2u);
  EXPECT_EQ(rows[4].pods.front().name, "train-0") << "a job without a record is who the label says";
  const auto waits = [](const QueueRow& row) { return !row.job && row.pods.front().name == "stale-0"; };
  EXPECT_EQ(std::ranges::count_if(rows, waits), 1);
  EXPECT_THAT(queue({.ns = "", .partition = "", .cluster = "cluster"})[1].pods, ::testing::SizeIs(1));
}

// The time must not grow with jobs times pods.
TEST_F(QueueTest, TensOfThousandsWait) {
  constexpr std::uint32_t kMany = 20'000;
  for (std::uint32_t i = 1; i <= kMany; ++i) {
    job(i, slurm::JobState::kPending, "j");
    pod("ml", "p" + std::to_string(i), std::to_string(i));
  }
  EXPECT_EQ(queue().size(), kMany);
}

// Names are other people's.
TEST_F(QueueTest, NoNameCommandsTheTerminal) {
  job(1, slurm::JobState::kRunning, "x\x1b]0;owned\x07");
  EXPECT_EQ(to_text(queue(), true, false).find('\x1b'), std::string::npos);
}

TEST(QueueTimeTest, AsSqueueWritesIt) {
  EXPECT_EQ(print_run_time(0), "0:00");
  EXPECT_EQ(print_run_time(67), "1:07");
  EXPECT_EQ(print_run_time(3723), "1:02:03");
  EXPECT_EQ(print_run_time(172'800), "2-00:00:00");
}

// One list call each, and only the bridge's live pods.
TEST(QueueReadTest, AsksEachSideOnce) {
  ManualLoop loop;
  testing::FakeApi api(loop);
  testing::FakeSlurm slurm(loop);
  const auto kube_wire = net::make_loopback(loop, api.handler());
  const auto slurm_wire = net::make_loopback(loop, slurm.handler());
  kube::Client kube(loop, *kube_wire, {});
  slurm::ClientOptions options;
  options.token = slurm::fixed_token("t");
  slurm::Client client(loop, *slurm_wire, std::move(options));
  for (const char* name : {"a", "b"}) {
    api.create(kube::resources::kPods, testing::make_pod({.name = name, .scheduler = "bridge"}));
  }
  api.create(kube::resources::kPods, testing::make_pod({.name = "c"}));
  slurm.model().add_partition("batch", true);
  slurm::JobDescription native;
  native.name = "native";
  native.partition = "batch";
  slurm.submit(native, 1h, false);
  const std::string cluster(
      json::string_at(*api.get(kube::resources::kNamespaces, {"", "kube-system"}), {"metadata", "uid"}));
  const QueueContent content = testing::run(loop, read_queue(kube, client, "", "bridge"));
  EXPECT_EQ(content.pods.size(), 2u);
  EXPECT_EQ(content.jobs.size(), 1u);
  EXPECT_EQ(content.cluster, cluster);
  EXPECT_EQ(api.calls("list", "pods"), 1u);
  EXPECT_EQ(slurm.calls("GET jobs"), 1u);
}

}  // namespace
}  // namespace bascule::bridge
