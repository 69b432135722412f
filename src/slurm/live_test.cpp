// The client and the mirror against a real slurmrestd, when one is named: BASCULE_SLURM_URL and BASCULE_SLURM_TOKEN (of
// root or SlurmUser). Makes and removes a node of its own, and jobs on it.
#include <gmock/gmock.h>

#include <cstdlib>

#include "net/client.hpp"
#include "net/io_loop.hpp"
#include "slurm/client.hpp"
#include "slurm/hostlist.hpp"
#include "slurm/mirror.hpp"

namespace bascule::slurm {
namespace {

using namespace std::chrono_literals;

constexpr const char* kNode = "bascule-live-1";

struct LiveSlurm : ::testing::Test {
  void SetUp() override {
    const char* url = std::getenv("BASCULE_SLURM_URL");
    const char* token = std::getenv("BASCULE_SLURM_TOKEN");
    if (!url || !token) GTEST_SKIP() << "BASCULE_SLURM_URL and BASCULE_SLURM_TOKEN are not set";
    net::ClientOptions transport_options;
    transport_options.url = net::parse_url(url);
    transport = net::make_client(loop, transport_options);
    ClientOptions options;
    options.token = fixed_token(token);
    options.path_prefix = transport_options.url.path;
    client = std::make_unique<Client>(loop, *transport, options);
    run(clear());
    NodeUpdate up;
    run(client->add_node(std::string("NodeName=") + kNode +
                         " NodeAddr=127.0.0.1 State=EXTERNAL Sockets=2 CoresPerSocket=4 ThreadsPerCore=1 "
                         "RealMemory=8000 Feature=live,other"));
  }
  void TearDown() override {
    if (client) run(clear());
  }

  // Runs a task on the loop; fails the test on an exception.
  static Task<> guarded(net::IoLoop* loop, Task<> task, std::string* error) {
    try {
      co_await std::move(task);
    } catch (const std::exception& e) {
      *error = e.what();
    }
    loop->quit();
  }
  std::string try_run(Task<> task) {
    std::string error;
    Gate gate(loop);
    spawn(gate, guarded(&loop, std::move(task), &error));
    loop.run();
    loop.post([this] { loop.quit(); });
    loop.run();
    return error;
  }
  void run(Task<> task) { EXPECT_EQ(try_run(std::move(task)), ""); }
  template <class T>
  static Task<> into(Task<T> task, std::optional<T>* to) {
    T value = co_await std::move(task);
    to->emplace(std::move(value));
  }
  template <class T>
  T get(Task<T> task) {
    std::optional<T> value;
    run(into(std::move(task), &value));
    if (!value) throw std::runtime_error("no value");
    return std::move(*value);
  }

  Task<> clear() {
    const JobList list = co_await client->list_jobs();
    for (const Job& job : list.jobs) {
      if (job.name == "bascule-live" && !job.states.ended()) co_await client->cancel_job(job.id);
    }
    const auto node = co_await client->get_node(kNode);
    if (node) co_await client->delete_node(kNode);
  }

  JobDescription description() const {
    JobDescription job;
    job.name = "bascule-live";
    job.nodes = 1;
    job.tasks_per_node = 1;
    job.cpus_per_task = 2;
    job.memory_per_node = 1000;
    job.time_limit = 30;
    job.required_nodes = std::vector<std::string>{kNode};
    job.constraints = "live&other";
    job.admin_comment = R"({"pods":["ns/a"],"bascule":{"v":1}})";
    job.exclusive = false;
    job.hold = false;
    return job;
  }
  Job started(JobId id) {
    for (int i = 0; i < 300; ++i) {
      const auto job = get(client->get_job(id));
      if (job && job->states.base == JobState::kRunning) return *job;
      run(into(sleep_for(loop, 50ms, {}), &slept));
    }
    throw std::runtime_error("the job did not start");
  }

  net::IoLoop loop;
  std::unique_ptr<net::Transport> transport;
  std::unique_ptr<Client> client;
  std::optional<bool> slept;
};

TEST_F(LiveSlurm, LifeOfAnExternalJob) {
  const Versions versions = get(client->versions());
  EXPECT_EQ(versions.parser, "v0.0.44");
  EXPECT_TRUE(get(client->ping()));
  const JobId id = get(client->submit_external(description()));
  const Job job = started(id);
  EXPECT_EQ(job.nodes, kNode);
  EXPECT_TRUE(job.external);
  EXPECT_EQ(job.admin_comment, *description().admin_comment);
  EXPECT_EQ(job.time_limit, 30u);
  EXPECT_EQ(job.constraints, "live&other");
  EXPECT_EQ(job.required_nodes, kNode);
  EXPECT_EQ(job.end_time, job.start_time + 1800);
  EXPECT_EQ(job.user, "root");
  const auto held = get(client->allocation(id));
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held[0].node, kNode);
  EXPECT_EQ(held[0].memory, 1000u);
  EXPECT_EQ(held[0].core_bitmap, "0x03");

  JobDescription change;
  change.time_limit = 60;
  change.admin_comment = "other";
  run(client->update_job(id, change));
  const Job changed = get(client->get_job(id)).value();
  EXPECT_EQ(changed.time_limit, 60u);
  EXPECT_EQ(changed.admin_comment, "other");
  change = {};
  change.nodes = 3;
  EXPECT_THAT(try_run(client->update_job(id, change)), ::testing::HasSubstr("2073"));

  const NodeList nodes = get(client->list_nodes());
  const auto node = std::ranges::find(nodes.nodes, kNode, &Node::name);
  ASSERT_NE(node, nodes.nodes.end());
  EXPECT_EQ(node->states.base, NodeState::kMixed);
  EXPECT_EQ(node->alloc_cpus, 2u);
  EXPECT_EQ(node->cpus, 8u);
  EXPECT_TRUE(node->states.has(NodeFlag::kExternal));
  EXPECT_THAT(try_run(client->delete_node(kNode)), ::testing::HasSubstr("2016"));

  run(client->cancel_job(id));
  run(client->cancel_job(id));
  EXPECT_EQ(print(get(client->get_job(id))->states), "CANCELLED");
  EXPECT_THAT(try_run(client->update_job(id, change)), ::testing::HasSubstr("updating job " + id.str()));
}

TEST_F(LiveSlurm, PendingJobsAreHeldUpdatedAndReleased) {
  JobDescription job = description();
  job.hold = true;
  job.exclusive = true;
  job.priority = std::nullopt;
  const JobId id = get(client->submit_external(job));
  const Job held = get(client->get_job(id)).value();
  EXPECT_EQ(held.states.base, JobState::kPending);
  EXPECT_EQ(held.priority, 0u);
  EXPECT_TRUE(held.hold);
  JobDescription elsewhere;
  elsewhere.required_nodes = std::vector<std::string>{};
  run(client->update_job(id, elsewhere));
  EXPECT_EQ(get(client->get_job(id))->required_nodes, "");
  elsewhere.excluded_nodes = std::vector<std::string>{kNode};
  run(client->update_job(id, elsewhere));
  EXPECT_EQ(get(client->get_job(id))->excluded_nodes, kNode);
  JobDescription change;
  change.tasks_per_node = 2;
  change.memory_per_node = 2000;
  change.excluded_nodes = std::vector<std::string>{};
  change.hold = false;
  run(client->update_job(id, change));
  EXPECT_EQ(get(client->get_job(id))->excluded_nodes, "");
  EXPECT_EQ(started(id).nodes, kNode);
  const auto nodes = get(client->list_nodes());
  EXPECT_EQ(std::ranges::find(nodes.nodes, kNode, &Node::name)->alloc_cpus, 8u);
}

TEST_F(LiveSlurm, Refusals) {
  JobDescription job = description();
  job.partition = "nosuch";
  EXPECT_THAT(
      try_run([](Client& c, JobDescription j) -> Task<> { co_await c.submit_external(std::move(j)); }(*client, job)),
      ::testing::HasSubstr("Invalid partition name specified"));
  EXPECT_THAT(try_run(client->cancel_job(JobId{99999999})), ::testing::HasSubstr("2017"));
  EXPECT_THAT(try_run(client->update_job(JobId{99999999}, job)), ::testing::HasSubstr("20"));
  EXPECT_EQ(get(client->get_job(JobId{99999999})), std::nullopt);
  EXPECT_EQ(get(client->get_node("nosuch")), std::nullopt);
  EXPECT_THAT(try_run(client->add_node(std::string("NodeName=") + kNode + " NodeAddr=127.0.0.1 State=EXTERNAL CPUs=1")),
              ::testing::HasSubstr("2168"));
  NodeUpdate drain;
  drain.state = "DRAIN";
  drain.reason = "bascule: cordoned";
  drain.features = std::vector<std::string>{"live"};
  drain.comment = "text";
  run(client->update_node(kNode, drain));
  const Node node = get(client->get_node(kNode)).value();
  EXPECT_TRUE(node.states.has(NodeFlag::kDrain));
  EXPECT_EQ(node.reason, "bascule: cordoned");
  EXPECT_THAT(node.active_features, ::testing::ElementsAre("live"));
  EXPECT_THAT(try_run(client->update_node("nosuch", drain)), ::testing::HasSubstr("2018"));
  const auto partitions = get(client->list_partitions());
  ASSERT_FALSE(partitions.empty());
  EXPECT_TRUE(expand_hostlist(partitions[0].nodes));
  EXPECT_FALSE(partitions[0].states.empty());
}

TEST_F(LiveSlurm, TheMirrorFollows) {
  ClusterMirror mirror(loop, *client, {});
  std::vector<std::string> told;
  mirror.on_job([&told](const ClusterMirror::JobChange& change) {
    if (change.after && change.after->name == "bascule-live") {
      const bool moved = !change.before || change.before->states != change.after->states;
      if (moved) told.push_back(print(change.after->states));
    }
  });
  mirror.start();
  const auto wait = [&](const std::function<bool()>& done) {
    for (int i = 0; i < 1500 && !done(); ++i) run(into(sleep_for(loop, 10ms, {}), &slept));
    return done();
  };
  ASSERT_TRUE(wait([&] { return mirror.synced() && mirror.nodes_synced(); }));
  EXPECT_NE(mirror.node(kNode), nullptr);
  const JobId id = get(client->submit_external(description()));
  mirror.poke();
  ASSERT_TRUE(wait([&] {
    const auto job = mirror.job(id);
    return job && job->states.base == JobState::kRunning;
  }));
  EXPECT_EQ(mirror.job(id)->nodes, kNode);
  run(client->cancel_job(id));
  const TimePoint begin = loop.now();
  ASSERT_TRUE(wait([&] { return mirror.job(id)->states.ended(); }));
  EXPECT_LT(loop.now() - begin, 2800ms) << "sooner than at rest";
  EXPECT_EQ(told.back(), "CANCELLED");
  EXPECT_TRUE(get(mirror.next_full({}, loop.now() + 5s)));
  run(mirror.stop());
}

}  // namespace
}  // namespace bascule::slurm
