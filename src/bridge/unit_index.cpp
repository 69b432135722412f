#include "bridge/unit_index.hpp"

#include <algorithm>
#include <map>

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
bool is_another(const slurm::Job& before, const slurm::Job& after, const std::optional<JobRecord>& record,
                const Uid& known) {
  if (after.submit_time == before.submit_time) return false;
  if (before.submit_time != 0 && !requeued(after)) return true;
  // A job_submit plug-in has written over the record of a job that was just submitted. Users cannot: the comment of a
  // job of theirs is empty.
  const bool same_name = !before.name.empty() && after.name == before.name;
  if (before.submit_time == 0 && !record && after.external && same_name && !after.admin_comment.empty()) return false;
  return !(record && record->unit == known) && before.admin_comment != after.admin_comment;
}

}  // namespace

void UnitIndex::on_pod(const PodPtr& before, const PodPtr& after) {
  std::optional<Uid> left;
  std::optional<Uid> joined;
  if (before && ours(*before)) {
    left = unit_of(*before);
    std::vector<PodPtr>& pods = units_[*left].pods;
    std::erase_if(pods, [&](const PodPtr& pod) { return pod->meta.uid == before->meta.uid; });
    const JobId job = label_of(*before);
    if (job && std::ranges::none_of(pods, [job](const PodPtr& pod) { return label_of(*pod) == job; })) {
      drop_label(job, *left);
    }
  }
  if (after && ours(*after)) {
    joined = unit_of(*after);
    std::vector<PodPtr>& pods = units_[*joined].pods;
    const auto place = std::ranges::lower_bound(
        pods, after->meta.key, {}, [](const PodPtr& pod) -> const NamespacedName& { return pod->meta.key; });
    pods.insert(place, after);
    if (const JobId job = label_of(*after)) put_label(job, *joined);
  }
  if (left) {
    forget_if_empty(*left);
    changed_(*left);
  }
  if (joined && joined != left) changed_(*joined);
}

void UnitIndex::put_label(JobId job, const Uid& unit) {
  const auto [first, last] = labelled_.equal_range(job);
  if (std::none_of(first, last, [&unit](const auto& one) { return one.second == unit; })) labelled_.emplace(job, unit);
}

void UnitIndex::drop_label(JobId job, const Uid& unit) {
  const auto [first, last] = labelled_.equal_range(job);
  const auto it = std::find_if(first, last, [&unit](const auto& one) { return one.second == unit; });
  if (it != last) labelled_.erase(it);
}

void UnitIndex::on_job(const slurm::ClusterMirror::JobChange& change) {
  const auto& any = change.after ? change.after : change.before;
  const JobId id = any->id;
  // A record may change (an update rewrites it); an ended job's comment stays.
  // Jobs of old Slurm versions bear no flag: there the record alone is the proof, which only administrators may write.
  std::optional<JobRecord> record = change.after ? parse_record(change.after->admin_comment) : std::nullopt;
  if (const Uid* known = unit_of_job(id); known != nullptr && change.before && change.after) {
    if (is_another(*change.before, *change.after, record, *known)) forget_record(id);
  }
  if (change.after) {
    if (record && record->legacy && !change.after->external) record.reset();
    const bool has_record = record.has_value();
    take_record(change.after, std::move(record));
    follow_overwritten(*change.after, has_record);
  } else {
    legacy_.erase(id);
    unrecorded_.erase(id);
  }
  if (const Uid* known = unit_of_job(id)) {
    const Uid unit = *known;
    change.after ? changed_(unit) : forget_record(id);
  }
  const auto [first, last] = labelled_.equal_range(id);
  std::for_each(first, last, [this](const auto& one) { changed_(one.second); });
}

void UnitIndex::take_record(const std::shared_ptr<const slurm::Job>& job, std::optional<JobRecord> record) {
  if (!record || !record->legacy) legacy_.erase(job->id);  // adopted, or the id is another's
  if (!record || record->legacy || !is_ours(*record)) {
    keep_record(job->id);
    if (record && record->legacy) legacy_.insert_or_assign(job->id, std::move(*record));
    return;
  }
  const Uid* known = unit_of_job(job->id);
  if (known != nullptr && *known != record->unit) forget_record(job->id);  // handed on
  std::vector<JobId>& jobs = units_[record->unit].jobs;
  const auto place = std::ranges::lower_bound(jobs, job->id);
  if (place == jobs.end() || *place != job->id) jobs.insert(place, job->id);
  follow_requeued(*job, record->owner);
  kept_.erase(job->id);
  records_.insert_or_assign(job->id, Named{std::move(record->unit), job});
}

void UnitIndex::keep_record(JobId job) {
  const auto known = records_.find(job);
  if (known == records_.end() || !known->second.job) return;
  kept_.insert_or_assign(job, read_record(job));
  known->second.job.reset();
}

void UnitIndex::follow_overwritten(const slurm::Job& job, bool has_record) {
  overwritten_.erase(job.id);
  unrecorded_.erase(job.id);
  if (has_record || !job.external) return;
  const auto kept = kept_.find(job.id);
  if (kept == kept_.end()) {
    unrecorded_.emplace(job.id, job.submit_time);
    return;
  }
  overwritten_.insert(job.id);
  if (!job.admin_comment.empty()) kept->second.note = job.admin_comment;
}

bool UnitIndex::names_unrecorded(const kube::Pod& pod, JobId job) const {
  const auto it = unrecorded_.find(job);
  return it != unrecorded_.end() && names_job(pod, job, it->second);
}

void UnitIndex::follow_requeued(const slurm::Job& job, const Uid& owner) {
  forget_requeued(job.id);
  if (owner.empty() || !requeued(job) || job.states.ended()) return;
  requeued_[owner].insert(job.id);
  requeued_of_.emplace(job.id, owner);
}

void UnitIndex::forget_requeued(JobId job) {
  const auto owner = requeued_of_.find(job);
  if (owner == requeued_of_.end()) return;
  const auto jobs = requeued_.find(owner->second);
  jobs->second.erase(job);
  if (jobs->second.empty()) requeued_.erase(jobs);
  requeued_of_.erase(owner);
}

void UnitIndex::forget_record(JobId job) {
  const auto known = records_.find(job);
  const Uid unit = known->second.unit;
  forget_requeued(job);
  std::erase(units_[unit].jobs, job);
  records_.erase(known);
  kept_.erase(job);
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
    const auto over = [](const PodPtr& one) { return one->terminal() || one->deleting(); };
    if (!std::ranges::all_of(pods(*unit_of_job(id)), over)) continue;
    if (holds_pod(*job)) continue;  // one that ends by itself, too
    const JobRecord& known = read_record(id);
    // Who owns a pod is what its maker says.
    if (known.pods.empty() || known.pods.front().ns != pod.meta.key.ns) continue;
    return JobView{std::move(job), known, confirmed_at};
  }
  return std::nullopt;
}

std::vector<PodPtr> UnitIndex::pods(const Uid& unit) const {
  const auto it = units_.find(unit);
  return it == units_.end() ? std::vector<PodPtr>{} : it->second.pods;
}

std::vector<JobView> UnitIndex::jobs(const Uid& unit, const slurm::ClusterMirror& mirror) const {
  std::vector<JobView> out =
      jobs(unit, [&mirror](JobId id) { return std::pair(mirror.job(id), mirror.confirmed_at(id)); });
  for (JobView& one : out) {
    if (one.job) one.started_by = mirror.started_by(one.job->id);
  }
  return out;
}

std::vector<JobView> UnitIndex::jobs(const Uid& unit, const FindJob& find) const {
  std::vector<JobView> out;
  const auto it = units_.find(unit);
  if (it == units_.end()) return out;
  for (const JobId id : it->second.jobs) {
    auto [job, confirmed_at] = find(id);
    if (job) out.push_back({std::move(job), read_record(id), confirmed_at, overwritten_.contains(id)});
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

const Uid* UnitIndex::unit_of_job(JobId job) const {
  const auto it = records_.find(job);
  return it == records_.end() ? nullptr : &it->second.unit;
}

std::optional<JobRecord> UnitIndex::record(JobId job) const {
  return records_.contains(job) ? std::optional(read_record(job)) : std::nullopt;
}

const JobRecord& UnitIndex::read_record(JobId job) const {
  const Named& named = records_.at(job);
  if (!named.job) return kept_.at(job);
  if (last_read_.job.lock() != named.job) last_read_ = {named.job, *parse_record(named.job->admin_comment)};
  return last_read_.record;
}

bool UnitIndex::has_job(const Uid& unit, JobId job) const {
  if (const Uid* known = unit_of_job(job)) return *known == unit;
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
  const Uid unit = unit_of(pod);
  if (const Uid* known = unit_of_job(job.id)) return *known == unit || stands_for(read_record(job.id), pod, unit);
  const auto legacy = parse_record(job.admin_comment);
  if (!legacy && job.external && names_job(pod, job.id, job.submit_time)) return true;
  return legacy && legacy->legacy && stands_for(*legacy, pod, unit);
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
  const Uid* named = unit_of_job(job);
  if (named != nullptr && among(*named)) return true;
  const auto [first, last] = labelled_.equal_range(job);
  return std::any_of(first, last, [&among](const auto& one) { return among(one.second); });
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
