#include "bridge/unit_plan.hpp"

#include <algorithm>

#include "base/time.hpp"
#include "bridge/names.hpp"
#include "bridge/unit_jobs.hpp"
#include "slurm/encode.hpp"

namespace bascule::bridge {

namespace {

using namespace std::chrono_literals;

// One planning step over one unit; what it decides is in `plan`.
class Planner final {
 public:
  Planner(const Config& config, const Identity& self, const UnitView& unit, const SlurmView& slurm, NodeView& nodes,
          UnitMemory& memory, TimePoint now, WallTime wall)
      : config_(config),
        self_(self),
        unit_(unit),
        slurm_(slurm),
        nodes_(nodes),
        memory_(memory),
        now_(now),
        wall_(wall) {}

  UnitPlan run() {
    std::vector<PodPtr> waiting;
    for (const PodPtr& pod : unit_.pods) {
      if (wants_node(*pod)) waiting.push_back(pod);
      if (pod->bound() || pod->terminal()) memory_.binding.erase(pod->meta.uid);
      if (label_of(*pod)) memory_.marked.erase(pod->meta.uid);
    }
    if (!slurm_.synced) {
      if (waiting.empty()) return {};
      wake_at(now_ + 1s);
      wait(waiting, "SlurmUnknown", slurm_.why.empty() ? "waiting for the first job table from Slurm" : slurm_.why);
      return std::move(plan_);
    }
    std::erase_if(memory_.given_up, [this](const auto& host) {
      return std::ranges::none_of(unit_.jobs, [&](const JobView& view) { return view.job->id == host.first; });
    });
    std::erase_if(memory_.layouts, [this](const auto& layout) { return !holds_devices(layout.first); });
    drop_device_claims(waiting);
    jobs_ = assign_pods(unit_, nodes_, memory_);
    cancel_surplus();
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

 private:
  void wait(const std::vector<PodPtr>& pods, std::string reason, std::string message) {
    plan_.waiting.push_back({std::move(reason), std::move(message), {}, pods});
  }
  void wake_at(TimePoint when) { plan_.wake = plan_.wake ? std::min(*plan_.wake, when) : when; }

  std::uint32_t minimum() const { return unit_.root && unit_.root->gang ? unit_.root->gang->minimum : 1; }
  // Members that have done their part. A pod made anew after that must not wait for them; those of an earlier owner
  // (another Job under the same group) are none of its gang.
  std::size_t done() const {
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
  // Members that hold a node, or are about to, by jobs other than `except`, and those that are done.
  std::size_t placed(const HeldJob* except = nullptr) const {
    std::size_t count = unit_.root && unit_.root->gang ? done() : 0;
    for (const HeldJob& held : jobs_.jobs) {
      if (&held != except) count += runs(*held.view->job) ? held.members() : held.bound;
    }
    return count;
  }

  bool holds_devices(JobId id) const {
    return std::ranges::any_of(unit_.jobs, [id](const JobView& view) {
      const slurm::JobStates& states = view.job->states;
      return view.job->id == id && !states.ended() && states.base != slurm::JobState::kPending;
    });
  }

  // The job that gave the devices is over, or queued again: Slurm may have given them to another pod already.
  void drop_device_claims(const std::vector<PodPtr>& waiting) {
    const DeviceLedger* devices = nodes_.devices();
    if (devices == nullptr) return;
    for (const PodPtr& pod : waiting) {
      const ClaimPtr claim = needs_claim(*pod) ? devices->claim_of(pod->meta.uid) : nullptr;
      if (!claim || claim->meta.deleted || memory_.binding.contains(pod->meta.uid)) continue;
      if (!holds_devices(job_of(*claim))) plan_.device_drops.push_back(claim);
    }
  }

  void cancel_surplus() {
    for (const JobView* view : jobs_.surplus) {
      plan_.cancels.push_back({view->job->id, jobs_.jobs.empty() ? "it cannot be used"
                                                                 : "job " + jobs_.jobs.front().view->job->id.str() +
                                                                       " already stands for the same pods"});
    }
  }

  // --- no live job
  // -----------------------------------------------------------------------------------------------------

  void without_job(const std::vector<PodPtr>& pods) {
    if (memory_.submitting) return wait(pods, "Submitting", "a job is being submitted to Slurm");
    if (memory_.doubt && !doubt_settled(pods)) return;
    if (!slurm_.reachable || !slurm_.nodes_synced) wake_at(now_ + 1s);
    if (!slurm_.reachable) return wait(pods, "SlurmUnreachable", "Slurm does not answer: " + slurm_.why);
    if (unit_.labelled == slurm::Knowledge::kUnknown) {
      wake_at(now_ + 5s);
      plan_.look_soon = true;
      return wait(pods, "SlurmUnknown", "the state of the Slurm job named by the pod's label is not known yet");
    }
    if (unit_.labelled == slurm::Knowledge::kPresent) {
      wake_at(now_ + 30s);
      return wait(pods, "ForeignJob",
                  "the Slurm job named by the pod's label belongs to something else; remove the label " +
                      std::string(names::kSlurmJobId) + " to submit a new one");
    }
    if (!slurm_.nodes_synced) return wait(pods, "SlurmUnknown", "waiting for the first node table from Slurm");
    if (!unit_.root) {
      wake_at(now_ + 500ms);
      return wait(pods, "OwnerUnknown", unit_.root_problem);
    }
    if (inherit(pods)) return;
    if (!gang_allows(pods, pods.size() + placed())) return;
    if (memory_.hold_until && now_ < *memory_.hold_until) {
      wake_at(*memory_.hold_until);
      return wait(pods, "SlurmRefused", memory_.hold_why);
    }
    if (ended_lately(pods)) return;
    auto wanted = describe(pods, placed());
    if (wanted) {
      plan_.submit = std::move(wanted->description);
    } else {
      plan_.waits_for_nodes = true;
      plan_.waiting.push_back(std::move(wanted.error()));
    }
  }

  // A job that Slurm requeued has lost its pod, not its place in the queue: the pod made instead takes it over.
  bool inherit(const std::vector<PodPtr>& pods) {
    if (!unit_.inherits || pods.size() != 1 || unit_.root->gang) return false;
    const JobView& from = *unit_.inherits;
    JobRecord record = from.record;
    record.unit = unit_.uid;
    record.pods = {pods.front()->meta.key};
    record.uids = {pods.front()->meta.uid};
    slurm::JobDescription change;
    change.admin_comment = print_record(record);
    std::string mark = fingerprint(*change.admin_comment);
    if (mark == memory_.update_refused) return false;
    plan_.update = UnitPlan::Update{from.job->id, std::move(change), std::move(mark)};
    wait(pods, "Unschedulable",
         "Slurm job " + from.job->id.str() + ", which was requeued, goes to this pod in place of the one it stopped");
    return true;
  }

  // True when it is now sure that the doubtful submit left no job.
  bool doubt_settled(const std::vector<PodPtr>& pods) {
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

  bool gang_allows(const std::vector<PodPtr>& pods, std::size_t members) {
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
  std::string group_name() const { return unit_.root->kind + " " + unit_.root->key.str(); }
  std::string too_few(std::size_t members) const {
    return std::to_string(members) + " of the " + std::to_string(minimum()) + " pods that must start together";
  }

  // After a job of these pods has ended without their having run, the next one waits a little longer each time.
  bool ended_lately(const std::vector<PodPtr>& pods) {
    const slurm::Job* last = nullptr;
    int count = 0;
    for (const JobView& view : unit_.jobs) {
      const auto named = [&view](const PodPtr& pod) { return std::ranges::count(view.record.uids, pod->meta.uid) > 0; };
      if (!view.job->states.ended() || std::ranges::none_of(pods, named)) continue;
      ++count;
      if (last == nullptr || view.job->end_time >= last->end_time) last = view.job.get();
    }
    if (last == nullptr || last->end_time == 0) return false;
    const auto pause = std::chrono::seconds(std::min(60, 2 << std::min(count - 1, 5)));
    const WallTime ready = WallTime(std::chrono::seconds(last->end_time)) + pause;
    // An end in the far future (clocks that differ) must not hold the pod for ever.
    const Duration left = std::min<Duration>(ready - wall_, pause);
    if (left <= Duration::zero()) return false;
    wake_at(now_ + left);
    wait(pods, "SlurmJobEnded",
         "Slurm job " + last->id.str() + " ended (" + slurm::print(last->states) +
             ") before the pod could run; a new one will be submitted");
    return true;
  }

  struct Wanted {
    slurm::JobDescription description;  // with the record in its comment
    JobRecord record;
  };
  // One job for `pods`, with node lists and record, or why there is none. `elsewhere`: members of the gang that have
  // their nodes already.
  std::expected<Wanted, Waiting> describe(std::vector<PodPtr> pods, std::size_t elsewhere) {
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
    // Slurm takes a range of nodes but one number of tasks: those that must start together, the rest by jobs of their
    // own, as many as get room.
    const bool packed = description->tasks.has_value();
    if (packed && needed < pods.size()) {
      pods.resize(needed);
      description->tasks = static_cast<std::uint32_t>(needed);
      description->nodes = slurm::NodeCount{1, *description->tasks};
    }
    const Candidates& candidates = nodes_.candidates(pods, description->partition.value_or(""));
    if (candidates.usable < (packed ? 1 : needed)) {
      return std::unexpected(
          Waiting{"Unschedulable", "no node that Slurm may use fits the pod: " + candidates.why_none, {}, pods});
    }
    if (needed < pods.size()) {
      description->nodes = {static_cast<std::uint32_t>(needed), static_cast<std::uint32_t>(pods.size())};
    }
    if (!candidates.excluded.empty()) description->excluded_nodes = std::vector{candidates.excluded};
    JobRecord record{self_.bridge, self_.cluster, unit_.uid, fingerprint(slurm::encode_update(*description)), {},
                     {},           false};
    for (const PodPtr& pod : pods) {
      record.pods.push_back(pod->meta.key);
      record.uids.push_back(pod->meta.uid);
    }
    if (packed) record.cpus = description->cpus_per_task.value_or(1);
    const kube::OwnerReference* owner = pods.front()->meta.controller();
    if (!unit_.root->gang && owner != nullptr) record.owner = owner->uid;
    description->admin_comment = print_record(record);
    return Wanted{std::move(*description), std::move(record)};
  }

  // --- a live job
  // ------------------------------------------------------------------------------------------------------

  void with_job(HeldJob& held) {
    if (held.pods.empty()) return;
    const slurm::Job& job = *held.view->job;
    if (job.states.base == slurm::JobState::kPending) return pending(held);
    for (const PodPtr& pod : held.pods) mark(pod, job.id);
    memory_.failures = 0;
    if (runs(job)) return running(held);
    memory_.misfit_since.reset();
    wait(held.pods, "SlurmJob" + std::string(slurm::to_string(job.states.base)),
         "Slurm job " + job.id.str() + " is " + slurm::print(job.states));
  }

  void mark(const PodPtr& pod, JobId job) {
    if (label_of(*pod) == job && pod->meta.has_finalizer(names::kFinalizer)) return;
    const auto known = memory_.marked.find(pod->meta.uid);
    if (known == memory_.marked.end() || known->second != job) plan_.marks.push_back({pod, job});
  }
  bool is_marked(const PodPtr& pod, JobId job) const {
    if (label_of(*pod) == job && pod->meta.has_finalizer(names::kFinalizer)) return true;
    const auto known = memory_.marked.find(pod->meta.uid);
    return known != memory_.marked.end() && known->second == job;
  }

  // Pods without a job join one that waits; it follows the nodes and the request, until Slurm starts it.
  void pending(HeldJob& held) {
    const JobView& view = *held.view;
    memory_.misfit_since.reset();
    plan_.waits_for_nodes = true;
    for (const PodPtr& pod : held.pods) mark(pod, view.job->id);
    const std::size_t others = placed(&held);
    if (unit_.root && unit_.root->gang && held.pods.size() + jobs_.uncovered.size() + others < minimum()) {
      // Members of a requeued gang come one by one.
      if (!requeued(*view.job)) {
        plan_.cancels.push_back({view.job->id, group_name() + " has only " + too_few(held.pods.size() + others)});
      }
      return wait(held.pods, "InsufficientPods", group_name() + " has " + too_few(held.pods.size() + others));
    }
    Waiting waiting = describe_pending(*view.job);
    if (can_update()) {
      std::vector<PodPtr> pods = std::move(held.pods);
      std::size_t joining = jobs_.uncovered.size();
      if (view.record.cpus > 0) {
        const std::size_t wanted = minimum() > others ? minimum() - others : 1;
        joining = std::min(joining, wanted > pods.size() ? wanted - pods.size() : 0);
      }
      const auto last = jobs_.uncovered.begin() + static_cast<std::ptrdiff_t>(joining);
      std::move(jobs_.uncovered.begin(), last, std::back_inserter(pods));
      jobs_.uncovered.erase(jobs_.uncovered.begin(), last);
      sort_by_rank(pods);
      auto wanted = describe(pods, others);
      if (wanted && differs(view.record, wanted->record)) {
        std::string mark = fingerprint(*wanted->description.admin_comment);
        if (mark != memory_.update_refused) {
          plan_.update = UnitPlan::Update{view.job->id, std::move(wanted->description), std::move(mark)};
        }
      }
      waiting.pods = std::move(pods);
    } else {
      waiting.pods = held.pods;
    }
    plan_.waiting.push_back(std::move(waiting));
  }
  bool can_update() const {
    return unit_.root && slurm_.reachable && slurm_.nodes_synced && !memory_.submitting && !plan_.update &&
           (!memory_.hold_until || now_ >= *memory_.hold_until);
  }
  static bool differs(const JobRecord& known, const JobRecord& wanted) {
    return wanted.spec != known.spec || wanted.uids != known.uids;
  }

  void running(HeldJob& held) {
    const slurm::Job& job = *held.view->job;
    if (!held.unreadable.empty()) {
      wake_at(now_ + 5s);
      return wait(held.pods, "SlurmUnknown",
                  "Slurm job " + job.id.str() + " has a node list that cannot be read: " + held.unreadable);
    }
    if (job.nodes.empty()) {
      wake_at(now_ + 1s);
      return wait(held.pods, "SlurmStarting", "Slurm job " + job.id.str() + " is RUNNING; waiting for its node list");
    }
    if (!knows_layout(held)) return;
    std::vector<DeviceId> taken;
    std::vector<UnitPlan::Bind> binds;
    std::vector<std::string> refused;
    std::map<std::string, std::vector<PodPtr>> beside;
    std::vector<PodPtr> unready;
    std::string problem;
    for (std::size_t i = 0; i < held.pods.size(); ++i) {
      const NodePtr node = nodes_.by_slurm_name(held.hosts[i]);
      std::string refusal = node ? nodes_.refusal(*held.pods[i], *node, beside[held.hosts[i]])
                                 : "is not a node of this Kubernetes cluster";
      std::optional<WantedClaim> device_claim;
      if (refusal.empty() && needs_claim(*held.pods[i])) {
        refusal = choose_devices(held, i, *node, taken, device_claim);
      }
      if (refusal.empty() && !held.pods[i]->claims.empty() && needs_volumes(*held.pods[i], *node, problem)) {
        unready.push_back(held.pods[i]);
      } else if (refusal.empty()) {
        beside[held.hosts[i]].push_back(held.pods[i]);
        binds.push_back({held.pods[i], node, job.id, job.restart_count, std::move(device_claim)});
      } else {
        problem = "node " + held.hosts[i] + " " + refusal;
        refused.push_back(held.hosts[i]);
      }
    }
    const std::size_t members = held.members() + placed(&held);
    if (held.bound == 0 && members < minimum()) problem = "its gang has only " + too_few(members);
    if (problem.empty()) {
      memory_.misfit_since.reset();
    } else {
      misfit(held, problem, refused);
      if (held.bound == 0) return;  // all or none
    }
    if (wait_for_volumes(held, unready)) bind(held, std::move(binds));
  }

  // True when something of the pod's volumes must be made first. What cannot be had there is a problem of the node.
  bool needs_volumes(const kube::Pod& pod, const kube::Node& node, std::string& problem) {
    Volumes::Binding needs = nodes_.volumes_on(pod, node);
    if (!needs.problem.empty()) problem = "node " + node.meta.key.name + " " + needs.problem;
    if (!needs.takes.empty() || !needs.provisions.empty()) plan_.volumes.push_back(needs);
    return needs.waits || !needs.problem.empty();
  }
  // False: nobody of the job is bound yet.
  bool wait_for_volumes(const HeldJob& held, const std::vector<PodPtr>& unready) {
    if (unready.empty()) {
      memory_.volumes_since.reset();
      return true;
    }
    const slurm::Job& job = *held.view->job;
    plan_.waits_for_nodes = true;
    if (!memory_.volumes_since) memory_.volumes_since = now_;
    const TimePoint patience = *memory_.volumes_since + kVolumePatience;
    wake_at(std::min(patience, now_ + 30s));
    if (now_ >= patience && held.bound == 0) {
      memory_.volumes_since.reset();
      plan_.cancels.push_back({job.id, "the volumes of its pods were not made"});
    }
    wait(unready, "VolumeNotReady", "Slurm job " + job.id.str() + " is RUNNING; the pod's volumes are being made");
    return held.bound > 0;
  }

  // False: slurmctld must be asked first what the job holds.
  bool knows_layout(const HeldJob& held) {
    const slurm::Job& job = *held.view->job;
    const auto asks = [](const PodPtr& pod) { return needs_claim(*pod); };
    if (nodes_.devices() == nullptr || std::ranges::none_of(held.pods, asks)) return true;
    const auto known = memory_.layouts.find(job.id);
    if (known != memory_.layouts.end() && known->second.start_time == job.start_time) {
      memory_.layout_asked.reset();
      return true;
    }
    plan_.layouts.push_back(job.id);
    wake_at(now_ + 5s);
    if (!memory_.layout_asked) memory_.layout_asked = now_;
    if (now_ - *memory_.layout_asked >= 2s) {
      wait(held.pods, "SlurmStarting", "Slurm job " + job.id.str() + " is RUNNING; waiting for what it holds there");
    }
    return false;
  }

  // Empty, with the claim and what it takes; else why not.
  std::string choose_devices(const HeldJob& held, std::size_t i, const kube::Node& node, std::vector<DeviceId>& taken,
                             std::optional<WantedClaim>& claim) {
    const JobId job = held.view->job->id;
    const DeviceLedger* devices = nodes_.devices();
    if (devices == nullptr) return "has no devices for the pod: none are read here";
    const Placement at{job, node.meta.key.name, held.hosts[i], nodes_.slurm_node(held.hosts[i])};
    auto wanted = plan_claim(*held.pods[i], at, memory_.layouts.at(job), *devices, taken);
    if (!wanted) return wanted.error();
    for (DeviceId& device : wanted->devices()) taken.push_back(std::move(device));
    claim = std::move(*wanted);
    return {};
  }

  void bind(const HeldJob& held, std::vector<UnitPlan::Bind> binds) {
    const JobId job = held.view->job->id;
    if (binds.empty()) return;
    if (memory_.bind_after && now_ < *memory_.bind_after) return wake_at(*memory_.bind_after);
    const auto asked = memory_.confirmed.find(job);
    if (now_ - held.view->confirmed_at > kConfirmWithin && (asked == memory_.confirmed.end() || now_ > asked->second)) {
      plan_.confirms.push_back(job);
      return;
    }
    const auto marked = [&](const UnitPlan::Bind& bind) { return is_marked(bind.pod, job); };
    if (held.bound == 0 && !std::ranges::all_of(binds, marked)) return;
    for (UnitPlan::Bind& one : binds) {
      if (!marked(one)) continue;
      one.all_or_none = held.bound == 0;
      plan_.binds.push_back(std::move(one));
    }
  }

  // A job none of whose pods could be bound is given back; of one that has some, only the refused hosts are.
  void misfit(const HeldJob& held, const std::string& problem, const std::vector<std::string>& refused) {
    const slurm::Job& job = *held.view->job;
    plan_.waits_for_nodes = true;
    if (!memory_.misfit_since) memory_.misfit_since = now_;
    const TimePoint patience = *memory_.misfit_since + kMisfitPatience;
    wake_at(now_ + 1s);
    if (now_ >= patience) {
      memory_.misfit_since.reset();
      if (held.bound == 0) {
        plan_.cancels.push_back({job.id, problem});
      } else {
        for (const std::string& host : refused) memory_.given_up.insert({job.id, host});
        wake_at(now_);
      }
    }
    wait(held.pods, "NodeRefused", "Slurm job " + job.id.str() + " is RUNNING but the pod cannot start: " + problem);
  }

  const Config& config_;
  const Identity& self_;
  const UnitView& unit_;
  const SlurmView& slurm_;
  NodeView& nodes_;
  UnitMemory& memory_;
  TimePoint now_;
  WallTime wall_;
  UnitJobs jobs_;
  UnitPlan plan_;
};

}  // namespace

UnitPlan plan_unit(const Config& config, const Identity& self, const UnitView& unit, const SlurmView& slurm,
                   NodeView& nodes, UnitMemory& memory, TimePoint now, WallTime wall) {
  return Planner(config, self, unit, slurm, nodes, memory, now, wall).run();
}

Waiting describe_pending(const slurm::Job& job) {
  std::string text = "Slurm job " + job.id.str() + " is " + slurm::print(job.states);
  if (!job.state_reason.empty() && job.state_reason != "None") text += " (" + job.state_reason + ")";
  if (!job.partition.empty()) text += " in partition " + job.partition;
  std::string detail;
  if (job.start_time > 0)
    detail = ", expected to start at " + print_rfc3339(WallTime(std::chrono::seconds(job.start_time)));
  return {"Unschedulable", std::move(text), std::move(detail), {}};
}

}  // namespace bascule::bridge
