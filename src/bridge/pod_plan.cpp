#include "bridge/pod_plan.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "bridge/names.hpp"
#include "bridge/record.hpp"
#include "bridge/unit_jobs.hpp"
#include "slurm/hostlist.hpp"

namespace bascule::bridge {

namespace {

using namespace std::chrono_literals;

// How long a deleted pod's object is kept for a job of which nothing is known.
constexpr Duration kUnknownHolds = 60s;
// How long a watch may take to show what was written, before it is written again.
constexpr Duration kSeenWithin = 10s;
// How often a bound pod is looked at whose job is not known.
constexpr Duration kLook = 30s;

// The scheduler may still need the job for it.
bool needs_job(const kube::Pod& pod) {
  return holds_node(pod) || (!pod.terminal() && !pod.deleting());
}

class PodPlanner final {
 public:
  PodPlanner(const PodSyncView& view, PodSyncMemory& memory, TimePoint now) : view_(view), memory_(memory), now_(now) {
    for (const PodPtr& pod : view_.pods) {
      pods_.emplace(pod->meta.uid, pod.get());
      if (const JobId label = label_of(*pod)) labelled_[label].push_back(pod.get());
      pod_waits_ = pod_waits_ || wants_node(*pod);
    }
    for (const JobView& view_of : view_.jobs) jobs_.emplace(view_of.job->id, &view_of);
  }

  PodSyncPlan run() {
    if (!view_.synced) return {};
    for (const PodPtr& pod : view_.pods) {
      if (holds_node(*pod) && !pod->deleting()) check_allocation(pod);
    }
    for (const JobView& job : view_.jobs) check_job(job);
    const auto of_no_job = [this](const auto& one) { return !jobs_.contains(one.first); };
    std::erase_if(memory_.without_pods, of_no_job);
    std::erase_if(memory_.adopted, of_no_job);
    std::erase_if(memory_.released, [this](const auto& one) {
      const kube::Pod* pod = pod_of(one.first);
      return pod == nullptr || !pod->meta.has_finalizer(names::kFinalizer);
    });
    const auto gone = [this](const auto& one) { return !pods_.contains(one.first); };
    std::erase_if(memory_.unknown, gone);
    std::erase_if(memory_.unheard_of, gone);
    std::erase_if(memory_.ended, gone);
    std::erase_if(memory_.told, [this](const auto& one) {  // seen: what the pod says by now counts
      const kube::Pod* pod = pod_of(one.first);
      return pod == nullptr || said_by(*pod).value_or("") == one.second;
    });
    const auto disrupted = [](const PodSyncPlan::Delete& one) { return !one.disruption.empty(); };
    if (std::ranges::none_of(plan_.deletes, disrupted)) memory_.undisrupted.reset();
    for (const PodPtr& pod : view_.pods) check_release(pod);
    for (const ClaimPtr& claim : view_.device_claims) {
      const kube::Pod* pod = pod_of(claim->pod);
      if (pod == nullptr || needs_job(*pod) || is_going(*claim) || serves_others(*claim)) continue;
      plan_.device_drops.push_back(claim);
    }
    if (plan_.device_drops.empty()) memory_.undropped.reset();
    return std::move(plan_);
  }

 private:
  const kube::Pod* pod_of(const Uid& uid) const {
    const auto it = pods_.find(uid);
    return it == pods_.end() ? nullptr : it->second;
  }
  const JobView* view_of(JobId id) const {
    const auto it = jobs_.find(id);
    return it == jobs_.end() ? nullptr : it->second;
  }

  void check_allocation(const PodPtr& pod) {
    const JobId id = label_of(*pod);
    if (!id) return without_label(pod);
    const auto it = view_.labelled.find(id);
    const bool heard_of = it != view_.labelled.end() && it->second.knowledge != slurm::Knowledge::kUnknown;
    if (!heard_of) return with_unknown_job(pod, id);
    memory_.unheard_of.erase(pod->meta.uid);
    if (it->second.knowledge == slurm::Knowledge::kGone) return with_lost_job(pod, id, view_.highest > id);
    const slurm::Job& job = *it->second.job;
    const JobRecord* record = record_of(job);
    if (record == nullptr || !stands_for(*record, *pod, view_.uid)) return with_lost_job(pod, id, false);
    // A newer Slurm's word, or none.
    if (job.states.base == slurm::JobState::kUnknown) return with_stateless_job(pod, id);
    memory_.ended.erase(pod->meta.uid);
    if (runs(job) && is_elsewhere(job, *pod)) return with_job_elsewhere(pod, id);
    tell(pod, true, "SlurmJobKnown", "Slurm knows job " + id.str() + " again");
    if (requeued_since(job, *pod)) return with_requeued_job(pod, job);
    if (runs(job)) return;
    if (job.states.base == slurm::JobState::kPending) return with_restored_job(pod, job);
    end_pod(pod, id,
            "Slurm job " + id.str() + " is " + slurm::print(job.states) +
                (job.state_reason.empty() || job.state_reason == "None" ? "" : " (" + job.state_reason.str() + ")"),
            disruption(job));
  }

  void end_pod(const PodPtr& pod, JobId job, std::string why, std::string disruption) {
    memory_.ended.insert_or_assign(pod->meta.uid, PodSyncMemory::Ended{job, why, disruption});
    plan_.deletes.push_back({pod, job, std::move(why), std::move(disruption)});
  }

  // That its own job has ended was seen, whatever Slurm says of that id since.
  bool had_ended(const PodPtr& pod, JobId id) {
    const auto ended = memory_.ended.find(pod->meta.uid);
    if (ended == memory_.ended.end() || ended->second.job != id) return false;
    plan_.deletes.push_back({pod, id, ended->second.why, ended->second.disruption});
    return true;
  }

  // Kubernetes' own word for preemption, so that Jobs whose podFailurePolicy ignores disruptions count none; a time
  // limit or a cancelled job is no disruption.
  static std::string disruption(const slurm::Job& job) {
    switch (job.states.base) {
      case slurm::JobState::kPreempted:
      case slurm::JobState::kSuspended:
        return "PreemptionByScheduler";
      case slurm::JobState::kNodeFail:
        return "SlurmNodeFail";
      case slurm::JobState::kBootFail:
        return "SlurmNodeFail";
      default:
        return {};
    }
  }

  // Slurm may have given the nodes to somebody else already. The job waits for whoever comes in place of the pod.
  void with_requeued_job(const PodPtr& pod, const slurm::Job& job) {
    const JobView* view = view_of(job.id);
    const bool waits = view != nullptr && has_successors(view->record);
    end_pod(pod, job.id,
            "Slurm job " + job.id.str() + " was preempted or requeued" +
                (waits ? ""
                       : " and is given back: nothing makes another pod in place of one that has no "
                         "controller"),
            "PreemptionByScheduler");
  }

  // It started twice: a slurmctld that came back with a state of before the first start has started it anew, before
  // its nodes could be said. Or somebody has made it smaller. What is not known is no difference; the restarts are
  // those of the start that the pod was bound for, so the nodes are too.
  bool is_elsewhere(const slurm::Job& job, const kube::Pod& pod) {
    const auto host = view_.hosts.find(pod.meta.uid);
    if (host == view_.hosts.end() || job.nodes.empty() || job.restart_count != restarts_of(pod)) return false;
    const auto [hosts, fresh] = hosts_.try_emplace(job.id);
    if (fresh) {
      if (const auto names = slurm::expand_hostlist(job.nodes)) hosts->second.insert(names->begin(), names->end());
    }
    return !hosts->second.empty() && !hosts->second.contains(host->second);
  }

  void with_job_elsewhere(const PodPtr& pod, JobId id) {
    leave(pod, "SlurmJobElsewhere",
          "Slurm job " + id.str() + " runs, but not on " + view_.hosts.at(pod->meta.uid) +
              ", this pod's node, which Slurm may give to others; the pod is left running");
  }

  void with_stateless_job(const PodPtr& pod, JobId id) {
    if (had_ended(pod, id)) return;
    leave(pod, "SlurmJobUnknown",
          "Slurm tells no state of job " + id.str() + ", which holds this pod's node; the pod is left running");
  }

  void without_label(const PodPtr& pod) {
    const bool has_job = std::ranges::any_of(view_.jobs, [](const JobView& job) { return !job.job->states.ended(); });
    if (has_job) return;  // the scheduler was about to write it
    plan_.warnings.push_back(
        {pod, "NoSlurmJob",
         "the pod runs on " + pod->node_name.str() + " without a Slurm job: Slurm does not know of it"});
  }

  // That of a large gang is long, and asked for by each of its pods.
  const JobRecord* record_of(const slurm::Job& job) {
    if (const JobView* ours = view_of(job.id)) return &ours->record;
    const auto [other, fresh] = others_.try_emplace(job.id);
    if (fresh) other->second = parse_record(job.admin_comment);
    return other->second ? &*other->second : nullptr;
  }

  // A killed slurmctld may come back with a state of some seconds ago, in which a job that runs has not started yet.
  // Nothing was requeued, so nothing else makes it pending: the pod goes on, and the job is held to its pods' nodes.
  void with_restored_job(const PodPtr& pod, const slurm::Job& job) {
    plan_.pins[job.id].push_back(pod);
    plan_.warnings.push_back({pod, "SlurmJobRestored",
                              "Slurm says that job " + job.id.str() +
                                  ", which holds this pod's node, has not started: slurmctld has lost " +
                                  "its latest state; the pod is left running"});
  }

  // What becomes known of a job that is not listed is no change of any job: nothing else wakes the pod.
  void with_unknown_job(const PodPtr& pod, JobId id) {
    wake_at(now_ + kLook);
    if (!view_.highest || view_.highest >= id) return;
    const TimePoint since = memory_.unheard_of.try_emplace(pod->meta.uid, now_).first->second;
    if (now_ - since >= kUnheardOf) return with_lost_job(pod, id, false);
    if (now_ - since >= kLook) plan_.asks.push_back(id);  // tables of a busy slurmctld are far between
  }

  // slurmctld does not list the job any more. `passed`: it lists younger ones.
  void with_lost_job(const PodPtr& pod, JobId id, bool passed) {
    if (had_ended(pod, id)) return;
    WallTime before = pod->meta.created - kClocksDiffer;
    // Where Slurm's clock is further behind, by its own word. No clock is days behind: the pod joined an old job.
    const WallTime submitted{std::chrono::seconds(submitted_of(*pod))};
    const bool told = submitted > WallTime{};
    if (told && submitted > pod->meta.created - std::chrono::hours(24)) before = std::min(before, submitted);
    if (passed && !(view_.restarted && before <= *view_.restarted)) {
      plan_.deletes.push_back({pod, id, "Slurm job " + id.str() + " has ended and is no longer listed", {}, before});
      return;
    }
    std::string note = "Slurm does not know job " + id.str() + ", which holds this pod's node; the pod is left running";
    if (passed) note += ": slurmctld was started after the pod was made and may have lost a job that is not over";
    leave(pod, "SlurmJobUnknown", std::move(note));
  }

  // Without what Slurm should know of it.
  void leave(const PodPtr& pod, std::string reason, std::string note) {
    wake_at(now_ + kLook);
    tell(pod, false, reason, note);
    plan_.warnings.push_back({pod, std::move(reason), std::move(note)});
  }

  // Nobody needs to read that a job is known before it was not.
  void tell(const PodPtr& pod, bool known, std::string reason, std::string message) {
    const std::optional<std::string> before = told_before(*pod);
    const bool same = before ? !known && *before == message : known;
    if (!same) plan_.conditions.push_back({pod, known, std::move(reason), std::move(message)});
  }

  // What the pod says of a job that is not known: by what this process wrote, or one before it.
  std::optional<std::string> told_before(const kube::Pod& pod) const {
    if (const auto told = memory_.told.find(pod.meta.uid); told != memory_.told.end()) {
      return told->second.empty() ? std::nullopt : std::optional(told->second);
    }
    return said_by(pod);
  }
  static std::optional<std::string> said_by(const kube::Pod& pod) {
    for (const auto& [type, condition] : pod.conditions) {
      if (type == names::kSlurmJobKnown && condition.status == "False") return condition.message.str();
    }
    return std::nullopt;
  }

  void check_job(const JobView& view) {
    if (view.job->states.ended()) return;
    const bool needed = any_counts_on(view, needs_job);
    // Of a job that waits the scheduler writes it, with all else that it asks for.
    const bool overwritten = view.overwritten && view.job->states.base != slurm::JobState::kPending;
    if (needed && (view.record.legacy || overwritten)) adopt(view);
    if (needed) memory_.without_pods.erase(view.job->id);
    if (needed || waits_for_successors(view) || waits_for_the_scheduler(view)) return;
    PodSyncPlan::Cancel cancel{
        view.job->id, {}, {}, view_.pods.empty() ? "its pods are gone" : "its pods are over", {}};
    for (std::size_t i = 0; i < view.record.uids.size() && i < view.record.pods.size(); ++i) {
      const kube::Pod* pod = pod_of(view.record.uids[i]);
      if (pod != nullptr && !counts_by_record(*pod, view)) {
        if (needs_job(*pod)) cancel.elsewhere.push_back({pod->meta.key, pod->meta.uid, label_of(*pod)});
        continue;
      }
      cancel.pods.push_back(view.record.pods[i]);
      cancel.uids.push_back(view.record.uids[i]);
    }
    plan_.cancels.push_back(std::move(cancel));
  }

  // Ever less often: a plug-in of Slurm may write over each of our writes.
  void adopt(const JobView& view) {
    Pace& pace = memory_.adopted[view.job->id];
    if (pace.times > 0 && now_ < pace.next(kAdoptAtMost)) return wake_at(pace.next(kAdoptAtMost));
    pace.mark(now_, 2 * kAdoptAtMost);
    PodSyncPlan::Adopt adopt{view.job->id, view.record};
    adopt.record.legacy = false;
    const std::size_t room = room_for_pods(adopt.record);
    adopt.record.pods.resize(std::min(room, adopt.record.pods.size()));
    adopt.record.uids.resize(std::min(room, adopt.record.uids.size()));
    plan_.adopts.push_back(std::move(adopt));
  }

  bool waits_for_successors(const JobView& view) {
    if (!requeued(*view.job) || launch_failed(*view.job) || !has_successors(view.record)) return false;
    // Started again it is in use, or was: unless the pod that was stopped is there, or has gone and none came since.
    const auto was_stopped = [&view](const kube::Pod& pod) { return requeued_since(*view.job, pod); };
    const bool waits = memory_.without_pods.contains(view.job->id);
    if (runs(*view.job) && !waits && !any_counts_on(view, was_stopped)) return false;
    return is_kept(*view.job);
  }

  // Members that wait may be given the nodes of those that are over: the scheduler may be binding one this instant, and
  // a cancelled job would end it.
  bool waits_for_the_scheduler(const JobView& view) { return runs(*view.job) && pod_waits_ && is_kept(*view.job); }

  bool is_kept(const slurm::Job& job) {
    const TimePoint until = memory_.without_pods.try_emplace(job.id, now_).first->second + kSuccessorsWithin;
    if (now_ >= until) return false;
    wake_at(until);
    return true;
  }

  void wake_at(TimePoint when) { plan_.wake = plan_.wake ? std::min(*plan_.wake, when) : when; }

  // The label says which job a pod counts on; while it names none that lives, the records do. A unit may have a job for
  // each of thousands of pods: only those are looked at that a job's label or record may mean.
  template <class Such>
  bool any_counts_on(const JobView& view, Such such) const {
    const auto labelled = labelled_.find(view.job->id);
    if (labelled != labelled_.end() &&
        std::ranges::any_of(labelled->second, [&such](const kube::Pod* pod) { return such(*pod); })) {
      return true;
    }
    return std::ranges::any_of(view.record.uids, [&](const Uid& uid) {
      const kube::Pod* pod = pod_of(uid);
      return pod != nullptr && counts_by_record(*pod, view) && such(*pod);
    });
  }
  // Of a pod that the record names.
  bool counts_by_record(const kube::Pod& pod, const JobView& view) const {
    const JobId label = label_of(pod);
    const JobView* other = view_of(label);
    return label == view.job->id || other == nullptr || other->job->states.ended();
  }

  void check_release(const PodPtr& pod) {
    if (!pod->meta.has_finalizer(names::kFinalizer) || needs_job(*pod)) return;
    const auto released = memory_.released.find(pod->meta.uid);
    if (released != memory_.released.end() && now_ < released->second + kSeenWithin) {
      return wake_at(released->second + kSeenWithin);
    }
    const JobId id = label_of(*pod);
    const auto it = view_.labelled.find(id);
    const bool unknown = id && (it == view_.labelled.end() || it->second.knowledge == slurm::Knowledge::kUnknown);
    // A job that is ours by record is cancelled first. One that is not known is waited for, but not for ever: should it
    // come back, its record still says whose it is, and it is cancelled then.
    if (unknown) {
      const TimePoint since = memory_.unknown.try_emplace(pod->meta.uid, now_).first->second;
      if (!pod->deleting() || now_ - since < kUnknownHolds) {
        plan_.asks.push_back(id);
        return wake_at(now_ + 5s);
      }
    } else {
      memory_.unknown.erase(pod->meta.uid);
    }
    plan_.releases.push_back(pod);
  }

  const PodSyncView& view_;
  PodSyncMemory& memory_;
  TimePoint now_;
  std::unordered_map<Uid, const kube::Pod*> pods_;
  std::unordered_map<JobId, std::vector<const kube::Pod*>> labelled_;
  std::unordered_map<JobId, const JobView*> jobs_;
  bool pod_waits_ = false;                                  // one of them
  std::map<JobId, std::optional<JobRecord>> others_;        // records of jobs that are not of this unit
  std::map<JobId, std::unordered_set<std::string>> hosts_;  // of jobs that run; empty: not known
  PodSyncPlan plan_;
};

}  // namespace

bool needed_meanwhile(const slurm::Job& job, const std::vector<PodPtr>& pods, const PodSyncMemory& memory) {
  // Nobody waited, or the scheduler has had its time.
  const bool kept = memory.without_pods.contains(job.id);
  return std::ranges::any_of(pods, [&](const PodPtr& pod) {
    return label_of(*pod) == job.id ? needs_job(*pod) : runs(job) && !kept && wants_node(*pod);
  });
}

PodSyncPlan plan_pod_sync(const PodSyncView& view, PodSyncMemory& memory, TimePoint now) {
  return PodPlanner(view, memory, now).run();
}

}  // namespace bascule::bridge
