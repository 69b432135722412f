#include "operator/nodeset/facts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "operator/nodeset/identity.hpp"
#include "operator/nodeset/slurm_node.hpp"

namespace bascule::op::nodeset {

namespace {

Registration registration_of(Pass& pass, const PodFacts& facts) {
  const Uid& uid = facts.pod->uid;
  if (!pass.state.slurm.known || facts.holder != nullptr) return Registration::kUnknown;
  if (facts.node != nullptr) {
    pass.memory.absent_since.erase(uid);
    return Registration::kRegistered;
  }
  // A pod that never ran has no slurmd that could register in the next moment.
  const bool may_register = facts.pod->phase == PodPhase::kRunning || !facts.pod->slurm_conditions.empty();
  if (!may_register) return Registration::kAbsent;
  const WallTime since = pass.memory.absent_since.try_emplace(uid, pass.now).first->second;
  if (pass.now - since >= kAbsentSettles) return Registration::kAbsent;
  pass.plan.wake_at(since + kAbsentSettles);
  return Registration::kUnknown;
}

// A kubelet, slurmctld and this process have a clock each: what is compared with `now` is what was seen here.
WallTime down_since(Pass& pass, const PodFacts& facts) {
  if (!facts.healthy() || facts.node == nullptr || facts.node->states.base != slurm::NodeState::kDown) {
    pass.memory.down.erase(facts.pod->uid);
    return pass.now;
  }
  const SlurmNodeView& node = *facts.node;
  const Memory::Down seen{node.reason, node.reason_since, pass.now};
  const auto [known, added] = pass.memory.down.try_emplace(facts.pod->uid, seen);
  Memory::Down& down = known->second;
  if (!added && (down.reason != seen.reason || down.reason_since != seen.reason_since)) down = seen;
  return down.since;
}

// A pod may be ready before or after its hook by the clocks of others; but a hook that was seen behind another pod, or
// before the containers of this one ran, is not its own.
bool hook_of_another(Pass& pass, const PodFacts& facts) {
  if (facts.node == nullptr) return false;
  if (!is_down_by_us(*facts.node)) {
    pass.memory.hooks.erase(facts.slurm_name);
    return false;
  }
  const PodView& pod = *facts.pod;
  const Memory::Hook seen{facts.node->reason_since, pod.uid, pod.phase == PodPhase::kRunning, pass.now};
  const auto [known, added] = pass.memory.hooks.try_emplace(facts.slurm_name, seen);
  Memory::Hook& hook = known->second;
  if (!added && hook.reason_since != seen.reason_since) hook = seen;
  hook.seen = pass.now;
  return hook.pod != pod.uid || !hook.ran;
}

// slurmctld, when it refuses a registration, puts its own reason in the place of ours, and takes neither DOWN nor drain
// back when it accepts the next one. What somebody else has said is another reason, or stands behind ours.
bool taken_again(Pass& pass, const PodFacts& facts) {
  if (facts.node == nullptr) return false;
  const SlurmNodeView& node = *facts.node;
  const std::string_view kept = kept_reason(node);
  const bool closed = is_drain(node) || node.states.base == slurm::NodeState::kDown;
  auto& refused = pass.memory.refused;
  if (closed && has_our_mark(node) && kept.empty()) {
    refused[facts.slurm_name] = {"", pass.now};
    return false;
  }
  const auto known = refused.find(facts.slurm_name);
  if (known == refused.end()) return false;
  const bool invalid = node.states.has(slurm::NodeFlag::kInvalidReg);
  if (!closed || !is_refusal(kept) || (!invalid && known->second.reason != kept)) {
    refused.erase(known);
    return false;
  }
  known->second = {std::string(kept), pass.now};
  return !invalid && !has_our_mark(node);
}

PodFacts facts_of(Pass& pass, const PodView& pod) {
  const State& state = pass.state;
  PodFacts facts;
  facts.pod = &pod;
  facts.going = pod.terminating || pass.memory.deleted.contains(pod.uid);
  facts.slurm_name = slurm_name_of(pod);
  const auto other = state.others.find(facts.slurm_name);
  if (other != state.others.end() && other->second.precedes(pod)) facts.holder = &other->second;
  if (state.slurm.known && !facts.slurm_name.empty() && !facts.holder) facts.node = state.slurm.find(facts.slurm_name);
  facts.registration = registration_of(pass, facts);
  facts.down_since = down_since(pass, facts);
  facts.hook_of_another = hook_of_another(pass, facts);
  facts.taken_again = taken_again(pass, facts);
  if (state.nodes_known && !pod.node.empty()) {
    const auto it = state.nodes.find(pod.node);
    if (it != state.nodes.end()) facts.kube_node = &it->second;
  }
  facts.drain_sent = pass.memory.drained.contains(facts.slurm_name);
  facts.drained_by_us =
      facts.node != nullptr && is_drained_by_us(*facts.node) && !facts.user_cordoned() && !facts.node_cordoned();
  if (facts.node != nullptr) {
    facts.deadline = facts.node->deadline;
    if (!facts.deadline && is_busy(*facts.node)) facts.deadline = WallTime{};  // busy, but not with running jobs
  }
  return facts;
}

bool is_left_by_another_cluster(const Spec& spec, const PodView& pod) {
  return pod.owner == Owner::kNone && pod.selected && !pod.terminating && !pod.cluster.empty() &&
         pod.cluster != spec.controller;
}

}  // namespace

std::string_view to_string(Cause cause) noexcept {
  switch (cause) {
    case Cause::kScaleIn:
      return "ScaleIn";
    case Cause::kUpdate:
      return "Update";
    case Cause::kReplace:
      return "Replace";
    case Cause::kDelete:
      return "Delete";
    case Cause::kNone:
      break;
  }
  return "";
}

bool PodFacts::is_idle() const noexcept {
  return node != nullptr && is_out_of_service(*node);
}

bool PodFacts::serves() const noexcept {
  return healthy() && registration == Registration::kRegistered && !drained_by_us && !drain_sent &&
         (!is_idle() || user_cordoned() || node_cordoned());
}

bool Pass::is_available(const PodFacts& facts) const noexcept {
  return facts.healthy() && facts.registration == Registration::kRegistered &&
         (spec().min_ready == Duration{} || now - facts.pod->ready_since >= spec().min_ready);
}

std::int64_t Pass::max_unavailable() const noexcept {
  return scaled(spec().max_unavailable, desired);
}

std::int64_t Pass::allowance() const noexcept {
  const auto serving =
      std::ranges::count_if(pods, [](const PodFacts& facts) { return facts.serves() && !facts.unbounded; });
  return std::max<std::int64_t>(0, serving - std::max<std::int64_t>(0, desired - max_unavailable()));
}

std::int64_t scaled(const IntOrPercent& value, std::int64_t total) noexcept {
  if (!value.valid || value.value < 0) return 1;
  if (!value.percent) return value.value;
  return (std::min<std::int64_t>(value.value, 100) * total + 99) / 100;
}

std::string held_by(const OtherPod& holder, const std::string& slurm_name) {
  return fmt::format(
      "Slurm node {} is pod {} of NodeSet {}, and Slurm tells nodes apart by their names alone; give one of the "
      "NodeSets another spec.template.spec.hostname",
      slurm_name, holder.pod, holder.nodeset);
}

void gather(Pass& pass) {
  for (const PodView& pod : pass.state.pods) {
    switch (claiming_of(pass.spec(), pod)) {
      case Claiming::kIgnore:
        if (is_left_by_another_cluster(pass.spec(), pod)) {
          pass.plan.waits.push_back(
              fmt::format("pod {} belongs to nobody and is Controller {}'s, not {}'s: it is left "
                          "as it is",
                          pod.name, pod.cluster, pass.spec().controller));
        }
        break;
      case Claiming::kRelease:
        pass.plan.act(ReleasePod{pod.name, pod.uid}, "its labels no longer match the NodeSet");
        break;
      case Claiming::kAdopt:
        pass.plan.act(AdoptPod{pod.name, pod.uid}, "it has no owner and is this NodeSet's by name and labels");
        [[fallthrough]];
      case Claiming::kKeep:
        pass.pods.push_back(facts_of(pass, pod));
        break;
    }
  }
  std::ranges::sort(pass.pods, {}, [](const PodFacts& facts) -> const std::string& { return facts.pod->name; });
}

}  // namespace bascule::op::nodeset
