#include "operator/nodeset/update.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "operator/api/names.hpp"
#include "operator/nodeset/identity.hpp"
#include "operator/nodeset/slurm_node.hpp"

namespace bascule::op::nodeset {

namespace {

bool is_kept(const Pass& pass, const PodFacts& facts) {
  return !facts.going && !facts.condemned() && is_of_mode(*facts.pod, pass.spec().mode);
}

bool is_old(const Pass& pass, const PodFacts& facts) {
  return facts.pod->hash_label != pass.update_hash;
}

void condemn_old(Pass& pass, PodFacts& facts) {
  facts.condemn(Cause::kUpdate, fmt::format("pod {}/{} waits to be updated", pass.spec().ns, facts.pod->name));
}

std::int64_t budget_of(const Pass& pass, std::int64_t available) {
  const std::int64_t most = pass.max_unavailable();
  const std::int64_t unavailable = std::clamp<std::int64_t>(pass.desired - available, 0, pass.desired);
  return std::clamp<std::int64_t>(most - unavailable, 0, most);
}

bool is_refused(const PodFacts& facts) {
  return facts.node != nullptr && is_refused(*facts.node);
}

// Ready for Kubernetes, and of no use to Slurm: as where a new image or another host has no GPUs. Whom a user has taken
// out of service nobody waits for.
bool is_of_no_use(const PodFacts& facts) {
  if (facts.node == nullptr || facts.user_cordoned() || facts.node_cordoned()) return false;
  return facts.is_idle() || is_held_by_others(*facts.node);
}

bool is_available_for_roll(Pass& pass, const PodFacts& facts, bool updates) {
  if (!is_kept(pass, facts)) return false;
  if (is_old(pass, facts)) {
    return facts.healthy() && facts.registration == Registration::kRegistered && !is_refused(facts);
  }
  if (!pass.is_available(facts)) return false;
  if (!is_of_no_use(facts)) return true;
  if (updates) {
    pass.plan.waits.push_back(fmt::format("the update counts pod {} as unavailable: its Slurm node {} is {} ({})",
                                          facts.pod->name, facts.slurm_name, slurm::print(facts.node->states),
                                          facts.node->reason));
  }
  return false;
}

void roll(Pass& pass, std::vector<PodFacts*> old) {
  const auto available = std::ranges::count_if(
      pass.pods, [&](const PodFacts& facts) { return is_available_for_roll(pass, facts, !old.empty()); });
  const IntOrPercent& most = pass.spec().max_unavailable;
  if (!old.empty() && most.valid && most.value == 0) {
    pass.plan.waits.emplace_back("maxUnavailable is 0: no pod of an older revision is replaced");
  }
  // What does no work is no loss; pods that serve may have to go on, and would stand in its way.
  std::ranges::sort(old, [&](const PodFacts* a, const PodFacts* b) {
    const auto is_free = [](const PodFacts* facts) { return facts->is_idle() && !facts->serves(); };
    if (is_free(a) != is_free(b)) return is_free(a);
    return goes_first(a->ranked(), b->ranked());
  });
  const auto budget = static_cast<std::size_t>(budget_of(pass, available));
  for (std::size_t i = 0; i < std::min(budget, old.size()); ++i) condemn_old(pass, *old[i]);
}

bool is_under_reservation(const Pass& pass, const PodFacts& facts) {
  return facts.node != nullptr && facts.node->states.has(slurm::NodeFlag::kMaintenance) &&
         facts.node->reservation == fmt::format("{}{}", names::kReservationPrefix, pass.spec().name);
}

}  // namespace

void plan_update(Pass& pass) {
  if (pass.spec().update == UpdateType::kOnDelete) return;
  std::vector<PodFacts*> healthy, ill;
  for (PodFacts& facts : pass.pods) {
    if (!is_kept(pass, facts) || !is_old(pass, facts) || facts.pod->terminal()) continue;
    (facts.healthy() && !is_refused(facts) ? healthy : ill).push_back(&facts);
  }
  if (pass.spec().update == UpdateType::kScheduledUpdate) {
    for (PodFacts* facts : healthy) {
      if (!is_under_reservation(pass, *facts)) continue;
      facts->unbounded = true;  // the user has set this hour aside for it
      condemn_old(pass, *facts);
    }
  } else {
    roll(pass, healthy);
  }
  for (PodFacts* facts : ill) condemn_old(pass, *facts);
}

void plan_drift(Pass& pass) {
  const auto settled = std::ranges::count_if(pass.pods, [&](const PodFacts& facts) {
    return is_kept(pass, facts) && facts.healthy() && facts.registration != Registration::kUnknown;
  });
  std::int64_t budget = budget_of(pass, settled);
  for (PodFacts& facts : pass.pods) {
    if (!is_kept(pass, facts) || !facts.healthy() || facts.registration != Registration::kAbsent) continue;
    if (pass.now - facts.pod->ready_since < pass.spec().min_ready) continue;
    if (budget-- <= 0) {
      pass.plan.waits.push_back(
          fmt::format("pod {} is healthy but not registered in Slurm; it will be replaced when "
                      "fewer pods are unavailable",
                      facts.pod->name));
      pass.plan.wake_at(pass.now + kDrainLook);
      continue;
    }
    facts.condemn(Cause::kReplace, fmt::format("pod {}/{} is healthy but Slurm has no node {}", pass.spec().ns,
                                               facts.pod->name, facts.slurm_name));
    pass.plan.events.push_back({true, "SlurmNodeNotRegistered", "Delete", facts.why, ""});
  }
}

}  // namespace bascule::op::nodeset
