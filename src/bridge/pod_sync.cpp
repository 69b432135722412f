#include "bridge/pod_sync.hpp"

#include <algorithm>
#include <exception>
#include <numeric>
#include <set>

#include "base/log.hpp"
#include "base/time.hpp"
#include "bridge/at_once.hpp"
#include "bridge/beside.hpp"
#include "bridge/bridge_metrics.hpp"
#include "bridge/claim_writer.hpp"
#include "bridge/names.hpp"
#include "bridge/node_facts.hpp"
#include "bridge/pace.hpp"
#include "bridge/pod_patch.hpp"
#include "bridge/pod_plan.hpp"
#include "bridge/record.hpp"
#include "bridge/unit_index.hpp"
#include "bridge/unit_jobs.hpp"
#include "runtime/controller.hpp"
#include "slurm/hostlist.hpp"

namespace bascule::bridge {

namespace {

using namespace std::chrono_literals;

json::Object release_patch() {
  return {
      {"metadata", json::Object{{"$deleteFromPrimitiveList/finalizers", json::Array{std::string(names::kFinalizer)}}}}};
}

json::Object known_patch(const PodSyncPlan::Tell& one, WallTime now) {
  json::Object condition{{"type", names::kSlurmJobKnown},
                         {"status", one.known ? "True" : "False"},
                         {"reason", one.reason},
                         {"message", one.message},
                         {"lastTransitionTime", print_rfc3339(now)}};
  return {{"status", json::Object{{"conditions", json::Array{std::move(condition)}}}}};
}

json::Object disruption_patch(const PodSyncPlan::Delete& one, WallTime now) {
  json::Object condition{{"type", "DisruptionTarget"},
                         {"status", "True"},
                         {"reason", one.disruption},
                         {"message", one.why},
                         {"lastTransitionTime", print_rfc3339(now)}};
  return {{"status", json::Object{{"conditions", json::Array{std::move(condition)}}}}};
}

// How long pods whose nodes Slurm has given away are kept for the word that they are not to blame, and nodes for claims
// of pods that are over.
constexpr Duration kFailureWaits = 30s;

// When what was not written, or refused, is tried again, if nothing else wakes the unit; and what is not over yet.
constexpr Duration kWriteAgain = 30s;
constexpr Duration kCancelAgain = 2s;

// For the first time: one that was requeued has its restarts to tell.
bool starts(const slurm::Job* known, const slurm::JobStates& now) {
  const bool waited = known == nullptr || (known->states.base == slurm::JobState::kPending && !requeued(*known));
  return waited && now == slurm::JobStates{slurm::JobState::kRunning};
}

}  // namespace

struct PodSync::Impl {
  Impl(Parts p, Identity s, std::size_t workers)
      : parts(p),
        counters(p.metrics),
        loop(p.kube.loop()),
        self(std::move(s)),
        index(self, [this](const Uid& unit) { controller.add(unit.str()); }),
        controller(
            loop, {.name = "pod-controller", .workers = workers, .pauses = {.longest = kLongestPause}},
            [this](std::string key, std::stop_token stop) { return reconcile(Uid(key), std::move(stop)); }, p.metrics) {
    parts.pods.on_change([this](const PodPtr& before, const PodPtr& after) { index.on_pod(before, after); });
    parts.mirror.on_job([this](const slurm::ClusterMirror::JobChange& change) {
      index.on_job(change);
      if (!was_synced && parts.mirror.synced()) all_again();
    });
    // Starts are the scheduler's. What a job of ours has become matters as long as a pod holds its node, and that it
    // was requeued as long as it lives: it may be another pod's since.
    parts.mirror.set_wants_detail([this](JobId id, const slurm::Job* known, const slurm::JobStates& now) {
      if (known != nullptr && index.unit_of_job(id) != nullptr && hides_requeue(*known, now)) return true;
      return !starts(known, now) && index.any_pod(id, holds_node);
    });
    parts.mirror.on_health([this](bool) { all_again(); });
    if (parts.devices == nullptr) return;
    parts.devices->on_our_claim = [this](const ClaimPtr& claim) {
      const PodPtr pod = parts.pods.get({claim->meta.key.ns, claim->pod_name});
      if (pod && index.ours(*pod)) controller.add(unit_of(*pod).str());
    };
  }

  Parts parts;
  PodSyncCounters counters;
  Loop& loop;
  Identity self;
  UnitIndex index;
  runtime::Controller controller;
  std::map<Uid, PodSyncMemory> memory;
  bool was_synced = false;
  Beside beside{loop};
  // The latest time since when slurmctld is known not to have been running. It stays true whatever happens.
  std::optional<WallTime> restarted;

  void all_again() {
    was_synced = parts.mirror.synced();
    for (const Uid& unit : index.all()) controller.add(unit.str());
  }

  // Its node's name in Slurm; empty: not known.
  std::string host_of(const kube::Pod& pod) const {
    if (parts.nodes == nullptr) return {};
    const auto node = parts.nodes->get({"", pod.node_name.str()});
    return node ? slurm_name_of(*node) : std::string();
  }

  PodSyncView view_of(const Uid& unit) const {
    PodSyncView view{unit, index.pods(unit),       index.jobs(unit, parts.mirror),
                     {},   parts.mirror.highest(), parts.mirror.synced()};
    view.restarted = restarted;
    for (const PodPtr& pod : view.pods) {
      if (parts.devices != nullptr) {
        if (ClaimPtr claim = parts.devices->claim_of(*pod)) view.device_claims.push_back(std::move(claim));
      }
      if (pod->bound()) {
        std::string host = host_of(*pod);
        if (!host.empty()) view.hosts.emplace(pod->meta.uid, std::move(host));
      }
      if (const JobId id = label_of(*pod)) view.labelled[id] = {parts.mirror.knowledge(id), parts.mirror.job(id)};
    }
    return view;
  }

  Task<runtime::Result> reconcile(Uid unit, std::stop_token stop) {
    const PodSyncView view = view_of(unit);
    const PodSyncPlan plan = plan_pod_sync(view, memory[unit], loop.now());
    if (memory[unit].empty()) memory.erase(unit);
    runtime::Result result;
    if (plan.wake) result.requeue_after = *plan.wake - loop.now();
    if (!view.synced) result.requeue_after = 1s;
    for (const PodSyncPlan::Warning& warning : plan.warnings) {
      parts.events.record(reference_to(*warning.pod), kube::EventType::kWarning, warning.reason, "Watching",
                          warning.note);
    }
    for (const JobId job : plan.asks) parts.mirror.want(job);
    for (const PodSyncPlan::Tell& one : plan.conditions) {
      beside.start(one.pod->meta.key.ns, one.pod->meta.uid,
                   [this, one, unit](std::stop_token ends) { return tell_known(one, unit, std::move(ends)); });
    }
    const std::optional<Duration> again = co_await act(plan, unit, stop);
    if (again) result.requeue_after = std::min(result.requeue_after.value_or(*again), *again);
    co_return result;
  }

  // When what could not be done is to be tried again. A job that is not given back keeps its own pods, and no others.
  Task<std::optional<Duration>> act(const PodSyncPlan& plan, Uid unit, std::stop_token stop) {
    std::optional<Duration> again;
    const auto later = [&again](Duration wait) { again = std::min(again.value_or(wait), wait); };
    co_await remove_pods(plan.deletes, unit, stop);
    for (const PodSyncPlan::Adopt& one : plan.adopts) co_await adopt_job(one, stop);
    for (const auto& [job, pods] : plan.pins) co_await pin_job(job, pods, unit, stop);
    for (const ClaimPtr& claim : plan.device_drops) {
      const bool dropped = co_await drop_claim(claim, unit, stop);
      if (!dropped) later(kWriteAgain);
    }
    // A member that was made and bound since would lose its node.
    if (!plan.cancels.empty() && !parts.pods.following()) co_return kCancelAgain;
    std::vector<PodPtr> releases = plan.releases;
    for (const PodSyncPlan::Cancel& one : plan.cancels) {
      const std::optional<Duration> wait = co_await cancel_job(one, unit, stop);
      if (!wait) continue;
      later(*wait);
      std::erase_if(releases, [&one](const PodPtr& pod) {
        return label_of(*pod) == one.job || std::ranges::find(one.uids, pod->meta.uid) != one.uids.end();
      });
    }
    co_await each_at_once(loop, releases, [this, &unit, &stop](const PodPtr& pod) { return release(pod, unit, stop); });
    co_return again;
  }

  // Of what fails and is not refused. Those of a unit wait together.
  bool may_pass(std::optional<TimePoint>& since) const {
    if (!since) since = loop.now();
    return loop.now() - *since < kFailureWaits;
  }

  // What a policy or a webhook of somebody else's does not let be written holds up nothing. False: it was not.
  Task<bool> tell(PodPtr pod, json::Object patch, std::stop_token stop) {
    std::string why;
    parts.must_lead();
    try {
      const auto told = co_await patch_pod(parts.kube, pod, std::move(patch), "status", stop);
      co_return told.has_value();
    } catch (const kube::NotDone& error) {
      why = error.what();
    }
    log::limited(log::Level::kWarning, 10s, "pod's condition not written", {{"pod", pod->meta.key}, {"why", why}});
    co_return false;
  }

  Task<> tell_known(PodSyncPlan::Tell one, Uid unit, std::stop_token stop) {
    bool told = false;
    try {
      told = co_await tell(one.pod, known_patch(one, loop.wall()), stop);
    } catch (const std::exception& error) {
      log::limited(log::Level::kWarning, 10s, "pod's condition not written",
                   {{"pod", one.pod->meta.key}, {"why", error}});
    }
    if (stop.stop_requested()) co_return;
    if (told) memory[unit].told.insert_or_assign(one.pod->meta.uid, one.known ? std::string() : one.message);
    told ? controller.add(unit.str()) : controller.add_after(unit.str(), kWriteAgain);  // it may be another by now
  }

  // Without this word its Job takes the pod for failed. An API server that fails may take it in a moment; one that
  // refuses does not, and Slurm has given the node away.
  Task<> tell_disruption(const PodSyncPlan::Delete& one, Uid unit, std::stop_token stop) {
    std::string why;
    parts.must_lead();
    try {
      co_await patch_pod(parts.kube, one.pod, disruption_patch(one, loop.wall()), "status", stop);
    } catch (const kube::Refused& error) {
      why = error.what();
    } catch (const kube::NotDone& error) {
      if (may_pass(memory[unit].undisrupted)) throw;
      why = error.what();
    }
    if (!why.empty()) {
      log::warning("pod deleted without a word that Slurm is the cause", {{"pod", one.pod->meta.key}, {"why", why}});
    }
  }

  Task<> release(PodPtr pod, Uid unit, std::stop_token stop) {
    parts.must_lead();
    co_await patch_pod(parts.kube, pod, release_patch(), {}, stop);
    if (parts.pods.get(pod->meta.key)) memory[unit].released.insert_or_assign(pod->meta.uid, loop.now());
  }

  // A pending job whose pods run already may start nowhere else.
  Task<> pin_job(JobId id, std::vector<PodPtr> pods, Uid unit, std::stop_token stop) {
    const std::optional<slurm::Job> job = co_await parts.mirror.ask(id, stop);
    if (!job || job->states.base != slurm::JobState::kPending || !index.has_job(unit, *job)) co_return;
    std::vector<std::string> hosts;
    for (const PodPtr& pod : pods) {
      std::string host = pod->node_name.str();
      try {
        const json::Value node = co_await parts.kube.get(kube::resources::kNodes, {"", host}, {}, stop);
        const std::string_view named = json::string_at(node, {"metadata", "labels", names::kSlurmNodeName});
        if (!named.empty()) host = named;
      } catch (const kube::NotFound&) {
        co_return;
      }
      if (std::ranges::find(hosts, host) == hosts.end()) hosts.push_back(std::move(host));
    }
    std::ranges::sort(hosts);
    auto held = slurm::expand_hostlist(job->required_nodes);
    if (held) std::ranges::sort(*held);
    if (held && *held == hosts) co_return;
    slurm::JobDescription change;
    change.required_nodes = std::move(hosts);
    std::string refused;
    parts.must_lead();
    try {
      co_await parts.slurm.update_job(id, std::move(change), stop);
    } catch (const slurm::Refused& error) {
      refused = error.what();
    } catch (const slurm::NotFound& error) {  // the job, or one of the nodes
      refused = error.what();
    }
    if (!refused.empty()) {
      co_return log::limited(log::Level::kWarning, 10s, "job not held to its pods' nodes",
                             {{"job", id}, {"why", refused}});
    }
    log::info("job held to its pods' nodes", {{"job", id}, {"pods", pods.size()}});
  }

  // Slurm is asked about a job before each batch of its pods, not for each: it has given their nodes away already.
  Task<> remove_pods(const std::vector<PodSyncPlan::Delete>& all, Uid unit, std::stop_token stop) {
    for (std::size_t at = 0; at < all.size(); at += kCallsAtOnce) {
      std::map<JobId, std::optional<slurm::Job>> jobs;
      std::vector<Task<>> batch;
      for (std::size_t i = at; i < std::min(all.size(), at + kCallsAtOnce); ++i) {
        const JobId id = all[i].job;
        if (!jobs.contains(id)) {
          std::optional<slurm::Job> job = co_await parts.mirror.ask(id, stop);
          jobs.emplace(id, std::move(job));
        }
        const std::optional<slurm::Job>& job = jobs.at(id);
        if (job && stays(all[i], *job)) continue;
        batch.push_back(remove_pod(all[i], unit, stop));
      }
      co_await when_all(loop, std::move(batch));
    }
  }

  // By what slurmctld says now of the job that has the id.
  bool stays(const PodSyncPlan::Delete& one, const slurm::Job& job) const {
    if (job.states.base == slurm::JobState::kUnknown) return true;
    // Another's: ids are given anew, so that a job which is listed no more may be lost; one that was seen to end is
    // not.
    if (!index.is_job_of(job, *one.pod)) return one.running_since.has_value();
    return runs(job) && !requeued_since(job, *one.pod);
  }

  Task<> remove_pod(PodSyncPlan::Delete one, Uid unit, std::stop_token stop) {
    if (one.running_since) {
      const auto since = std::chrono::floor<std::chrono::seconds>(one.running_since->time_since_epoch());
      const bool running = co_await parts.slurm.partitions_unchanged(since.count(), stop);
      if (!running) {
        restarted = std::max(restarted.value_or(*one.running_since), *one.running_since);
        controller.add(unit.str());
        co_return;
      }
    }
    if (!one.disruption.empty()) co_await tell_disruption(one, unit, stop);
    parts.must_lead();
    try {
      kube::DeleteOptions options;
      options.uid = one.pod->meta.uid;
      co_await parts.kube.remove(kube::resources::kPods, one.pod->meta.key, options, stop);
    } catch (const kube::NotFound&) {
      co_return;
    } catch (const kube::Conflict&) {
      co_return;  // another pod of that name
    }
    log::info("pod deleted", {{"pod", one.pod->meta.key}, {"job", one.job}, {"why", one.why}});
    parts.events.record(reference_to(*one.pod), kube::EventType::kWarning, "SlurmJobEnded", "Deleting",
                        one.why + "; the pod is deleted");
    counters.deleted.add();
  }

  Task<> adopt_job(PodSyncPlan::Adopt one, std::stop_token stop) {
    // The scheduler knows more of the job, and may have written that meanwhile.
    const std::optional<slurm::Job> now = co_await parts.mirror.ask(one.job, stop);
    const std::optional<JobRecord> there = now ? parse_record(now->admin_comment) : std::nullopt;
    if (!now || (there && !there->legacy)) co_return;
    slurm::JobDescription change;
    change.admin_comment = print_record(one.record);
    std::string refused;
    parts.must_lead();
    try {
      co_await parts.slurm.update_job(one.job, std::move(change), stop);
    } catch (const slurm::Refused& error) {
      refused = error.what();
    } catch (const slurm::NotFound& error) {
      refused = error.what();
    }
    if (!refused.empty()) {
      // It stays what it was; its pods' labels still tell whose it is.
      co_return log::limited(log::Level::kWarning, 60s, "record of a job not written",
                             {{"job", one.job}, {"why", refused}});
    }
    log::info("record of a job written",
              {{"job", one.job}, {"unit", one.record.unit.str()}, {"over", one.record.note}});
    co_await parts.mirror.ask(one.job, stop);
  }

  bool is_needed(const slurm::Job& job, const Uid& unit) const {
    const auto known = memory.find(unit);
    return needed_meanwhile(job, index.pods(unit), known == memory.end() ? PodSyncMemory() : known->second);
  }

  // When to try again: a pod of the job is still there after all, or that could not be seen; or Slurm refuses.
  Task<std::optional<Duration>> cancel_job(PodSyncPlan::Cancel one, Uid unit, std::stop_token stop) {
    std::vector<std::size_t> numbers(std::min(one.pods.size(), one.uids.size()));
    std::iota(numbers.begin(), numbers.end(), std::size_t{0});
    bool all_over = true;
    co_await each_at_once(loop, numbers, [this, &one, &unit, &all_over, &stop](std::size_t i) {
      return check_over(one.pods[i], one.uids[i], unit, all_over, stop);
    });
    for (const PodSyncPlan::Cancel::Elsewhere& other : one.elsewhere) {
      all_over = all_over && co_await counts_elsewhere(other, stop);
    }
    if (!all_over) co_return kCancelAgain;
    const auto seen = parts.mirror.job(one.job);
    if (!seen) co_return std::nullopt;
    // The scheduler may have handed it on meanwhile; or slurmctld has lost it, and given its id to another.
    if (requeued(*seen) || parts.mirror.may_be_lost(one.job)) {
      const std::optional<slurm::Job> asked = co_await parts.mirror.ask(one.job, stop);
      if (!asked || !index.has_job(unit, *asked)) co_return std::nullopt;
    }
    const bool is_for_others = requeued(*seen) || memory[unit].without_pods.contains(one.job);
    if (is_for_others && co_await counts_on(one.job, stop)) co_return kCancelAgain;
    if (!parts.pods.following() || is_needed(*seen, unit) || index.holds_pod(*seen)) co_return kCancelAgain;
    parts.must_lead();
    std::string refused;
    try {
      co_await parts.slurm.cancel_job(one.job, stop);
    } catch (const slurm::NotFound&) {
    } catch (const slurm::Refused& error) {
      refused = error.what();
    }
    if (!refused.empty()) {
      tell_not_cancelled(one, unit, refused);
      co_return kWriteAgain;
    }
    log::info("job cancelled", {{"job", one.job}, {"why", one.why}});
    counters.cancelled.add();
    const std::optional<slurm::Job> job = co_await parts.mirror.ask(one.job, stop);
    const bool ended = !job || job->states.ended();
    if (ended) co_return std::nullopt;
    parts.mirror.poke();
    co_return kCancelAgain;
  }

  // Its pods stay Terminating as long as Slurm does not take it back.
  void tell_not_cancelled(const PodSyncPlan::Cancel& one, const Uid& unit, const std::string& why) {
    log::limited(log::Level::kWarning, 10s, "job not cancelled", {{"job", one.job}, {"why", why}});
    for (const PodPtr& pod : index.pods(unit)) {
      if (std::ranges::find(one.uids, pod->meta.uid) == one.uids.end()) continue;
      parts.events.record(reference_to(*pod), kube::EventType::kWarning, "SlurmJobNotCancelled", "Cancelling",
                          "Slurm does not end job " + one.job.str() + ", which is tried again: " + why);
    }
  }

  // The API server itself says that a pod counts on a job that waits, or waited, for whoever comes: it may have come
  // and been bound before the watch has told of it.
  Task<bool> counts_on(JobId job, std::stop_token stop) {
    const std::optional<JobRecord> record = index.record(job);
    const std::string ns = record && !record->pods.empty() ? record->pods.front().ns : std::string();
    const json::Array pods = co_await pods_of_job(parts.kube, ns, job, stop);
    co_return std::ranges::any_of(pods, needs_node);
  }

  // Where the watch is late it may have been given to this job since.
  Task<bool> counts_elsewhere(PodSyncPlan::Cancel::Elsewhere other, std::stop_token stop) {
    const std::optional<json::Value> pod = co_await read_pod(parts.kube, other.pod, other.uid, stop);
    co_return !pod || !needs_node(*pod) || job_label(*pod) == other.job.str();
  }

  Task<> check_over(NamespacedName key, Uid uid, Uid unit, bool& all_over, std::stop_token stop) {
    if (!all_over) co_return;
    const bool over = co_await pod_over(std::move(key), std::move(uid), std::move(unit), std::move(stop));
    all_over = all_over && over;
  }

  // False: it was not removed. That holds up nothing: as long as it is there nobody else is given its devices.
  Task<bool> drop_claim(ClaimPtr claim, Uid unit, std::stop_token stop) {
    const bool over = co_await pod_over({claim->meta.key.ns, claim->pod_name}, claim->pod, {}, stop);
    if (!over) co_return true;
    std::string why;
    try {
      ClaimWriter writer(parts.kube, self.bridge);
      parts.must_lead();
      co_await writer.drop(claim, stop);
      co_return true;
    } catch (const kube::Refused& error) {
      why = error.what();
    } catch (const kube::NotDone& error) {
      if (may_pass(memory[unit].undropped)) throw;
      why = error.what();
    } catch (const kube::Conflict& error) {  // the watch is behind
      if (may_pass(memory[unit].undropped)) throw;
      why = error.what();
    }
    log::limited(log::Level::kWarning, 10s, "claim not removed", {{"claim", claim->meta.key}, {"why", why}});
    co_return false;
  }

  // The API server itself says that this pod does not need its node (any more), or that it waits in another unit than
  // `unit`: its group was changed. That a pod is over is final, however old the word; that it is not, or not there, may
  // be old.
  Task<bool> pod_over(NamespacedName key, Uid uid, Uid unit, std::stop_token stop) {
    const PodPtr known = parts.pods.get(key);
    if (known && known->meta.uid == uid && known->terminal()) co_return true;
    const std::optional<json::Value> pod = co_await read_pod(parts.kube, key, uid, stop);
    if (!pod || !needs_node(*pod)) co_return true;
    if (is_bound(*pod)) co_return false;
    json::Interner interner;
    co_return !unit.empty() && unit_of(*kube::decode_pod(json::dump(*pod), interner)) != unit;
  }
};

PodSync::PodSync(Parts parts, Identity self, std::size_t workers)
    : impl_(std::make_unique<Impl>(parts, std::move(self), workers)) {}
PodSync::~PodSync() = default;
void PodSync::start() {
  impl_->controller.start();
}
Task<> PodSync::stop() {
  co_await impl_->beside.stop();
  co_await impl_->controller.stop();
}

}  // namespace bascule::bridge
