// The scheduler of the random walk: what scheduler.cpp makes of what happens, and scheduler_act.cpp does of what is
// decided, call by call.
#pragma once

#include "bridge/node_table.hpp"
#include "bridge/unit_walk_process_test.hpp"

namespace bascule::bridge::unit_walk {

// As Scheduler::Impl.
class WalkScheduler final : public Process {
 public:
  explicit WalkScheduler(World& world) : Process(world, 0, {.fast_interval = 200ms, .expect_starts = true}) {
    config_.scheduler_name = kBridge;
    config_.partition = "p";
    table_.set_self(self_);
    table_.on_neighbour([this](const std::string& node, Neighbour& other) { look_at(node, other); });
    core_.set_wants_detail([this](JobId id, const slurm::Job* known, const slurm::JobStates& now) {
      if (known == nullptr && world_.now < look_for_lost_until_) return true;
      if (!now.ended() && index_.unit_of_job(id) != nullptr) return true;
      return index_.any_pod(id, [&now](const kube::Pod& pod) { return !now.ended() || wants_node(pod); });
    });
    list();
  }
  void forget() { memory_.clear(); }  // its memory alone
  std::size_t remembers() const { return memory_.size(); }

 private:
  void on_pod(const PodPtr& before, const PodPtr& after) override {
    table_.on_pod(before, after);
    index_.on_pod(before, after);
    const bool freed = before && holds_node(*before) && !(after && holds_node(*after));
    if (freed && label_of(*before)) core_.expect_start(world_.now);
  }
  void on_node(const NodePtr& before, const NodePtr& after) override {
    table_.on_node(before, after);
    nodes_changed();
  }
  void on_slurm_node(const MirrorCore::NodeTable::Change& change) override {
    table_.on_slurm_node(change.before, change.after);
    nodes_changed();
  }
  void on_job(const slurm::ClusterMirror::JobChange& change) override {
    const bool starts = change.after && runs(*change.after) && !(change.before && runs(*change.before));
    if (const Uid* unit = starts ? index_.unit_of_job(change.after->id) : nullptr) add(*unit);
  }
  void nodes_changed() {
    if (table_.generation() == nodes_seen_) return;
    nodes_seen_ = table_.generation();
    for (const Uid& unit : std::exchange(wait_for_nodes_, {})) add_after(unit, 200ms);
  }
  void look_at(const std::string& node, Neighbour& other) const {
    using Hold = Neighbour::Hold;
    const auto known = job(other.job);
    other.confirmed_at = confirmed_at(other.job);
    if (!known) {
      other.hold = core_.knowledge(other.job) == Knowledge::kGone ? Hold::kOver : Hold::kUnknown;
    } else if (!runs(*known) || requeued_since(*known, other.restarts) || !index_.is_job_of(*known, *other.pod) ||
               is_another(*known, *other.pod)) {
      other.hold = Hold::kOver;
    } else if (!known->nodes.empty()) {
      const auto there = slurm::hostlist_contains(known->nodes, node);
      other.hold = !there ? Hold::kUnknown : *there ? Hold::kHolds : Hold::kOver;
    }
  }
  SlurmView slurm_view() const {
    return {core_.synced(), core_.nodes_synced(), core_.reachable(),
            "away",         core_.full_as_of(),   core_.listed_since_away()};
  }
  Knowledge labelled(const UnitView& view) const {
    for (const PodPtr& pod : view.pods) {
      const JobId id = label_of(*pod);
      if (!id || !wants_node(*pod) || index_.unit_of_job(id) != nullptr) continue;
      if (std::ranges::any_of(view.jobs, [id](const JobView& one) { return one.job->id == id; })) continue;
      const Knowledge known = core_.knowledge(id);
      const auto seen = job(id);
      if (known == Knowledge::kPresent && seen && seen->states.ended()) continue;
      if (known == Knowledge::kPresent && seen && seen->admin_comment.empty()) continue;  // another's
      if (known != Knowledge::kGone) return known;
    }
    return Knowledge::kGone;
  }
  std::optional<Root> root_of(const kube::Pod& pod) const {
    const auto group = group_of(pod);
    const auto load = std::ranges::find_if(world_.loads, [&](const auto& one) {
      return group ? group->object.name == one.second.name : pod.meta.key.name.starts_with(one.second.name + "-");
    });
    if (load == world_.loads.end()) return std::nullopt;
    Root root;
    root.key = {"ns", load->second.name};
    if (group) root.gang = Gang{load->second.minimum, load->second.closed};
    if (load->second.packed) {
      root.annotations = {{world_.interner("slurmjob.slinky.slurm.net/exclusive"), world_.interner("false")}};
    }
    return root;
  }

  std::optional<Duration> reconcile(const Uid& unit) override {
    settle_bindings(unit);
    UnitView view;
    view.uid = unit;
    view.pods = index_.pods(unit);
    view.pods_followed = !watch_.cut;
    if (view.pods.empty()) {
      memory_.erase(unit);
      wait_for_nodes_.erase(unit);
      return std::nullopt;
    }
    const auto first = std::ranges::find_if(view.pods, [](const PodPtr& pod) { return wants_node(*pod); });
    const bool waits = first != view.pods.end();
    if (waits && !world_.fails(40)) view.root = root_of(**first);
    if (!view.root) view.root_problem = "its owner cannot be read";
    view.jobs = index_.jobs(unit, find());
    for (JobView& one : view.jobs) one.started_by = core_.started_by(one.job->id);
    view.labelled = labelled(view);
    if (waits && view.pods.size() == 1 && view.jobs.empty()) {
      view.inherits = index_.inheritance(*view.pods.front(), find(), handed_on_);
    }
    const UnitPlan plan =
        plan_unit(config_, self_, view, slurm_view(), table_, memory_[unit], world_.now, world_.wall());
    if (!plan.unseen.empty()) {
      for (const Uid& pod : plan.unseen) table_.usage().forget(pod);
      return Duration();
    }
    check_reasons(view, plan);
    if (plan.waits_for_nodes) wait_for_nodes_.insert(unit);
    act(plan, unit);
    const bool placed = std::ranges::none_of(index_.pods(unit), [](const PodPtr& pod) { return wants_node(*pod); });
    if (placed ? memory_[unit].settled() : memory_[unit].idle(world_.now)) memory_.erase(unit);
    return plan.wake ? std::optional(*plan.wake - world_.now) : std::nullopt;
  }

  // Whoever waits is told why, or something is done for him now, or is looked at again in a moment.
  void check_reasons(const UnitView& view, const UnitPlan& plan) {
    const bool acts = plan.submit || plan.update || !plan.marks.empty() || !plan.confirms.empty() ||
                      !plan.looks.empty() || !plan.cancels.empty() || plan.look_soon;
    if (acts || (plan.wake && *plan.wake <= world_.now + 2s)) return;
    for (const PodPtr& pod : view.pods) {
      if (!wants_node(*pod) || memory_[view.uid].binding.contains(pod->meta.uid)) continue;
      const auto is = [&pod](const PodPtr& other) { return other->meta.uid == pod->meta.uid; };
      const bool told =
          std::ranges::any_of(plan.waiting, [&](const Waiting& one) { return std::ranges::any_of(one.pods, is); });
      const bool binds = std::ranges::any_of(plan.binds, [&](const UnitPlan::Bind& one) { return is(one.pod); });
      if (!told && !binds) world_.violated(fmt::format("pod {} waits without a reason", pod->meta.uid.str()));
    }
  }

  void act(const UnitPlan& plan, const Uid& unit) {
    for (const UnitPlan::Cancel& one : plan.cancels) cancel_job(one, unit);
    if (plan.submit) submit(*plan.submit, unit);
    if (plan.update) {
      handed_on_.insert(plan.update->job);
      try {
        update(*plan.update, unit);
      } catch (...) {
        handed_on_.erase(plan.update->job);
        throw;
      }
      handed_on_.erase(plan.update->job);
    }
    for (const UnitPlan::Mark& one : plan.marks) mark_pod(one, unit);
    std::erase_if(memory_[unit].confirmed, [this](const auto& one) { return one.second < world_.now; });
    for (const JobId id : plan.confirms) confirm(id, unit);
    bind_pods(plan.binds, unit);
    if (!plan.looks.empty()) core_.look_at(plan.looks);
    if (plan.look_soon) core_.poke(world_.now);
  }
  void confirm(JobId id, const Uid& unit) {
    decided("confirm", unit);
    memory_[unit].confirmed.erase(id);
    const auto asked = ask(id);
    world_.tell([&] { return fmt::format("confirm {}: {}", id.value, asked ? slurm::print(asked->states) : "none"); });
    if (asked && confirms(*asked, job(id).get())) {
      memory_[unit].confirmed[id] = world_.now + kConfirmWithin;
      add(unit);
    } else {
      core_.poke(world_.now);
      add_after(unit, asked ? 100ms : 1s);
    }
  }
  void submit(const slurm::JobDescription& description, const Uid& unit) {
    decided("submit", unit);
    memory_[unit].submitting = true;
    slurm::Job made;
    try {
      slurm(
          [&] {
            if (world_.fails(15)) throw SlurmRefused();
            made.id = world_.submit(description, true);
          },
          [&world = world_, description] {
            if (world.slurm_up) world.submit(description, true);
          });
    } catch (const SlurmAway& away) {
      submit_failed(unit, made.id || !away.surely_not_done);
      made.id = {};
    } catch (const SlurmRefused&) {
      submit_failed(unit, false);
    }
    memory_[unit].submitting = false;
    add(unit);
    if (!made.id) return;
    memory_[unit].failures = 0;
    memory_[unit].submitted = world_.now;
    made.states.base = slurm::JobState::kPending;
    made.partition = "p";
    made.admin_comment = *description.admin_comment;
    made.external = true;
    core_.learn(std::move(made), world_.now);
    tell();
    core_.poke(world_.now);
  }
  void submit_failed(const Uid& unit, bool doubtful) {
    UnitMemory& mind = memory_[unit];
    mind.failures = std::min(mind.failures + 1, 10u);
    mind.hold_until = world_.now + std::min<Duration>(1s * (1u << (mind.failures - 1)), 60s);
    mind.hold_why = "no";
    mind.submitting = false;
    if (!doubtful) return;
    mind.doubt = world_.now;
    look_for_lost_until_ = world_.now + kDoubtSettles;
  }
  void update(const UnitPlan::Update& update, const Uid& unit) {
    decided("update", unit);
    const auto seen = job(update.job);
    if (seen && core_.may_be_lost(update.job, world_.now)) {
      const Uid* known = index_.unit_of_job(update.job);
      const Uid whose = known != nullptr ? *known : unit;
      const auto now = ask(update.job);
      if (!now || !index_.has_job(whose, *now)) return add_after(unit, 1s);
    }
    UnitMemory::Asked asked;
    try {
      const auto effect = [&world = world_, update] { world.update(update.job, update.description); };
      slurm(effect, world_.if_it_is_still_that(update.job, effect));
      ask(update.job);
    } catch (const SlurmRefused& no) {
      if (no.gone) {
        core_.poke(world_.now);
        return add_after(unit, 1s);
      }
      asked.refused = update.fingerprint;
      asked.why = "no";
    }
    UnitMemory::Asked& known = memory_[unit].updates[update.job];
    asked.pace = known.pace;
    asked.pace.mark(world_.now, kUpdateQuiet);
    known = asked;
    if (asked.refused.empty()) return;
    add(unit);
    core_.poke(world_.now);
  }
  void cancel_job(const UnitPlan::Cancel& cancel, const Uid& unit) {
    decided("cancel", unit);
    const TimePoint begin = world_.now;
    const auto seen = job(cancel.job);
    if (!seen) return;
    if (core_.may_be_lost(cancel.job, world_.now)) {
      const auto asked = ask(cancel.job);
      if (!asked || !index_.has_job(unit, *asked)) return core_.poke(world_.now);
    }
    if (holds_pod(cancel.job, unit)) return add_after(unit, 1s);
    memory_[unit].cancelling.insert_or_assign(cancel.job, cancel.why);
    try {
      const auto effect = [&world = world_, cancel, begin] {
        world.cancel(cancel.job, "scheduler: " + cancel.why, begin);
      };
      slurm(effect, world_.if_it_is_still_that(cancel.job, effect));
    } catch (const SlurmRefused&) {
    } catch (const SlurmAway& away) {
      if (away.surely_not_done) memory_[unit].cancelling.erase(cancel.job);
      throw;
    }
    memory_[unit].cancelling.erase(cancel.job);
    ask(cancel.job);
    core_.poke(world_.now);
  }
  bool holds_pod(JobId id, const Uid& unit) {
    bool holds = false;
    const std::optional<JobRecord> record = index_.record(id);
    const std::vector<Uid> named = record ? record->uids : std::vector<Uid>{};
    bool all = true;
    for (const PodPtr& pod : index_.pods(unit)) {
      const auto written = memory_[unit].marked.find(pod->meta.uid);
      const bool its = label_of(*pod) == id || (written != memory_[unit].marked.end() && written->second.job == id) ||
                       std::ranges::find(named, pod->meta.uid) != named.end();
      all = all && its && wants_node(*pod);
      if (!its || !wants_node(*pod)) continue;
      if (memory_[unit].doubted.contains(pod->meta.uid)) return true;
      look_for_binding(pod, unit, holds);
    }
    const auto seen = job(id);
    if (holds || all || !seen || !runs(*seen)) return holds;
    kube([&] {
      holds = std::ranges::any_of(world_.pods, [id](const auto& one) {
        return label_of(*one.second) == id && one.second->bound() && !one.second->terminal();
      });
    });
    return holds;
  }
  void look_for_binding(const PodPtr& pod, const Uid& unit, bool& holds) {
    const PodPtr now = read(pod->meta.key, pod->meta.uid);
    if (!now || !now->bound() || now->terminal()) return;
    holds = true;
    memory_[unit].binding.insert_or_assign(pod->meta.uid,
                                           UnitMemory::Binding{NodeName(now->node_name.str()), world_.now});
  }
  void settle_bindings(const Uid& unit) {
    for (const PodPtr& pod : index_.pods(unit)) {
      const auto known = memory_[unit].binding.find(pod->meta.uid);
      if (known == memory_[unit].binding.end() || !known->second.unsure || !wants_node(*pod)) continue;
      bool bound = false;
      look_for_binding(pod, unit, bound);
      const auto now = memory_[unit].binding.find(pod->meta.uid);
      if (bound || now == memory_[unit].binding.end()) continue;
      memory_[unit].doubted[pod->meta.uid] = {now->second.node, now->second.since + kDoubtSettles};
      memory_[unit].binding.erase(now);
    }
  }
  void unassume(const Uid& unit, const Uid& pod) {
    memory_[unit].binding.erase(pod);
    if (!memory_[unit].doubted.contains(pod)) table_.usage().forget(pod);
  }
  void mark_pod(const UnitPlan::Mark& mark, const Uid& unit) {
    decided("mark", unit);
    bool marked = false;
    std::string version;
    try {
      write(
          [&] {
            marked = world_.mark(mark.pod, mark.job);
            if (marked) version = world_.pod(mark.pod->meta.key)->meta.resource_version;
          },
          [&world = world_, mark] { world.mark(mark.pod, mark.job); });
    } catch (const Refused&) {
      deny(unit, mark.pod, UnitMemory::Denial::What::kMark);
    }
    if (!marked) return;
    memory_[unit].marked.insert_or_assign(mark.pod->meta.uid, UnitMemory::Marked{mark.job, version});
    add(unit);
  }
  void deny(const Uid& unit, const PodPtr& pod, UnitMemory::Denial::What what) {
    memory_[unit].deny(pod->meta.uid, what, "a policy", world_.now);
    add(unit);
  }
  void bind_pods(std::vector<UnitPlan::Bind> binds, const Uid& unit) {
    std::map<JobId, TimePoint> asked;
    drop_ended(binds, unit, asked);
    for (const UnitPlan::Bind& one : binds) bind_pod(one, unit, asked.at(one.job));
  }
  void drop_ended(std::vector<UnitPlan::Bind>& binds, const Uid& unit, std::map<JobId, TimePoint>& asked) {
    std::map<JobId, std::shared_ptr<const slurm::Job>> now;
    for (const UnitPlan::Bind& bind : binds) now.try_emplace(bind.job);
    for (auto& [id, known] : now) {
      const auto& confirmed = memory_[unit].confirmed;
      const auto before = confirmed.find(id);
      const bool listed = core_.listed_since_away() && world_.now - confirmed_at(id) <= kConfirmWithin;
      const bool fresh = listed || (before != confirmed.end() && world_.now <= before->second);
      const auto answer = fresh ? std::nullopt : ask(id);
      asked[id] = listed ? confirmed_at(id) : asked_[id];
      if (fresh && index_.has_job(unit, id)) known = job(id);
      if (answer && index_.has_job(unit, *answer)) known = std::make_shared<const slurm::Job>(*answer);
    }
    const auto ended = std::erase_if(binds, [&now](const UnitPlan::Bind& bind) {
      const std::shared_ptr<const slurm::Job>& known = now.at(bind.job);
      return !known || !runs(*known) || known->restart_count != bind.restarts;
    });
    if (ended > 0) add(unit);
  }
  void create_binding(const UnitPlan::Bind& bind, std::string version, TimePoint asked) {
    for (int more = 2;; --more) {
      try {
        const auto effect = [&world = world_, bind, version, asked] { world.bind(bind, version, asked); };
        return write(effect, effect);
      } catch (const Conflict&) {
        const PodPtr now = read(bind.pod->meta.key, bind.pod->meta.uid);
        const bool changed = now && !now->bound() && now->meta.resource_version != version;
        if (more == 0 || !changed || label_of(*now) != bind.job) throw;
        version = now->meta.resource_version;
      }
    }
  }
  void bind_pod(const UnitPlan::Bind& bind, const Uid& unit, TimePoint asked) {
    decided("bind", unit);
    const Uid& uid = bind.pod->meta.uid;
    const std::string node = bind.node->meta.key.name;
    table_.usage().assume(bind.pod, node, bind.job, bind.restarts);
    memory_[unit].binding.insert_or_assign(uid, UnitMemory::Binding{NodeName(node), world_.now});
    bool failed = false, unsure = false;
    try {
      const auto marked = memory_[unit].marked.find(uid);
      create_binding(
          bind, marked == memory_[unit].marked.end() ? bind.pod->meta.resource_version : marked->second.version, asked);
    } catch (const NotFound&) {
      failed = true;
    } catch (const Conflict&) {
      failed = unsure = true;
    } catch (const Refused&) {
      deny(unit, bind.pod, UnitMemory::Denial::What::kBinding);
      return unassume(unit, uid);
    } catch (...) {
      memory_[unit].binding[uid] = {NodeName(node), world_.now, true};
      throw;
    }
    if (!failed) return;
    unsure ? (void)(memory_[unit].binding[uid] = {NodeName(node), world_.now, true}) : unassume(unit, uid);
    memory_[unit].bind_after = world_.now + 1s;
    add_after(unit, 1s);
  }

  Config config_;
  Identity self_{std::string(kBridge), "cluster"};
  NodeTable table_;
  std::map<Uid, UnitMemory> memory_;
  std::set<Uid> wait_for_nodes_;
  std::set<JobId> handed_on_;
  std::uint64_t nodes_seen_ = 0;
  TimePoint look_for_lost_until_ = TimePoint::min();
};

}  // namespace bascule::bridge::unit_walk
