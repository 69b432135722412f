// A process of the bridge as the random walk runs it (unit_walk_test.cpp): what it has heard of the world
// (unit_walk_test.hpp), late, and its calls, which fail.
#pragma once

#include <variant>

#include "bridge/unit_index.hpp"
#include "bridge/unit_walk_test.hpp"
#include "slurm/mirror_core.hpp"

namespace bascule::bridge::unit_walk {

using slurm::Knowledge;
using slurm::MirrorCore;

class Process {
 public:
  Process(World& world, std::size_t number, slurm::MirrorOptions options)
      : world_(world),
        watch_(world.watches[number]),
        core_(options, world.now),
        index_({std::string(kBridge), "cluster"}, [this](const Uid& unit) { add(unit); }) {}
  Process(const Process&) = delete;
  virtual ~Process() = default;

  void kill() { alive_ = false; }
  bool alive() const { return alive_; }

  // A new process lists all first.
  void list() {
    watch_ = {};
    for (const auto& [name, node] : world_.nodes) heard({nullptr, nullptr, nullptr, node});
    for (const auto& [key, pod] : world_.pods) heard({nullptr, pod, nullptr, nullptr});
  }
  // The next change, when it is due.
  bool hear() {
    if (watch_.cut || watch_.changes.empty() || watch_.changes.front().due > world_.now) return false;
    const Change change = std::move(watch_.changes.front());
    watch_.changes.pop_front();
    heard(change);
    return true;
  }
  // The mirror asks what it wants to know. Answers take a while, and come in any order.
  void look() {
    core_.set_clock(world_.now, world_.wall());
    for (MirrorCore::Ask& ask : core_.next(world_.now)) questions_.push_back({std::move(ask), {}, false});
    if (questions_.empty()) return;
    const std::size_t which = world_.calm ? 0 : world_.dice(static_cast<unsigned>(questions_.size()));
    Question& one = questions_[which];
    const bool too_late = world_.now - one.ask.at > 60s;
    if (too_late) one.answer = {};
    if (!one.answered) {
      if (!too_late) one.answer = answer(one.ask);
      one.answered = true;
      if (!world_.calm && world_.one_in(3)) return;
    }
    const Question done = std::move(one);
    questions_.erase(questions_.begin() + static_cast<std::ptrdiff_t>(which));
    take(done);
    tell();
  }
  bool asks() const { return !questions_.empty(); }
  // Plans one unit that is due. Any may be, while it is not calm.
  bool work() {
    std::vector<Uid> ready;
    for (const auto& [unit, when] : due_) {
      if (when <= world_.now && !busy_.contains(unit)) ready.push_back(unit);
    }
    if (ready.empty()) return false;
    const Uid unit = ready[world_.calm ? 0 : world_.dice(static_cast<unsigned>(ready.size()))];
    due_.erase(unit);
    busy_.insert(unit);
    try {
      if (const auto again = reconcile(unit)) add_at(unit, world_.now + std::max<Duration>(*again, 10ms));
    } catch (const Killed&) {
      return true;
    } catch (const NotDone&) {
      add_at(unit, world_.now + 1s);
    } catch (const Refused&) {
      add_at(unit, world_.now + 1s);
    } catch (const Conflict&) {
      add_at(unit, world_.now + 1s);
    } catch (const SlurmAway&) {
      add_at(unit, world_.now + 1s);
    } catch (const SlurmRefused&) {
      add_at(unit, world_.now + 1s);
    }
    busy_.erase(unit);
    return true;
  }
  void add_any() {
    const std::vector<Uid> all = index_.all();
    if (!all.empty()) add(all[world_.dice(static_cast<unsigned>(all.size()))]);
  }
  TimePoint next() const {
    TimePoint when = core_.wake(world_.now);
    if (!watch_.changes.empty()) when = std::min(when, watch_.changes.front().due);
    for (const auto& [unit, at] : due_) when = std::min(when, at);
    return when;
  }

 protected:
  virtual void on_pod(const PodPtr& before, const PodPtr& after) = 0;
  virtual void on_node(const NodePtr& /*before*/, const NodePtr& /*after*/) {}
  virtual void on_job(const slurm::ClusterMirror::JobChange& /*change*/) {}
  virtual void on_slurm_node(const MirrorCore::NodeTable::Change& /*change*/) {}
  // When again; nullopt: when something changes.
  virtual std::optional<Duration> reconcile(const Uid& unit) = 0;

  void add(const Uid& unit) { add_at(unit, world_.now); }
  void add_after(const Uid& unit, Duration in) { add_at(unit, world_.now + in); }
  void add_at(const Uid& unit, TimePoint when) {
    const auto [it, fresh] = due_.try_emplace(unit, when);
    if (!fresh) it->second = std::min(it->second, when);
  }
  void all_again() {
    for (const Uid& unit : index_.all()) add(unit);
  }

  // --- calls: on the way something else happens, and the process may end
  // ----------------------------------------------
  void pause() {
    world_.pause();
    if (!alive_) throw Killed();
  }
  // `late`: what it does when it comes though nobody waits for it any more. What slurmrestd was asked outlives the
  // process; the API server has dropped it by the time that another leads.
  using Late = std::function<void()>;
  template <class Failure>
  void send(const Late& late, unsigned fails_one_in, const Failure& failure, bool outlives) {
    world_.pause();
    if (alive_ && !world_.fails(fails_one_in)) return;
    if (alive_ || outlives) world_.may_come_late(late);
    if (!alive_) throw Killed();
    throw failure;
  }
  template <class F>
  void kube(F&& effect, const Late& late = nullptr) {
    send(late, 30, NotDone(), false);
    effect();
    pause();
    if (world_.fails(30)) throw NotDone();
  }
  // A write that may be refused.
  template <class F>
  void write(F&& effect, const Late& late = nullptr) {
    kube(
        [&] {
          if (world_.fails(40)) throw Refused();
          effect();
        },
        late);
  }
  template <class F>
  void slurm(F&& effect, const Late& late = nullptr) {
    if (!world_.slurm_up) {
      pause();
      throw SlurmAway{world_.one_in(2)};
    }
    send(late, 40, SlurmAway{!late && world_.one_in(2)}, true);
    if (!world_.slurm_up) throw SlurmAway{world_.one_in(2)};
    effect();
    pause();
    if (world_.fails(40)) throw SlurmAway{};
  }
  std::optional<slurm::Job> ask(JobId id) {
    const MirrorCore::Ask question = core_.direct(id, world_.now);
    const TimePoint begin = world_.now;
    std::optional<slurm::Job> job;
    try {
      slurm([&] {
        if (const auto* record = world_.slurm.model.job(id)) job = world_.view_of(*record);
      });
    } catch (const SlurmAway&) {
      core_.failed(question, world_.now, "away");
      tell();
      throw;
    }
    asked_[id] = begin;
    core_.answered(question, world_.now, job);
    tell();
    return job;
  }
  PodPtr read(const NamespacedName& key, const Uid& uid) {
    PodPtr pod;
    kube([&] { pod = world_.pod(key, uid); });
    return pod;
  }
  void tell() {
    if (std::exchange(telling_, true)) return;
    while (true) {
      const auto jobs = core_.take_job_changes();
      const auto nodes = core_.take_node_changes();
      const bool health = told_ != core_.reachable();
      if (jobs.empty() && nodes.empty() && !health) break;
      if (health) {
        told_ = core_.reachable();
        all_again();
      }
      for (const auto& change : nodes) on_slurm_node(change);
      for (const auto& change : jobs) {
        index_.on_job({change.before, change.after});
        on_job({change.before, change.after});
        if (!std::exchange(was_synced_, core_.synced()) && core_.synced()) all_again();
      }
    }
    telling_ = false;
  }
  std::shared_ptr<const slurm::Job> job(JobId id) const { return core_.jobs().find(id); }
  TimePoint confirmed_at(JobId id) const {
    const auto* entry = core_.jobs().entry(id);
    return entry != nullptr ? entry->confirmed_at : TimePoint::min();
  }
  UnitIndex::FindJob find() const {
    return [this](JobId id) { return std::pair(job(id), confirmed_at(id)); };
  }
  void decided(std::string_view what, const Uid& unit) {
    ++world_.decisions;
    world_.tell([&] { return fmt::format("{} for {}", what, unit.str()); });
  }

  World& world_;
  Watch& watch_;
  MirrorCore core_;
  UnitIndex index_;
  std::map<JobId, TimePoint> asked_;
  bool alive_ = true;

 private:
  using Answer = std::variant<std::monostate, std::vector<slurm::JobBrief>, slurm::JobList, std::optional<slurm::Job>,
                              slurm::NodeList, std::optional<slurm::Node>>;
  struct Question {
    MirrorCore::Ask ask;
    Answer answer;  // monostate: it failed
    bool answered = false;
  };
  Answer answer(const MirrorCore::Ask& ask) const {
    if (!world_.slurm_up || world_.fails(60)) return {};
    const SlurmModel& model = world_.slurm.model;
    switch (ask.kind) {
      case MirrorCore::Kind::kStates: {
        std::vector<slurm::JobBrief> states;
        for (const auto& [id, record] : model.jobs()) {
          if (ask.names(JobId{id})) states.push_back({JobId{id}, world_.view_of(record).states});
        }
        return states;
      }
      case MirrorCore::Kind::kJobs: {
        slurm::JobList table{false, {}, epoch_seconds(world_.wall())};
        for (const auto& [id, record] : model.jobs()) table.jobs.push_back(world_.view_of(record));
        return table;
      }
      case MirrorCore::Kind::kJob: {
        const auto* record = model.job(ask.job);
        return record != nullptr ? std::optional(world_.view_of(*record)) : std::nullopt;
      }
      case MirrorCore::Kind::kNodes: {
        slurm::NodeList table{false, {}, epoch_seconds(world_.wall())};
        for (const auto& [name, record] : model.nodes()) table.nodes.push_back(record.view);
        return table;
      }
      case MirrorCore::Kind::kNode: {
        const auto* record = model.node(ask.node);
        return record != nullptr ? std::optional(record->view) : std::nullopt;
      }
    }
    return {};
  }
  void take(const Question& one) {
    std::visit(
        [&](const auto& answer) {
          if constexpr (std::is_same_v<std::decay_t<decltype(answer)>, std::monostate>) {
            core_.failed(one.ask, world_.now, "away");
          } else {
            core_.answered(one.ask, world_.now, answer);
          }
        },
        one.answer);
  }
  void heard(const Change& change) {
    if (change.node_before || change.node_after) return on_node(change.node_before, change.node_after);
    on_pod(change.before, change.after);
  }

  std::vector<Question> questions_;
  std::map<Uid, TimePoint> due_;
  std::set<Uid> busy_;
  bool telling_ = false, told_ = false, was_synced_ = false;
};

}  // namespace bascule::bridge::unit_walk
