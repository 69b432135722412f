#include "bridge/unit_planner.hpp"

#include <fmt/format.h>

namespace bascule::bridge {

using namespace std::chrono_literals;

// More neighbours than these are looked up together.
constexpr std::size_t kAskedEach = 3;
constexpr Duration kLooksWithin = 50ms;
// When the API server is asked again after a no: after as long as it has been saying so, within these.
constexpr Duration kDeniedAtLeast = 1s;
constexpr Duration kDeniedAtMost = 60s;

void UnitPlanner::running(HeldJob& held) {
  const slurm::Job& job = *held.view->job;
  write_back(*held.view);
  if (!held.unreadable.empty()) {
    wake_at(now_ + 5s);
    return wait(held.pods, "SlurmUnknown",
                "Slurm job " + job.id.str() + " has a node list that cannot be read: " + held.unreadable);
  }
  if (job.nodes.empty()) {
    wake_at(now_ + 1s);
    return wait(held.pods, "SlurmStarting", "Slurm job " + job.id.str() + " is RUNNING; waiting for its node list");
  }
  if (!slurm_.nodes_synced) {
    // Whose the nodes are, and what they have, is not known: that is no fault of theirs.
    memory_.misfits.erase(job.id);
    wake_at(now_ + 1s);
    return wait(held.pods, "SlurmUnknown",
                "Slurm job " + job.id.str() + " is RUNNING; waiting for the first node table from Slurm");
  }
  if (!knows_layout(held)) return;
  const std::size_t volumes = plan_.volumes.size();
  Seats found = seats(held);
  const std::size_t members = held.staying() + held.pods.size() + placed_ - placed_by(held);
  const bool starts = held.staying() == 0;  // what only ends on its nodes is another gang
  // Members whose volumes were made on these nodes could start on no others.
  const bool all = found.refused.empty() && found.denied.empty() && found.absent.empty() && members >= minimum();
  if (starts && !all) plan_.volumes.resize(volumes);
  if (denied(held, found)) return;
  if (starts && members < minimum()) found.problem = "its gang has only " + too_few(members);
  if (found.absent.empty()) memory_.absent.erase(job.id);
  if (found.problem.empty()) {
    memory_.misfits.erase(job.id);
  } else {
    misfit(held, found);
    if (starts) return;  // all or none
  }
  if (!knows_devices(held, found)) return;
  if (wait_for_volumes(held, found)) bind(held, std::move(found.binds));
}

// What becomes of each waiting pod on the host that the job has for it.
UnitPlanner::Seats UnitPlanner::seats(const HeldJob& held) {
  const slurm::Job& job = *held.view->job;
  Seats out;
  std::set<DeviceId> taken;
  std::map<std::string, std::vector<PodPtr>> beside;
  for (std::size_t i = 0; i < held.pods.size(); ++i) {
    const std::string& host = held.hosts[i];
    const kube::Pod& pod = *held.pods[i];
    const UnitMemory::Denial* denial = denial_of(held.pods[i], job.id);
    if (denial != nullptr && !may_try(*denial, job)) {
      out.denied.push_back(held.pods[i]);
      continue;
    }
    const NodePtr node = nodes_.by_slurm_name(host);
    bool unknown = false;
    std::string refusal = node ? still_there(node->meta.key.name, unknown, &pod) : nodes_.absence(host);
    if (node && refusal.empty()) refusal = bound_elsewhere(pod, *node);
    const bool ending = node && !refusal.empty();
    out.ending = out.ending || ending;
    if (refusal.empty()) refusal = nodes_.refusal(pod, *node, beside[host]);
    std::optional<WantedClaim> device_claim;
    if (refusal.empty() && needs_claim(pod)) {
      auto chosen = choose_devices(held, i, *node, taken);
      if (!chosen && chosen.error().passing) {
        out.absence = fmt::format("node {} {}", host, chosen.error().why);
        out.absent.push_back(held.pods[i]);
        out.without.push_back(host);
        continue;
      }
      chosen ? (void)(device_claim = std::move(*chosen)) : (void)(refusal = std::move(chosen.error().why));
    }
    if (refusal.empty() && !pod.claims.empty() && needs_volumes(held.pods[i], *node, refusal)) {
      out.unready.push_back(held.pods[i]);
      out.unmade.push_back(host);
    } else if (refusal.empty()) {
      beside[host].push_back(held.pods[i]);
      out.binds.push_back({held.pods[i], node, job.id, job.restart_count, job.submit_time, std::move(device_claim)});
    } else {
      out.firm = out.firm || !ending;
      out.problem = fmt::format("node {} {}", host, refusal);
      out.unknown = unknown;
      out.refused.push_back(host);
    }
  }
  return out;
}

// True when something of the pod's volumes must be made first. Where one cannot be had none is taken: its pod could
// then start nowhere.
bool UnitPlanner::needs_volumes(const PodPtr& pod, const kube::Node& node, std::string& refusal) {
  Volumes::Binding needs = nodes_.volumes_on(*pod, node);
  refusal = std::move(needs.problem);
  if (!refusal.empty()) return false;
  const bool waits = needs.waits;
  if (!needs.takes.empty() || !needs.provisions.empty()) plan_.volumes.push_back({pod, std::move(needs)});
  return waits;
}

// False: nobody of the job is bound yet.
bool UnitPlanner::wait_for_volumes(const HeldJob& held, const Seats& seats) {
  const slurm::Job& job = *held.view->job;
  if (seats.unready.empty()) {
    memory_.volumes.erase(job.id);
    return true;
  }
  plan_.waits_for_nodes = true;
  const TimePoint patience = memory_.volumes.try_emplace(job.id, now_).first->second + kVolumePatience;
  wake_at(now_ < patience ? std::min(patience, now_ + 30s) : now_ + 1s);
  if (now_ >= patience && slurm_.reachable) {
    memory_.volumes.erase(job.id);
    give_back(held, seats.unmade, "the volumes of its pods were not made on the nodes that Slurm gave");
  }
  std::vector<PodPtr> made;
  for (const PodPtr& pod : seats.unready) {
    const UnitMemory::Denial* denial = denial_of(pod, job.id);  // it is being tried again
    denial != nullptr ? tell_denial(job, {pod}, *denial) : made.push_back(pod);
  }
  if (!made.empty()) {
    wait(made, "VolumeNotReady", "Slurm job " + job.id.str() + " is RUNNING; the pod's volumes are being made");
  }
  return held.bound > 0;
}

// False: nobody of the job is bound yet. Devices that are not all known, or are away for a moment, are waited for; the
// node is not to blame before that has lasted.
bool UnitPlanner::knows_devices(const HeldJob& held, const Seats& seats) {
  const slurm::Job& job = *held.view->job;
  if (seats.absent.empty()) return true;
  plan_.waits_for_nodes = true;
  const TimePoint patience = memory_.absent.try_emplace(job.id, now_).first->second + kEndPatience;
  wake_at(now_ < patience ? std::min(patience, now_ + 5s) : now_ + 1s);
  if (now_ >= patience && slurm_.reachable) {
    memory_.absent.erase(job.id);
    give_back(held, seats.without, seats.absence);
  }
  wait(seats.absent, "SlurmUnknown",
       "Slurm job " + job.id.str() + " is RUNNING but the pod cannot start: " + seats.absence);
  return held.bound > 0;
}

bool UnitPlanner::holds_devices(JobId id) const {
  const slurm::Job* job = find_job(id);
  return job != nullptr && !job->states.ended() && job->states.base != slurm::JobState::kPending;
}

// The job that gave the devices is over, or queued again: Slurm may have given them to another pod already.
void UnitPlanner::drop_device_claims(const std::vector<PodPtr>& waiting) {
  const DeviceLedger* devices = nodes_.devices();
  if (devices == nullptr) return;
  for (const PodPtr& pod : waiting) {
    const ClaimPtr claim = needs_claim(*pod) ? devices->claim_of(*pod) : nullptr;
    if (!claim || is_going(*claim) || memory_.binding.contains(pod->meta.uid)) continue;
    if (!holds_devices(job_of(*claim))) plan_.device_drops.push_back(claim);
  }
}

// False: slurmctld must be asked first what the job holds.
bool UnitPlanner::knows_layout(const HeldJob& held) {
  const slurm::Job& job = *held.view->job;
  const auto asks = [](const PodPtr& pod) { return needs_claim(*pod); };
  if (nodes_.devices() == nullptr || std::ranges::none_of(held.pods, asks)) return true;
  const auto known = memory_.layouts.find(job.id);
  if (known != memory_.layouts.end() && known->second.start_time == job.start_time) {
    if (memory_.layout_asked) memory_.misfits.erase(job.id);
    memory_.layout_asked.reset();
    return true;
  }
  plan_.layouts.push_back(job.id);
  wake_at(now_ + 5s);
  if (!memory_.layout_asked) memory_.layout_asked = now_;
  if (now_ - *memory_.layout_asked < 2s) return false;
  const auto why = memory_.untold.find(job.id);
  if (why != memory_.untold.end() || now_ - *memory_.layout_asked >= kEndPatience) {
    Seats none;
    none.problem = "Slurm does not say what it holds";
    if (why != memory_.untold.end()) none.problem += ": " + why->second;
    misfit(held, none);
  } else {
    memory_.misfits.erase(job.id);
    wait(held.pods, "SlurmStarting", "Slurm job " + job.id.str() + " is RUNNING; waiting for what it holds there");
  }
  return false;
}

// Members of one job take of the same devices: one that is on the node, or may be, has some, whether its claim is seen
// or not.
const kube::Pod* UnitPlanner::claimless_on(const std::string& node, const kube::Pod& pod) const {
  const auto is_there = [&](const kube::Pod& other) {
    const auto binding = memory_.binding.find(other.meta.uid);
    const auto doubt = memory_.doubted.find(other.meta.uid);
    return other.node_name.view() == node || (binding != memory_.binding.end() && binding->second.node.str() == node) ||
           (doubt != memory_.doubted.end() && doubt->second.node.str() == node);
  };
  for (const PodPtr& other : unit_.pods) {
    if (other->meta.uid == pod.meta.uid || other->terminal() || !needs_claim(*other) || !is_there(*other)) continue;
    if (!nodes_.devices()->claim_of(*other) && !nodes_.devices()->assumes(other->meta.uid)) return other.get();
  }
  return nullptr;
}

// What it gives is taken.
std::expected<WantedClaim, ClaimProblem> UnitPlanner::choose_devices(const HeldJob& held, std::size_t i,
                                                                     const kube::Node& node,
                                                                     std::set<DeviceId>& taken) const {
  const JobId job = held.view->job->id;
  const DeviceLedger* devices = nodes_.devices();
  if (devices == nullptr) return std::unexpected(ClaimProblem{"has no devices for the pod: none are read here"});
  const Placement at{job, node.meta.key.name, held.hosts[i], nodes_.slurm_node(held.hosts[i])};
  if (const kube::Pod* other = claimless_on(node.meta.key.name, *held.pods[i])) {
    return std::unexpected(
        ClaimProblem{fmt::format("waits for the claim of pod {} to be seen", other->meta.key.str()), true});
  }
  auto wanted = plan_claim(*held.pods[i], at, memory_.layouts.at(job), *devices, taken);
  if (!wanted) return wanted;
  for (DeviceId& device : wanted->devices()) taken.insert(std::move(device));
  return wanted;
}

// Slurm gave the node away when the job of that pod ended, and the pod has its grace period still; or it has lost the
// job. While the job is not known there is nothing to ask: the next tables tell, or none ever does.
std::string UnitPlanner::still_there(const std::string& node, bool& unknown, const kube::Pod* itself) const {
  std::string why;
  for (const Neighbour& other : nodes_.neighbours(node)) {
    if (itself != nullptr && other.pod->meta.uid == itself->meta.uid) continue;
    const std::string pod = other.pod->meta.key.str();
    if (other.hold == Neighbour::Hold::kHolds) continue;
    unknown = other.hold == Neighbour::Hold::kUnknown;
    if (!unknown) return "waits for the end of pod " + pod;
    why = fmt::format("still has pod {}; what became of its job {} is not known", pod, other.job.str());
  }
  return why;
}

std::string UnitPlanner::bound_elsewhere(const kube::Pod& pod, const kube::Node& node) const {
  const auto doubt = memory_.doubted.find(pod.meta.uid);
  if (doubt == memory_.doubted.end() || doubt->second.node.str() == node.meta.key.name) return {};
  return fmt::format("waits until it is sure that the pod is not bound to {}, which the API server was told before",
                     doubt->second.node.str());
}

// A host that was given up is the job's all the time: it serves again, after a while, when it would take a pod that
// waits. Not before, for the job that was submitted instead loses its place in the queue then.
void UnitPlanner::take_back_hosts(const std::vector<PodPtr>& waiting) {
  if (waiting.empty()) return;
  std::erase_if(memory_.given_up, [&](const auto& one) {
    plan_.waits_for_nodes = true;
    if (now_ < one.second) {
      wake_at(one.second);
      return false;
    }
    const NodePtr node = nodes_.by_slurm_name(one.first.second);
    bool unknown = false;
    return node && still_there(node->meta.key.name, unknown).empty() &&
           std::ranges::any_of(waiting, [&](const PodPtr& pod) {
             const auto volumes = nodes_.volumes_on(*pod, *node);
             return volumes.problem.empty() && !volumes.waits && nodes_.refusal(*pod, *node, {}).empty();
           });
  });
}

// What the API server said no to and is still wanted.
const UnitMemory::Denial* UnitPlanner::denial_of(const PodPtr& pod, JobId job) const {
  const auto it = memory_.denied.find(pod->meta.uid);
  if (it == memory_.denied.end()) return nullptr;
  const bool done = it->second.what == UnitMemory::Denial::What::kMark && is_marked(pod, job);
  return done ? nullptr : &it->second;
}

// Ever less often, but for each job that starts.
bool UnitPlanner::may_try(const UnitMemory::Denial& denial, const slurm::Job& job) {
  const auto started = memory_.running.find({job.id, job.restart_count});
  if (started != memory_.running.end() && denial.last < started->second) return true;
  const TimePoint again = denial.last + std::clamp<Duration>(denial.last - denial.since, kDeniedAtLeast, kDeniedAtMost);
  if (now_ < again) wake_at(again);
  return now_ >= again;
}

void UnitPlanner::tell_denial(const slurm::Job& job, const std::vector<PodPtr>& pods,
                              const UnitMemory::Denial& denial) {
  if (denial.what == UnitMemory::Denial::What::kClaim) return wait(pods, "ClaimNotReady", denial.why);
  wait(pods, "KubernetesRefused",
       "Slurm job " + job.id.str() + " is RUNNING but Kubernetes does not let the pod start: " + denial.why);
}

// True: nobody is bound. A pod that the API server lets nobody mark or bind holds up the others of its job only where
// all must start together, and then not for ever: the job is given back.
bool UnitPlanner::denied(const HeldJob& held, const Seats& seats) {
  const slurm::Job& job = *held.view->job;
  if (held.bound > 0) {
    for (const PodPtr& pod : seats.denied) tell_denial(job, {pod}, *denial_of(pod, job.id));
    return false;
  }
  const TimePoint started = memory_.running.at({job.id, job.restart_count});
  const UnitMemory::Denial* overdue = nullptr;
  for (const PodPtr& pod : held.pods) {
    const UnitMemory::Denial* denial = denial_of(pod, job.id);
    if (denial == nullptr || denial->last < started) continue;
    const bool claim = denial->what == UnitMemory::Denial::What::kClaim;
    // Said again after so long: it may not have been asked for meanwhile, while the node waited for something else.
    const TimePoint patience = std::max(denial->since, started) + (claim ? kEndPatience : kMisfitPatience);
    if (denial->last >= patience) overdue = denial;
    if (now_ < patience) wake_at(patience);
  }
  if (overdue != nullptr) plan_.cancels.push_back({job.id, "Kubernetes does not let its pods start: " + overdue->why});
  if (overdue == nullptr && seats.denied.empty()) return false;
  tell_denial(job, held.pods, overdue != nullptr ? *overdue : *denial_of(seats.denied.front(), job.id));
  return true;
}

// False: Slurm must be asked first whether the jobs of pods on these nodes share them with ours, or have made room for
// it. (A node with a pod whose job is over, or not known, is refused before.)
bool UnitPlanner::knows_neighbours(const HeldJob& held, const std::vector<UnitPlan::Bind>& binds) {
  const slurm::Job& job = *held.view->job;
  const TimePoint seen = memory_.running.at({job.id, job.restart_count});
  const TimePoint since = std::min(seen, held.view->started_by.value_or(seen));
  std::set<JobId> others;
  std::vector<JobId> unknown;
  for (const UnitPlan::Bind& one : binds) {
    for (const Neighbour& other : nodes_.neighbours(one.node->meta.key.name)) {
      if (other.pod->meta.uid == one.pod->meta.uid || other.job == job.id) continue;
      // Without a table since slurmctld was away the id may be another's: its state says nothing.
      const bool known = slurm_.listed_since_away && other.confirmed_at >= since;
      if (others.insert(other.job).second && !known) unknown.push_back(other.job);
    }
  }
  if (unknown.empty()) return true;
  if (!slurm_.listed_since_away) {
    plan_.look_soon = true;
  } else if (others.size() <= kAskedEach) {
    plan_.confirms = std::move(unknown);
  } else {  // Each of many pods that start on a node at once would else ask about each of the others.
    plan_.looks = std::move(unknown);
  }
  wake_at(now_ + kLooksWithin);
  return false;
}

// A pod of another job of this unit is to be bound on one of these nodes by this plan, and no look has shown both jobs
// running at one time: that pod first, then it is a neighbour.
bool UnitPlanner::shares_with_planned(const HeldJob& held, const std::vector<UnitPlan::Bind>& binds) const {
  return std::ranges::any_of(plan_.binds, [&](const UnitPlan::Bind& other) {
    if (by_id_.at(other.job)->confirmed_at == held.view->confirmed_at) return false;
    return std::ranges::any_of(binds, [&](const UnitPlan::Bind& one) { return one.node == other.node; });
  });
}

void UnitPlanner::bind(const HeldJob& held, std::vector<UnitPlan::Bind> binds) {
  const JobId job = held.view->job->id;
  if (binds.empty()) return;
  if (memory_.bind_after && now_ < *memory_.bind_after) return wake_at(*memory_.bind_after);
  const auto asked = memory_.confirmed.find(job);
  const bool confirmed = slurm_.listed_since_away && now_ - held.view->confirmed_at <= kConfirmWithin;
  if (!confirmed && (asked == memory_.confirmed.end() || now_ > asked->second)) {
    plan_.confirms.push_back(job);
    return;
  }
  if (shares_with_planned(held, binds)) return wake_at(now_ + kLooksWithin);
  if (!knows_neighbours(held, binds)) return;
  const auto marked = [&](const UnitPlan::Bind& bind) { return is_marked(bind.pod, job); };
  if (held.bound == 0 && !std::ranges::all_of(binds, marked)) return;
  for (UnitPlan::Bind& one : binds) {
    if (!marked(one)) continue;
    one.all_or_none = held.bound == 0;
    plan_.binds.push_back(std::move(one));
  }
}

// A job none of whose pods could be bound is given back; of one that has some, only the refused hosts are.
void UnitPlanner::give_back(const HeldJob& held, const std::vector<std::string>& hosts, const std::string& why) {
  const JobId job = held.view->job->id;
  for (const std::string& host : hosts) memory_.refused[host] = now_ + kRefusedFor;
  if (held.bound == 0) return plan_.cancels.push_back({job, why});
  for (const std::string& host : hosts) memory_.given_up[{job, host}] = now_ + kRefusedFor;
  wake_at(now_);
}

void UnitPlanner::misfit(const HeldJob& held, const Seats& seats) {
  const slurm::Job& job = *held.view->job;
  const std::string& problem = seats.problem;
  plan_.waits_for_nodes = true;
  UnitMemory::Misfit& known = memory_.misfits.try_emplace(job.id, now_).first->second;
  const bool firm = seats.firm || !seats.ending;
  if (!firm) known.firm.reset();
  if (firm && !known.firm) known.firm = now_;
  const TimePoint ends = known.since + kEndPatience;
  const TimePoint patience = known.firm ? std::min(ends, *known.firm + kMisfitPatience) : ends;
  wake_at(now_ + 1s);
  if (now_ >= patience && slurm_.reachable) {
    memory_.misfits.erase(job.id);
    give_back(held, seats.refused, problem);
  }
  std::vector<PodPtr> told = held.pods;
  if (held.bound > 0) {  // the others are bound now
    std::erase_if(told, [&seats](const PodPtr& pod) {
      return std::ranges::find(seats.absent, pod) != seats.absent.end() ||
             std::ranges::any_of(seats.binds, [&pod](const UnitPlan::Bind& one) { return one.pod == pod; });
    });
  }
  wait(told, seats.unknown ? "SlurmUnknown" : "NodeRefused",
       "Slurm job " + job.id.str() + " is RUNNING but the pod cannot start: " + problem);
}

}  // namespace bascule::bridge
