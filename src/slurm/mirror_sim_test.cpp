// Seeded random runs of MirrorCore against a model of slurmctld that restarts, comes up empty, answers late, partly,
// with old data or not at all.
#include <gmock/gmock.h>

#include <functional>
#include <map>
#include <queue>
#include <random>

#include "slurm/mirror_core.hpp"
#include "testing/fake_slurm_model.hpp"
#include "testing/from_environment.hpp"

namespace bascule::slurm {
namespace {

using namespace std::chrono_literals;
using bascule::testing::SlurmModel;
using Ask = MirrorCore::Ask;
using Kind = MirrorCore::Kind;

class Simulation {
 public:
  explicit Simulation(std::uint64_t seed)
      : random_(seed),
        model_(wall(), {.min_job_age = 30s, .schedule_delay = 200ms}),
        expects_starts_(seed % 3 != 0),
        core_({.expect_starts = expects_starts_}, now_) {
    if (seed % 2 == 0) {
      core_.set_wants_detail([this](JobId, const Job*, const JobStates&) { return dice(2) == 0; });
    }
    model_.add_partition("main", true);
    model_.add_node(wall(), "NodeName=n[1-6] CPUs=8 RealMemory=8000 State=EXTERNAL NodeAddr=1.2.3.4", true).value();
    model_.add_node(wall(), "NodeName=s[1-2] CPUs=8 RealMemory=8000", false).value();
  }

  void run() {
    pump();
    at(now_ + 1s, [this] { act(); });
    at(now_ + 20s, [this] { trouble(); });
    until(now_ + 10min);
    // Health and quiet: what is known must become what is.
    acting_ = false;
    controller_ = Controller::kUp;
    misbehave_ = false;
    until(now_ + 2min);
    // Jobs that waited for others still start, end and are purged: quiet is when nothing has moved for a minute.
    for (int i = 0; i < 120 && seconds() - model_.last_job_update() < 60; ++i) until(now_ + 10s);
    ASSERT_GE(seconds() - model_.last_job_update(), 60);
    check_converged();
    if (expects_starts_) EXPECT_GT(close_looks_, 0u);
    EXPECT_GT(starts_told_, 0u);
    check_rest();
  }

 private:
  enum class Controller { kUp, kDown, kEmpty };

  TimePoint start_{1h};
  TimePoint now_{1h};
  std::mt19937_64 random_;
  SlurmModel model_;
  bool expects_starts_;
  MirrorCore core_;
  std::multimap<TimePoint, std::function<void()>> events_;
  Controller controller_ = Controller::kUp;
  bool acting_ = true;
  bool misbehave_ = false;
  bool ids_reused_ = false;
  std::size_t asked_ = 0;
  std::size_t close_looks_ = 0;
  std::size_t starts_told_ = 0;
  std::map<std::uint32_t, std::pair<std::uint32_t, TimePoint>> ran_;  // by id: restarts, since when at most
  TimePoint wake_set_ = TimePoint::max();
  std::map<JobId, std::shared_ptr<const Job>> told_;
  std::map<std::string, std::shared_ptr<const Node>> told_nodes_;
  std::map<std::string, TimePoint> node_added_;
  std::optional<JobList> old_jobs_;

  WallTime wall() const { return WallTime(1'800'000'000s) + (now_ - start_); }
  std::uint64_t dice(std::uint64_t sides) { return random_() % sides; }
  Duration some(Duration most) {
    return Duration(static_cast<Duration::rep>(dice(static_cast<std::uint64_t>(most.count()) + 1)));
  }
  void at(TimePoint when, std::function<void()> what) { events_.emplace(when, std::move(what)); }

  void until(TimePoint end) {
    while (!events_.empty() && events_.begin()->first <= end) {
      auto node = events_.extract(events_.begin());
      now_ = std::max(now_, node.key());
      model_.catch_up(wall());
      node.mapped()();
      settle();
    }
    now_ = end;
  }

  // What the driver does after each event: tell, ask, set the timer.
  void settle() {
    tell();
    pump();
    check_knowledge();
    check_starts();
  }

  void pump() {
    for (const Ask& ask : core_.next(now_)) {
      ++asked_;
      // A look at all jobs takes its time.
      const bool all = ask.kind == Kind::kStates && ask.jobs.empty();
      close_looks_ += ask.kind == Kind::kStates && !all;
      at(now_ + some(all ? 100ms : 15ms), [this, ask] { execute(ask); });
    }
    const TimePoint wake = core_.wake(now_);
    if (wake != TimePoint::max() && wake != wake_set_) {
      wake_set_ = wake;
      at(std::max(wake, now_), [this, wake] {
        if (wake_set_ == wake) wake_set_ = TimePoint::max();
      });
    }
  }

  void tell() {
    for (const auto& change : core_.take_job_changes()) {
      const JobId id = (change.after ? change.after : change.before)->id;
      ASSERT_EQ(told_[id], change.before) << "a change does not begin where the last one ended";
      ASSERT_NE(change.before, change.after);
      told_[id] = change.after;
      if (!change.after) {
        told_.erase(id);
        if (!ids_reused_) EXPECT_TRUE(may_be_gone(id)) << "job " << id.str() << " is said to be gone and exists";
        EXPECT_NE(controller_, Controller::kEmpty);
      }
    }
    for (const auto& change : core_.take_node_changes()) {
      const std::string name = (change.after ? change.after : change.before)->name;
      ASSERT_EQ(told_nodes_[name], change.before);
      told_nodes_[name] = change.after;
      if (!change.after) {
        told_nodes_.erase(name);
        // Unless it was added again while the answer that denied it was on its way.
        const bool new_again = node_added_.contains(name) && now_ - node_added_[name] < 6s;
        EXPECT_TRUE(!model_.node(name) || new_again) << "node " << name << " is said to be gone and exists";
      }
    }
  }

  // Where an id was given out anew since the counter was lost, gone is the job that had it before. And of one that is
  // over, two old tables in a row are believed.
  bool may_be_gone(JobId id) const {
    const auto* job = model_.job(id);
    return job == nullptr || job->view.states.ended();
  }

  void check_knowledge() {
    const JobId id{static_cast<std::uint32_t>(1 + dice(model_.submitted() + 3))};
    if (!ids_reused_ && core_.knowledge(id) == Knowledge::kGone) EXPECT_TRUE(may_be_gone(id)) << "job " << id.str();
  }

  // Since when jobs have run at most: seen at every question.
  void watch_starts() {
    for (const auto& [id, job] : model_.jobs()) {
      if (job.view.states.base != JobState::kRunning) {
        ran_.erase(id);
      } else if (const auto [it, fresh] = ran_.try_emplace(id, job.view.restart_count, now_); !fresh) {
        if (it->second.first != job.view.restart_count) it->second = {job.view.restart_count, now_};
      }
    }
  }
  void check_starts() {
    for (const auto& [id, ran] : ran_) {
      const auto by = core_.started_by(JobId{id});
      const auto known = core_.jobs().find(JobId{id});
      const auto* job = model_.job(JobId{id});
      if (!by || job == nullptr || !same_one(*known, job->view) || known->restart_count != ran.first) continue;
      ++starts_told_;
      EXPECT_GE(*by, ran.second) << "job " << id << " had not started then";
    }
  }

  // --- the far side -------------------------------------------------------------------------------------------------

  void execute(const Ask& ask) {
    watch_starts();
    const Duration back = misbehave_ && dice(20) == 0 ? some(5s) : some(15ms);
    if (controller_ == Controller::kDown || (misbehave_ && dice(25) == 0)) {
      // Sometimes a cut or half an answer at once, sometimes a time-out.
      at(now_ + (dice(2) == 0 ? back : Duration(5s)), [this, ask] { core_.failed(ask, now_, "no answer"); });
      return;
    }
    const bool empty = controller_ == Controller::kEmpty;
    const bool old = misbehave_ && dice(10) == 0;
    switch (ask.kind) {
      case Kind::kStates: {
        std::vector<JobBrief> states;
        for (const auto& [id, job] : model_.jobs()) {
          if (!empty && ask.names(JobId{id})) states.push_back({JobId{id}, job.view.states});
        }
        at(now_ + back, [this, ask, states] { core_.answered(ask, now_, states); });
        break;
      }
      case Kind::kJobs: {
        JobList list = empty ? JobList{false, {}, seconds()} : job_table(ask.since);
        if (old && old_jobs_) list = *old_jobs_;
        if (!list.unchanged && !empty && dice(4) == 0) old_jobs_ = list;
        if (dice(2) == 0) leave_out_known(list);
        at(now_ + back, [this, ask, list] { core_.answered(ask, now_, list); });
        break;
      }
      case Kind::kJob: {
        const auto* job = empty ? nullptr : model_.job(ask.job);
        const auto view = job ? std::optional(job->view) : std::nullopt;
        at(now_ + back, [this, ask, view] { core_.answered(ask, now_, view); });
        break;
      }
      case Kind::kNodes: {
        NodeList list;
        list.last_update = empty ? seconds() : model_.last_node_update();
        list.unchanged = ask.since > 0 && ask.since - 1 >= list.last_update;
        for (const auto& [name, node] : model_.nodes()) {
          if (!empty && !list.unchanged) list.nodes.push_back(node.view);
        }
        if (list.unchanged) list.last_update = ask.since;
        at(now_ + back, [this, ask, list] { core_.answered(ask, now_, list); });
        break;
      }
      case Kind::kNode: {
        const auto* node = empty ? nullptr : model_.node(ask.node);
        const auto view = node ? std::optional(node->view) : std::nullopt;
        at(now_ + back, [this, ask, view] { core_.answered(ask, now_, view); });
        break;
      }
    }
  }

  std::int64_t seconds() const {
    return std::chrono::duration_cast<std::chrono::seconds>(wall().time_since_epoch()).count();
  }

  // As the client does that is told what is known.
  void leave_out_known(JobList& list) {
    std::erase_if(list.jobs, [this, &list](const Job& job) {
      const auto known = core_.jobs().find(job.id);
      const bool same = known && *known == job;
      if (same) list.same.push_back(job.id);
      return same;
    });
  }

  JobList job_table(std::int64_t since) const {
    JobList list;
    list.last_update = model_.last_job_update();
    if (since > 0 && since - 1 >= list.last_update) {
      list.unchanged = true;
      list.last_update = since;
      return list;
    }
    for (const auto& [id, job] : model_.jobs()) list.jobs.push_back(job.view);
    return list;
  }

  // --- users and troubles -------------------------------------------------------------------------------------------

  void act() {
    if (!acting_) return;
    at(now_ + some(dice(10) == 0 ? Duration(60s) : Duration(2s)), [this] { act(); });
    if (controller_ != Controller::kUp) return;
    const std::uint32_t newest = static_cast<std::uint32_t>(model_.submitted());
    const JobId any{static_cast<std::uint32_t>(1 + dice(newest + 1))};
    switch (dice(9)) {
      case 0:
      case 1:
      case 2: {
        JobDescription job;
        job.nodes = 1 + static_cast<std::uint32_t>(dice(2));
        job.cpus_per_task = 1 + static_cast<std::uint32_t>(dice(8));
        job.memory_per_node = 500;
        job.hold = dice(8) == 0;
        const auto id = model_.submit(wall(), job, true, 1s + some(40s));
        // Our own submits are learned as soon as they are answered, others' are not.
        if (id && dice(2) == 0) core_.learn(model_.job(*id)->view, now_);
        break;
      }
      case 3:
        (void)model_.cancel(wall(), any);
        core_.poke(now_);
        core_.poke_nodes(now_);
        core_.look_at({any});
        break;
      case 4: {
        JobDescription change;
        change.comment = std::to_string(random_());
        if (dice(2) == 0) change.hold = dice(2) == 0;
        (void)model_.update_job(wall(), any, change);
        break;
      }
      case 5: {
        const std::string name = "n" + std::to_string(1 + dice(6));
        if (dice(2) == 0) {
          (void)model_.delete_node(wall(), name);
        } else {
          const auto added =
              model_.add_node(wall(), "NodeName=" + name + " CPUs=8 RealMemory=8000 State=EXTERNAL", true);
          if (added) node_added_[name] = now_;
        }
        break;
      }
      case 6: {
        NodeUpdate change;
        change.state = dice(2) == 0 ? "DRAIN" : "UNDRAIN";
        (void)model_.update_node(wall(), "n" + std::to_string(1 + dice(6)), change);
        break;
      }
      case 7:
        model_.requeue(wall(), any, some(3s));
        break;
      default: {
        const Ask ask = core_.direct(any, now_);
        at(now_ + some(15ms), [this, ask] { execute(ask); });
      }
    }
  }

  void trouble() {
    if (!acting_) return;
    at(now_ + 5s + some(60s), [this] { trouble(); });
    misbehave_ = dice(3) == 0;
    if (dice(3) != 0 || controller_ != Controller::kUp) return;
    // Down long enough to be noticed; then, often, up without having read its state yet.
    controller_ = Controller::kDown;
    const Duration down = 6s + some(10s);
    const Duration empty = dice(2) == 0 ? some(8s) : Duration{};
    at(now_ + down, [this] {
      if (acting_) controller_ = Controller::kEmpty;
    });
    at(now_ + down + empty, [this] {
      if (!acting_) return;
      controller_ = Controller::kUp;
      // A few times everything really is lost.
      if (dice(4) != 0) return;
      const bool reset = dice(2) == 0;
      ids_reused_ |= reset;
      model_.lose_state(wall(), true, reset);
    });
  }

  void check_converged() {
    ASSERT_TRUE(core_.reachable());
    ASSERT_TRUE(core_.synced());
    EXPECT_EQ(core_.jobs().records().size(), model_.jobs().size());
    for (const auto& [id, job] : model_.jobs()) {
      const auto known = core_.jobs().find(JobId{id});
      ASSERT_TRUE(known) << "job " << id;
      EXPECT_EQ(*known, job.view) << "job " << id << " is known as " << print(known->states) << " and is "
                                  << print(job.view.states);
      EXPECT_EQ(core_.knowledge(JobId{id}), Knowledge::kPresent);
    }
    EXPECT_EQ(core_.nodes().records().size(), model_.nodes().size());
    for (const auto& [name, node] : model_.nodes()) {
      const auto known = core_.nodes().find(name);
      ASSERT_TRUE(known) << name;
      EXPECT_EQ(*known, node.view) << name;
    }
    EXPECT_LE(now_ - core_.full_as_of(), 15s);
  }

  void check_rest() {
    asked_ = 0;
    until(now_ + 1min);
    EXPECT_LT(asked_, 40u) << "calls in a minute at rest";
  }
};

TEST(MirrorSimulation, NeverLosesWhatExistsAndConverges) {
  // More with BASCULE_SEEDS.
  const std::uint64_t seeds = bascule::testing::from_environment("BASCULE_SEEDS", 150);
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Simulation simulation(seed);
    simulation.run();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace bascule::slurm
