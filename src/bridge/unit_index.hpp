// Our pods and our Slurm jobs, by unit. Fed by informer and mirror; tells which unit changed. Loop thread only.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "bridge/record.hpp"
#include "bridge/unit.hpp"
#include "bridge/unit_plan.hpp"
#include "slurm/mirror.hpp"

namespace bascule::bridge {

class UnitIndex final {
 public:
  // `changed` is called for every unit a change touches.
  UnitIndex(Identity self, std::function<void(const Uid&)> changed)
      : self_(std::move(self)), changed_(std::move(changed)) {}

  void on_pod(const PodPtr& before, const PodPtr& after);
  void on_job(const slurm::ClusterMirror::JobChange& change);

  bool ours(const kube::Pod& pod) const { return pod.scheduler_name == self_.bridge; }
  // Sorted by namespace and name.
  std::vector<PodPtr> pods(const Uid& unit) const;
  // Jobs of the unit that Slurm still lists, ended ones too, by id. A job that slurm-bridge made counts when it names a
  // pod of the unit and that pod's label names it: its record is then legacy, with unit and UIDs filled in. So does one
  // whose record somebody has overwritten, when a pod of the unit names it by its id and the time of its submit.
  std::vector<JobView> jobs(const Uid& unit, const slurm::ClusterMirror& mirror) const;
  // The same by what `find` says of a job: the job, nullptr when Slurm does not list it, and when that was confirmed.
  using FindJob = std::function<std::pair<std::shared_ptr<const slurm::Job>, TimePoint>(JobId)>;
  std::vector<JobView> jobs(const Uid& unit, const FindJob& find) const;
  // A job that Slurm has requeued, that has not ended and whose pods are all over or going, of the controller that made
  // `pod` too: the one that has waited longest. `taken` are left out.
  std::optional<JobView> inheritance(const kube::Pod& pod, const FindJob& find, const std::set<JobId>& taken) const;
  // The unit that a job of ours stands for by its record, else nullptr.
  const Uid* unit_of_job(JobId job) const;
  // That record, read from the job's comment: a gang's is long.
  std::optional<JobRecord> record(JobId job) const;
  // Is this job, by what is known of it now, one of the unit's?
  bool has_job(const Uid& unit, JobId job) const;
  // ... and by slurmctld's answer about it, which counts for nothing in the mirror when a table has come in since it
  // was asked, however old that is.
  bool has_job(const Uid& unit, const slurm::Job& answer) const;
  // Is the job that has the id which the pod's label names the pod's own (stands_for())?
  bool is_job_of(const slurm::Job& job, const kube::Pod& pod) const;
  std::vector<Uid> all() const;
  // Does a pod hold a node by this start of the job? slurmctld may have lost that the job was handed on to it: then the
  // record names another.
  bool holds_pod(const slurm::Job& job) const;
  // Is there such a pod in a unit that the job's record or a pod's label names?
  bool any_pod(JobId job, const std::function<bool(const kube::Pod&)>& such) const;

 private:
  struct Entry {
    std::vector<PodPtr> pods;
    std::vector<JobId> jobs;  // sorted
  };
  // A job with a record of ours.
  struct Named {
    Uid unit;
    std::shared_ptr<const slurm::Job> job;  // whose comment is the record; nullptr: written over, it is in `kept_`
  };
  bool is_ours(const JobRecord& record) const {
    return record.bridge == self_.bridge && record.cluster == self_.cluster;
  }
  void forget_if_empty(const Uid& unit);
  void put_label(JobId job, const Uid& unit);
  void drop_label(JobId job, const Uid& unit);
  void take_record(const std::shared_ptr<const slurm::Job>& job, std::optional<JobRecord> record);
  void keep_record(JobId job);
  void forget_record(JobId job);
  void follow_requeued(const slurm::Job& job, const Uid& owner);
  void forget_requeued(JobId job);
  std::vector<JobView> legacy_jobs(const Uid& unit, const Entry& entry, const FindJob& find) const;
  void follow_overwritten(const slurm::Job& job, bool has_record);
  bool names_unrecorded(const kube::Pod& pod, JobId job) const;
  // Of one in records_. The reference holds until the next call.
  const JobRecord& read_record(JobId job) const;

  Identity self_;
  std::function<void(const Uid&)> changed_;
  std::unordered_map<Uid, Entry> units_;
  std::unordered_map<JobId, Named> records_;
  // The record that was read last: each pod of a gang may ask for the same.
  struct Read {
    std::weak_ptr<const slurm::Job> job;
    JobRecord record;
  };
  mutable Read last_read_;
  std::unordered_map<JobId, JobRecord> kept_;           // of records_: what was written over
  std::unordered_map<Uid, std::set<JobId>> requeued_;   // live jobs of single pods, by the pods' controller
  std::unordered_map<JobId, Uid> requeued_of_;          // that controller
  std::unordered_map<JobId, JobRecord> legacy_;         // whose they are only a pod's label can tell
  std::set<JobId> overwritten_;                         // of records_: their comments are others' words
  std::unordered_map<JobId, std::int64_t> unrecorded_;  // external jobs without any record: when they were submitted
  std::unordered_multimap<JobId, Uid> labelled_;        // units whose pods name this job: nearly always one
};

}  // namespace bascule::bridge
