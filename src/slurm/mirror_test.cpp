#include "slurm/mirror.hpp"

#include <gmock/gmock.h>

#include "slurm/mirror_core.hpp"
#include "slurm/test_support.hpp"

namespace bascule::slurm {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = bascule::testing::FakeSlurmFault::Kind;
using test::small_job;

struct MirrorTest : ::testing::Test {
  explicit MirrorTest(bascule::testing::FakeSlurmOptions options = {}) : world(std::move(options)) {
    world.fake.add_nodes(test::kNodes);
    mirror = std::make_unique<ClusterMirror>(world.loop, *world.client, MirrorOptions{});
    mirror->on_job([this](const ClusterMirror::JobChange& change) {
      const auto& job = change.after ? change.after : change.before;
      told.push_back(job->id.str() + " " + (change.before ? print(change.before->states) : "-") + " > " +
                     (change.after ? print(change.after->states) : "-"));
    });
    mirror->on_health([this](bool up) { health.push_back(up); });
  }
  ~MirrorTest() override {
    world.fake.set_faults(nullptr);
    world.run(mirror->stop());
  }
  bool wait(const std::function<bool()>& done, Duration limit = 60s) { return world.loop.run_until(done, limit); }
  void sync() {
    mirror->start();
    ASSERT_TRUE(wait([this] { return mirror->synced() && mirror->nodes_synced(); }));
  }
  // By us, so that the mirror knows it at once.
  JobId submit_held() {
    JobDescription job = small_job();
    job.hold = true;
    const JobId id = world.run(world.client->submit_external(job));
    mirror->learn(*world.run(world.client->get_job(id)));
    return id;
  }
  void release(JobId id) {
    JobDescription change;
    change.hold = false;
    ASSERT_TRUE(world.fake.model().update_job(world.fake.now(), id, change));
  }
  // A held job gets the comment "new", and node x1 is drained, when slurmctld's clock has been set back by an hour.
  JobId change_behind_a_clock_that_is_set_back() {
    JobDescription held = small_job();
    held.hold = true;
    const JobId id = world.fake.submit(held);
    sync();
    world.loop.advance(1min);
    world.loop.step_wall(-1h);
    NodeUpdate drain;
    drain.state = "DRAIN";
    drain.reason = "disk";
    EXPECT_TRUE(world.fake.model().update_node(world.fake.now(), "x1", drain));
    JobDescription change;
    change.admin_comment = "new";
    EXPECT_TRUE(world.fake.model().update_job(world.fake.now(), id, change));
    return id;
  }

  test::World world;
  std::unique_ptr<ClusterMirror> mirror;
  std::vector<std::string> told;
  std::vector<bool> health;
};

TEST_F(MirrorTest, TellsTheLifeOfAJobOnceEachInOrder) {
  const JobId first = world.fake.submit(small_job());
  sync();
  EXPECT_EQ(mirror->nodes().size(), 4u);
  EXPECT_EQ(mirror->knowledge(first), Knowledge::kPresent);
  JobDescription job = small_job();
  job.hold = true;
  const JobId id = world.fake.submit(job);
  ASSERT_TRUE(wait([&] { return mirror->job(id) != nullptr; }));
  release(id);
  ASSERT_TRUE(wait([&] { return mirror->job(id)->states.base == JobState::kRunning; }));
  EXPECT_EQ(mirror->job(id)->nodes, "x1");
  ASSERT_TRUE(world.fake.model().cancel(world.fake.now(), id));
  ASSERT_TRUE(wait([&] { return mirror->job(id)->states.ended(); }));
  ASSERT_TRUE(wait([&] { return mirror->job(id) == nullptr; }, 10min));
  EXPECT_EQ(mirror->knowledge(id), Knowledge::kGone);
  EXPECT_THAT(told, ElementsAre("1 - > RUNNING", "2 - > PENDING", "2 PENDING > RUNNING", "2 RUNNING > CANCELLED",
                                "2 CANCELLED > -"));
}

// Who only wants states gets them at once, and everything with the next table.
TEST_F(MirrorTest, AJobWhoseDetailsNobodyWantsCostsNoQuestion) {
  mirror->set_wants_detail([](JobId, const Job*, const JobStates&) { return false; });
  sync();
  world.loop.advance(15s);
  world.fake.forget_calls();
  JobDescription job = small_job();
  job.hold = true;
  const JobId id = world.fake.submit(job);
  ASSERT_TRUE(wait([&] { return mirror->job(id) != nullptr; }, 11s));
  mirror->poke();
  release(id);
  ASSERT_TRUE(wait([&] { return mirror->job(id)->states.base == JobState::kRunning; }, 1s));
  EXPECT_EQ(mirror->job(id)->nodes, "");
  ASSERT_TRUE(wait([&] { return mirror->job(id)->nodes == "x1"; }, 11s));
  EXPECT_EQ(world.fake.calls("GET job"), 0u);
  mirror->want(id);
  world.loop.advance(1s);
  EXPECT_EQ(world.fake.calls("GET job"), 1u);
}

// The table of 5,000 nodes is the costliest of all answers.
TEST_F(MirrorTest, TheNodesAreListedForThoseWhoWroteThemNotForEveryJob) {
  sync();
  world.loop.advance(21s);
  world.fake.forget_calls();
  for (int i = 0; i < 100; ++i) {
    mirror->poke();
    world.loop.advance(100ms);
  }
  EXPECT_LE(world.fake.calls("GET nodes"), 1u);
  world.fake.forget_calls();
  mirror->poke_nodes();
  world.loop.advance(1100ms);
  EXPECT_EQ(world.fake.calls("GET nodes"), 1u);
}

TEST_F(MirrorTest, SeesAPokedStartWithinMilliseconds) {
  sync();
  world.loop.advance(2min);
  const JobId id = submit_held();
  world.loop.advance(1s);
  release(id);
  const TimePoint begin = world.loop.now();
  ASSERT_TRUE(wait([&] { return mirror->job(id)->states.base == JobState::kRunning; }));
  EXPECT_LE(world.loop.now() - begin, 25ms);
}

TEST_F(MirrorTest, RestsBelowFortyCallsAMinute) {
  for (int i = 0; i < 100; ++i) world.fake.submit(small_job());
  sync();
  world.loop.advance(1min);
  world.fake.forget_calls();
  world.loop.advance(1min);
  EXPECT_LT(world.fake.all_calls(), 40u);
}

// A mirror of somebody who waits for starts.
struct StartsTest : MirrorTest {
  StartsTest() {
    mirror = std::make_unique<ClusterMirror>(world.loop, *world.client, MirrorOptions{.expect_starts = true});
  }
  // One that Slurm expects to start after `delay`, and does.
  JobId waiting(Duration delay) {
    const JobId id = world.fake.submit(small_job());
    world.loop.advance(1s);
    world.fake.model().requeue(world.fake.now(), id, delay);
    return id;
  }
  bool runs(JobId id) { return world.fake.model().job(id)->view.states.base == JobState::kRunning; }
  bool seen(JobId id) { return mirror->job(id) && mirror->job(id)->states.base == JobState::kRunning; }
};

TEST_F(StartsTest, AStartThatSlurmExpectsIsSeenAtOnceAfterALongRest) {
  sync();
  const JobId id = waiting(20min);
  world.loop.advance(10min);
  ASSERT_EQ(mirror->job(id)->states.base, JobState::kPending);
  ASSERT_TRUE(wait([&] { return runs(id); }, 15min));
  const TimePoint begin = world.loop.now();
  ASSERT_TRUE(wait([&] { return seen(id); }));
  EXPECT_LE(world.loop.now() - begin, 100ms);
}

TEST_F(StartsTest, ANodeThatBecameFreeIsAReasonToLook) {
  sync();
  const JobId id = waiting(20min);
  world.loop.advance(5min);
  mirror->expect_start();
  world.loop.advance(200ms);
  world.fake.forget_calls();
  world.loop.advance(300ms);
  EXPECT_GE(world.fake.calls("GET jobs/state"), 2u);
  world.loop.advance(1min);
  EXPECT_FALSE(runs(id));
  world.fake.forget_calls();
  world.loop.advance(1min);
  EXPECT_LT(world.fake.all_calls(), 40u);
}

// With the other process of the bridge, fewer than 60 a minute, though every guess of Slurm's is wrong.
TEST_F(StartsTest, GuessesThatAreWrongForEverCostLittle) {
  sync();
  for (int i = 0; i < 20; ++i) waiting(24h);
  world.loop.advance(1min);
  for (int minute = 0; minute < 5; ++minute) {
    world.fake.forget_calls();
    for (int i = 0; i < 6; ++i) {  // soon, as ever
      world.loop.advance(10s);
      for (const auto& [id, job] : mirror->jobs()) {
        if (job->states.base == JobState::kPending) world.fake.model().expect_start(world.fake.now(), id, 3s);
      }
    }
    EXPECT_LT(world.fake.all_calls(), 44u) << "minute " << minute;
  }
}

// A look at all jobs takes slurmctld a while.
struct CloseLookTest : StartsTest {
  CloseLookTest() {
    world.fake.set_faults([this](const net::ServerRequest& request) {
      bascule::testing::FakeSlurmFault slow;
      const bool all = request.target.ends_with("/jobs/state/");
      if (all) slow.after = 100ms;
      if (request.target.contains("job_id=")) slow.after = close_look;
      looks_at_all += all;
      return slow;
    });
  }
  void expect_seen_at_once(JobId id) {
    ASSERT_TRUE(wait([&] { return runs(id); }));
    const TimePoint begin = world.loop.now();
    ASSERT_TRUE(wait([&] { return seen(id); }));
    EXPECT_LE(world.loop.now() - begin, 60ms);
  }
  int looks_at_all = 0;
  Duration close_look{};
};

TEST_F(CloseLookTest, AJobThatWasSubmittedIsLookedAtAlone) {
  sync();
  world.loop.advance(1min);
  const JobId id = submit_held();
  world.loop.advance(4s);
  looks_at_all = 0;
  for (int i = 0; i < 100; ++i) {  // however often it is poked
    mirror->poke();
    world.loop.advance(40ms);
  }
  EXPECT_LE(looks_at_all, 3);
  release(id);
  expect_seen_at_once(id);
}

TEST_F(CloseLookTest, SoAreThoseOfTheHighestPriority) {
  std::vector<JobId> all;
  for (int i = 0; i < 200; ++i) {
    JobDescription job = small_job();
    job.required_nodes = {"x1"};
    job.priority = 1000 + i;
    all.push_back(world.fake.submit(job));
  }
  sync();
  world.loop.advance(1min);
  mirror->poke();
  world.loop.advance(1s);
  const auto running = std::ranges::find_if(all, [this](JobId id) { return runs(id); });
  ASSERT_NE(running, all.end());
  ASSERT_TRUE(world.fake.model().cancel(world.fake.now(), *running));
  mirror->expect_start();
  expect_seen_at_once(all.back());
}

TEST_F(CloseLookTest, ManyStatesAreConfirmedByOneQuestion) {
  std::vector<JobId> all;
  for (int i = 0; i < 50; ++i) all.push_back(world.fake.submit(small_job()));
  sync();
  world.loop.advance(1min);
  while (looks_at_all > 0) {  // until one was just taken
    looks_at_all = 0;
    world.loop.advance(200ms);
  }
  while (looks_at_all == 0) world.loop.advance(1ms);
  world.loop.advance(1s);
  world.fake.forget_calls();
  close_look = 5ms;
  const TimePoint begin = world.loop.now();
  mirror->look_at({all.front()});
  world.loop.advance(1ms);
  EXPECT_EQ(world.fake.calls("GET jobs/state"), 1u);
  for (const JobId id : all) mirror->look_at({id});
  const auto confirmed = [&](JobId id) { return mirror->confirmed_at(id) >= begin; };
  EXPECT_TRUE(wait([&] { return std::ranges::all_of(all, confirmed); }, 120ms));
  EXPECT_EQ(world.fake.calls("GET job"), 0u);
  EXPECT_LE(world.fake.calls("GET jobs/state"), 2u);
}

TEST_F(MirrorTest, ManyChangesAreReadByOneTable) {
  JobDescription job = small_job();
  job.hold = true;
  for (int i = 0; i < 400; ++i) world.fake.submit(job);
  sync();
  world.loop.advance(30s);
  world.fake.forget_calls();
  for (std::uint32_t id = 1; id <= 400; ++id) ASSERT_TRUE(world.fake.model().cancel(world.fake.now(), JobId{id}));
  ASSERT_TRUE(wait([&] { return mirror->job(JobId{400})->states.ended() && mirror->job(JobId{1})->states.ended(); }));
  EXPECT_LT(world.fake.calls("GET job"), 20u);
  EXPECT_LE(world.fake.calls("GET jobs"), 2u);
}

struct ShortMemoryTest : MirrorTest {
  ShortMemoryTest() : MirrorTest({.model = {.min_job_age = 60s}}) {}
};

// Purged after MinJobAge: nobody waits for a word on jobs that are over.
TEST_F(ShortMemoryTest, PurgedJobsAreForgottenWithoutAQuestionEach) {
  JobDescription job = small_job();
  job.hold = true;
  for (int i = 0; i < 200; ++i) world.fake.submit(job);
  sync();
  for (std::uint32_t id = 1; id <= 200; ++id) ASSERT_TRUE(world.fake.model().cancel(world.fake.now(), JobId{id}));
  ASSERT_TRUE(wait([&] { return mirror->job(JobId{200})->states.ended() && mirror->job(JobId{1})->states.ended(); }));
  world.loop.advance(30s);
  world.fake.forget_calls();
  const TimePoint begin = world.loop.now();
  ASSERT_TRUE(wait([&] { return mirror->jobs().empty(); }, 10min));
  EXPECT_EQ(world.fake.calls("GET job"), 0u);
  EXPECT_LT(static_cast<double>(world.fake.all_calls()),
            40 * std::chrono::duration<double>(world.loop.now() - begin) / 1min);
  EXPECT_EQ(mirror->knowledge(JobId{1}), Knowledge::kGone);
  EXPECT_EQ(mirror->knowledge(JobId{200}), Knowledge::kGone);
}

TEST_F(MirrorTest, LiveJobsThatVanishAreAskedAboutOnceEach) {
  JobDescription job = small_job();
  job.hold = true;
  for (int i = 0; i < 200; ++i) world.fake.submit(job);
  sync();
  world.loop.advance(30s);
  world.fake.forget_calls();
  world.fake.model().lose_state(world.fake.now(), true, false);
  ASSERT_TRUE(wait([&] { return mirror->jobs().empty(); }, 10min));
  world.loop.advance(1min);
  EXPECT_EQ(world.fake.calls("GET job"), 200u);
}

TEST_F(MirrorTest, ADeadControllerMakesNothingGone) {
  const JobId id = world.fake.submit(small_job());
  sync();
  world.fake.stop_controller();
  ASSERT_TRUE(wait([&] { return !mirror->reachable(); }));
  EXPECT_THAT(mirror->why_unreachable(), HasSubstr("Slurm says"));
  EXPECT_EQ(mirror->knowledge(id), Knowledge::kUnknown);
  world.loop.advance(5min);
  EXPECT_NE(mirror->job(id), nullptr);
  world.fake.start_controller();
  ASSERT_TRUE(wait([&] { return mirror->reachable(); }));
  EXPECT_EQ(mirror->knowledge(id), Knowledge::kPresent);
  EXPECT_THAT(health, ElementsAre(true, false, true));
}

TEST_F(MirrorTest, AFreshControllerIsBelievedOnlyAfterAWhile) {
  const JobId id = world.fake.submit(small_job());
  sync();
  const TimePoint trusted = mirror->full_as_of();
  world.fake.model().lose_state(world.fake.now(), true, true);
  world.loop.advance(9s);
  EXPECT_NE(mirror->job(id), nullptr);
  EXPECT_EQ(mirror->full_as_of(), trusted);
  ASSERT_TRUE(wait([&] { return mirror->job(id) == nullptr; }, 2min));
  EXPECT_GT(mirror->full_as_of(), trusted);
}

TEST_F(MirrorTest, NoisesAreNotAbsence) {
  const JobId id = world.fake.submit(small_job());
  sync();
  for (const Kind kind : {Kind::kDoneThenEmpty, Kind::kDoneThenHalf, Kind::kHtml404, Kind::kRefuseConnection}) {
    world.fake.set_faults([kind](const net::ServerRequest&) { return bascule::testing::FakeSlurmFault{.kind = kind}; });
    world.loop.advance(1min);
    EXPECT_NE(mirror->job(id), nullptr);
    EXPECT_EQ(mirror->knowledge(id), Knowledge::kUnknown);
    world.fake.set_faults(nullptr);
    ASSERT_TRUE(wait([&] { return mirror->reachable(); }));
  }
  EXPECT_THAT(told, ElementsAre("1 - > RUNNING"));
}

// slurmctld's clock is set back: by its own word nothing changes for an hour.
TEST_F(MirrorTest, AClockThatIsSetBackHidesNothingForLong) {
  const JobId id = change_behind_a_clock_that_is_set_back();
  EXPECT_TRUE(wait([&] { return mirror->node("x1")->states.has(NodeFlag::kDrain); }, 6min));
  EXPECT_TRUE(wait([&] { return mirror->job(id)->admin_comment == "new"; }, 6min));
  EXPECT_TRUE(mirror->reachable());
}

// ... and while jobs come and go not for a minute: a table in which nothing changed is not believed.
TEST_F(MirrorTest, AClockThatIsSetBackHidesLessWhileJobsFlow) {
  const JobId id = change_behind_a_clock_that_is_set_back();
  const JobId other = world.fake.submit(small_job());
  EXPECT_TRUE(wait([&] { return mirror->job(other) != nullptr; }, 10s));
  EXPECT_TRUE(wait([&] { return mirror->node("x1")->states.has(NodeFlag::kDrain); }, 45s));
  EXPECT_TRUE(wait([&] { return mirror->job(id)->admin_comment == "new"; }, 45s));
}

// slurmctld that is killed loses what it has not saved: for so long a job's id may be given to another, whatever
// slurmctld's clock says of the job's age.
TEST_F(MirrorTest, AYoungJobMayBeLostByOurOwnClock) {
  sync();
  world.loop.advance(1min);
  world.loop.step_wall(-1h);
  const JobId id = world.fake.submit(small_job());
  ASSERT_TRUE(wait([&] { return mirror->job(id) != nullptr; }, 10s));
  world.loop.step_wall(1h);
  EXPECT_TRUE(mirror->may_be_lost(id)) << "its submit is an hour ago";
  world.loop.advance(kSurelySaved);
  EXPECT_FALSE(mirror->may_be_lost(id));
}

// slurmctld may have come back without it meanwhile, and all that has not been answered yet would tell.
TEST(MirrorCore, AJobThatNothingHasConfirmedForLongMayBeLost) {
  TimePoint now{1h};
  MirrorCore core({}, now);
  Job job;
  job.id = JobId{7};
  job.states.base = JobState::kRunning;
  for (const TimePoint end = now + 1min; now < end; now += 1s) {
    for (const auto& ask : core.next(now)) {
      if (ask.kind == MirrorCore::Kind::kStates) core.answered(ask, now, std::vector<JobBrief>{{job.id, job.states}});
      if (ask.kind == MirrorCore::Kind::kNodes) core.answered(ask, now, NodeList{});
      if (ask.kind == MirrorCore::Kind::kJobs) core.answered(ask, now, JobList{false, {job}, 1});
    }
  }
  EXPECT_FALSE(core.may_be_lost(job.id, now));
  EXPECT_TRUE(core.may_be_lost(job.id, now + kSurelySaved + 10s));
}

// Time passes between a look for questions and the setting of the alarm.
TEST(MirrorCore, SleepsWithoutAnAlarmOnlyWhileAQuestionIsOpen) {
  TimePoint now{1h};
  MirrorCore core({}, now);
  const auto asks = core.next(now);
  ASSERT_FALSE(asks.empty());
  for (const auto& ask : asks) core.failed(ask, now, "no answer");
  const TimePoint retry = core.wake(now);
  ASSERT_GT(retry, now);
  ASSERT_LT(retry, TimePoint::max());
  EXPECT_TRUE(core.next(retry - 1ns).empty());
  EXPECT_LE(core.wake(retry), retry);
  EXPECT_LE(core.wake(retry + 1s), retry + 1s);
  ASSERT_EQ(core.next(retry).size(), 1u);
  EXPECT_EQ(core.wake(retry), TimePoint::max()) << "its answer wakes";
}

// slurmctld has lost its state and gives the ids to others.
TEST(MirrorCore, AStateOfAnIdThatTablesLackedOrThatWasOverIsNoChangeOfThatJob) {
  for (const JobState before : {JobState::kCancelled, JobState::kPending}) {
    TimePoint now{1h};
    MirrorCore core({}, now);
    core.set_wants_detail([](JobId, const Job*, const JobStates&) { return false; });
    Job job;
    job.id = JobId{7};
    job.states.base = before;
    JobList with;
    with.jobs = {job};
    std::vector<JobBrief> states{{job.id, job.states}};
    const auto answer = [&](const JobList& table) {
      for (const auto& ask : core.next(now)) {
        if (ask.kind == MirrorCore::Kind::kStates) core.answered(ask, now, states);
        if (ask.kind == MirrorCore::Kind::kNodes) core.answered(ask, now, NodeList{});
        if (ask.kind == MirrorCore::Kind::kJobs) core.answered(ask, now, table);
      }
      now += 1s;
    };
    for (int i = 0; i < 6; ++i) answer(with);
    if (before == JobState::kPending) {
      states.clear();
      for (int i = 0; i < 12; ++i) answer({});
      ASSERT_TRUE(core.jobs().entry(job.id)->lost);
      with = {};
    }
    states = {{job.id, {JobState::kRunning}}};
    for (int i = 0; i < 4; ++i) answer(with);
    EXPECT_EQ(core.jobs().find(job.id)->states.base, before);
  }
}

// The random walk found it: a pod of the new job was said to hold a node by a job that Slurm does not know.
TEST(MirrorCore, AnIdThatWasForgottenAndIsGivenAnewIsNotGone) {
  TimePoint now{1h};
  MirrorCore core({.full_interval = 1h}, now);
  core.set_wants_detail([](JobId, const Job*, const JobStates&) { return false; });
  Job job;
  job.id = JobId{7};
  job.states.base = JobState::kCancelled;
  JobList table{false, {job}, 1};
  std::vector<JobBrief> states{{job.id, job.states}};
  const auto look = [&](Duration time) {
    for (const TimePoint end = now + time; now < end; now += 1s) {
      for (const auto& ask : core.next(now)) {
        if (ask.kind == MirrorCore::Kind::kStates) core.answered(ask, now, states);
        if (ask.kind == MirrorCore::Kind::kNodes) core.answered(ask, now, NodeList{});
        if (ask.kind == MirrorCore::Kind::kJobs) core.answered(ask, now, table);
      }
    }
  };
  look(10s);
  ASSERT_EQ(core.knowledge(job.id), Knowledge::kPresent);
  table = {false, {}, 2};
  states.clear();
  for (int i = 0; i < 3; ++i) {
    core.want_full(now);
    look(10s);
  }
  ASSERT_EQ(core.knowledge(job.id), Knowledge::kGone);
  states = {{job.id, {JobState::kRunning}}};
  look(10s);
  EXPECT_EQ(core.knowledge(job.id), Knowledge::kUnknown);
  states.clear();
  look(10s);
  EXPECT_EQ(core.knowledge(job.id), Knowledge::kGone);
}

// What a close look lacks may be lost: the table says more.
TEST(MirrorCore, ACloseLookThatLacksAJobIsAReasonForATable) {
  TimePoint now{1h};
  MirrorCore core({.expect_starts = true}, now);
  Job job;
  job.id = JobId{7};
  job.states.base = JobState::kPending;
  job.external = true;
  JobList table;
  table.jobs = {job};
  int tables = 0;
  int close_looks = 0;
  bool lost = false;
  const auto until = [&](TimePoint end) {
    for (; now < end; now += 10ms) {
      for (const auto& ask : core.next(now)) {
        if (ask.kind == MirrorCore::Kind::kNodes) core.answered(ask, now, NodeList{});
        tables += ask.kind == MirrorCore::Kind::kJobs;
        if (ask.kind == MirrorCore::Kind::kJobs) core.answered(ask, now, table);
        if (ask.kind != MirrorCore::Kind::kStates) continue;
        close_looks += !ask.jobs.empty();
        std::vector<JobBrief> states;
        if (!lost) states.push_back({job.id, job.states});
        if (!lost || !ask.jobs.empty()) core.answered(ask, now, states);  // that at all jobs takes long
      }
    }
  };
  until(now + 5s);
  EXPECT_EQ(close_looks, 0) << "those at all jobs cost nothing";
  tables = 0;
  lost = true;
  table.jobs.clear();
  core.poke(now);
  until(now + 1s);
  EXPECT_EQ(tables, 1);
  EXPECT_EQ(close_looks, 1);
}

// A look that was asked for later had confirmed what was known before.
TEST(MirrorTableTest, AnAnswerThatCameLateIsNoYoungerThanItsQuestion) {
  MirrorCore::JobTable table;
  Job job;
  job.id = JobId{7};
  job.states.base = JobState::kPending;
  table.learn(job.id, job, TimePoint{1s}, TimePoint{1s});
  table.confirm(job.id, TimePoint{5s});
  EXPECT_EQ(table.entry(job.id)->confirmed_at, TimePoint{5s});
  job.states.base = JobState::kRunning;
  table.learn(job.id, job, TimePoint{2s}, TimePoint{6s});
  EXPECT_EQ(table.entry(job.id)->confirmed_at, TimePoint{2s});
}

// slurmctld was away while it was asked. A table that is costly each time is asked for less often.
TEST(MirrorCore, OneTableThatCameLateDoesNotPutOffTheNext) {
  TimePoint now{1h};
  MirrorCore core({}, now);
  const auto gap_after = [&core, &now](Duration late) {
    const TimePoint begin = now;
    while (true) {
      for (const auto& ask : core.next(now)) {
        if (ask.kind == MirrorCore::Kind::kStates) core.answered(ask, now, std::vector<JobBrief>{});
        if (ask.kind == MirrorCore::Kind::kNodes) core.answered(ask, now, NodeList{});
        if (ask.kind != MirrorCore::Kind::kJobs) continue;
        const Duration gap = now - begin;
        now += late;
        core.answered(ask, now, JobList{});
        return gap;
      }
      now += 100ms;
    }
  };
  gap_after(50s);
  EXPECT_LE(gap_after(10ms), 11s);
  EXPECT_LE(gap_after(50s), 11s);
  EXPECT_LE(gap_after(50s), 11s);
  const Duration most = gap_after(10ms);
  EXPECT_GE(most, 25s) << "two in a row are costly";
  EXPECT_LE(most, 31s) << "or slurmctld was away twice";
}

// The answers that were slow waited behind another one.
TEST(MirrorCore, AFewSlowAnswersDoNotHaveTheNextJobsReadByATable) {
  TimePoint now{1h};
  MirrorCore core({.want_nodes = false}, now);
  std::vector<JobBrief> states;
  for (std::uint32_t id = 1; id <= 40; ++id) states.push_back({JobId{id}, {JobState::kPending}});
  Duration of_job = 2ms;
  int tables = 0;
  // Answers come one after the other.
  const auto until = [&](TimePoint end) {
    for (; now < end; now += 1ms) {
      for (const auto& ask : core.next(now)) {
        if (ask.kind == MirrorCore::Kind::kStates) core.answered(ask, now, states);
        if (ask.kind == MirrorCore::Kind::kJob) {
          Job job;
          job.id = ask.job;
          job.states = states[ask.job.value - 1].states;
          now += of_job;
          core.answered(ask, now, job);
        }
        if (ask.kind != MirrorCore::Kind::kJobs) continue;
        ++tables;
        now += 50ms;
        JobList table;
        for (const JobBrief& one : states) {
          table.jobs.emplace_back();
          table.jobs.back().id = one.id;
          table.jobs.back().states = one.states;
        }
        core.answered(ask, now, std::move(table));
      }
    }
  };
  const auto start = [&](std::uint32_t from, std::uint32_t to) {
    for (std::uint32_t id = from; id <= to; ++id) states[id - 1].states.base = JobState::kRunning;
    core.poke(now);
    until(now + 1s);
  };
  until(now + 21s);
  of_job = 60ms;
  start(1, 8);
  of_job = 2ms;
  tables = 0;
  start(9, 40);
  EXPECT_EQ(tables, 0);
  for (std::uint32_t id = 1; id <= 40; ++id) EXPECT_EQ(core.jobs().find(JobId{id})->states.base, JobState::kRunning);
}

TEST_F(MirrorTest, NextFullIsAskedForAfterTheCall) {
  sync();
  world.loop.advance(5s);
  const TimePoint begin = world.loop.now();
  EXPECT_TRUE(world.run(mirror->next_full({}, begin + 10s)));
  EXPECT_GE(mirror->full_as_of(), begin);
  EXPECT_LE(world.loop.now() - begin, 200ms);
  world.fake.stop_controller();
  EXPECT_FALSE(world.run(mirror->next_full({}, world.loop.now() + 3s)));
  world.fake.start_controller();
}

TEST_F(MirrorTest, AsksDirectly) {
  const JobId id = world.fake.submit(small_job());
  sync();
  ASSERT_TRUE(world.fake.model().cancel(world.fake.now(), id));
  EXPECT_TRUE(world.run(mirror->ask(id, {}))->states.ended());
  EXPECT_TRUE(mirror->job(id)->states.ended());
  EXPECT_EQ(mirror->confirmed_at(id), world.loop.now());
  EXPECT_EQ(world.run(mirror->ask(JobId{77}, {})), std::nullopt);
}

}  // namespace
}  // namespace bascule::slurm
