#include "bridge/unit_index.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "bridge/names.hpp"
#include "bridge/unit_jobs.hpp"

namespace bascule::bridge {

namespace {

// What was written on the pod when it was told what it waits for, or when it was bound, and which nobody but the bridge
// may write.
bool names_job(const kube::Pod& pod, JobId job, std::int64_t submitted) {
  return submitted > 0 && label_of(pod) == job && submitted_of(pod) == submitted &&
         pod.meta.has_finalizer(names::kFinalizer);
}

// A slurmctld that has lost its state gives the ids of its jobs to others. A requeue makes a job's submit time anew,
// and of one that was just submitted it is not known yet: there the comment tells.
bool is_another(const slurm::Job& before, const slurm::Job& after, const JobRecord& known) {
  if (after.submit_time == before.submit_time) return false;
  if (before.submit_time != 0 && !requeued(after)) return true;
  const auto record = parse_record(after.admin_comment);
  // A job_submit plug-in has written over the record of a job that was just submitted. Users cannot: the comment of a
  // job of theirs is empty.
  const bool same_name = !before.name.empty() && after.name == before.name;
  if (before.submit_time == 0 && !record && after.external && same_name && !after.admin_comment.empty()) return false;
  return !(record && record->unit == known.unit) && before.admin_comment != after.admin_comment;
}

}  // namespace

void UnitIndex::on_pod(const PodPtr& before, const PodPtr& after) {
  std::optional<Uid> left;
  std::optional<Uid> joined;
  if (before && ours(*before)) {
    left = unit_of(*before);
    std::erase_if(units_[*left].pods, [&](const PodPtr& pod) { return pod->meta.uid == before->meta.uid; });
    if (const JobId job = label_of(*before)) {
      labelled_[job].erase(*left);
      if (labelled_[job].empty()) labelled_.erase(job);
    }
  }
  if (after && ours(*after)) {
    joined = unit_of(*after);
    std::vector<PodPtr>& pods = units_[*joined].pods;
    const auto place = std::ranges::lower_bound(
        pods, after->meta.key, {}, [](const PodPtr& pod) -> const NamespacedName& { return pod->meta.key; });
    pods.insert(place, after);
    if (const JobId job = label_of(*after)) labelled_[job].insert(*joined);
  }
  if (left) {
    forget_if_empty(*left);
    changed_(*left);
  }
  if (joined && joined != left) changed_(*joined);
}

void UnitIndex::on_job(const slurm::ClusterMirror::JobChange& change) {
  const auto& any = change.after ? change.after : change.before;
  const JobId id = any->id;
  // A record may change (an update rewrites it); an ended job's comment stays.
  // Jobs of old Slurm versions bear no flag: there the record alone is the proof, which only administrators may write.
  if (const JobRecord* known = record(id); known != nullptr && change.before && change.after) {
    if (is_another(*change.before, *change.after, *known)) forget_record(id);
  }
  if (change.after) {
    auto record = parse_record(change.after->admin_comment);
    if (record && record->legacy && !change.after->external) record.reset();
    if (!record || !record->legacy) legacy_.erase(id);  // adopted, or the id is another's
    if (record && record->legacy) {
      legacy_.insert_or_assign(id, std::move(*record));
    } else if (record && is_ours(*record)) {
      const auto known = records_.find(id);
      if (known != records_.end() && known->second.unit != record->unit) forget_record(id);  // handed on
      units_[record->unit].jobs.insert(id);
      follow_requeued(*change.after, record->owner);
      records_.insert_or_assign(id, std::move(*record));
    }
    follow_overwritten(*change.after, record.has_value());
  } else {
    legacy_.erase(id);
    unrecorded_.erase(id);
  }
  const auto known = records_.find(id);
  if (known != records_.end()) {
    const Uid unit = known->second.unit;
    change.after ? changed_(unit) : forget_record(id);
  }
  const auto labelled = labelled_.find(id);
  if (labelled == labelled_.end()) return;
  const std::set<Uid> units = labelled->second;
  for (const Uid& unit : units) changed_(unit);
}

void UnitIndex::follow_overwritten(const slurm::Job& job, bool has_record) {
  overwritten_.erase(job.id);
  unrecorded_.erase(job.id);
  if (has_record || !job.external) return;
  const auto known = records_.find(job.id);
  if (known == records_.end()) {
    unrecorded_.emplace(job.id, job.submit_time);
    return;
  }
  overwritten_.insert(job.id);
  if (!job.admin_comment.empty()) known->second.note = job.admin_comment;
}

bool UnitIndex::names_unrecorded(const kube::Pod& pod, JobId job) const {
  const auto it = unrecorded_.find(job);
  return it != unrecorded_.end() && names_job(pod, job, it->second);
}

void UnitIndex::follow_requeued(const slurm::Job& job, const Uid& owner) {
  if (owner.empty()) return;
  if (requeued(job) && !job.states.ended()) {
    requeued_[owner].insert(job.id);
  } else {
    forget_requeued(job.id, owner);
  }
}

void UnitIndex::forget_requeued(JobId job, const Uid& owner) {
  const auto it = requeued_.find(owner);
  if (it != requeued_.end() && it->second.erase(job) > 0 && it->second.empty()) requeued_.erase(it);
}

void UnitIndex::forget_record(JobId job) {
  const auto known = records_.find(job);
  const Uid unit = known->second.unit;
  forget_requeued(job, known->second.owner);
  units_[unit].jobs.erase(job);
  records_.erase(known);
  overwritten_.erase(job);
  forget_if_empty(unit);
  changed_(unit);
}

std::optional<JobView> UnitIndex::inheritance(const kube::Pod& pod, const FindJob& find,
                                              const std::set<JobId>& taken) const {
  const kube::OwnerReference* owner = pod.meta.controller();
  const auto jobs = owner == nullptr ? requeued_.end() : requeued_.find(owner->uid);
  if (jobs == requeued_.end()) return std::nullopt;
  for (const JobId id : jobs->second) {
    auto [job, confirmed_at] = find(id);
    if (!job || job->states.ended() || !requeued(*job) || launch_failed(*job) || taken.contains(id)) continue;
    const JobRecord& record = records_.at(id);
    // Who owns a pod is what its maker says.
    if (record.pods.empty() || record.pods.front().ns != pod.meta.key.ns) continue;
    const std::vector<PodPtr> held = pods(record.unit);
    const auto over = [](const PodPtr& one) { return one->terminal() || one->deleting(); };
    if (holds_pod(*job)) continue;  // one that ends by itself, too
    if (std::ranges::all_of(held, over)) return JobView{std::move(job), record, confirmed_at};
  }
  return std::nullopt;
}

std::vector<PodPtr> UnitIndex::pods(const Uid& unit) const {
  const auto it = units_.find(unit);
  return it == units_.end() ? std::vector<PodPtr>{} : it->second.pods;
}

std::vector<JobView> UnitIndex::jobs(const Uid& unit, const slurm::ClusterMirror& mirror) const {
  return jobs(unit, [&mirror](JobId id) { return std::pair(mirror.job(id), mirror.confirmed_at(id)); });
}

std::vector<JobView> UnitIndex::jobs(const Uid& unit, const FindJob& find) const {
  std::vector<JobView> out;
  const auto it = units_.find(unit);
  if (it == units_.end()) return out;
  for (const JobId id : it->second.jobs) {
    auto [job, confirmed_at] = find(id);
    if (job) out.push_back({std::move(job), records_.at(id), confirmed_at, overwritten_.contains(id)});
  }
  std::ranges::move(legacy_jobs(unit, it->second, find), std::back_inserter(out));
  return out;
}

std::vector<JobView> UnitIndex::legacy_jobs(const Uid& unit, const Entry& entry, const FindJob& find) const {
  std::map<JobId, JobView> found;
  for (const PodPtr& pod : entry.pods) {
    const JobId id = label_of(*pod);
    const auto legacy = legacy_.find(id);
    const bool unrecorded = names_unrecorded(*pod, id);
    const bool named = legacy != legacy_.end() && std::ranges::count(legacy->second.pods, pod->meta.key) > 0;
    if (!named && !unrecorded) continue;
    JobView& view = found[id];
    if (!view.job) {
      auto [job, confirmed_at] = find(id);
      view = {std::move(job), {self_.bridge, self_.cluster, unit, {}, {}, {}, true}, confirmed_at};
      if (unrecorded) {
        view.record.task = TaskSize{};  // not known: nobody else is given its places
        if (view.job) view.record.note = view.job->admin_comment;
      }
    }
    view.record.pods.push_back(pod->meta.key);
    view.record.uids.push_back(pod->meta.uid);
  }
  std::vector<JobView> out;
  for (auto& [id, view] : found) {
    if (view.job) out.push_back(std::move(view));
  }
  return out;
}

const JobRecord* UnitIndex::record(JobId job) const {
  const auto it = records_.find(job);
  return it == records_.end() ? nullptr : &it->second;
}

bool UnitIndex::has_job(const Uid& unit, JobId job) const {
  if (const JobRecord* known = record(job)) return known->unit == unit;
  const auto legacy = legacy_.find(job);
  return std::ranges::any_of(pods(unit), [&](const PodPtr& pod) {
    if (legacy == legacy_.end()) return names_unrecorded(*pod, job);
    return std::ranges::count(legacy->second.pods, pod->meta.key) > 0;
  });
}

bool UnitIndex::has_job(const Uid& unit, const slurm::Job& answer) const {
  const auto named = parse_record(answer.admin_comment);
  const bool anothers = answer.admin_comment.empty() ||  // a user's; one who may write over ours writes something
                        (named && !named->legacy && !(is_ours(*named) && named->unit == unit));
  const auto unrecorded = unrecorded_.find(answer.id);
  if (unrecorded != unrecorded_.end() && unrecorded->second != answer.submit_time) return false;
  return !anothers && has_job(unit, answer.id);
}

bool UnitIndex::is_job_of(const slurm::Job& job, const kube::Pod& pod) const {
  if (const JobRecord* known = record(job.id)) return stands_for(*known, pod, unit_of(pod));
  const auto legacy = parse_record(job.admin_comment);
  if (!legacy && job.external && names_job(pod, job.id, job.submit_time)) return true;
  return legacy && legacy->legacy && stands_for(*legacy, pod, unit_of(pod));
}

bool UnitIndex::holds_pod(const slurm::Job& job) const {
  return any_pod(job.id, [&](const kube::Pod& pod) {
    return label_of(pod) == job.id && holds_node(pod) && !requeued_since(job, pod) && is_job_of(job, pod);
  });
}

bool UnitIndex::any_pod(JobId job, const std::function<bool(const kube::Pod&)>& such) const {
  const auto among = [&](const Uid& unit) {
    const auto it = units_.find(unit);
    return it != units_.end() &&
           std::ranges::any_of(it->second.pods, [&such](const PodPtr& pod) { return such(*pod); });
  };
  const JobRecord* named = record(job);
  if (named != nullptr && among(named->unit)) return true;
  const auto labelled = labelled_.find(job);
  return labelled != labelled_.end() && std::ranges::any_of(labelled->second, among);
}

std::vector<Uid> UnitIndex::all() const {
  std::vector<Uid> out;
  out.reserve(units_.size());
  for (const auto& [unit, entry] : units_) out.push_back(unit);
  return out;
}

void UnitIndex::forget_if_empty(const Uid& unit) {
  const auto it = units_.find(unit);
  if (it != units_.end() && it->second.pods.empty() && it->second.jobs.empty()) units_.erase(it);
}

}  // namespace bascule::bridge
