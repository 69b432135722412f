#include "bridge/unit_index.hpp"

#include <gtest/gtest.h>

#include <utility>

#include "bridge/names.hpp"
#include "bridge/unit_jobs.hpp"

namespace bascule::bridge {
namespace {

struct UnitIndexTest : ::testing::Test {
  PodPtr pod(const std::string& name, std::string_view scheduler, std::string_view owner = {}) {
    auto made = std::make_shared<kube::Pod>();
    made->meta.key = {"ns", name};
    made->meta.uid = Uid("uid-" + name);
    made->scheduler_name = interner(scheduler);
    made->phase = kube::PodPhase::kPending;
    if (!owner.empty()) {
      made->meta.owners = {{interner("batch/v1"), interner("Job"), interner("job"), Uid(owner), true}};
    }
    return made;
  }
  // A job whose record names the pod.
  void put_job(std::uint32_t id, const std::string& name, std::string_view owner, std::uint32_t restarts,
               std::string_view bridge = "bridge") {
    auto job = std::make_shared<slurm::Job>();
    job->id = JobId{id};
    job->states.base = slurm::JobState::kPending;
    job->external = true;
    job->restart_count = restarts;
    job->admin_comment = print_record({std::string(bridge),
                                       "cluster",
                                       Uid("uid-" + name),
                                       "spec",
                                       {{"ns", name}},
                                       {Uid("uid-" + name)},
                                       false,
                                       0,
                                       Uid(owner)});
    const auto before = jobs[JobId{id}];
    jobs[JobId{id}] = job;
    index.on_job({before, job});
  }
  UnitIndex::FindJob find() {
    return [this](JobId id) { return std::pair(jobs[id], TimePoint{}); };
  }

  json::Interner interner;
  std::set<Uid> changed;
  std::map<JobId, std::shared_ptr<const slurm::Job>> jobs;
  UnitIndex index{{"bridge", "cluster"}, [this](const Uid& unit) { changed.insert(unit); }};
};

// W53: pods of other schedulers and jobs of other bridges are nobody's here, whatever their records name.
TEST_F(UnitIndexTest, OthersPodsAndJobsAreNotTouched) {
  const PodPtr other = pod("a", "default-scheduler");
  index.on_pod(nullptr, other);
  put_job(7, "a", "", 0, "another bridge");
  EXPECT_TRUE(index.all().empty());
  EXPECT_TRUE(changed.empty());
  put_job(8, "a", "", 0);
  EXPECT_TRUE(index.pods(Uid("uid-a")).empty()) << "the job is ours, the pod is not";
}

// W48
TEST_F(UnitIndexTest, ARequeuedJobIsLeftToTheNextPodOfItsController) {
  const PodPtr first = pod("a", "bridge", "job");
  index.on_pod(nullptr, first);
  put_job(7, "a", "job", 1);
  const PodPtr next = pod("b", "bridge", "job");
  index.on_pod(nullptr, next);
  EXPECT_FALSE(index.inheritance(*next, find(), {})) << "its pod is still there";
  auto going = std::make_shared<kube::Pod>(*first);
  going->meta.deleted = WallTime{};
  index.on_pod(first, going);
  ASSERT_TRUE(index.inheritance(*next, find(), {}));
  EXPECT_EQ(index.inheritance(*next, find(), {})->job->id, JobId{7});
  EXPECT_FALSE(index.inheritance(*next, find(), {JobId{7}}));
  EXPECT_FALSE(index.inheritance(*pod("c", "bridge", "another"), find(), {}));
  EXPECT_FALSE(index.inheritance(*pod("d", "bridge"), find(), {}));
  auto elsewhere = std::make_shared<kube::Pod>(*next);
  elsewhere->meta.key.ns = "another";
  EXPECT_FALSE(index.inheritance(*elsewhere, find(), {})) << "whose owner is only said to be the same";
  put_job(8, "a", "job", 0);
  EXPECT_FALSE(index.inheritance(*next, find(), {JobId{7}})) << "never started: not requeued";

  changed.clear();
  put_job(7, "b", "job", 1);  // handed on
  EXPECT_TRUE(changed.contains(Uid("uid-a")) && changed.contains(Uid("uid-b")));
  EXPECT_EQ(index.jobs(Uid("uid-a"), find()).size(), 1u) << "the other one";
  EXPECT_EQ(index.jobs(Uid("uid-b"), find()).size(), 1u);
  EXPECT_FALSE(index.inheritance(*pod("e", "bridge", "job"), find(), {}));
  index.on_job({jobs[JobId{7}], nullptr});
  EXPECT_TRUE(index.jobs(Uid("uid-b"), find()).empty());
}

// Slurm would give the node away under it, should the next pod not fit beside it.
TEST_F(UnitIndexTest, ARequeuedJobThatHasStartedAgainIsLeftToNobodyWhileItsPodEnds) {
  auto going = std::make_shared<kube::Pod>(*pod("a", "bridge", "job"));
  going->meta.annotations = {{interner(names::kSlurmRestarts), interner("1")}};
  going->meta.labels = {{interner(names::kSlurmJobId), interner("7")}};
  going->meta.deleted = WallTime{};
  going->node_name = interner("n1");
  index.on_pod(nullptr, going);
  const PodPtr next = pod("b", "bridge", "job");
  index.on_pod(nullptr, next);
  put_job(7, "a", "job", 1);
  EXPECT_FALSE(index.inheritance(*next, find(), {}));
  put_job(7, "a", "job", 2);
  EXPECT_TRUE(index.inheritance(*next, find(), {})) << "requeued once more: it is the pod's no longer";
  put_job(7, "before a", "job", 1);
  EXPECT_FALSE(index.inheritance(*next, find(), {})) << "slurmctld has lost that it was handed on";
  put_job(7, "a", "job", 1);
  index.on_pod(going, nullptr);
  EXPECT_TRUE(index.inheritance(*next, find(), {}));
}

// Only the restarts tell that a job was requeued while nobody looked, and a look at the states does not bring them.
TEST(UnitJobsTest, AStateThatMayHideARequeueIsNotAllThatIsAskedFor) {
  using slurm::JobFlag;
  using slurm::JobState;
  const auto states = [](JobState base, bool flagged = false) {
    return slurm::JobStates{base, flagged ? static_cast<std::uint32_t>(JobFlag::kRequeued) : 0};
  };
  slurm::Job job;
  job.states = states(JobState::kPending);
  EXPECT_FALSE(hides_requeue(job, states(JobState::kRunning))) << "its first start";
  job.states = states(JobState::kPending, true);
  EXPECT_TRUE(hides_requeue(job, states(JobState::kRunning)));
  EXPECT_FALSE(hides_requeue(job, states(JobState::kCancelled)));
  job.states = states(JobState::kRunning);
  EXPECT_TRUE(hides_requeue(job, states(JobState::kPending)));
  EXPECT_FALSE(hides_requeue(job, states(JobState::kCompleted)));
  job.restart_count = 1;
  EXPECT_FALSE(hides_requeue(job, states(JobState::kPending))) << "known to be one";
}

// Its id is a user's now, whose comment is empty.
TEST_F(UnitIndexTest, AJobOfSlurmBridgeIsOneOnlyAsLongAsItsCommentSaysSo) {
  auto labelled = std::make_shared<kube::Pod>(*pod("a", "bridge"));
  labelled->meta.labels = {{interner(names::kSlurmJobId), interner("7")}};
  index.on_pod(nullptr, labelled);
  auto old = std::make_shared<slurm::Job>();
  old->id = JobId{7};
  old->external = true;
  old->admin_comment = R"({"pods":["ns/a"]})";
  jobs[JobId{7}] = old;
  index.on_job({nullptr, old});
  ASSERT_TRUE(index.has_job(Uid("uid-a"), JobId{7}));
  ASSERT_EQ(index.jobs(Uid("uid-a"), find()).size(), 1u);
  auto another = std::make_shared<slurm::Job>(*old);
  another->admin_comment = "";
  jobs[JobId{7}] = another;
  index.on_job({old, another});
  EXPECT_FALSE(index.has_job(Uid("uid-a"), JobId{7}));
  EXPECT_TRUE(index.jobs(Uid("uid-a"), find()).empty());
}

// A slurmctld without its state gave the id to a user's job, which would be cancelled for the pod that is over.
TEST_F(UnitIndexTest, AnIdGivenAnewIsNoJobOfOurs) {
  const auto set = [this](std::int64_t submitted, std::string comment) {
    auto job = std::make_shared<slurm::Job>(*jobs[JobId{7}]);
    job->submit_time = submitted;
    job->admin_comment = std::move(comment);
    index.on_job({std::exchange(jobs[JobId{7}], job), job});
  };
  put_job(7, "a", "", 0);
  const std::string comment = jobs[JobId{7}]->admin_comment;
  set(100, comment);
  set(100, "written by an administrator");
  EXPECT_EQ(index.jobs(Uid("uid-a"), find()).size(), 1u) << "the same job";
  changed.clear();
  set(200, "");
  EXPECT_TRUE(index.jobs(Uid("uid-a"), find()).empty());
  EXPECT_FALSE(index.record(JobId{7}));
  EXPECT_TRUE(changed.contains(Uid("uid-a")));
  set(300, comment);
  EXPECT_EQ(index.jobs(Uid("uid-a"), find()).size(), 1u);
}

// ... also when slurmctld lost it before any table had it.
TEST_F(UnitIndexTest, OfAJobThatWasJustSubmittedTheCommentTells) {
  for (const std::uint32_t restarts : {0u, 1u}) {
    put_job(7, "a", "", 0);
    const auto ours = jobs[JobId{7}];
    auto after = std::make_shared<slurm::Job>(*ours);
    after->submit_time = 200;
    index.on_job({ours, after});
    EXPECT_TRUE(index.has_job(Uid("uid-a"), JobId{7}));
    auto another = std::make_shared<slurm::Job>(*after);
    another->admin_comment = "";
    another->restart_count = restarts;
    index.on_job({ours, another});
    EXPECT_FALSE(index.has_job(Uid("uid-a"), JobId{7}));
    index.on_job({another, nullptr});
  }
}

// A job_submit plug-in wrote its words before any table had the job; users cannot.
TEST_F(UnitIndexTest, WhatAPluginWritesAtTheSubmitIsNoOtherJob) {
  put_job(7, "a", "", 0);
  auto learnt = std::make_shared<slurm::Job>(*jobs[JobId{7}]);
  learnt->name = "trainer";
  index.on_job({std::exchange(jobs[JobId{7}], learnt), learnt});
  auto after = std::make_shared<slurm::Job>(*learnt);
  after->submit_time = 200;
  after->admin_comment = "checked";
  index.on_job({std::exchange(jobs[JobId{7}], after), after});
  const auto seen = index.jobs(Uid("uid-a"), find());
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_TRUE(seen[0].overwritten);
  EXPECT_EQ(seen[0].record.note, "checked");
  auto back = std::make_shared<slurm::Job>(*after);
  back->admin_comment = print_record(seen[0].record);
  index.on_job({std::exchange(jobs[JobId{7}], back), back});
  EXPECT_FALSE(index.jobs(Uid("uid-a"), find()).at(0).overwritten);
  EXPECT_EQ(index.record(JobId{7})->note, "checked");
  auto another = std::make_shared<slurm::Job>(*after);
  another->name = "of a user";
  index.on_job({learnt, another});
  EXPECT_FALSE(index.has_job(Uid("uid-a"), JobId{7}));
}

// ... nor is a job whose record nobody has seen, where its pod, which waits for it or was given a node, says so.
TEST_F(UnitIndexTest, APodNamesTheJobWhoseRecordIsOverwritten) {
  auto job = std::make_shared<slurm::Job>();
  job->id = JobId{7};
  job->external = true;
  job->submit_time = 200;
  job->admin_comment = "INC-17";
  jobs[JobId{7}] = job;
  index.on_job({nullptr, job});
  const auto marked = [this](const std::string& name, std::string_view submitted, std::string_view node = "n1") {
    auto made = std::make_shared<kube::Pod>(*pod(name, "bridge"));
    made->node_name = interner(node);
    made->meta.labels = {{interner(names::kSlurmJobId), interner("7")}};
    made->meta.finalizers = {interner(names::kFinalizer)};
    made->meta.annotations = {{interner(names::kSlurmSubmitted), interner(submitted)}};
    index.on_pod(nullptr, made);
    return made;
  };
  const auto a = marked("a", "200");
  const auto b = marked("b", "199");
  const auto c = marked("c", "200", "");
  EXPECT_TRUE(index.has_job(Uid("uid-c"), *job) && index.is_job_of(*job, *c));
  EXPECT_TRUE(index.has_job(Uid("uid-a"), *job) && index.is_job_of(*job, *a));
  EXPECT_FALSE(index.has_job(Uid("uid-b"), *job) || index.is_job_of(*job, *b));
  const auto seen = index.jobs(Uid("uid-a"), find());
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_TRUE(seen[0].record.legacy) << "it is adopted";
  EXPECT_EQ(seen[0].record.uids, std::vector{Uid("uid-a")});
  EXPECT_EQ(seen[0].record.note, "INC-17");
  EXPECT_TRUE(index.jobs(Uid("uid-b"), find()).empty());
  slurm::Job answer = *job;
  answer.submit_time = 300;
  EXPECT_FALSE(index.has_job(Uid("uid-a"), answer)) << "by now the id is another's";
}

// It was handed on, or is another bridge's, and a table that was asked for before came in after the question.
TEST_F(UnitIndexTest, TheAnswerAboutAJobSaysWhoseItIsBeforeATableDoes) {
  put_job(7, "a", "", 0);
  const std::string a = jobs[JobId{7}]->admin_comment;
  put_job(7, "b", "", 0);
  const std::string b = std::exchange(jobs[JobId{7}], nullptr)->admin_comment;
  put_job(7, "b", "", 0, "another bridge");
  const std::string theirs = std::exchange(jobs[JobId{7}], nullptr)->admin_comment;
  put_job(7, "a", "", 0);
  slurm::Job answer = *jobs[JobId{7}];
  const auto has = [&](const std::string& comment) {
    answer.admin_comment = comment;
    return index.has_job(Uid("uid-a"), answer);
  };
  EXPECT_TRUE(has(a));
  EXPECT_TRUE(has("written by an administrator"));
  EXPECT_FALSE(has(b));
  EXPECT_FALSE(has(theirs));
  EXPECT_FALSE(has("")) << "a user's";
  index.on_job({jobs[JobId{7}], nullptr});
  EXPECT_FALSE(has(a));
}

// However often it is written over: by words, by slurm-bridge's record, by that of another bridge.
TEST_F(UnitIndexTest, ARecordThatIsWrittenOverIsRemembered) {
  put_job(7, "a", "job", 0);
  const std::string ours = jobs[JobId{7}]->admin_comment;
  const JobRecord known = *parse_record(ours);
  JobRecord theirs = known;
  theirs.bridge = "another bridge";
  theirs.unit = Uid("uid-b");
  const auto write = [this](std::string comment) {
    auto job = std::make_shared<slurm::Job>(*jobs[JobId{7}]);
    job->admin_comment = std::move(comment);
    index.on_job({std::exchange(jobs[JobId{7}], job), job});
  };
  const auto expect = [&](std::string note, bool overwritten) {
    const auto seen = index.jobs(Uid("uid-a"), find());
    ASSERT_EQ(seen.size(), 1u);
    JobRecord record = known;
    record.note = std::move(note);
    EXPECT_EQ(seen[0].record, record) << print_record(seen[0].record);
    EXPECT_EQ(seen[0].overwritten, overwritten);
    EXPECT_EQ(*index.record(JobId{7}), record);
    EXPECT_TRUE(index.has_job(Uid("uid-a"), JobId{7}));
  };
  expect("", false);
  write("INC-17");
  expect("INC-17", true);
  write("INC-18");
  expect("INC-18", true);
  write("");
  expect("INC-18", true);
  write(print_record(theirs));
  expect("INC-18", false);
  EXPECT_TRUE(index.jobs(Uid("uid-b"), find()).empty());
  write(R"({"pods":["ns/a"]})");
  expect("INC-18", false);
  write("INC-19");
  expect("INC-19", true);
  write(ours);
  expect("", false);
  write(print_record(theirs));
  expect("", false);
}

// That of a gang whose group was changed, too; and by what is remembered of it.
TEST_F(UnitIndexTest, ARecordNamesItsPodsWhateverTheirUnitIs) {
  const auto labelled = [this](const std::string& name) {
    auto made = std::make_shared<kube::Pod>(*pod(name, "bridge"));
    made->meta.labels = {{interner(names::kSlurmJobId), interner("7")}};
    made->node_name = interner("n1");
    return made;
  };
  const auto named = labelled("a");
  const auto other = labelled("b");
  put_job(7, "a", "", 0);
  auto job = std::make_shared<slurm::Job>(*jobs[JobId{7}]);
  JobRecord record = *parse_record(job->admin_comment);
  record.unit = Uid("gang");
  for (const std::string& comment : {print_record(record), std::string("INC-17")}) {
    auto after = std::make_shared<slurm::Job>(*job);
    after->admin_comment = comment;
    index.on_job({std::exchange(jobs[JobId{7}], after), after});
    EXPECT_TRUE(index.is_job_of(*after, *named));
    EXPECT_FALSE(index.is_job_of(*after, *other));
    index.on_pod(nullptr, other);
    EXPECT_FALSE(index.holds_pod(*after));
    index.on_pod(nullptr, named);
    EXPECT_TRUE(index.holds_pod(*after));
    index.on_pod(named, nullptr);
    index.on_pod(other, nullptr);
  }
}

// One of its pods goes: the others name the job still.
TEST_F(UnitIndexTest, AUnitIsAskedAboutAJobAsLongAsOneOfItsPodsNamesIt) {
  const auto member = [this](const std::string& name, std::string_view job) {
    auto made = std::make_shared<kube::Pod>(*pod(name, "bridge"));
    made->meta.labels = {{interner(names::kSlurmJobId), interner(job)}, {interner(names::kPodGroup), interner("gang")}};
    return made;
  };
  const auto a = member("a", "7");
  const auto b = member("b", "7");
  index.on_pod(nullptr, a);
  index.on_pod(nullptr, b);
  ASSERT_EQ(index.all().size(), 1u);
  const auto any = [this](std::uint32_t job) {
    return index.any_pod(JobId{job}, [](const kube::Pod&) { return true; });
  };
  index.on_pod(a, nullptr);
  EXPECT_TRUE(any(7));
  const auto moved = member("b", "8");
  index.on_pod(b, moved);
  EXPECT_FALSE(any(7));
  EXPECT_TRUE(any(8));
  index.on_pod(moved, nullptr);
  EXPECT_FALSE(any(8));
}

// An object may leave its controller, and another may take it.
TEST_F(UnitIndexTest, ARequeuedJobIsLeftToTheControllerThatItsRecordNamesNow) {
  const PodPtr one = pod("x", "bridge", "job");
  const PodPtr two = pod("y", "bridge", "another");
  put_job(7, "a", "job", 1);
  EXPECT_TRUE(index.inheritance(*one, find(), {}));
  put_job(7, "a", "another", 1);
  EXPECT_FALSE(index.inheritance(*one, find(), {}));
  EXPECT_TRUE(index.inheritance(*two, find(), {}));
  put_job(7, "a", "", 1);
  EXPECT_FALSE(index.inheritance(*two, find(), {}));
}

// Tens of thousands of them are in memory: what is not the mirror's any more is nobody's.
TEST_F(UnitIndexTest, AJobIsNotHeldLongerThanTheMirrorHoldsIt) {
  put_job(7, "a", "", 0);
  const std::weak_ptr<const slurm::Job> first = jobs[JobId{7}];
  put_job(7, "a", "", 1);
  EXPECT_TRUE(first.expired());
  const std::weak_ptr<const slurm::Job> second = jobs[JobId{7}];
  auto job = std::make_shared<slurm::Job>(*jobs[JobId{7}]);
  job->admin_comment = "INC-17";
  index.on_job({std::exchange(jobs[JobId{7}], job), job});
  EXPECT_TRUE(second.expired());
  EXPECT_EQ(job.use_count(), 2) << "here and the mirror's";
  put_job(7, "a", "", 0);
  const std::weak_ptr<const slurm::Job> last = jobs[JobId{7}];
  index.on_job({std::exchange(jobs[JobId{7}], nullptr), nullptr});
  EXPECT_TRUE(last.expired());
}

}  // namespace
}  // namespace bascule::bridge
