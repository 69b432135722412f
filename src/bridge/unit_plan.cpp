#include "bridge/unit_plan.hpp"

#include <algorithm>
#include <set>

#include "base/time.hpp"
#include "bridge/names.hpp"
#include "slurm/encode.hpp"
#include "slurm/hostlist.hpp"

namespace bascule::bridge {

namespace {

using namespace std::chrono_literals;

bool wants_node(const PodPtr& pod) {
  return !pod->terminal() && !pod->deleting() && !pod->bound();
}

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
    for (const PodPtr& pod : unit_.pods) {
      if (wants_node(pod)) waiting_pods_.push_back(pod);
      if (pod->bound() || pod->terminal()) memory_.binding.erase(pod->meta.uid);
      if (label_of(*pod)) memory_.marked.erase(pod->meta.uid);
    }
    const JobView* job = choose_job();
    if (waiting_pods_.empty()) return std::move(plan_);
    if (!slurm_.synced) {
      wake_at(now_ + 1s);
      wait("SlurmUnknown", slurm_.why.empty() ? "waiting for the first job table from Slurm" : slurm_.why);
    } else if (job != nullptr) {
      with_job(*job);
    } else {
      without_job();
    }
    // Events wake a unit; should one ever be missed, this does.
    if (plan_.waiting) wake_at(now_ + kLookAgain);
    return std::move(plan_);
  }

 private:
  void wait(std::string reason, std::string message) {
    plan_.waiting = Waiting{std::move(reason), std::move(message), {}};
  }
  void wake_at(TimePoint when) { plan_.wake = plan_.wake ? std::min(*plan_.wake, when) : when; }

  // The one live job that stays; others of this unit are cancelled. A job that holds a bound pod always stays.
  const JobView* choose_job() {
    std::vector<const JobView*> live;
    for (const JobView& view : unit_.jobs) {
      if (!view.job->states.ended()) live.push_back(&view);
    }
    if (live.empty()) return nullptr;
    const auto rank = [this](const JobView* view) {
      int bound = 0;
      int labelled = 0;
      for (const PodPtr& pod : unit_.pods) {
        if (label_of(*pod) != view->job->id || pod->terminal()) continue;
        ++labelled;
        if (pod->bound()) ++bound;
      }
      const bool running = view->job->states.base == slurm::JobState::kRunning;
      // more bound pods, then more labelled ones, then running before pending, then the older
      return std::tuple(-bound, -labelled, !running, view->job->id);
    };
    std::ranges::sort(live, {}, rank);
    for (std::size_t i = 1; i < live.size(); ++i) {
      const bool holds_pod = std::ranges::any_of(unit_.pods, [&](const PodPtr& pod) {
        return pod->bound() && !pod->terminal() && label_of(*pod) == live[i]->job->id;
      });
      if (!holds_pod) {
        plan_.cancels.push_back(
            {live[i]->job->id, "job " + live.front()->job->id.str() + " already stands for the same pods"});
      }
    }
    return live.front();
  }

  // --- no live job
  // -----------------------------------------------------------------------------------------------------

  void without_job() {
    if (memory_.submitting) return wait("Submitting", "a job is being submitted to Slurm");
    if (memory_.doubt && !doubt_settled()) return;
    if (!slurm_.reachable || !slurm_.nodes_synced) wake_at(now_ + 1s);
    if (!slurm_.reachable) return wait("SlurmUnreachable", "Slurm does not answer: " + slurm_.why);
    for (const PodPtr& pod : waiting_pods_) {
      if (!pod->scheduling_gates.empty()) return;  // Kubernetes says SchedulingGated itself
    }
    if (unit_.labelled == slurm::Knowledge::kUnknown) {
      wake_at(now_ + 5s);
      plan_.look_soon = true;
      return wait("SlurmUnknown", "the state of the Slurm job named by the pod's label is not known yet");
    }
    if (unit_.labelled == slurm::Knowledge::kPresent) {
      wake_at(now_ + 30s);
      return wait("ForeignJob", "the Slurm job named by the pod's label belongs to something else; remove the label " +
                                    std::string(names::kSlurmJobId) + " to submit a new one");
    }
    if (!slurm_.nodes_synced) return wait("SlurmUnknown", "waiting for the first node table from Slurm");
    if (!unit_.root) {
      wake_at(now_ + 500ms);
      return wait("OwnerUnknown", unit_.root_problem);
    }
    if (memory_.hold_until && now_ < *memory_.hold_until) {
      wake_at(*memory_.hold_until);
      return wait("SlurmRefused", memory_.hold_why);
    }
    if (ended_lately()) return;
    auto description = describe();
    if (description) plan_.submit = std::move(*description);
  }

  // True when it is now sure that the doubtful submit left no job.
  bool doubt_settled() {
    if (slurm_.full_as_of >= *memory_.doubt + kDoubtSettles) {
      memory_.doubt.reset();
      return true;
    }
    const TimePoint sure = *memory_.doubt + kDoubtSettles;
    plan_.look_soon = now_ >= sure;
    wake_at(std::max(sure, now_ + 1s));
    wait("SubmitInDoubt",
         "Slurm did not answer the submit; looking whether the job exists before another is submitted");
    return false;
  }

  // After a job of this unit has ended without its pods having run, the next one waits a little longer each time.
  bool ended_lately() {
    std::int64_t last_end = 0;
    int count = 0;
    const slurm::Job* last = nullptr;
    for (const JobView& view : unit_.jobs) {
      ++count;
      if (last == nullptr || view.job->end_time >= last_end) {
        last = view.job.get();
        last_end = view.job->end_time;
      }
    }
    if (last == nullptr || last_end == 0) return false;
    const auto pause = std::chrono::seconds(std::min(60, 2 << std::min(count - 1, 5)));
    const WallTime ready = WallTime(std::chrono::seconds(last_end)) + pause;
    // An end in the far future (clocks that differ) must not hold the pod for ever.
    const Duration left = std::min<Duration>(ready - wall_, pause);
    if (left <= Duration::zero()) return false;
    wake_at(now_ + left);
    wait("SlurmJobEnded", "Slurm job " + last->id.str() + " ended (" + slurm::print(last->states) +
                              ") before the pod could run; a new one will be submitted");
    return true;
  }

  // The description with node lists and record, or nothing and a reason to wait.
  std::optional<slurm::JobDescription> describe() {
    auto description = describe_job(config_, *unit_.root, waiting_pods_);
    if (!description) {
      std::string all;
      for (const std::string& fault : description.error().faults) all += (all.empty() ? "" : "; ") + fault;
      wait("InvalidRequest", all);
      return std::nullopt;
    }
    const Candidates& candidates = nodes_.candidates(*waiting_pods_.front(), description->partition.value_or(""));
    if (candidates.usable < waiting_pods_.size()) {
      plan_.waits_for_nodes = true;
      wait("Unschedulable", "no node that Slurm may use fits the pod: " + candidates.why_none);
      return std::nullopt;
    }
    if (!candidates.excluded.empty()) description->excluded_nodes = std::vector{candidates.excluded};
    JobRecord record{self_.bridge, self_.cluster, unit_.uid, fingerprint(slurm::encode_update(*description)), {},
                     {},           false};
    for (const PodPtr& pod : waiting_pods_) {
      record.pods.push_back(pod->meta.key);
      record.uids.push_back(pod->meta.uid);
    }
    description->admin_comment = print_record(record);
    return std::move(*description);
  }

  // --- a live job
  // ------------------------------------------------------------------------------------------------------

  void with_job(const JobView& view) {
    memory_.doubt.reset();
    const slurm::Job& job = *view.job;
    for (const PodPtr& pod : waiting_pods_) mark(pod, job.id);
    if (job.states.base == slurm::JobState::kPending) return pending(view);
    memory_.failures = 0;
    if (job.states.base == slurm::JobState::kRunning && !job.states.has(slurm::JobFlag::kCompleting)) {
      if (!job.nodes.empty()) return running(view);
      wake_at(now_ + 1s);
      return wait("SlurmStarting", "Slurm job " + job.id.str() + " is RUNNING; waiting for its node list");
    }
    memory_.misfit_since.reset();
    wait("SlurmJob" + std::string(slurm::to_string(job.states.base)),
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

  void pending(const JobView& view) {
    memory_.misfit_since.reset();
    plan_.waits_for_nodes = true;
    if (unit_.root && slurm_.reachable && slurm_.nodes_synced && (!memory_.hold_until || now_ >= *memory_.hold_until)) {
      auto wanted = describe();
      if (wanted) {
        const auto record = parse_record(*wanted->admin_comment);
        if (record->spec != view.record.spec && record->spec != memory_.update_refused) {
          plan_.update = UnitPlan::Update{view.job->id, std::move(*wanted)};
        }
      }
    }
    plan_.waiting = describe_pending(*view.job);
  }

  void running(const JobView& view) {
    const slurm::Job& job = *view.job;
    const auto hosts = slurm::expand_hostlist(job.nodes);
    if (!hosts) {
      wake_at(now_ + 5s);
      return wait("SlurmUnknown",
                  "Slurm job " + job.id.str() + " has a node list that cannot be read: " + hosts.error());
    }
    std::vector<std::string> free = free_nodes(*hosts);
    std::string problem;
    std::size_t next = 0;
    for (const PodPtr& pod : waiting_pods_) {
      if (memory_.binding.contains(pod->meta.uid)) continue;
      if (next == free.size()) {
        problem = "the job has fewer nodes than pods";
        break;
      }
      const std::string& host = free[next++];
      const NodePtr node = nodes_.by_slurm_name(host);
      const std::string refusal = node ? nodes_.refusal(*pod, *node) : "is not a node of this Kubernetes cluster";
      if (!refusal.empty()) {
        problem = "node " + host + " " + refusal;
      } else if (now_ - view.confirmed_at > kConfirmWithin) {
        plan_.confirm = job.id;
      } else if (is_marked(pod, job.id)) {
        plan_.binds.push_back({pod, node, job.id});
      }
    }
    if (problem.empty()) {
      memory_.misfit_since.reset();
      return;
    }
    misfit(job, problem);
  }

  // The job's nodes that none of the unit's pods has, in Slurm's order: a pod that is bound or being bound keeps its
  // node.
  std::vector<std::string> free_nodes(const std::vector<std::string>& hosts) const {
    std::multiset<std::string> taken;
    for (const PodPtr& pod : unit_.pods) {
      if (pod->bound() && !pod->terminal()) taken.insert(pod->node_name.str());
    }
    for (const auto& [uid, node] : memory_.binding) taken.insert(node.str());
    std::vector<std::string> free;
    for (const std::string& host : hosts) {
      const NodePtr node = nodes_.by_slurm_name(host);
      const auto used = node ? taken.find(node->meta.key.name) : taken.end();
      if (used != taken.end()) {
        taken.erase(used);
      } else {
        free.push_back(host);
      }
    }
    return free;
  }

  void misfit(const slurm::Job& job, const std::string& problem) {
    plan_.waits_for_nodes = true;
    if (!memory_.misfit_since) memory_.misfit_since = now_;
    const TimePoint patience = *memory_.misfit_since + kMisfitPatience;
    const bool any_bound =
        std::ranges::any_of(unit_.pods, [](const PodPtr& pod) { return pod->bound() && !pod->terminal(); });
    if (now_ >= patience && !any_bound) {
      memory_.misfit_since.reset();
      plan_.cancels.push_back({job.id, problem});
    } else {
      wake_at(std::max(patience, now_ + 1s));
    }
    wait("NodeRefused", "Slurm job " + job.id.str() + " is RUNNING but the pod cannot start: " + problem);
  }

  const Config& config_;
  const Identity& self_;
  const UnitView& unit_;
  const SlurmView& slurm_;
  NodeView& nodes_;
  UnitMemory& memory_;
  TimePoint now_;
  WallTime wall_;
  std::vector<PodPtr> waiting_pods_;
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
  return {"Unschedulable", std::move(text), std::move(detail)};
}

}  // namespace bascule::bridge
