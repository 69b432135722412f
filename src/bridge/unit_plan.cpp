#include "bridge/unit_plan.hpp"

#include <unordered_set>

#include "base/time.hpp"
#include "bridge/names.hpp"
#include "bridge/unit_planner.hpp"

namespace bascule::bridge {

using namespace std::chrono_literals;

UnitPlan UnitPlanner::run() {
  std::vector<PodPtr> waiting;
  std::unordered_set<Uid> waits;
  for (const JobView& view : unit_.jobs) by_id_.emplace(view.job->id, &view);
  for (const PodPtr& pod : unit_.pods) {
    if (wants_node(*pod)) {
      waiting.push_back(pod);
      waits.insert(pod->meta.uid);
    }
    if (pod->bound() || pod->terminal()) {
      memory_.binding.erase(pod->meta.uid);
      memory_.doubted.erase(pod->meta.uid);
    }
    const auto marked = memory_.marked.find(pod->meta.uid);
    if (marked != memory_.marked.end() && marked->second.job == label_of(*pod)) memory_.marked.erase(marked);
  }
  std::erase_if(memory_.binding, [this](const auto& one) {
    const TimePoint seen_by = one.second.since + kBindingSeenWithin;
    if (now_ < seen_by) wake_at(seen_by);
    if (now_ >= seen_by && !unit_.pods_followed) wake_at(now_ + 1s);
    const bool unseen = now_ >= seen_by && unit_.pods_followed;
    if (unseen) plan_.unseen.push_back(one.first);
    return unseen;
  });
  std::erase_if(memory_.doubted, [&](const auto& one) {
    const bool waits_still = waits.contains(one.first);
    if (waits_still && now_ < one.second.until) {
      wake_at(one.second.until);
      return false;
    }
    if (!memory_.binding.contains(one.first)) plan_.unseen.push_back(one.first);
    return true;
  });
  std::erase_if(memory_.denied, [&waits](const auto& one) { return !waits.contains(one.first); });
  if (!slurm_.synced) {
    if (waiting.empty()) return std::move(plan_);
    wake_at(now_ + 1s);
    wait(waiting, "SlurmUnknown", slurm_.why.empty() ? "waiting for the first job table from Slurm" : slurm_.why);
    return std::move(plan_);
  }
  if (unit_.labelled != slurm::Knowledge::kUnknown) memory_.unlisted_since.reset();
  std::erase_if(memory_.refused, [this](const auto& host) { return host.second <= now_; });
  std::erase_if(memory_.running, [this](const auto& one) {
    const slurm::Job* job = find_job(one.first.first);
    return job == nullptr || job->restart_count != one.first.second || !runs(*job);
  });
  const auto of_no_job = [this](const auto& one) { return find_job(one.first) == nullptr; };
  std::erase_if(memory_.given_up, [&](const auto& one) { return of_no_job(one.first); });
  take_back_hosts(waiting);
  std::erase_if(memory_.ended, of_no_job);
  std::erase_if(memory_.misfits, of_no_job);
  std::erase_if(memory_.absent, of_no_job);
  std::erase_if(memory_.updates, [&](const auto& one) {
    return of_no_job(one) && (!unit_.inherits || unit_.inherits->job->id != one.first);
  });
  std::erase_if(memory_.cancelling, [this](const auto& one) {
    const slurm::Job* job = find_job(one.first);
    return job == nullptr || job->states.ended();
  });
  std::erase_if(memory_.volumes, of_no_job);
  std::erase_if(memory_.layouts, [this](const auto& layout) { return !holds_devices(layout.first); });
  std::erase_if(memory_.untold, [this](const auto& job) { return !holds_devices(job.first); });
  drop_device_claims(waiting);
  jobs_ = assign_pods(config_, unit_, nodes_, memory_);
  cancel_surplus();
  placed_ = unit_.root && unit_.root->gang ? done() : 0;
  for (const HeldJob& held : jobs_.jobs) placed_ += placed_by(held);
  if (waiting.empty()) return std::move(plan_);
  for (HeldJob& held : jobs_.jobs) with_job(held);
  if (jobs_.uncovered.empty()) {
    memory_.doubt.reset();
  } else {
    without_job(jobs_.uncovered);
  }
  // Events wake a unit; should one ever be missed, this does.
  if (!plan_.waiting.empty()) wake_at(now_ + kLookAgain);
  return std::move(plan_);
}

// Members that have done their part. A pod made anew after that must not wait for them; those of an earlier owner
// (another Job under the same group) are none of its gang.
std::size_t UnitPlanner::done() const {
  const kube::OwnerReference* owner = nullptr;
  for (const PodPtr& pod : unit_.pods) {
    if (owner == nullptr && wants_node(*pod)) owner = pod->meta.controller();
  }
  if (owner == nullptr) return 0;
  return static_cast<std::size_t>(std::ranges::count_if(unit_.pods, [owner](const PodPtr& pod) {
    const kube::OwnerReference* other = pod->meta.controller();
    return pod->phase == kube::PodPhase::kSucceeded && other != nullptr && other->uid == owner->uid;
  }));
}

const slurm::Job* UnitPlanner::find_job(JobId id) const {
  const auto it = by_id_.find(id);
  return it == by_id_.end() ? nullptr : it->second->job.get();
}

void UnitPlanner::cancel_surplus() {
  for (const JobView* view : jobs_.surplus) {
    plan_.cancels.push_back({view->job->id, jobs_.jobs.empty() ? "it cannot be used"
                                                               : "job " + jobs_.jobs.front().view->job->id.str() +
                                                                     " already stands for the same pods"});
  }
}

void UnitPlanner::with_job(HeldJob& held) {
  if (held.pods.empty()) return;
  const slurm::Job& job = *held.view->job;
  if (const auto asked = memory_.cancelling.find(job.id); asked != memory_.cancelling.end() && held.bound == 0) {
    plan_.cancels.push_back({job.id, asked->second});
    return wait(held.pods, "SlurmJobEnded", "Slurm job " + job.id.str() + " is given back: " + asked->second);
  }
  if (job.states.base == slurm::JobState::kPending) return pending(held);
  const bool ready = runs(job) && !is_configuring(job);
  if (ready) memory_.running.try_emplace({job.id, job.restart_count}, now_);
  for (const PodPtr& pod : held.pods) mark(pod, job);
  memory_.failures = 0;
  if (ready) return running(held);
  memory_.misfits.erase(job.id);
  memory_.absent.erase(job.id);
  if (is_configuring(job)) {
    return wait(
        held.pods, "SlurmStarting",
        "Slurm job " + job.id.str() + " is " + slurm::print(job.states) + "; waiting for its nodes to be ready");
  }
  wait(held.pods, "SlurmJob" + std::string(slurm::to_string(job.states.base)),
       "Slurm job " + job.id.str() + " is " + slurm::print(job.states));
}

void UnitPlanner::mark(const PodPtr& pod, const slurm::Job& job) {
  if (is_marked(pod, job.id)) return;
  const UnitMemory::Denial* denial = denial_of(pod, job.id);
  if (denial == nullptr || denial->what != UnitMemory::Denial::What::kMark || may_try(*denial, job)) {
    plan_.marks.push_back({pod, job.id});
  }
}

bool UnitPlanner::is_marked(const PodPtr& pod, JobId job) const {
  const auto known = memory_.marked.find(pod->meta.uid);  // younger than what the watch has told
  if (known != memory_.marked.end()) return known->second.job == job;
  return label_of(*pod) == job && pod->meta.has_finalizer(names::kFinalizer);
}

// Pods without a job join one that waits; it follows the nodes and the request, until Slurm starts it.
void UnitPlanner::pending(HeldJob& held) {
  const JobView& view = *held.view;
  memory_.misfits.erase(view.job->id);
  memory_.absent.erase(view.job->id);
  plan_.waits_for_nodes = true;
  for (const PodPtr& pod : held.pods) mark(pod, *view.job);
  // slurmctld has lost the start of a job whose pods run: it is held to their nodes by the pod sync, and nothing that
  // it asks for may be changed under them.
  if (held.bound > 0) {
    wake_at(now_ + 5s);
    return wait(
        held.pods, "SlurmUnknown",
        "Slurm job " + view.job->id.str() + " is PENDING although pods of it run: slurmctld has lost its start");
  }
  if (launch_failed(*view.job)) {
    const std::string why = "Slurm could not launch it and holds it";
    plan_.cancels.push_back({view.job->id, why});
    return wait(held.pods, "SlurmJobEnded", "Slurm job " + view.job->id.str() + " is given back: " + why);
  }
  const std::size_t others = placed_ - placed_by(held);
  if (unit_.root && unit_.root->gang && held.pods.size() + jobs_.uncovered.size() + others < minimum()) {
    // Members of a requeued gang come one by one.
    if (!requeued(*view.job)) {
      plan_.cancels.push_back({view.job->id, group_name() + " has only " + too_few(held.pods.size() + others)});
    }
    return wait(held.pods, "InsufficientPods", group_name() + " has " + too_few(held.pods.size() + others));
  }
  Waiting waiting = describe_pending(*view.job);
  if (const TimePoint told = slurm_.full_as_of + kAwayIsTold; !slurm_.reachable && now_ < told) {
    wake_at(told);
  } else if (!slurm_.reachable) {
    waiting = {"SlurmUnreachable",
               "Slurm does not answer; its job " + view.job->id.str() + " was PENDING when it last did",
               ": " + slurm_.why};
  }
  for (const PodPtr& pod : held.pods) {
    const UnitMemory::Denial* denial = denial_of(pod, view.job->id);
    if (denial == nullptr || denial->of_claim()) continue;
    waiting.message += "; Kubernetes does not let pod " + pod->meta.key.name + " be changed: " + denial->why;
    break;
  }
  waiting.pods = std::move(held.pods);
  if (can_update()) follow(held, waiting, others);
  plan_.waiting.push_back(std::move(waiting));
}

// What Slurm is asked for follows the pods that wait for the job, with those that can join them.
void UnitPlanner::follow(const HeldJob& held, Waiting& waiting, std::size_t others) {
  const JobView& view = *held.view;
  std::vector<PodPtr> joining = take_joining(view, waiting.pods, others);
  const auto with = [&waiting](const std::vector<PodPtr>& more) {
    std::vector<PodPtr> pods = waiting.pods;
    std::ranges::copy(more, std::back_inserter(pods));
    sort_by_rank(pods);
    return pods;
  };
  auto wanted = describe(with(joining), others, &view);
  while (!wanted && !joining.empty()) {
    const auto unfit = std::erase_if(joining, [&](const PodPtr& pod) {
      auto alone = describe({pod}, others, &view);
      if (!alone) plan_.waiting.push_back(std::move(alone.error()));
      return !alone;
    });
    if (unfit == 0) {
      wanted.error().pods = std::exchange(joining, {});
      plan_.waiting.push_back(std::move(wanted.error()));
    }
    std::ranges::copy(take_joining(view, with(joining), others), std::back_inserter(joining));
    wanted = describe(with(joining), others, &view);
  }
  waiting.pods = with(joining);
  if (wanted && view.job->hold) without_priority(*wanted, view.record);
  if (!wanted) {
    waiting.message += "; its request cannot be changed now: " + wanted.error().message;
  } else if (view.overwritten || differs(view.record, wanted->record)) {
    if (!view.record.note.empty()) {
      wanted->record.note = view.record.note;
      wanted->description.admin_comment = print_record(wanted->record);
    }
    // slurm-bridge requires the nodes of the moment of its submit: none that joins or gets well later would do.
    if (view.record.spec.empty()) wanted->description.required_nodes.emplace();
    leave_unchanged(wanted->description, view.record.asked);
    if (differs(view.record, wanted->record) || may_write_back(view)) {
      ask_for(view, std::move(wanted->description), waiting.message);
    }
  }
}

// A new priority would release the job that is held. The record does not speak of it either, so it is missed, and sent,
// when somebody has released the job.
void UnitPlanner::without_priority(Wanted& wanted, const JobRecord& known) {
  slurm::JobDescription priority;
  priority.priority = wanted.description.priority;
  leave_unchanged(priority, known.asked);
  if (!priority.priority) return;
  wanted.description.priority.reset();
  put_record(wanted);
}

// A plug-in of Slurm that writes over each of our writes is let be: what is remembered serves as well.
bool UnitPlanner::may_write_back(const JobView& view) const {
  constexpr std::uint32_t kWriteBacks = 3;
  const auto asked = memory_.updates.find(view.job->id);
  return asked == memory_.updates.end() || asked->second.pace.times < kWriteBacks;
}

// The controllers would make up a poorer record, of pods alone.
void UnitPlanner::write_back(const JobView& view) {
  if (!view.overwritten || view.record.legacy || !can_update() || !may_write_back(view)) return;
  slurm::JobDescription change;
  change.admin_comment = print_record(view.record);
  std::string message;
  ask_for(view, std::move(change), message);
}

void UnitPlanner::ask_for(const JobView& view, slurm::JobDescription change, std::string& message) {
  std::string mark = fingerprint(*change.admin_comment);
  const auto asked = memory_.updates.find(view.job->id);
  const bool known = asked != memory_.updates.end();
  if (known && asked->second.refused == mark) {
    message += "; Slurm refused to change its request: " + asked->second.why;
  } else if (known && now_ < asked->second.pace.next(kUpdateAtMost)) {
    // Each taint that comes and goes on some node changes what ten thousand jobs ask for.
    wake_at(asked->second.pace.next(kUpdateAtMost));
  } else {
    plan_.update = UnitPlan::Update{view.job->id, std::move(change), std::move(mark)};
  }
}

// Of the pods without a job, those that this one could stand for as well: of a packed gang, until its minimum is there,
// and never more than its record has room for.
std::vector<PodPtr> UnitPlanner::take_joining(const JobView& view, const std::vector<PodPtr>& held,
                                              std::size_t others) {
  if (jobs_.uncovered.empty()) return {};
  std::vector<PodPtr> all = held;
  std::ranges::copy(jobs_.uncovered, std::back_inserter(all));
  const std::size_t room = room_for_pods(record_of(all, view.record.cpus, view.record.task));
  std::size_t count = std::min(jobs_.uncovered.size(), room > held.size() ? room - held.size() : 0);
  if (view.record.cpus > 0) {
    const std::size_t wanted = minimum() > others ? minimum() - others : 1;
    count = std::min(count, wanted > held.size() ? wanted - held.size() : 0);
  }
  const auto last = jobs_.uncovered.begin() + static_cast<std::ptrdiff_t>(count);
  std::vector<PodPtr> joining(jobs_.uncovered.begin(), last);
  jobs_.uncovered.erase(jobs_.uncovered.begin(), last);
  return joining;
}

UnitPlan plan_unit(const Config& config, const Identity& self, const UnitView& unit, const SlurmView& slurm,
                   NodeView& nodes, UnitMemory& memory, TimePoint now, WallTime wall) {
  return UnitPlanner(config, self, unit, slurm, nodes, memory, now, wall).run();
}

Waiting describe_pending(const slurm::Job& job) {
  std::string text = "Slurm job " + job.id.str() + " is " + slurm::print(job.states);
  const bool unlooked = job.state_reason.empty() || job.state_reason == "None";
  if (!unlooked) text += " (" + job.state_reason.str() + ")";
  if (!job.partition.empty()) text += " in partition " + job.partition.str();
  std::string detail;
  if (job.start_time > 0)
    detail = ", expected to start at " + print_rfc3339(WallTime(std::chrono::seconds(job.start_time)));
  return {"Unschedulable", std::move(text), std::move(detail), {}, unlooked, job.submit_time};
}

}  // namespace bascule::bridge
