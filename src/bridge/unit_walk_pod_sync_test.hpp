// The pod sync of the random walk: what pod_sync.cpp does of what is decided, call by call.
#pragma once

#include "bridge/pod_plan.hpp"
#include "bridge/unit_walk_process_test.hpp"

namespace bascule::bridge::unit_walk {

// As PodSync::Impl.
class WalkPodSync final : public Process {
 public:
  explicit WalkPodSync(World& world)
      : Process(world, 1, {.fast_interval = 200ms, .rest_interval = 5s, .want_nodes = false}) {
    core_.set_wants_detail([this](JobId id, const slurm::Job* known, const slurm::JobStates& now) {
      if (known != nullptr && index_.unit_of_job(id) != nullptr && hides_requeue(*known, now)) return true;
      const bool waited = known == nullptr || (known->states.base == slurm::JobState::kPending && !requeued(*known));
      const bool starts = waited && now == slurm::JobStates{slurm::JobState::kRunning};
      return !starts && index_.any_pod(id, holds_node);
    });
    list();
  }
  void forget() { memory_.clear(); }
  std::size_t remembers() const { return memory_.size(); }

 private:
  void on_pod(const PodPtr& before, const PodPtr& after) override {
    if (before) pods_.erase(before->meta.key);
    if (after) pods_[after->meta.key] = after;
    index_.on_pod(before, after);
  }
  void on_node(const NodePtr& before, const NodePtr& after) override {
    after ? (void)nodes_.insert(after->meta.key.name) : (void)nodes_.erase(before->meta.key.name);
  }
  std::optional<Duration> reconcile(const Uid& unit) override {
    PodSyncView view{unit, index_.pods(unit), index_.jobs(unit, find()), {}, core_.highest(), core_.synced()};
    view.restarted = restarted_;
    for (const PodPtr& pod : view.pods) {
      if (pod->bound() && nodes_.contains(pod->node_name.str()))
        view.hosts.emplace(pod->meta.uid, pod->node_name.str());
      if (const JobId id = label_of(*pod)) view.labelled[id] = {core_.knowledge(id), job(id)};
    }
    const PodSyncPlan plan = plan_pod_sync(view, memory_[unit], world_.now);
    if (memory_[unit].empty()) memory_.erase(unit);
    std::optional<Duration> again;
    if (plan.wake) again = *plan.wake - world_.now;
    if (!view.synced) again = 1s;
    for (const JobId id : plan.asks) core_.want(id);
    for (const PodSyncPlan::Tell& one : plan.conditions) tell_known(one, unit);
    return act(plan, unit) ? again : std::optional<Duration>(2s);
  }
  void tell_known(const PodSyncPlan::Tell& one, const Uid& unit) {
    decided("tell", unit);
    bool told = false;
    try {
      const auto effect = [&world = world_, one] { world.condition(one.pod, one.known, one.message); };
      write(
          [&] {
            effect();
            told = true;
          },
          effect);
    } catch (const NotDone&) {
    } catch (const Refused&) {
    }
    if (told) memory_[unit].told.insert_or_assign(one.pod->meta.uid, one.known ? std::string() : one.message);
    told ? add(unit) : add_after(unit, 30s);
  }
  bool act(const PodSyncPlan& plan, const Uid& unit) {
    for (const PodSyncPlan::Delete& one : plan.deletes) remove_pod(one, unit);
    for (const auto& [id, pods] : plan.pins) pin_job(id, pods, unit);
    if (!plan.cancels.empty() && watch_.cut) return false;
    bool all = true;
    for (const PodSyncPlan::Cancel& one : plan.cancels) {
      const bool cancelled = cancel_job(one, unit);
      all = all && cancelled;
    }
    if (!all) return false;
    for (const PodPtr& pod : plan.releases) {
      decided("release", unit);
      try {
        const auto effect = [&world = world_, pod] { world.release(pod); };
        write(effect, effect);
      } catch (const NotFound&) {
      }
      if (pods_.contains(pod->meta.key)) memory_[unit].released.insert_or_assign(pod->meta.uid, world_.now);
    }
    return true;
  }
  bool stays(const PodSyncPlan::Delete& one, const slurm::Job& now) const {
    if (now.states.base == slurm::JobState::kUnknown) return true;
    if (!index_.is_job_of(now, *one.pod)) return one.running_since.has_value();
    return runs(now) && !requeued_since(now, *one.pod);
  }
  void remove_pod(const PodSyncPlan::Delete& one, const Uid& unit) {
    decided("delete", unit);
    const auto asked = ask(one.job);
    if (asked && stays(one, *asked)) return;
    if (one.running_since) {
      bool running = false;
      slurm([&] { running = world_.slurm.model.last_partition_update() <= epoch_seconds(*one.running_since); });
      if (!running) {
        restarted_ = std::max(restarted_.value_or(*one.running_since), *one.running_since);
        return add(unit);
      }
    }
    const auto effect = [&world = world_, one] { world.remove_for_job(one.pod->meta.key, one.pod->meta.uid, one.why); };
    kube(effect, effect);
  }
  void pin_job(JobId id, const std::vector<PodPtr>& pods, const Uid& unit) {
    const auto now = ask(id);
    if (!now || now->states.base != slurm::JobState::kPending || !index_.has_job(unit, *now)) return;
    std::vector<std::string> hosts;
    for (const PodPtr& pod : pods) {
      if (std::ranges::find(hosts, pod->node_name.view()) == hosts.end()) hosts.push_back(pod->node_name.str());
    }
    std::ranges::sort(hosts);
    auto held = slurm::expand_hostlist(now->required_nodes);
    if (held) std::ranges::sort(*held);
    if (held && *held == hosts) return;
    decided("pin", unit);
    slurm::JobDescription change;
    change.required_nodes = std::move(hosts);
    try {
      const auto effect = [&world = world_, id, change] { world.update(id, change); };
      slurm(effect, world_.if_it_is_still_that(id, effect));
    } catch (const SlurmRefused&) {
    }
  }
  bool cancel_job(const PodSyncPlan::Cancel& one, const Uid& unit) {
    decided("cancel", unit);
    const TimePoint begin = world_.now;
    for (std::size_t i = 0; i < std::min(one.pods.size(), one.uids.size()); ++i) {
      if (!pod_over(one.pods[i], one.uids[i], unit)) return false;
    }
    for (const PodSyncPlan::Cancel::Elsewhere& other : one.elsewhere) {
      const PodPtr pod = read(other.pod, other.uid);
      const bool needs = pod && !pod->terminal() && (pod->bound() || !pod->deleting());
      if (needs && label_of(*pod) != other.job) return false;
    }
    const auto seen = job(one.job);
    if (!seen) return true;
    if (requeued(*seen) || core_.may_be_lost(one.job, world_.now)) {
      const auto asked = ask(one.job);
      if (!asked || !index_.has_job(unit, *asked)) return true;
    }
    const bool is_for_others = requeued(*seen) || memory_[unit].without_pods.contains(one.job);
    if (is_for_others && counts_on(one.job)) return false;
    if (index_.holds_pod(*seen)) return false;
    try {
      const auto effect = [&world = world_, one, begin] { world.cancel(one.job, "pod sync: " + one.why, begin); };
      slurm(effect, world_.if_it_is_still_that(one.job, effect));
    } catch (const SlurmRefused& no) {
      if (!no.gone) throw;
    }
    const auto now = ask(one.job);
    const bool ended = !now || now->states.ended();
    if (!ended) core_.poke(world_.now);
    return ended;
  }
  bool counts_on(JobId id) {
    bool any = false;
    kube([&] {
      any = std::ranges::any_of(world_.pods, [id](const auto& one) {
        const kube::Pod& pod = *one.second;
        return label_of(pod) == id && !pod.terminal() && (pod.bound() || !pod.deleting());
      });
    });
    return any;
  }
  bool pod_over(const NamespacedName& key, const Uid& uid, const Uid& unit) {
    const auto known = pods_.find(key);
    if (known != pods_.end() && known->second->meta.uid == uid && known->second->terminal()) return true;
    const PodPtr pod = read(key, uid);
    if (!pod || pod->terminal()) return true;
    if (pod->bound()) return false;
    return pod->deleting() || unit_of(*pod) != unit;
  }

  std::map<NamespacedName, PodPtr> pods_;
  std::set<std::string> nodes_;
  std::map<Uid, PodSyncMemory> memory_;
  std::optional<WallTime> restarted_;
};

}  // namespace bascule::bridge::unit_walk
