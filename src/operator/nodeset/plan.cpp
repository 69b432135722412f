#include "operator/nodeset/plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "operator/api/names.hpp"
#include "operator/nodeset/facts.hpp"
#include "operator/nodeset/pod_plan.hpp"
#include "operator/nodeset/records.hpp"
#include "operator/nodeset/reservation.hpp"
#include "operator/nodeset/revisions.hpp"
#include "operator/nodeset/scale.hpp"
#include "operator/nodeset/status.hpp"
#include "operator/nodeset/update.hpp"

namespace bascule::op::nodeset {

namespace {

// How long Slurm may hold up the end of a NodeSet that has no pods left.
constexpr Duration kRecordsPatience = std::chrono::minutes(10);

void finalize(Pass& pass, bool present, std::string why) {
  if (pass.spec().has_drain_finalizer == present) return;
  pass.plan.act(SetFinalizer{std::string(names::kDrainFinalizer), present}, std::move(why));
}

void write_status(Pass& pass, Status status) {
  if (status != pass.state.status) pass.plan.act(WriteStatus{std::move(status)}, "what is known has changed");
}

// The NodeSet goes: jobs end first, as when it is scaled to nothing. With the Controller gone there is nothing to wait
// for, and where its pods are to outlive it (kubectl delete --cascade=orphan) they and what Slurm knows of them stay.
void plan_end(Pass& pass) {
  pass.desired = 0;
  const bool orphans = pass.memory.orphans;
  const bool alone = orphans || pass.state.controller == Presence::kGone;
  for (PodFacts& facts : pass.pods) {
    if (alone) break;
    facts.unbounded = true;
    facts.condemn(Cause::kDelete, fmt::format("NodeSet {}/{} is being deleted", pass.spec().ns, pass.spec().name));
  }
  if (!alone) plan_pods(pass);
  const bool empty =
      pass.memory.created.empty() &&  // one may be on its way
      std::ranges::none_of(pass.pods, [](const PodFacts& facts) { return facts.pod->owner == Owner::kUs; });
  const bool records_wait = empty && !alone && plan_prune(pass, true);
  Status status = status_of(pass, pass.state.status.collisions);
  plan_reservation(pass, status);
  const bool records_left = records_wait || std::ranges::any_of(pass.plan.actions, [](const Action& action) {
                              return std::holds_alternative<DeleteSlurmNode>(action.what) ||
                                     std::holds_alternative<DeleteReservation>(action.what);
                            });
  const bool overdue = pass.now - *pass.spec().deleted >= kRecordsPatience;
  if (alone) {
    finalize(pass, false, orphans ? "its pods are to stay" : "the Controller is gone, and its jobs with it");
  } else if (empty && (overdue || (pass.state.slurm.known && !records_left))) {
    finalize(pass, false, records_left ? "node records stay in Slurm" : "no pod and no node record is left");
    if (overdue && pass.spec().has_reservation_finalizer && !pass.state.slurm.known) {
      pass.plan.act(SetFinalizer{std::string(names::kReservationFinalizer), false}, "Slurm has not answered for long");
    }
  } else if (empty && (records_wait || !pass.state.slurm.known)) {
    if (!records_wait) {
      pass.plan.waits.push_back(fmt::format("no pod is left; node records wait for Slurm: {}", pass.state.slurm.why));
    }
    pass.plan.wake_at(*pass.spec().deleted + kRecordsPatience);
  }
  write_status(pass, std::move(status));
}

// The Controller is gone, and the NodeSet stays: nobody can tell what runs on its pods, nor make one. They are left as
// they are until the Controller is there again or the NodeSet goes too.
void plan_alone(Pass& pass) {
  const bool daemon = pass.spec().mode == ScalingMode::kDaemonSet;
  pass.desired = daemon ? pass.state.status.desired : std::max(0, pass.spec().replicas);
  Status status = status_of(pass, pass.state.status.collisions);
  // No slurmctld has jobs there: what was counted last must not hold up whoever goes by it, as the webhook.
  status.slurm_idle = status.slurm_allocated = status.slurm_down = status.slurm_drain = 0;
  plan_reservation(pass, status);  // nothing of Slurm holds up the NodeSet's end any longer
  write_status(pass, std::move(status));
}

void plan_life(Pass& pass) {
  finalize(pass, true, "jobs end before pods go when the NodeSet is deleted");
  const Revisions revisions = plan_revisions(pass.state, pass.plan);
  pass.update_hash = revisions.update_hash;
  Scaling scaling = plan_scale(pass);
  plan_update(pass);
  plan_drift(pass);
  plan_pods(pass);
  const bool full = scaling.full;
  plan_creates(pass, std::move(scaling));
  plan_prune(pass, full);
  Status status = status_of(pass, revisions.collisions);
  plan_reservation(pass, status);
  write_status(pass, std::move(status));
}

}  // namespace

Plan plan_nodeset(const State& state, Memory& memory, WallTime now) {
  settle(memory, state, now);
  memory.orphans = state.spec.deleted && (memory.orphans || state.spec.orphans);
  Pass pass{.state = state, .memory = memory, .now = now, .update_hash = state.status.hash, .pods = {}, .plan = {}};
  gather(pass);
  if (state.spec.deleted) {
    plan_end(pass);
  } else if (state.controller == Presence::kGone) {
    plan_alone(pass);
  } else {
    plan_life(pass);
  }
  if (!memory.created.empty() || !memory.deleted.empty()) pass.plan.wake_at(now + kDrainLook);
  return std::move(pass.plan);
}

}  // namespace bascule::op::nodeset
