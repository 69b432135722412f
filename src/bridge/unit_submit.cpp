#include <algorithm>
#include <unordered_set>

#include "bridge/names.hpp"
#include "bridge/unit_planner.hpp"
#include "slurm/encode.hpp"
#include "slurm/hostlist.hpp"

namespace bascule::bridge {

using namespace std::chrono_literals;

// In one plan: bindings of the unit wait for them.
constexpr std::size_t kMoreSubmits = 15;

void UnitPlanner::without_job(const std::vector<PodPtr>& pods) {
  if (memory_.submitting) return wait(pods, "Submitting", "a job is being submitted to Slurm");
  // They may have been bound, have run and be over. There is no telling them anything either.
  if (!unit_.pods_followed) return wake_at(now_ + 500ms);
  if (memory_.doubt && !doubt_settled(pods)) return;
  if (!slurm_.reachable || !slurm_.nodes_synced) wake_at(now_ + 1s);
  if (!slurm_.reachable) return wait(pods, "SlurmUnreachable", "Slurm does not answer: " + slurm_.why);
  if (unit_.labelled == slurm::Knowledge::kUnknown && !unlisted_settled(pods)) return;
  if (unit_.labelled == slurm::Knowledge::kPresent) {
    wake_at(now_ + 30s);
    return wait(pods, "ForeignJob",
                foreign_job() + "remove the label " + std::string(names::kSlurmJobId) + " to submit a new one");
  }
  if (!slurm_.nodes_synced) return wait(pods, "SlurmUnknown", "waiting for the first node table from Slurm");
  if (!unit_.root) {
    wake_at(now_ + 500ms);
    return wait(pods, "OwnerUnknown", unit_.root_problem);
  }
  if (inherit(pods)) return;
  if (!gang_allows(pods, pods.size() + placed_)) return;
  if (memory_.hold_until && now_ < *memory_.hold_until) {
    wake_at(*memory_.hold_until);
    return wait(pods, "SlurmRefused", why_refused(pods));
  }
  if (ended_lately(pods)) return;
  auto wanted = describe(pods, placed_);
  if (wanted) {
    const std::size_t taken = wanted->record.uids.size();
    const bool packed = wanted->record.cpus > 0;
    plan_.submit = submit_of(std::move(*wanted));
    if (packed) submit_more({pods.begin() + static_cast<std::ptrdiff_t>(taken), pods.end()});
  } else {
    plan_.waits_for_nodes = true;
    wanted.error().pods = pods;  // also those that would not be of this job
    plan_.waiting.push_back(std::move(wanted.error()));
  }
}

std::string UnitPlanner::foreign_job() const {
  if (!unit_.foreign || parse_record(unit_.foreign->admin_comment)) {
    return "the Slurm job named by the pod's label belongs to something else; ";
  }
  const std::string id = unit_.foreign->id.str();
  return "Slurm job " + id +
         ", named by the pod's label, does not say whose it is: its admin comment was overwritten, " + "it is " +
         in_quotes(unit_.foreign->admin_comment) + "; if it is of this pod, scancel " + id +
         ", which else holds its nodes for nobody; ";
}

slurm::JobDescription UnitPlanner::submit_of(Wanted wanted) {
  if (wanted.description.excluded_nodes->empty()) wanted.description.excluded_nodes.reset();
  return std::move(wanted.description);
}

// Members of an array that need not start together have a job each: with thousands of them a plan for each would cost
// minutes.
void UnitPlanner::submit_more(std::vector<PodPtr> pods) {
  if (!unit_.root->gang || minimum() != 1) return;
  for (const PodPtr& pod : pods) {
    if (plan_.more.size() >= kMoreSubmits) return;
    auto wanted = describe({pod}, placed_);
    if (!wanted) return;
    plan_.more.push_back(submit_of(std::move(*wanted)));
  }
}

// Slurm's words, and what it cannot know: that Kubernetes has GPUs where it counts none.
std::string UnitPlanner::why_refused(const std::vector<PodPtr>& pods) const {
  const auto job = describe_job(config_, *unit_.root, pods);
  if (!job) return memory_.hold_why;
  const std::string tres = job->tres_per_node.value_or(job->tres_per_task.value_or(""));
  if (tres.find("gres/gpu") == std::string::npos) return memory_.hold_why;
  if (!nodes_.candidates(pods, job->partition.value_or("")).uncounted_gpus) return memory_.hold_why;
  return memory_.hold_why +
         "; Slurm counts no GPU on the nodes that the pod may use: those of a device plugin are not registered there, "
         "ask for them by device class";
}

// A job that Slurm requeued has lost its pod, not its place in the queue: the pod made instead takes it over.
bool UnitPlanner::inherit(const std::vector<PodPtr>& pods) {
  if (!unit_.inherits || pods.size() != 1 || unit_.root->gang) return false;
  if (!describe_job(config_, *unit_.root, pods)) return false;  // it may not ask for one of its own either
  const JobView& from = *unit_.inherits;
  if (!has_room_for(from.record, config_, *unit_.root, pods.front())) return false;  // and it may start at once
  JobRecord record = from.record;
  record.unit = unit_.uid;
  record.pods = {pods.front()->meta.key};
  record.uids = {pods.front()->meta.uid};
  slurm::JobDescription change;
  change.admin_comment = print_record(record);
  std::string mark = fingerprint(*change.admin_comment);
  if (const auto asked = memory_.updates.find(from.job->id); asked != memory_.updates.end()) {
    if (asked->second.refused == mark) return false;
  }
  plan_.update = UnitPlan::Update{from.job->id, std::move(change), std::move(mark)};
  wait(pods, "Unschedulable",
       "Slurm job " + from.job->id.str() + ", which was requeued, goes to this pod in place of the one it stopped");
  return true;
}

// True when it is now sure that the doubtful submit left no job.
bool UnitPlanner::doubt_settled(const std::vector<PodPtr>& pods) {
  if (slurm_.full_as_of >= *memory_.doubt + kDoubtSettles) {
    memory_.doubt.reset();
    return true;
  }
  const TimePoint sure = *memory_.doubt + kDoubtSettles;
  plan_.look_soon = now_ >= sure;
  wake_at(std::max(sure, now_ + 1s));
  wait(pods, "SubmitInDoubt",
       "Slurm did not answer the submit; looking whether the job exists before another is submitted");
  return false;
}

// True when the job that a label names may be taken for gone. It can have gone while nobody looked, and Slurm need not
// list a younger one for a long time. Nothing is at stake: should it be there after all, its record names the pods, and
// one of the two jobs is cancelled.
bool UnitPlanner::unlisted_settled(const std::vector<PodPtr>& pods) {
  if (!memory_.unlisted_since) memory_.unlisted_since = now_;
  const TimePoint sure = *memory_.unlisted_since + kUnlistedSettles;
  if (slurm_.full_as_of >= sure) return true;
  plan_.look_soon = now_ >= sure;
  wake_at(std::max(sure, now_ + 1s));
  wait(pods, "SlurmUnknown", "the state of the Slurm job named by the pod's label is not known yet");
  return false;
}

bool UnitPlanner::gang_allows(const std::vector<PodPtr>& pods, std::size_t members) {
  if (!unit_.root->gang) return true;
  if (!unit_.root->gang->closed.empty()) {
    wake_at(now_ + 30s);
    wait(pods, "GangClosed", group_name() + " " + unit_.root->gang->closed);
    return false;
  }
  if (members >= minimum()) return true;
  wait(pods, "InsufficientPods", group_name() + " has " + too_few(members));
  return false;
}

// After a job of these pods has ended without their having run, the next one waits a little longer each time.
bool UnitPlanner::ended_lately(const std::vector<PodPtr>& pods) {
  const slurm::Job* last = nullptr;
  int count = 0;
  std::unordered_set<Uid> these;
  for (const PodPtr& pod : pods) these.insert(pod->meta.uid);
  for (const JobView& view : unit_.jobs) {
    const auto named = [&these](const Uid& pod) { return these.contains(pod); };
    if (!view.job->states.ended() || std::ranges::none_of(view.record.uids, named)) continue;
    ++count;
    if (last == nullptr || view.job->end_time >= last->end_time) last = view.job.get();
  }
  if (last == nullptr || last->end_time == 0) return false;
  const Duration pause = std::min<Duration>(kLongestEndPause, std::chrono::seconds(2 << std::min(count - 1, 5)));
  const WallTime ready = WallTime(std::chrono::seconds(last->end_time)) + pause;
  // An end in the far future (clocks that differ) must not hold the pod any longer.
  const TimePoint seen = memory_.ended.try_emplace(last->id, now_).first->second;
  Duration left = std::min<Duration>(ready - wall_, seen + pause - now_);
  // Nor may one in the past let jobs that end at once follow each other without a pause.
  if (memory_.submitted) left = std::max<Duration>(left, *memory_.submitted + pause - now_);
  if (left <= Duration::zero()) return false;
  wake_at(now_ + left);
  wait(pods, "SlurmJobEnded",
       "Slurm job " + last->id.str() + " ended (" + slurm::print(last->states) +
           ") before the pod could run; a new one will be submitted");
  return true;
}

// Hosts that do not fit, and those that earlier jobs were given back for, while there are `least` others: Slurm does
// not know why and would choose the same again. One hostlist, or none.
std::vector<std::string> UnitPlanner::shunned(const Candidates& candidates, std::size_t least) const {
  std::string excluded = candidates.excluded;
  std::vector<std::string> refused;
  if (!memory_.refused.empty()) {
    const auto known = slurm::expand_hostlist(excluded);
    for (const auto& [host, until] : memory_.refused) {
      if (!known || std::ranges::find(*known, host) == known->end()) refused.push_back(host);
    }
  }
  if (candidates.usable >= least + refused.size()) {
    for (const std::string& host : refused) excluded += (excluded.empty() ? "" : ",") + host;
  }
  return excluded.empty() ? std::vector<std::string>{} : std::vector{std::move(excluded)};
}

// Without the description's fingerprints, but at least as long as with them.
JobRecord UnitPlanner::record_of(const std::vector<PodPtr>& pods, std::uint32_t cpus,
                                 std::optional<TaskSize> task) const {
  JobRecord record{self_.bridge, self_.cluster, unit_.uid, fingerprint({}), {}, {}, false, cpus};
  record.task = std::move(task);
  record.asked = std::string(kLongestAsked, '0');
  for (const PodPtr& pod : pods) {
    record.pods.push_back(pod->meta.key);
    record.uids.push_back(pod->meta.uid);
  }
  const kube::OwnerReference* owner = pods.front()->meta.controller();
  if (!unit_.root->gang && owner != nullptr) record.owner = owner->uid;
  return record;
}

// One job for `pods`, with node lists and record, or why there is none. `elsewhere`: members of the gang that have
// their nodes already. `job`: the one that has been submitted for them, and which somebody may have moved since.
std::expected<UnitPlanner::Wanted, Waiting> UnitPlanner::describe(std::vector<PodPtr> pods, std::size_t elsewhere,
                                                                  const JobView* job) {
  auto description = describe_job(config_, *unit_.root, pods);
  if (!description) {
    std::string all;
    for (const std::string& fault : description.error().faults) all += (all.empty() ? "" : "; ") + fault;
    return std::unexpected(Waiting{"InvalidRequest", std::move(all), {}, pods});
  }
  const std::size_t needed =
      unit_.root->gang ? std::min(pods.size(), minimum() > elsewhere ? minimum() - elsewhere : 1) : pods.size();
  for (const PodPtr& pod : pods) {
    if (std::string problem = nodes_.volume_problem(*pod); !problem.empty()) {
      return std::unexpected(Waiting{"VolumeNotReady", "pod " + pod->meta.key.str() + ": " + problem, {}, pods});
    }
  }
  const bool packed = description->tasks.has_value();
  const std::uint32_t cpus = packed ? description->cpus_per_task.value_or(1) : 0;
  const std::optional<TaskSize> task = task_size(*description);
  const std::size_t room = room_for_pods(record_of(pods, cpus, task));
  if (room < needed) {
    return std::unexpected(Waiting{"InvalidRequest",
                                   "the names of the " + std::to_string(needed) +
                                       " pods that must start together do not fit into the comment of one Slurm job",
                                   {},
                                   pods});
  }
  // Slurm takes a range of nodes but one number of tasks: those that must start together. The rest start by jobs of
  // their own, as many as get room.
  if (const std::size_t keep = packed ? needed : room; keep < pods.size()) {
    pods.resize(keep);
    const auto kept = static_cast<std::uint32_t>(keep);
    description->nodes = slurm::NodeCount{packed ? 1 : kept, kept};
    if (packed) description->tasks = kept;
  }
  const std::size_t least = packed ? 1 : needed;
  const bool stays = job != nullptr && !job->job->partition.empty() && keeps_partition(*description, job->record.asked);
  const Candidates& candidates =
      nodes_.candidates(pods, stays ? job->job->partition.str() : description->partition.value_or(""));
  if (candidates.usable < least) {
    return std::unexpected(
        Waiting{"Unschedulable", "no node that Slurm may use fits the pod: " + candidates.why_none, {}, pods});
  }
  if (needed < pods.size()) {
    description->nodes = {static_cast<std::uint32_t>(needed), static_cast<std::uint32_t>(pods.size())};
  }
  // Said when it is empty, too: a job that waits else goes on shunning a node that fits again.
  description->excluded_nodes = shunned(candidates, least);
  Wanted wanted{std::move(*description), record_of(pods, cpus, task)};
  put_record(wanted);
  return wanted;
}

// What is asked for, into the job's record.
void UnitPlanner::put_record(Wanted& wanted) {
  wanted.description.admin_comment.reset();
  wanted.record.spec = fingerprint(slurm::encode_update(wanted.description));
  wanted.record.asked = asked_of(wanted.description);
  wanted.description.admin_comment = print_record(wanted.record);
}

}  // namespace bascule::bridge
