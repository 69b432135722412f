#include "slurm/client.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/utf8.hpp"
#include "slurm/answer.hpp"
#include "slurm/test_support.hpp"

namespace bascule::slurm {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Kind = bascule::testing::FakeSlurmFault::Kind;
using test::small_job;
using test::World;

template <class E, class F>
E thrown(F&& f) {
  try {
    f();
  } catch (const E& e) {
    return e;
  } catch (const std::exception& e) {
    ADD_FAILURE() << "another exception: " << e.what();
    throw;
  }
  ADD_FAILURE() << "no exception";
  throw std::logic_error("no exception");
}

void fault_on(World& world, std::string endpoint, Kind kind, Duration after = {}) {
  world.fake.set_faults([=](const net::ServerRequest& request) {
    const bool hit = (request.method + " " + request.target).find(endpoint) != std::string::npos;
    return bascule::testing::FakeSlurmFault{.kind = hit ? kind : Kind::kNone, .before = {}, .after = after};
  });
}

// It becomes a pod's condition, which Kubernetes keeps as UTF-8: it must come back as it was sent.
TEST(SlurmAnswer, AForeignPageIsQuotedInWholeCharacters) {
  const auto said = [](const std::string& page) -> std::string {
    return thrown<Unreachable>([&] { throw_foreign({"", "submitting", true}, 502, page, "is no answer of Slurm"); })
        .what();
  };
  const std::string cut = said(std::string(159, 'a') + "\xC3\xBC and more");
  EXPECT_EQ(with_valid_utf8(cut), cut);
  EXPECT_THAT(said("Zugriff f\xC3\xBCr\nalle\x7F gesperrt"), HasSubstr("Zugriff f\xC3\xBCr alle  gesperrt"));
}

TEST(SlurmClient, FindsThePreferredVersionOnce) {
  World world;
  const Versions versions = world.run(world.client->versions());
  EXPECT_EQ(versions.parser, "v0.0.44");
  EXPECT_EQ(versions.slurm, "26.05.5");
  EXPECT_EQ(versions.cluster, "farm");
  EXPECT_TRUE(versions.external_jobs);
  EXPECT_TRUE(versions.external_nodes);
  world.run(world.client->versions());
  EXPECT_EQ(world.fake.all_calls(), 1u);
}

TEST(SlurmClient, FindsAnotherVersionAfterAnUpgrade) {
  World world({.versions = {"v0.0.42"}});
  EXPECT_THAT(world.run(world.client->job_states()), IsEmpty());
  EXPECT_EQ(world.run(world.client->versions()).parser, "v0.0.42");
  world.fake.set_versions({"v0.0.45"});
  EXPECT_THAT(world.run(world.client->job_states()), IsEmpty());
  EXPECT_EQ(world.run(world.client->versions()).parser, "v0.0.45");
}

// The old version is served still.
TEST(SlurmClient, FindsABetterVersionAfterAnUpgrade) {
  World world({.versions = {"v0.0.42"}});
  EXPECT_EQ(world.run(world.client->versions()).parser, "v0.0.42");
  fault_on(world, "GET", Kind::kRefuseConnection);
  thrown<Unreachable>([&] { world.run(world.client->job_states()); });
  world.fake.set_faults(nullptr);
  world.fake.set_versions({"v0.0.42", "v0.0.44"});
  EXPECT_THAT(world.run(world.client->job_states()), IsEmpty());
  EXPECT_TRUE(world.run(world.client->versions()).external_nodes);
}

// Names are bytes to Slurm; those of one user must not hide the jobs of all.
TEST(SlurmClient, ANameThatIsNotUtf8HidesNothing) {
  World world;
  world.fake.add_nodes(test::kNodes);
  JobDescription job = small_job();
  job.name = "jos\xE9";
  world.fake.submit(job);
  world.fake.submit(small_job());
  const JobList list = world.run(world.client->list_jobs());
  ASSERT_EQ(list.jobs.size(), 2u);
  EXPECT_EQ(list.jobs.front().name, "jos\xEF\xBF\xBD");
  EXPECT_TRUE(world.run(world.client->get_job(JobId{1})));
}

// Ten thousand jobs, as many as Slurm keeps unless it is told otherwise, are some 80 MB.
TEST(SlurmClient, AListMayBeLong) {
  World world;
  world.fake.add_nodes(test::kNodes);
  JobDescription job = small_job();
  job.comment = std::string(std::size_t{70} << 20, 'x');
  world.fake.submit(std::move(job));
  EXPECT_EQ(world.run(world.client->list_jobs()).jobs.size(), 1u);
}

// The whole table of a large cluster beside the one that is known would be most of what a process keeps.
TEST(SlurmClient, JobsThatAreAsTheyAreKnownAreNamedAlone) {
  World world;
  world.fake.add_nodes(test::kNodes);
  for (int i = 0; i < 3; ++i) world.fake.submit(small_job());
  const JobList before = world.run(world.client->list_jobs());
  ASSERT_EQ(before.jobs.size(), 3u);
  ASSERT_TRUE(world.fake.model().cancel(world.fake.now(), JobId{2}));
  const auto known = [&before](JobId id) {
    return id == JobId{3} ? nullptr : std::make_shared<const Job>(before.jobs.at(id.value - 1));
  };
  const JobList now = world.run(world.client->list_jobs(0, {}, known));
  EXPECT_EQ(now.same, std::vector<JobId>{JobId{1}});
  ASSERT_EQ(now.jobs.size(), 2u);
  EXPECT_EQ(now.jobs[0].id, JobId{2});
  EXPECT_EQ(now.jobs[1].id, JobId{3});
  EXPECT_FALSE(now.unchanged);
}

TEST(SlurmClient, ForeignAddressIsSaidSo) {
  World world({.versions = {"v0.0.39"}});
  EXPECT_THAT(thrown<Malformed>([&] { world.run(world.client->job_states()); }).what(), HasSubstr("serves none"));
}

TEST(SlurmClient, AProxysPageIsNeverNotFound) {
  World world;
  world.run(world.client->versions());
  fault_on(world, "GET /slurm/v0.0.44/job/", Kind::kHtml404);
  EXPECT_THAT(thrown<Malformed>([&] { world.run(world.client->get_job(JobId{7})); }).what(), HasSubstr("job 7"));
}

TEST(SlurmClient, LifeOfAnExternalJob) {
  World world;
  world.fake.add_nodes(test::kNodes);
  JobDescription job = small_job();
  job.nodes = 2;
  job.tres_per_node = "gres/gpu:h100:2";
  job.admin_comment = "a \"comment\"/";
  job.time_limit = 30;
  job.constraints = "a&b";
  const JobId id = world.run(world.client->submit_external(job));
  const Job running = world.run(world.client->get_job(id)).value();
  EXPECT_EQ(running.states.base, JobState::kRunning);
  EXPECT_EQ(running.nodes, "x[1-2]");
  EXPECT_THAT(running.gres_detail, ElementsAre("gpu:h100:2(IDX:0-1)", "gpu:h100:2(IDX:0-1)"));
  EXPECT_EQ(running.admin_comment, "a \"comment\"/");
  EXPECT_EQ(running.time_limit, 30u);
  EXPECT_TRUE(running.external);
  EXPECT_EQ(running.constraints, "a&b");
  EXPECT_EQ(running.end_time, running.start_time + 1800);

  const auto held = world.run(world.client->allocation(id));
  ASSERT_EQ(held.size(), 2u);
  EXPECT_EQ(held[0].node, "x1");
  EXPECT_EQ(held[0].core_bitmap, "0x03");
  EXPECT_EQ(held[0].memory, 1000u);
  ASSERT_EQ(held[0].gres.size(), 1u);
  EXPECT_EQ(held[0].gres[0].index, "0-1");

  const auto states = world.run(world.client->job_states());
  ASSERT_EQ(states.size(), 1u);
  EXPECT_EQ(states[0].id, id);
  EXPECT_EQ(print(states[0].states), "RUNNING");
  world.fake.submit(test::small_job());
  EXPECT_EQ(world.run(world.client->job_states()).size(), 2u);
  const auto some = world.run(world.client->job_states({JobId{999}, id}));
  ASSERT_EQ(some.size(), 1u) << "one is not known";
  EXPECT_EQ(some[0].id, id);

  JobDescription change;
  change.time_limit = 60;
  world.run(world.client->update_job(id, change));
  EXPECT_EQ(world.run(world.client->get_job(id))->time_limit, 60u);
  change = {};
  change.nodes = 4;
  EXPECT_EQ(thrown<Refused>([&] { world.run(world.client->update_job(id, change)); }).number(), 2073);

  change.nodes.reset();
  change.excluded_nodes = std::vector<std::string>{};
  EXPECT_EQ(thrown<Refused>([&] { world.run(world.client->update_job(id, change)); }).number(), 2073);

  world.run(world.client->cancel_job(id));
  world.run(world.client->cancel_job(id));
  EXPECT_EQ(print(world.run(world.client->get_job(id))->states), "CANCELLED");
  EXPECT_EQ(thrown<Refused>([&] { world.run(world.client->update_job(id, change)); }).number(), 2084);
  world.loop.advance(400s);
  EXPECT_EQ(world.run(world.client->get_job(id)), std::nullopt);
  EXPECT_EQ(thrown<NotFound>([&] { world.run(world.client->cancel_job(id)); }).number(), 2017);
  EXPECT_EQ(thrown<NotFound>([&] { world.run(world.client->update_job(id, change)); }).number(), 2017);
  EXPECT_EQ(thrown<NotFound>([&] { world.run(world.client->allocation(id)); }).number(), 2017);
}

TEST(SlurmClient, RefusalsSayJobAndSlurmsWords) {
  World world;
  world.fake.add_nodes(test::kNodes);
  JobDescription job = small_job();
  job.partition = "nosuch";
  const Refused refused = thrown<Refused>([&] { world.run(world.client->submit_external(job)); });
  EXPECT_EQ(refused.number(), 2000);
  EXPECT_EQ(refused.http(), 422);
  EXPECT_STREQ(refused.what(), "submitting job \"small\": Slurm says: Invalid partition name specified [2000]");
  job = small_job();
  job.memory_per_node = 1 << 30;
  EXPECT_EQ(thrown<Refused>([&] { world.run(world.client->submit_external(job)); }).number(), 2014);
}

TEST(SlurmClient, OldSlurmGetsABatchJobThatHoldsTheNodes) {
  World world({.versions = {"v0.0.41", "v0.0.42"}});
  JobDescription job = small_job();
  job.group_id = "staff";
  EXPECT_THAT(thrown<Refused>([&] { world.run(world.client->submit_external(job)); }).what(), HasSubstr("\"staff\""));
  EXPECT_EQ(world.fake.model().submitted(), 0u);
  job.group_id = "2001";
  EXPECT_NE(world.run(world.client->submit_external(job)), JobId{});
  EXPECT_EQ(world.fake.model().submitted(), 1u);
}

TEST(SlurmClient, ALostAnswerOfASubmitIsUnknownNotRefused) {
  for (const Kind kind : {Kind::kDoneThen502, Kind::kDoneThenSilence, Kind::kDoneThenEmpty, Kind::kDoneThenHalf}) {
    SCOPED_TRACE(static_cast<int>(kind));
    World world;
    world.fake.add_nodes(test::kNodes);
    fault_on(world, "job/submit", kind);
    const auto error = thrown<Unreachable>([&] { world.run(world.client->submit_external(small_job())); });
    EXPECT_FALSE(error.surely_not_done);
    EXPECT_EQ(world.fake.model().submitted(), 1u);
  }
  World world;
  world.line = [](const net::Request& request) {
    net::Fault fault;
    if (request.method == "POST") fault.kind = net::Fault::Kind::kUnreachable;
    return fault;
  };
  EXPECT_TRUE(thrown<Unreachable>([&] { world.run(world.client->submit_external(small_job())); }).surely_not_done);
}

// A gateway between may speak JSON too: that says nothing of what was done.
TEST(SlurmClient, AnErrorWithoutSlurmsWordsProvesNothing) {
  World world;
  world.run(world.client->versions());
  net::ServerResponse gateway;
  const net::Handler behind = world.fake.handler();
  const auto transport = net::make_loopback(
      world.loop, [&](const net::ServerRequest& request, std::stop_token stop) -> Task<net::ServerResponse> {
        if (request.method == "GET") return behind(request, std::move(stop));
        return [](net::ServerResponse answer) -> Task<net::ServerResponse> { co_return answer; }(gateway);
      });
  ClientOptions options;
  options.token = fixed_token("token");
  Client client(world.loop, *transport, options);
  JobDescription change;
  change.comment = "x";
  for (const char* body : {R"({"message":"x"})", R"({"errors":[],"warnings":[]})", "{}"}) {
    for (const int status : {408, 500, 502}) {
      gateway = {.status = status, .body = body};
      SCOPED_TRACE(fmt::format("{} {}", status, body));
      EXPECT_FALSE(thrown<Unreachable>([&] { world.run(client.submit_external(small_job())); }).surely_not_done);
      EXPECT_FALSE(thrown<Unreachable>([&] { world.run(client.update_job(JobId{1}, change)); }).surely_not_done);
      EXPECT_FALSE(thrown<Unreachable>([&] { world.run(client.cancel_job(JobId{1})); }).surely_not_done);
    }
    gateway = {.status = 429, .body = body};
    thrown<Busy>([&] { world.run(client.submit_external(small_job())); });
    gateway = {.status = 404, .body = body};
    thrown<Malformed>([&] { world.run(client.submit_external(small_job())); });
  }
  gateway = {.status = 500,
             .body = R"({"errors":[{"description":"no","error_number":2000,"error":"Invalid partition"}]})"};
  EXPECT_EQ(thrown<Refused>([&] { world.run(client.submit_external(small_job())); }).number(), 2000);
  gateway = {.status = 500, .body = R"({"errors":[],"warnings":[{"description":"Field tasks is no number"}]})"};
  thrown<Refused>([&] { world.run(client.submit_external(small_job())); });
}

TEST(SlurmClient, ControllerDownIsUnreachableOnEveryPath) {
  World world;
  world.fake.add_nodes(test::kNodes);
  EXPECT_TRUE(world.run(world.client->ping()));
  world.fake.stop_controller();
  EXPECT_FALSE(world.run(world.client->ping()));
  EXPECT_EQ(thrown<Unreachable>([&] { world.run(world.client->list_jobs()); }).number(), 1800);
  EXPECT_EQ(thrown<Unreachable>([&] { world.run(world.client->job_states()); }).number(), -1);
  EXPECT_EQ(thrown<Unreachable>([&] { world.run(world.client->get_job(JobId{1})); }).number(), -1);
  EXPECT_EQ(thrown<Unreachable>([&] { world.run(world.client->cancel_job(JobId{1})); }).number(), 1);
  EXPECT_EQ(thrown<Unreachable>([&] { world.run(world.client->list_nodes()); }).number(), 1800);
  EXPECT_FALSE(thrown<Unreachable>([&] { world.run(world.client->submit_external(small_job())); }).surely_not_done);
  world.fake.start_controller();
  fault_on(world, "jobs/state", Kind::kControllerHung);
  EXPECT_EQ(thrown<Unreachable>([&] { world.run(world.client->job_states()); }).number(), 5004);
}

TEST(SlurmClient, HalfAListIsNoList) {
  World world;
  world.fake.add_nodes(test::kNodes);
  world.fake.submit(small_job());
  for (const Kind kind : {Kind::kDoneThenHalf, Kind::kDoneThenEmpty}) {
    fault_on(world, "/jobs/", kind);
    thrown<Malformed>([&] { world.run(world.client->list_jobs()); });
    thrown<Malformed>([&] { world.run(world.client->job_states()); });
    fault_on(world, "/nodes/", kind);
    thrown<Malformed>([&] { world.run(world.client->list_nodes()); });
  }
}

TEST(SlurmClient, ListsSinceThen) {
  World world;
  world.fake.add_nodes(test::kNodes);
  world.fake.submit(small_job());
  const JobList jobs = world.run(world.client->list_jobs());
  EXPECT_EQ(jobs.jobs.size(), 1u);
  EXPECT_FALSE(jobs.unchanged);
  world.loop.advance(5s);
  EXPECT_FALSE(world.run(world.client->list_jobs(jobs.last_update)).unchanged);  // within the second of grace
  EXPECT_TRUE(world.run(world.client->list_jobs(jobs.last_update + 2)).unchanged);
  world.fake.submit(small_job());
  EXPECT_EQ(world.run(world.client->list_jobs(jobs.last_update + 2)).jobs.size(), 2u);
  const NodeList nodes = world.run(world.client->list_nodes());
  EXPECT_EQ(nodes.nodes.size(), 4u);
  EXPECT_TRUE(world.run(world.client->list_nodes(nodes.last_update + 2)).unchanged);
}

TEST(SlurmClient, AStartOfSlurmctldIsAChangeOfPartitions) {
  World world;
  const std::int64_t begin = std::chrono::floor<std::chrono::seconds>(world.fake.now().time_since_epoch()).count();
  world.loop.advance(60s);
  EXPECT_FALSE(world.run(world.client->partitions_unchanged(begin)));
  EXPECT_TRUE(world.run(world.client->partitions_unchanged(begin + 2)));
  world.fake.stop_controller();
  world.fake.start_controller();
  EXPECT_FALSE(world.run(world.client->partitions_unchanged(begin + 2)));
  EXPECT_TRUE(world.run(world.client->partitions_unchanged(begin + 62)));
  EXPECT_FALSE(world.run(world.client->partitions_unchanged(0))) << "no question at all";
}

TEST(SlurmClient, Nodes) {
  World world;
  world.run(world.client->add_node(test::kNodes));
  EXPECT_EQ(thrown<Refused>([&] { world.run(world.client->add_node(test::kNodes)); }).number(), 2168);
  EXPECT_EQ(world.run(world.client->get_node("nosuch")), std::nullopt);
  const Node node = world.run(world.client->get_node("x1")).value();
  EXPECT_EQ(print(node.states), "IDLE+DYNAMIC_NORM+EXTERNAL");
  EXPECT_EQ(node.cpus, 8u);
  EXPECT_EQ(node.memory, 16000u);
  EXPECT_THAT(node.features, ElementsAre("a", "b"));
  NodeUpdate drain;
  drain.state = "DRAIN";
  drain.reason = "cordoned";
  drain.features = std::vector<std::string>{"c"};
  world.run(world.client->update_node("x1", drain));
  const Node drained = world.run(world.client->get_node("x1")).value();
  EXPECT_TRUE(drained.states.has(NodeFlag::kDrain));
  EXPECT_EQ(drained.reason, "cordoned");
  EXPECT_THAT(drained.active_features, ElementsAre("c"));
  EXPECT_EQ(thrown<NotFound>([&] { world.run(world.client->update_node("nosuch", drain)); }).number(), 2018);
  world.run(world.client->submit_external(small_job()));
  world.run(world.client->delete_node("x1"));
  EXPECT_EQ(thrown<Busy>([&] { world.run(world.client->delete_node("x2")); }).number(), 2016);
  EXPECT_EQ(thrown<NotFound>([&] { world.run(world.client->delete_node("x1")); }).number(), 2018);
  const auto partitions = world.run(world.client->list_partitions());
  ASSERT_EQ(partitions.size(), 1u);
  EXPECT_EQ(partitions[0].nodes, "x2,x3,x4");
  EXPECT_EQ(partitions[0].max_time, kInfinite);
}

TEST(SlurmClient, SlurmctldSaysWhatParametersItRunsWith) {
  World world;
  EXPECT_FALSE(world.run(world.client->slurmctld_parameters())) << "before v0.0.45";
  world.fake.set_slurmctld_parameters(std::vector<std::string>{"enable_configless", "config_digest=1"});
  EXPECT_EQ(world.run(world.client->slurmctld_parameters()),
            (std::vector<std::string>{"enable_configless", "config_digest=1"}));
  world.fake.stop_controller();
  EXPECT_THROW(world.run(world.client->slurmctld_parameters()), Error) << "not known is not none";
}

TEST(SlurmClient, ARefusedTokenIsAskedForAnewOnce) {
  ManualLoop loop;
  std::string good = "old";
  bascule::testing::FakeSlurmOptions options;
  options.accepts = [&good](std::string_view token) { return token == good; };
  bascule::testing::FakeSlurm fake(loop, options);
  const auto transport = net::make_loopback(loop, fake.handler());
  std::string current = "old";
  ClientOptions client_options;
  const auto source = [](std::string* now, const std::string* fresh, bool refresh) -> Task<std::string> {
    if (refresh) *now = *fresh;
    co_return *now;
  };
  client_options.token = [&](bool refresh) { return source(&current, &good, refresh); };
  Client client(loop, *transport, client_options);
  EXPECT_THAT(test::run(loop, client.job_states()), IsEmpty());
  good = "new";
  EXPECT_THAT(test::run(loop, client.job_states()), IsEmpty());
  EXPECT_EQ(current, "new");
  good = "";
  thrown<Unauthorized>([&] { test::run(loop, client.job_states()); });
}

TEST(SlurmClient, StopEndsACall) {
  World world;
  world.run(world.client->versions());
  fault_on(world, "jobs/state", Kind::kSilence);
  std::stop_source stop;
  world.loop.call_at(world.loop.now() + 1s, [&stop] { stop.request_stop(); });
  try {
    world.run(world.client->job_states({}, stop.get_token()));
    FAIL() << "no exception";
  } catch (const net::Error& e) {
    EXPECT_EQ(e.kind(), net::Error::Kind::kStopped);
  }
}

TEST(SlurmClient, ReportsEveryCall) {
  World world;
  std::vector<std::string> seen;
  ClientOptions options;
  options.token = fixed_token("t");
  options.report = [&seen](std::string_view operation, int http, std::int32_t number, Duration) {
    seen.push_back(std::string(operation) + " " + std::to_string(http) + " " + std::to_string(number));
  };
  Client client(world.loop, *world.transport, options);
  world.run(client.get_job(JobId{9}));
  EXPECT_THAT(seen, ElementsAre("find_version 200 0", "get_job 404 2017"));
}

constexpr int kManyJobs = 100'000;

Task<> write_many_jobs(net::BodySink& sink, std::stop_token) {
  std::string piece = R"({"meta":{},"jobs":[)";
  for (int i = 1; i <= kManyJobs; ++i) {
    piece += fmt::format(R"({}{{"job_id":{},"name":"{}","job_state":["PENDING"],"comment":"{:200}"}})",
                         i == 1 ? "" : ",", i, i == 7 ? "\xff" : "train", "");
    if (piece.size() > 60'000) co_await sink.write(std::exchange(piece, {}));
  }
  co_await sink.write(piece + R"(],"last_update":{"set":true,"infinite":false,"number":42}})");
}

Task<net::ServerResponse> serve_many_jobs(const net::ServerRequest& request, std::stop_token) {
  if (request.target.contains("/jobs/")) co_return net::ServerResponse{.stream = write_many_jobs};
  co_return net::ServerResponse{.body = R"({"meta":{"slurm":{"release":"26.05.5"}},"pings":[]})"};
}

// 60,000 jobs are 300 to 500 MB: the rows alone are kept.
TEST(JobTable, OfAnySizeIsReadInPieces) {
  ManualLoop loop;
  const auto transport = net::make_loopback(loop, serve_many_jobs);
  ClientOptions options;
  options.token = fixed_token("token");
  options.max_answer = 64'000;
  Client client(loop, *transport, options);
  const JobList list = test::run(loop, client.list_jobs());
  ASSERT_EQ(list.jobs.size(), static_cast<std::size_t>(kManyJobs));
  EXPECT_EQ(list.last_update, 42);
  EXPECT_EQ(list.jobs[6].name, "\xef\xbf\xbd") << "one byte that is no UTF-8 hides no other job";
  EXPECT_EQ(list.jobs.back().id, JobId{kManyJobs});
  EXPECT_EQ(list.jobs.back().name, "train");
}

// `broken`: the number of the job that has no id.
std::string states_of_many_jobs(int broken) {
  std::string body = R"({"jobs":[)";
  for (int i = 1; i <= kManyJobs; ++i) {
    body += fmt::format(R"({}{{"{}":"{}","state":["{}"]}})", i == 1 ? "" : ",", i == broken ? "x" : "job_id", i,
                        i == 9 ? "\xff" : "RUNNING");
  }
  return body + "]}";
}

net::Handler serve_states(std::string states) {
  return [states = std::move(states)](const net::ServerRequest& request, std::stop_token) {
    return [](std::string body) -> Task<net::ServerResponse> {
      co_return net::ServerResponse{.body = std::move(body)};
    }(request.target.contains("/jobs/state/") ? states : R"({"meta":{"slurm":{"release":"26.05.5"}},"pings":[]})");
  };
}

TEST(JobStates, OfAnyNumberOfJobsAreReadEachOnce) {
  ManualLoop loop;
  ClientOptions options;
  options.token = fixed_token("token");
  const auto transport = net::make_loopback(loop, serve_states(states_of_many_jobs(0)));
  Client client(loop, *transport, options);
  const std::vector<JobBrief> states = test::run(loop, client.job_states());
  ASSERT_EQ(states.size(), static_cast<std::size_t>(kManyJobs));
  for (std::uint32_t i = 0; i < states.size(); ++i) {
    ASSERT_EQ(states[i].id, JobId{i + 1});
    ASSERT_EQ(states[i].states.base, i == 8 ? JobState::kUnknown : JobState::kRunning);
  }
  const auto without = net::make_loopback(loop, serve_states(states_of_many_jobs(kManyJobs - 1)));
  Client other(loop, *without, options);
  EXPECT_THROW((void)test::run(loop, other.job_states()), Malformed);
}

// The first answer does not take the token, when it has told of a node already.
TEST(NodeTable, IsReadInPieces) {
  ManualLoop loop;
  int asked = 0;
  const auto transport = net::make_loopback(loop, [&asked](const net::ServerRequest& request, std::stop_token) {
    return [](bool first, bool nodes) -> Task<net::ServerResponse> {
      if (!nodes) co_return net::ServerResponse{.body = R"({"meta":{"slurm":{"release":"26.05.5"}},"pings":[]})"};
      if (first) {
        co_return net::ServerResponse{
            .status = 401, .body = R"({"nodes":[{"name":"old"}],"errors":[{"error_number":1007,"error":"denied"}]})"};
      }
      co_return net::ServerResponse{.stream = [](net::BodySink& sink, std::stop_token) -> Task<> {
        co_await sink.write(R"({"nodes":[{"name":"n1","cpus":4,"rea)");
        co_await sink.write("son\":\"\xff\"},{\"name\":\"n2\"");
        co_await sink.write(R"(,"cpus":8}],"last_update":7})");
      }};
    }(request.target.contains("/nodes/") && asked++ == 0, request.target.contains("/nodes/"));
  });
  ClientOptions options;
  options.token = [](bool fresh) -> Task<std::string> { co_return fresh ? "new" : "old"; };
  Client client(loop, *transport, options);
  const NodeList list = test::run(loop, client.list_nodes());
  EXPECT_EQ(asked, 2);
  ASSERT_EQ(list.nodes.size(), 2u);
  EXPECT_EQ(list.nodes[0].reason, "\xef\xbf\xbd");
  EXPECT_EQ(list.nodes[1].cpus, 8u);
  EXPECT_EQ(list.last_update, 7);
}

}  // namespace
}  // namespace bascule::slurm
