// What keeps pods and jobs of one unit honest with each other, after the scheduler has bound. Pure.
//  - A bound pod whose job surely no longer runs is deleted: its devices belong to somebody else. That is remembered
//  until the pod is gone: while it cannot be deleted slurmctld forgets the job.
//  - One whose job runs on other nodes is left running, and says so.
//  - A job is cancelled when none of its pods is left or all are over; never while a pod that may still run holds its
//  node. One that Slurm has requeued is kept a while for those who come after its pods.
//  - The finalizer that keeps a pod's object until then is dropped.
// Nothing is done on what is unknown: no answer, an empty answer and a controller that has lost its state never kill a
// pod.
//
// A job that is listed no more has ended and was purged, or was lost: with the whole state, with the last seconds of a
// killed slurmctld, or because an old copy of the state was put back. Counting does not tell which: ids are given anew
// after a loss and pass the old ones some day, and what is listed says nothing of the time between. But state is only
// ever lost where slurmctld starts, and a job is seen RUNNING before its pod is bound. So the pod is deleted when
// slurmctld lists younger jobs and has been running since before the pod was made; else it is kept, and says so.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bridge/pace.hpp"
#include "bridge/unit.hpp"
#include "bridge/unit_plan.hpp"

namespace bascule::bridge {

// How long a requeued job keeps its place in the queue for pods that are made in place of those it stopped.
inline constexpr Duration kAdoptAtMost = std::chrono::minutes(10);
inline constexpr Duration kSuccessorsWithin = std::chrono::seconds(60);
// How much the clocks of Slurm and Kubernetes may differ; MUNGE allows no more within Slurm.
inline constexpr Duration kClocksDiffer = std::chrono::minutes(5);
// How long a job of a bound pod may be above all that Slurm lists before that is told: the next table may have it.
inline constexpr Duration kUnheardOf = std::chrono::minutes(2);

// What the pod sync remembers of one unit. Losing it costs time, never correctness.
struct PodSyncMemory {
  std::map<JobId, TimePoint> without_pods;  // jobs that may be needed yet, since when nobody does
  std::map<JobId, Pace> adopted;            // jobs whose record was written
  std::map<Uid, TimePoint> released;        // pods whose finalizer was removed; the watch has yet to say so
  std::map<Uid, TimePoint> unknown;         // pods that are over or gone and whose job is not known, since when
  std::map<Uid, TimePoint> unheard_of;      // bound pods whose job is above all that Slurm lists, since when
  struct Ended {
    JobId job;
    std::string why, disruption;  // as in PodSyncPlan::Delete
  };
  std::map<Uid, Ended> ended;       // bound pods whose own job Slurm has ended or requeued
  std::map<Uid, std::string> told;  // pods whose condition SlurmJobKnown was made false: its message, empty: true again
  std::optional<TimePoint> undisrupted;  // the API server fails to write DisruptionTarget of one of them, since then
  std::optional<TimePoint> undropped;    // ... to remove a claim of theirs
  bool empty() const noexcept {
    return without_pods.empty() && adopted.empty() && released.empty() && unknown.empty() && unheard_of.empty() &&
           ended.empty() && told.empty() && !undisrupted && !undropped;
  }
};

struct PodSyncView {
  Uid uid;
  std::vector<PodPtr> pods;   // sorted; of the unit
  std::vector<JobView> jobs;  // by record, ended ones too
  struct Labelled {           // of the job a pod's label names, whether or not it is among `jobs`
    slurm::Knowledge knowledge = slurm::Knowledge::kUnknown;
    std::shared_ptr<const slurm::Job> job;
  };
  std::map<JobId, Labelled> labelled;
  JobId highest;                             // the highest job id Slurm lists now
  bool synced = false;                       // job table in
  std::optional<WallTime> restarted = {};    // slurmctld is known not to have been running, unchanged, since then
  std::vector<ClaimPtr> device_claims = {};  // ours, of these pods
  std::map<Uid, std::string> hosts = {};     // names in Slurm of bound pods' nodes; absent: not known
};

struct PodSyncPlan {
  struct Delete {
    PodPtr pod;
    JobId job;  // to be asked about once more before
    std::string why;
    std::string disruption = {};  // for the condition DisruptionTarget: the pod is not to blame; empty: none
    std::optional<WallTime> running_since = {};  // only if slurmctld has been running since then
  };
  struct Cancel {
    JobId job;
    std::vector<NamespacedName> pods;  // that must be seen to be gone or over once more before
    std::vector<Uid> uids;
    std::string why;
    // Pods that its record names, too, and that count on another job: they must be seen to name that one still.
    struct Elsewhere {
      NamespacedName pod;
      Uid uid;
      JobId job;
    };
    std::vector<Elsewhere> elsewhere = {};
  };
  struct Adopt {
    JobId job;
    // To replace the one slurm-bridge wrote, or words that somebody wrote over ours, so that the job is ours whatever
    // becomes of its pods.
    JobRecord record;
  };
  std::vector<JobId> asks;  // that Slurm's last table did not have yet, of pods that are over or have long been bound
  std::vector<Delete> deletes;
  std::vector<Adopt> adopts;
  std::map<JobId, std::vector<PodPtr>> pins;  // jobs to be asked about once more, then held to the nodes of these pods
  std::vector<Cancel> cancels;
  std::vector<ClaimPtr> device_drops;  // before the cancels: the devices must be free before Slurm gives them to others
  std::vector<PodPtr> releases;        // drop the finalizer, after the cancels have succeeded
  struct Warning {
    PodPtr pod;
    std::string reason, note;
  };
  std::vector<Warning> warnings;
  struct Tell {
    PodPtr pod;
    bool known = false;  // the condition's status
    std::string reason, message;
  };
  std::vector<Tell> conditions;  // SlurmJobKnown of these pods, for PodSyncMemory::told once written
  std::optional<TimePoint> wake;
};

// Before a job of the plan is cancelled, which has taken its time: whether one of the unit's pods of now needs the job
// after all.
bool needed_meanwhile(const slurm::Job& job, const std::vector<PodPtr>& pods, const PodSyncMemory& memory);

PodSyncPlan plan_pod_sync(const PodSyncView& view, PodSyncMemory& memory, TimePoint now);

}  // namespace bascule::bridge
