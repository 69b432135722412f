// The world of the random walk of plan_unit and plan_pod_sync (unit_walk_test.cpp): pods and nodes as the API server
// keeps them, a slurmctld, and what is true of both, whoever has heard of it. Values and a clock, no I/O. Every write
// is judged against the truth; what may not be is a violation.
#pragma once

#include <fmt/format.h>

#include <deque>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "base/time.hpp"
#include "bridge/names.hpp"
#include "bridge/record.hpp"
#include "bridge/unit_jobs.hpp"
#include "slurm/hostlist.hpp"
#include "testing/fake_slurm_model.hpp"

namespace bascule::bridge::unit_walk {

using namespace std::chrono_literals;
using ::bascule::testing::SlurmModel;

inline constexpr std::string_view kBridge = "bridge";
inline constexpr std::size_t kNodes = 7;
inline constexpr std::int64_t kMemory = std::int64_t{100} << 20;

// How calls fail. Of the process itself: it is over.
struct Killed {};
struct NotDone {};  // the API server did not answer, or with 5xx; it may have been done
struct Refused {};
struct Conflict {};
struct NotFound {};
struct SlurmAway {
  bool surely_not_done = false;
};
struct SlurmRefused {
  bool gone = false;  // there is no such job
};

// What makes pods.
struct Load {
  enum class Kind : std::uint8_t { kBare, kJob, kCoscheduling, kWorkload, kLeaderWorker };
  Kind kind = Kind::kBare;
  std::string name;
  unsigned size = 1;
  unsigned minimum = 1;
  bool packed = false;  // several of its pods may share a node
  bool over = false;    // makes no more pods
  std::string closed;
  unsigned made = 0;

  bool gang() const { return kind >= Kind::kCoscheduling; }
};

// What slurmctld says besides SlurmModel, and which job it is: ids are given anew.
struct Twist {
  std::uint32_t life = 0;
  bool suspended = false;
  bool counts_late = false;  // requeued: restarts are counted when it starts, a flag says so until then
  std::int64_t submit_time = 0;
  TimePoint held_since{};  // by slurmctld, for it could not be launched
};
struct Slurmctld {
  SlurmModel model;
  std::map<std::uint32_t, Twist> twists;
};

// A job, whatever slurmctld has forgotten of it.
struct Life {
  struct Run {
    std::uint32_t restarts = 0;
    std::set<std::string> nodes;
    TimePoint from{};
    std::optional<TimePoint> stopped = {};
  };
  JobId id;
  Uid unit;  // empty: another user's
  Uid owner;
  std::vector<Run> runs;
  std::optional<std::uint32_t> restarts;  // the most it had
  bool exclusive = true;
  bool ended = false, suspended = false;  // ever

  bool is_over_for(std::uint32_t start) const { return ended || suspended || restarts.value_or(0) > start; }
};

// The start of a job that a pod was bound for.
struct Seat {
  std::uint32_t life = 0;
  std::uint32_t restarts = 0;
  std::string node;
  TimePoint at{};
};

struct Change {
  PodPtr before, after;
  NodePtr node_before, node_after;
  TimePoint due{};
};
struct Watch {
  std::deque<Change> changes;
  bool cut = false;
};

class World {
 public:
  explicit World(std::uint64_t seed)
      : random(seed), slurm{SlurmModel(wall(), {.schedule_delay = 500ms, .first_job_id = 10}), {}} {
    slurm.model.add_partition("p", true);
    for (std::size_t i = 1; i <= kNodes; ++i) {
      const std::string name = "n" + std::to_string(i);
      (void)slurm.model.add_node(wall(), "NodeName=" + name + " CPUs=4 RealMemory=1000 State=EXTERNAL", true);
      add_node(name);
    }
    saved = slurm;
  }

  // --- time and chance ----------------------------------------------------------------------------------------------
  WallTime wall() const {
    return WallTime(std::chrono::sys_days{std::chrono::year{2026} / 1 / 1}) + now.time_since_epoch();
  }
  unsigned dice(unsigned sides) { return static_cast<unsigned>(random() % sides); }
  bool one_in(unsigned sides) { return dice(sides) == 0; }
  // Nothing fails while it is calm.
  bool fails(unsigned sides) { return !calm && one_in(sides * mildness); }
  void advance(Duration by) {
    now += by;
    ++steps;
    if (slurm_up) {
      slurm.model.catch_up(wall());
      // slurmctld writes its state each five seconds.
      if (!calm && now - saved_at >= 5s) {
        saved = slurm;
        saved_at = now;
      }
    }
    observe();
    arrive();
  }
  // Others act while a call is on its way.
  void pause() {
    if (calm) return;
    if (meanwhile) meanwhile();
  }
  // A request whose sender has given it up, or has died, may reach the far side all the same.
  void may_come_late(std::function<void()> effect) {
    if (effect && one_in(2)) late.emplace(now + 1ms * dice(20'000), std::move(effect));
  }
  void arrive() {
    while (!late.empty() && late.begin()->first <= now) {
      const auto one = late.extract(late.begin());
      tell([] { return std::string("what was sent long ago arrives"); });
      try {
        one.mapped()();
      } catch (const NotFound&) {
      } catch (const Conflict&) {
      } catch (const SlurmRefused&) {
      }
    }
  }
  void violated(std::string what) {
    if (violations.size() < 5) violations.push_back(fmt::format("at {}: {}", clock(), what));
    tell([&] { return "VIOLATION " + violations.back(); });
  }
  std::string clock() const {
    return fmt::format("{:.3f}", std::chrono::duration<double>(now.time_since_epoch()).count());
  }
  template <class F>
  void tell(F&& line) {
    if (telling) story.push_back(clock() + " " + line());
    if (story.size() > 400) story.pop_front();
  }

  // --- Kubernetes ---------------------------------------------------------------------------------------------------
  PodPtr pod(const NamespacedName& key) const {
    const auto it = pods.find(key);
    return it == pods.end() ? nullptr : it->second;
  }
  PodPtr pod(const NamespacedName& key, const Uid& uid) const {
    PodPtr found = pod(key);
    return found && found->meta.uid == uid ? found : nullptr;
  }
  void add_pod(const Load& load, const std::string& name) {
    auto made = std::make_shared<kube::Pod>();
    made->meta.key = {"ns", name};
    made->meta.uid = Uid(fmt::format("{}#{}", name, ++uids));
    made->meta.created = std::chrono::floor<std::chrono::seconds>(wall());
    made->scheduler_name = interner(kBridge);
    made->phase = kube::PodPhase::kPending;
    made->tolerations = {{interner(names::kManagedNodeTaint), {}, {}, true}};
    made->requests = {{interner("cpu"), Quantity(load.packed ? 1 : 3)}, {interner("memory"), Quantity(kMemory)}};
    if (load.kind != Load::Kind::kBare) {
      made->meta.owners = {
          {interner("batch/v1"), interner("Job"), interner(load.name), Uid("owner-" + load.name), true}};
    }
    if (load.kind == Load::Kind::kWorkload) made->scheduling_group = interner(load.name);
    if (load.kind == Load::Kind::kCoscheduling) set(made->meta.labels, names::kPodGroup, load.name);
    if (load.kind == Load::Kind::kLeaderWorker) {
      set(made->meta.labels, names::kLwsName, load.name);
      set(made->meta.labels, names::kLwsGroupKey, "k0");
    }
    if (fails(8)) made->scheduling_gates = {interner("quota")};
    write(nullptr, std::move(made));
  }
  template <class F>
  void change(const PodPtr& of, F&& how) {
    auto after = std::make_shared<kube::Pod>(*of);
    how(*after);
    const bool idle = !after->bound() || after->terminal();
    if (after->deleting() && after->meta.finalizers.empty() && idle) after.reset();
    write(of, std::move(after));
  }
  void remove(const PodPtr& of) {
    if (of->deleting()) return;
    change(of, [this](kube::Pod& pod) { pod.meta.deleted = wall(); });
  }
  void end(const PodPtr& of, kube::PodPhase phase) {
    if (!of->terminal()) change(of, [phase](kube::Pod& pod) { pod.phase = phase; });
  }
  // False: it is another by now.
  bool mark(const PodPtr& as_seen, JobId job) {
    const PodPtr now_there = pod(as_seen->meta.key, as_seen->meta.uid);
    if (!now_there || now_there->meta.resource_version != as_seen->meta.resource_version) return false;
    change(now_there, [&](kube::Pod& one) {
      set(one.meta.labels, names::kSlurmJobId, job.str());
      one.meta.finalizers = {interner(names::kFinalizer)};
    });
    tell([&] { return fmt::format("mark {} {}", as_seen->meta.uid.str(), job.value); });
    return true;
  }
  // `asked`: when the question was put by whose answer the job runs.
  // `demanded`: version of the pod.
  void bind(const UnitPlan::Bind& bind, const std::string& demanded, TimePoint asked) {
    const PodPtr target = pod(bind.pod->meta.key);
    if (!target) throw NotFound();
    if (target->meta.resource_version != demanded || target->meta.uid != bind.pod->meta.uid || target->bound() ||
        target->deleting())
      throw Conflict();
    const std::string node = bind.node->meta.key.name;
    const std::uint32_t life = check_binding(bind, node, asked);
    check_neighbours(bind, node, life);
    tell([&] { return fmt::format("bind {} to {} by {}", target->meta.uid.str(), node, bind.job.value); });
    seats[target->meta.uid] = {life, bind.restarts, node, now};
    ++bound;
    change(target, [&](kube::Pod& one) {
      one.node_name = interner(node);
      set(one.meta.annotations, names::kSlurmNode, node);
      if (bind.submitted > 0) set(one.meta.annotations, names::kSlurmSubmitted, std::to_string(bind.submitted));
      if (bind.restarts > 0) set(one.meta.annotations, names::kSlurmRestarts, std::to_string(bind.restarts));
    });
  }
  // By the pod sync: its job must be over.
  void remove_for_job(const NamespacedName& key, const Uid& uid, const std::string& why) {
    const PodPtr target = pod(key, uid);
    if (!target) return;
    tell([&] { return fmt::format("delete {}: {}", uid.str(), why); });
    const auto seat = seats.find(uid);
    const bool held = target->bound() && !target->terminal() && !target->deleting() && seat != seats.end();
    if (held && !lives.at(seat->second.life).is_over_for(seat->second.restarts) && !is_mistaken(*target)) {
      violated(fmt::format("pod {} is deleted though its job has not ended: {}", uid.str(), why));
    }
    remove(target);
  }
  void release(const PodPtr& as_seen) {
    const PodPtr target = pod(as_seen->meta.key, as_seen->meta.uid);
    if (!target) return;
    tell([&] { return "release " + target->meta.uid.str(); });
    change(target, [](kube::Pod& one) { one.meta.finalizers.clear(); });
  }
  void condition(const PodPtr& as_seen, bool known, const std::string& message) {
    const PodPtr target = pod(as_seen->meta.key, as_seen->meta.uid);
    if (!target) return;
    change(target, [&](kube::Pod& one) {
      one.conditions = {
          {interner(names::kSlurmJobKnown), {true, interner(known ? "True" : "False"), {}, interner(message)}}};
    });
  }
  void add_node(const std::string& name, std::string_view taint = {}) {
    auto node = std::make_shared<kube::Node>();
    node->meta.key = {"", name};
    node->meta.uid = Uid("node-" + name);
    node->allocatable = {
        {interner("cpu"), Quantity(4)}, {interner("memory"), Quantity(kMemory * 8)}, {interner("pods"), Quantity(110)}};
    if (!taint.empty()) node->taints = {{interner(taint), {}, interner("NoSchedule")}};
    write_node(name, std::move(node));
  }
  void remove_node(const std::string& name) { write_node(name, nullptr); }
  void set(kube::StringMap& map, std::string_view key, std::string_view value) {
    std::erase_if(map, [key](const auto& one) { return one.first.view() == key; });
    map.emplace_back(interner(key), interner(value));
    std::ranges::sort(map, {}, [](const auto& one) { return one.first.view(); });
  }

  // --- Slurm --------------------------------------------------------------------------------------------------------
  slurm::Job view_of(const SlurmModel::JobRecord& record) const {
    slurm::Job job = record.view;
    job.node_cpus.clear();
    for (const SlurmModel::Share& share : record.shares) job.node_cpus.push_back(share.cpus);
    const auto it = slurm.twists.find(job.id.value);
    if (it == slurm.twists.end()) return job;
    const Twist& twist = it->second;
    if (twist.submit_time != 0) job.submit_time = twist.submit_time;
    if (twist.suspended && job.states.base == slurm::JobState::kRunning) job.states.base = slurm::JobState::kSuspended;
    if (twist.counts_late && job.states.base == slurm::JobState::kPending && job.restart_count > 0) {
      --job.restart_count;
      job.states.flags |= static_cast<std::uint32_t>(slurm::JobFlag::kRequeued);
    }
    return job;
  }
  JobId submit(const slurm::JobDescription& asked, bool ours) {
    const std::optional<Duration> runs_for = ours ? std::nullopt : std::optional<Duration>(1s * (10 + dice(200)));
    const auto id = slurm.model.submit(wall(), asked, true, runs_for);
    if (!id) throw SlurmRefused();
    Twist& twist = slurm.twists[id->value] = {++last_life};
    Life& life = lives[twist.life];
    life.id = *id;
    life.exclusive = asked.exclusive.value_or(true);
    if (ours) {
      const auto record = parse_record(*asked.admin_comment);
      life.unit = record->unit;
      life.owner = record->owner;
    }
    tell([&] { return fmt::format("submit {} of {}", id->value, life.unit.str()); });
    observe();
    return *id;
  }
  void update(JobId id, const slurm::JobDescription& change) {
    const auto done = slurm.model.update_job(wall(), id, change);
    if (!done) throw SlurmRefused{done.error().number == 2017};
    if (change.admin_comment) life_of(id)->unit = parse_record(*change.admin_comment)->unit;
    tell([&] { return fmt::format("update {} for {}", id.value, life_of(id)->unit.str()); });
    observe();
  }
  // `decided`: when; who is bound after that can be seen by nobody.
  void cancel(JobId id, const std::string& why, TimePoint decided) {
    check_cancel(id, why, decided);
    tell([&] { return fmt::format("cancel {}: {}", id.value, why); });
    if (!slurm.model.cancel(wall(), id)) throw SlurmRefused{true};
    observe();
  }
  void requeue(JobId id) {
    slurm.model.requeue(wall(), id, 120s + 1s * dice(60));
    Twist& twist = slurm.twists[id.value];
    twist.submit_time = epoch_seconds(wall());
    twist.counts_late = one_in(2);
    twist.suspended = false;
    observe();
  }
  void stop_slurm() { slurm_up = false; }
  enum class Comeback : std::uint8_t { kWhole, kSaved, kEmpty, kEmptyIdsAnew };
  void start_slurm(Comeback how) {
    tell([&] { return fmt::format("slurmctld comes back {}", static_cast<int>(how)); });
    slurm_up = true;
    if (how == Comeback::kSaved) {
      slurm = *saved;
      for (const auto& [id, record] : slurm.model.jobs()) {
        if (const auto of = parse_record(record.view.admin_comment)) life_of(JobId{id})->unit = of->unit;
      }
    }
    if (how >= Comeback::kEmpty) {
      slurm.model.lose_state(wall(), true, how == Comeback::kEmptyIdsAnew);
      slurm.twists.clear();
    }
    slurm.model.restarted(wall());
    saved = slurm;
    saved_at = now;
    slurm.model.catch_up(wall());
    observe();
  }
  Life* life_of(JobId id) {
    const auto it = slurm.twists.find(id.value);
    return it == slurm.twists.end() || slurm.model.job(id) == nullptr ? nullptr : &lives.at(it->second.life);
  }
  // Of the job that has the id now.
  std::function<void()> if_it_is_still_that(JobId id, std::function<void()> effect) {
    const auto life = slurm.twists.contains(id.value) ? slurm.twists.at(id.value).life : 0;
    return [this, id, life, effect = std::move(effect)] {
      const auto twist = slurm.twists.find(id.value);
      if (slurm_up && twist != slurm.twists.end() && twist->second.life == life) effect();
    };
  }
  std::vector<JobId> jobs_that(const std::function<bool(const slurm::Job&)>& such) const {
    std::vector<JobId> out;
    for (const auto& [id, record] : slurm.model.jobs()) {
      if (such(view_of(record))) out.push_back(JobId{id});
    }
    return out;
  }
  // What began and ended since it was last looked at.
  void observe() {
    std::set<std::uint32_t> running;
    for (const auto& [id, record] : slurm.model.jobs()) {
      Twist& twist = slurm.twists.at(id);
      Life& life = lives.at(twist.life);
      const slurm::Job& job = record.view;
      life.ended |= job.states.ended();
      life.suspended |= twist.suspended;
      life.restarts = std::max(life.restarts.value_or(0), job.restart_count);
      if (job.states.base != slurm::JobState::kPending) twist.counts_late = false;
      if (!runs(job) || twist.suspended) continue;
      running.insert(twist.life);
      Life::Run run{job.restart_count, {}, now};
      for (const SlurmModel::Share& share : record.shares) run.nodes.insert(share.node);
      if (is_open(life)) {
        Life::Run& last = life.runs.back();
        if (last.restarts == run.restarts && last.nodes == run.nodes) continue;
        last.stopped = now;
      }
      open.insert(twist.life);
      life.runs.push_back(std::move(run));
      tell([&] { return fmt::format("job {} starts on {}", id, job.nodes); });
    }
    std::erase_if(open, [&](std::uint32_t life) {
      if (running.contains(life)) return false;
      lives.at(life).runs.back().stopped = now;
      tell([&] {
        const SlurmModel::JobRecord* record = slurm.model.job(lives.at(life).id);
        return fmt::format("job {} stops: {}", lives.at(life).id.value,
                           record != nullptr ? slurm::print(view_of(*record).states) : "lost");
      });
      return true;
    });
  }
  static bool is_open(const Life& life) { return !life.runs.empty() && !life.runs.back().stopped; }

  std::mt19937_64 random;
  TimePoint now{1h};
  unsigned mildness = 1;  // how seldom what fails does
  bool calm = false;
  std::function<void()> meanwhile;
  std::multimap<TimePoint, std::function<void()>> late;
  json::Interner interner;
  std::map<NamespacedName, PodPtr> pods;
  std::map<std::string, NodePtr> nodes;
  std::array<Watch, 2> watches;
  std::map<Uid, Seat> seats;
  std::map<std::string, Load> loads;
  Slurmctld slurm;
  std::optional<Slurmctld> saved;
  TimePoint saved_at{1h};
  bool slurm_up = true;
  std::map<std::uint32_t, Life> lives;
  std::set<std::uint32_t> open;  // those that run
  std::uint32_t last_life = 0;
  std::uint64_t version = 0, uids = 0, steps = 0, bound = 0, decisions = 0;
  std::vector<std::string> violations;
  bool telling = false;
  std::deque<std::string> story;

 private:
  Duration delay() {
    if (calm) return 5ms;
    return one_in(60) ? 1s * dice(15) : 1ms * dice(200);
  }
  void send(const Change& change) {
    for (Watch& watch : watches) {
      watch.changes.push_back(change);
      watch.changes.back().due = now + delay();
      if (watch.changes.size() < 2) continue;
      watch.changes.back().due = std::max(watch.changes.back().due, (watch.changes.end() - 2)->due);
    }
  }
  void write(PodPtr before, std::shared_ptr<kube::Pod> after) {
    const NamespacedName key = before ? before->meta.key : after->meta.key;
    if (after) after->meta.resource_version = std::to_string(++version);
    after ? (void)(pods[key] = after) : (void)pods.erase(key);
    if (!after) seats.erase(before->meta.uid);
    send({std::move(before), std::move(after), nullptr, nullptr});
  }
  void write_node(const std::string& name, NodePtr after) {
    const auto it = nodes.find(name);
    const NodePtr before = it == nodes.end() ? nullptr : it->second;
    after ? (void)(nodes[name] = after) : (void)nodes.erase(name);
    send({nullptr, nullptr, before, std::move(after)});
  }

  // No pod is bound without a job of its unit that ran on its node when slurmctld was last asked.
  std::uint32_t check_binding(const UnitPlan::Bind& bind, const std::string& node, TimePoint asked) {
    const Uid unit = unit_of(*bind.pod);
    const kube::OwnerReference* owner = bind.pod->meta.controller();
    for (auto it = lives.rbegin(); it != lives.rend(); ++it) {
      const Life& life = it->second;
      // What slurmctld saved last may be from before it was handed on.
      const bool is_its = life.unit == unit || (owner != nullptr && owner->uid == life.owner);
      if (life.id != bind.job || !is_its) continue;
      for (const Life::Run& run : life.runs) {
        if (run.restarts == bind.restarts && run.nodes.contains(node) && (!run.stopped || *run.stopped >= asked)) {
          return it->first;
        }
      }
    }
    violated(fmt::format("pod {} is bound to {} by job {}, which did not run there (asked {} ago)",
                         bind.pod->meta.uid.str(), node, bind.job.value,
                         std::chrono::duration<double>(now - asked).count()));
    return lives.empty() ? 0 : lives.rbegin()->first;
  }
  // Nor beside a pod of another job, unless both jobs had the node at one time.
  void check_neighbours(const UnitPlan::Bind& bind, const std::string& node, std::uint32_t life) {
    for (const auto& [uid, seat] : seats) {
      if (seat.node != node || seat.life == life) continue;
      const auto other = std::ranges::find_if(pods, [&](const auto& one) { return one.second->meta.uid == uid; });
      if (other == pods.end() || other->second->terminal()) continue;
      const bool together = std::ranges::any_of(lives.at(life).runs, [&](const Life::Run& a) {
        return a.restarts == bind.restarts && a.nodes.contains(node) &&
               std::ranges::any_of(lives.at(seat.life).runs, [&](const Life::Run& b) {
                 return b.restarts == seat.restarts && b.nodes.contains(node) &&
                        a.from <= b.stopped.value_or(TimePoint::max()) &&
                        b.from <= a.stopped.value_or(TimePoint::max());
               });
      });
      if (together && !lives.at(life).exclusive) continue;
      violated(fmt::format("pod {} of job {} is bound to {} beside pod {} of job {}", bind.pod->meta.uid.str(),
                           bind.job.value, node, uid.str(), lives.at(seat.life).id.value));
    }
  }
  // slurmctld has lost the pod's job, and has given its id to a later one of the same gang or controller: nothing tells
  // them apart.
  bool is_mistaken(const kube::Pod& pod) const {
    return std::ranges::any_of(lives, [&](const auto& one) {
      const Life& life = one.second;
      if (life.id != label_of(pod) || one.first <= seats.at(pod.meta.uid).life) return false;
      return life.unit == unit_of(pod) ||
             (pod.meta.controller() != nullptr && life.owner == pod.meta.controller()->uid);
    });
  }
  // A job that holds the node of a pod is not cancelled.
  void check_cancel(JobId id, const std::string& why, TimePoint decided) {
    const Life* life = life_of(id);
    if (life == nullptr || life->ended) return;
    if (life->unit.empty()) violated(fmt::format("job {} of another user is cancelled: {}", id.value, why));
    for (const auto& [key, one] : pods) {
      const auto seat = seats.find(one->meta.uid);
      if (seat == seats.end() || one->terminal() || &lives.at(seat->second.life) != life) continue;
      if (life->is_over_for(seat->second.restarts) || seat->second.at > decided) continue;
      violated(fmt::format("job {} is cancelled though pod {} runs on {}: {}", id.value, one->meta.uid.str(),
                           seat->second.node, why));
    }
  }
};

}  // namespace bascule::bridge::unit_walk
