#include "operator/nodeset/pod_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/duration.hpp"
#include "base/time.hpp"
#include "operator/api/names.hpp"
#include "operator/nodeset/claims.hpp"
#include "operator/nodeset/identity.hpp"
#include "operator/nodeset/pod_status.hpp"
#include "operator/nodeset/records.hpp"
#include "operator/nodeset/slurm_node.hpp"

namespace bascule::op::nodeset {

namespace {

class PodPlanner final {
 public:
  explicit PodPlanner(Pass& pass) : pass_(pass), allowance_(pass.allowance()) {
    for (const PodFacts& facts : pass.pods) {
      if (facts.condemned() && !facts.going && !facts.pod->terminal()) contested_.insert(facts.slurm_name);
    }
  }

  void run() {
    for (PodFacts& facts : pass_.pods) {
      if (facts.going || facts.pod->owner != Owner::kUs) continue;
      patch_ = PatchPod{.name = facts.pod->name, .uid = facts.pod->uid, .labels = {}, .annotations = {}};
      patch_why_.clear();
      deleted_ = false;
      if (facts.pod->terminal()) {
        ended(facts);
      } else if (facts.condemned()) {
        remove(facts);
      } else {
        keep(facts);
      }
      if (!deleted_ && !facts.pod->terminal()) reflect(pass_, facts, patch_);
      if (!deleted_ && (!patch_.labels.empty() || !patch_.annotations.empty())) {
        plan().act(patch_, patch_why_.empty() ? "what is known of the pod has changed" : patch_why_);
      }
      for (auto& [write, why] : writes_) act(facts, std::move(write), std::move(why));
      writes_.clear();
    }
    say_counts();
  }

 private:
  Plan& plan() { return pass_.plan; }
  template <class T>
  void act(const PodFacts& facts, T what, std::string why) {
    plan().act(std::move(what), std::move(why));
    plan().actions.back().for_update = facts.cause == Cause::kUpdate;
  }
  void wait(std::string sentence) {
    plan().waits.push_back(std::move(sentence));
    plan().wake_at(pass_.now + kDrainLook);
  }

  // --- a pod that has ended ---------------------------------------------------------------------------------------

  void ended(const PodFacts& facts) {
    const PodView& pod = *facts.pod;
    Memory::Backoff& backoff = pass_.memory.failed[slot_of(pod)];
    if (pass_.now < backoff.until && !facts.condemned()) {
      plan().waits.push_back(fmt::format("pod {} has ended again; its successor is made after a pause", pod.name));
      plan().wake_at(backoff.until);
      return;
    }
    if (!settle_claims(facts)) return;
    backoff.delay = std::clamp(backoff.delay * 2, kFailedFirst, kFailedMost);
    backoff.until = pass_.now + backoff.delay;
    const bool failed = pod.phase == PodPhase::kFailed;
    if (pass_.spec().mode == ScalingMode::kDaemonSet) {
      plan().events.push_back({failed, failed ? "FailedDaemonPod" : "SucceededDaemonPod", "Info",
                               fmt::format("pod {} has {} and is replaced", pod.name, failed ? "failed" : "ended"),
                               pod.name});
    }
    erase(facts, Before::kNothing, fmt::format("the pod has {}", failed ? "failed" : "ended"));
  }

  // --- a pod that has to go ---------------------------------------------------------------------------------------

  void remove(PodFacts& facts) {
    const PodView& pod = *facts.pod;
    if (pod.node.empty()) {
      if (settle_claims(facts)) erase(facts, Before::kUnbound, facts.why + "; it is not bound to a node");
      return;
    }
    if (facts.holder != nullptr) {
      remove_beside(facts);
      return;
    }
    switch (facts.registration) {
      case Registration::kUnknown:
        wait(pass_.state.slurm.known
                 ? fmt::format("{}: Slurm lacks node {}, maybe only for the moment", facts.why, facts.slurm_name)
                 : fmt::format("{}: Slurm is not known: {}", facts.why, pass_.state.slurm.why));
        return;
      case Registration::kAbsent:
        if (settle_claims(facts)) erase(facts, Before::kSlurmIsClear, facts.why + "; Slurm does not know its node");
        return;
      case Registration::kRegistered:
        break;
    }
    const bool clear = is_clear(*facts.node);
    const bool late = !clear && is_over_limit(facts);
    // Even a node that drains already counts as serving when it is not by our hand.
    if (facts.serves() && !facts.unbounded && allowance_ <= 0) {
      wait(fmt::format("{}: {} of {} pods have to serve meanwhile", facts.why,
                       std::max<std::int64_t>(0, pass_.desired - pass_.max_unavailable()), pass_.desired));
      return;
    }
    if (clear || late) {
      if (!settle_claims(facts)) return;
      erase(facts, clear ? Before::kSlurmIsClear : Before::kNothing,
            clear ? facts.why + "; its Slurm node is drained and has no jobs"
                  : fmt::format("{}; the limit for draining of {} is over", facts.why,
                                print_duration(*pass_.spec().drain_limit)));
      return;
    }
    if (facts.serves() && !facts.unbounded) --allowance_;
    cordon(facts, to_string(facts.cause));
    drain(facts, facts.why);
    wait(is_busy(*facts.node) ? fmt::format("{}: {}", facts.why, work_on(*facts.node))
                              : fmt::format("{}: Slurm node {} is being drained", facts.why, facts.slurm_name));
  }

  // The Slurm node is another NodeSet's and not drained for this one's sake; its jobs may run here all the same.
  void remove_beside(const PodFacts& facts) {
    const SlurmNodeView* node = pass_.state.slurm.find(facts.slurm_name);
    if (!pass_.state.slurm.known || (node != nullptr && is_busy(*node))) {
      wait(fmt::format("{}: {}; {}", facts.why, held_by(*facts.holder, facts.slurm_name),
                       node != nullptr ? work_on(*node) : "Slurm is not known"));
      return;
    }
    if (settle_claims(facts)) erase(facts, Before::kSlurmIsIdle, facts.why + "; its Slurm node is another NodeSet's");
  }

  static std::string work_on(const SlurmNodeView& node) {
    std::string text = fmt::format("jobs run on Slurm node {}", node.name);
    if (!node.jobs.empty()) {
      const bool more = node.jobs.size() >= kMostNamedJobs;
      text += fmt::format(" ({}{})", fmt::join(node.jobs, ", "), more ? ", maybe more" : "");
    }
    if (node.deadline)
      text += *node.deadline == kNever ? ", without a limit" : " until " + print_rfc3339(*node.deadline);
    return text;
  }

  bool is_over_limit(const PodFacts& facts) {
    if (!pass_.spec().drain_limit) return false;
    const std::optional<WallTime> since = drained_since(facts);
    if (!since) return false;
    const WallTime over = *since + *pass_.spec().drain_limit;
    if (pass_.now >= over) return true;
    plan().wake_at(over);
    return false;
  }

  // From when its jobs are waited for. A drain of somebody else's has begun for another cause: then since this one is
  // known here.
  std::optional<WallTime> drained_since(const PodFacts& facts) {
    const SlurmNodeView& node = *facts.node;
    if (is_drained_by_us(node)) {
      const bool for_this = node.reason.starts_with(fmt::format("{}{}", names::kReasonPrefix, facts.why));
      if (node.reason_since == WallTime{} || !for_this) return std::nullopt;
      return node.reason_since;
    }
    if (!is_drain(node) || node.states.has(slurm::NodeFlag::kUndrain)) return std::nullopt;
    const Memory::Behind seen{facts.why, pass_.now};
    Memory::Behind& behind = pass_.memory.behind.try_emplace(facts.pod->uid, seen).first->second;
    if (behind.why != seen.why) behind = seen;
    return behind.since;
  }

  void erase(const PodFacts& facts, Before before, std::string why) {
    if (facts.serves() && !facts.unbounded) --allowance_;
    if (facts.pod->cordon_cause != to_string(facts.cause)) count(facts.cause);
    act(facts, DeletePod{facts.pod->name, facts.pod->uid, before, facts.slurm_name}, std::move(why));
    deleted_ = true;
  }

  // True when the claims belong to whom they should; only then may the pod go.
  bool settle_claims(const PodFacts& facts) {
    bool settled = true;
    for (const auto& [claim_template, name] : facts.pod->claims) {
      const auto claim = pass_.state.claims.find(name);
      if (claim == pass_.state.claims.end()) continue;
      auto fix = fix_owners(pass_.spec(), claim->second, *facts.pod, facts.cause == Cause::kScaleIn);
      if (!fix) continue;
      settled = false;
      if (fix->conflict) {
        plan().events.push_back(
            {true, "ConflictingController", "Info",
             fmt::format("claim {} has another controller; the retention policy is not followed", name), "", name});
      }
      plan().act(std::move(fix->patch), "the retention policy of claims");
    }
    return settled;
  }

  // --- a pod that stays -------------------------------------------------------------------------------------------

  void keep(PodFacts& facts) {
    pass_.memory.behind.erase(facts.pod->uid);
    if (facts.holder != nullptr) {
      const std::string why = held_by(*facts.holder, facts.slurm_name);
      wait(fmt::format("pod {}: {}", facts.pod->name, why));
      if (facts.pod->node.empty() && settle_claims(facts)) erase(facts, Before::kUnbound, why);
      return;
    }
    settle_claims(facts);
    for (const auto& [claim_template, name] : facts.pod->claims) {
      if (!pass_.state.claims.contains(name)) {
        plan().act(CreateClaim{name, claim_template}, fmt::format("pod {} needs it", facts.pod->name));
      }
    }
    if (facts.registration != Registration::kRegistered || !pass_.state.nodes_known) return;
    if (contested_.contains(facts.slurm_name)) return;  // another pod behind the same Slurm node has to go first
    if (!facts.pod->node.empty() && facts.kube_node == nullptr) {
      // A Node that is deleted was cordoned before, as a rule, and is switched off next: no job may start there now.
      wait(fmt::format("pod {}: its node {} is gone, or not seen yet", facts.pod->name, facts.pod->node));
      return;
    }
    const SlurmNodeView& node = *facts.node;
    const bool silent =
        (is_down_unresponsive(node) && !has_our_mark(node)) ||
        (node.states.base == slurm::NodeState::kDown && node.states.has(slurm::NodeFlag::kNotResponding));
    if (facts.node_cordoned() || facts.user_cordoned()) {
      if (silent || is_held_by_others(node)) return;
      if (facts.node_cordoned()) cordon(facts, kNodeCause);
      const std::string why = facts.node_cordoned()
                                  ? cordon_reason(pass_.spec(), *facts.kube_node, facts.pod->name)
                                  : fmt::format("pod {}/{} was cordoned", pass_.spec().ns, facts.pod->name);
      drain(facts, why);
      return;
    }
    uncordon(facts);
    if (!facts.pod->healthy()) return;
    const auto due = facts.taken_again
                         ? std::optional(pass_.now)
                         : resume_due(node, *facts.pod, facts.down_since, is_of_another(pass_.spec(), *facts.pod, node),
                                      facts.hook_of_another);
    if (due) {
      resume(facts, *due);
      return;
    }
    auto write = silent ? std::nullopt : make_undrain(node);
    if (write) {
      writes_.emplace_back(*std::move(write), wanted(facts));
    } else {
      say_out_of_service(node);
    }
  }

  std::string wanted(const PodFacts& facts) const {
    return fmt::format("pod {}/{} is wanted and not cordoned", pass_.spec().ns, facts.pod->name);
  }

  void resume(const PodFacts& facts, WallTime due) {
    const SlurmNodeView& node = *facts.node;
    const bool now = pass_.now >= due;
    plan().waits.push_back(fmt::format("Slurm node {} is {} ({}) and is resumed{}", node.name,
                                       slurm::print(node.states), node.reason, now ? "" : " at " + print_rfc3339(due)));
    if (now) {
      writes_.emplace_back(make_resume(node), wanted(facts));
    } else {
      plan().wake_at(due);
    }
  }

  // By slurmctld itself: whom an administrator has drained or put DOWN he knows. The host that slurmctld gave up is the
  // one that the pod is on, as far as is known.
  void say_out_of_service(const SlurmNodeView& node) {
    const bool given_up = is_given_up(node) && !is_drain(node);
    const bool invalid = node.states.has(slurm::NodeFlag::kInvalidReg);
    if (!given_up && !invalid && !is_closed_by_slurm(node)) return;
    std::string text = fmt::format("Slurm node {} is {} ({})", node.name, slurm::print(node.states), node.reason);
    if (invalid) {
      text += ": slurmctld refuses what its slurmd registers with";
    } else if (node.states.has(slurm::NodeFlag::kNotResponding) && !is_closed_by_slurm(node)) {
      text += " until its slurmd answers";
    } else {
      if (given_up) text += ", and its host is still the same, as far as is known";
      text += fmt::format(": look at it, then scontrol update nodename={} state=resume", node.name);
    }
    plan().waits.push_back(std::move(text));
  }

  // One that was sent is not sent again before Slurm has been looked at since.
  void drain(const PodFacts& facts, const std::string& why) {
    if (facts.drain_sent) return;
    if (auto write = make_drain(*facts.node, why)) writes_.emplace_back(std::move(*write), why);
  }

  // --- the annotations of a cordon --------------------------------------------------------------------------------

  void cordon(const PodFacts& facts, std::string_view cause) {
    if (facts.user_cordoned() || (facts.pod->cordoned() && facts.pod->cordon_cause == cause)) return;
    patch_.annotations[std::string(names::kPodCordon)] = "true";
    patch_.annotations[std::string(names::kPodCordonCause)] = std::string(cause);
    patch_why_ = fmt::format("its Slurm node is drained: {}", cause);
    if (facts.pod->cordon_cause == cause) return;
    if (cause == kNodeCause) {
      plan().events.push_back({false, "NodeCordon", "Cordon",
                               fmt::format("pod {} is cordoned with its node {}", facts.pod->name, facts.pod->node),
                               facts.pod->name});
    } else {
      count(facts.cause);
    }
  }
  void uncordon(const PodFacts& facts) {
    if (!facts.pod->cordon_cause) return;
    if (facts.pod->cordon) patch_.annotations[std::string(names::kPodCordon)] = std::nullopt;
    patch_.annotations[std::string(names::kPodCordonCause)] = std::nullopt;
    patch_why_ = "the cause of its cordon is over";
  }

  // --- events -----------------------------------------------------------------------------------------------------

  void count(Cause cause) {
    if (cause == Cause::kScaleIn) ++scaled_in_;
    if (cause == Cause::kUpdate) ++updated_;
  }
  void say_counts() {
    if (scaled_in_ > 0) {
      plan().events.push_back({false, "ScalingDown", "ScaleDown",
                               fmt::format("removing {} pods, {} are wanted", scaled_in_, pass_.desired), ""});
    }
    if (updated_ > 0) {
      const bool scheduled = pass_.spec().update == UpdateType::kScheduledUpdate;
      plan().events.push_back({false, scheduled ? "Scheduled Update" : "RollingUpdate",
                               scheduled ? "ScheduledUpdate" : "RollingUpdate",
                               fmt::format("replacing {} pods of older revisions", updated_), ""});
    }
  }

  Pass& pass_;
  std::int64_t allowance_;
  std::set<std::string> contested_;  // Slurm nodes of pods that have to go
  PatchPod patch_;
  std::string patch_why_;
  std::vector<std::pair<WriteSlurmNode, std::string>> writes_;
  bool deleted_ = false;
  std::size_t scaled_in_ = 0;
  std::size_t updated_ = 0;
};

}  // namespace

std::string cordon_reason(const Spec& spec, const NodeView& node, const std::string& pod) {
  if (node.cordon_reason) return sanitize_reason(*node.cordon_reason);
  std::string text;
  for (const std::string& type : spec.propagated_conditions) {
    for (const NodeView::Condition& condition : node.conditions) {
      if (condition.type != type || !condition.is_true) continue;
      text += fmt::format("{}({}: {})", text.empty() ? "" : "; ", condition.reason, condition.message);
    }
  }
  if (!text.empty()) return sanitize_reason(text);
  return fmt::format("node {} of pod {}/{} was cordoned", node.name, spec.ns, pod);
}

void plan_pods(Pass& pass) {
  PodPlanner(pass).run();
}

}  // namespace bascule::op::nodeset
