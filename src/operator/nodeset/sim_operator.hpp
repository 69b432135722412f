// The operator of the randomised tests: sees the world late, performs what plan_nodeset() says, and is interrupted,
// refused, left without answers and killed between any two actions. Every promise of the plan is checked here.
#pragma once

#include <deque>

#include "base/time.hpp"
#include "operator/nodeset/plan.hpp"
#include "operator/nodeset/reservation.hpp"
#include "operator/nodeset/sim_world.hpp"

namespace bascule::op::nodeset::sim {

struct Faults {
  double refuse = 0.05;  // surely not done
  double lose = 0.05;    // done or not done, the answer is lost
  double die = 0.02;     // the process is killed before an action
  double stale = 0.4;    // a view is not refreshed
};

class Operator final {
 public:
  explicit Operator(World& world) : world_(world) { restart(); }

  Faults faults;
  std::size_t actions = 0, passes = 0, restarts = 0;
  Plan last;

  // One look and one plan, performed.
  void step() {
    refresh(false);
    last = plan_nodeset(view_, memory_, world_.now);
    ++passes;
    check_plan(last);
    for (const Action& action : last.actions) {
      if (world_.chance(faults.die)) {
        restart();
        return;
      }
      perform(action);
      if (faults.die > 0 && world_.chance(0.3)) world_.pass(std::chrono::milliseconds(world_.pick(0, 3000)));
    }
  }

  // Forgets everything and lists anew.
  void restart() {
    ++restarts;
    memory_ = {};
    refresh(true);
  }
  const State& view() const { return view_; }

 private:
  void violate(std::string what) {
    world_.violations.push_back(fmt::format("{}: {}", print_rfc3339(world_.now, 3), what));
  }

  void refresh(bool all) {
    const auto fresh = [&] { return all || !world_.chance(faults.stale); };
    if (fresh()) {
      view_.spec = world_.spec;
      view_.status = world_.status;
      view_.template_data = world_.template_data();
      view_.template_hash = world_.template_hash();
      view_.controller = Presence::kPresent;
    }
    if (fresh()) {
      view_.pods.clear();
      for (const auto& [name, pod] : world_.pods) view_.pods.push_back(pod.view);
    }
    if (fresh()) {
      view_.nodes_known = true;
      view_.nodes = world_.nodes;
    }
    if (fresh()) view_.claims = world_.claims;
    if (fresh()) {
      view_.revisions.clear();
      for (const auto& [name, revision] : world_.revisions) view_.revisions.push_back(revision);
    }
    // The mirror says so itself when slurmctld does not answer; until it has looked it shows the old tables.
    if (fresh()) {
      view_.slurm.known = world_.slurm_up;
      view_.slurm.why = "slurmctld does not answer";
      if (world_.slurm_up) {
        view_.slurm.as_of = world_.now;
        view_.slurm.nodes.clear();
        for (const auto& [name, node] : world_.slurm_nodes) view_.slurm.nodes[name] = world_.look(node);
        view_.slurm.reservation = world_.reservation;
      }
    }
    if (all && !world_.slurm_up) view_.slurm = {};
  }

  // --- promises of a plan -----------------------------------------------------------------------------------------

  const PodView* seen(const Uid& uid) const {
    const auto it = std::ranges::find(view_.pods, uid, &PodView::uid);
    return it == view_.pods.end() ? nullptr : &*it;
  }

  void check_plan(const Plan& plan) {
    for (const Action& action : plan.actions) {
      if (action.why.empty()) violate("an action without a reason: " + describe(action));
      if (!view_.slurm.known) check_outage(action);
      if (const auto* patch = std::get_if<PatchPod>(&action.what)) {
        const PodView* pod = seen(patch->uid);
        const auto cordon = patch->annotations.find(std::string(names::kPodCordon));
        if (cordon != patch->annotations.end() && pod != nullptr && pod->cordoned() && !pod->cordon_cause) {
          violate("a user's cordon is touched: " + describe(action));
        }
      }
    }
    check_serving(plan);
  }

  void check_outage(const Action& action) {
    const auto* deleted = std::get_if<DeletePod>(&action.what);
    const auto* patch = std::get_if<PatchPod>(&action.what);
    bool bad =
        std::holds_alternative<WriteSlurmNode>(action.what) || std::holds_alternative<SetPodConditions>(action.what) ||
        std::holds_alternative<DeleteSlurmNode>(action.what) || std::holds_alternative<WriteReservation>(action.what);
    if (deleted != nullptr) {
      const PodView* pod = seen(deleted->uid);
      bad = pod != nullptr && !pod->node.empty() && !pod->terminal();
    }
    if (patch != nullptr) bad = !patch->annotations.empty() || patch->labels.contains(std::string(names::kPodProtect));
    if (bad) violate("decided although Slurm is not known: " + describe(action));
  }

  bool node_refused(const PodView& pod) const {
    const auto node = view_.nodes.find(slot_of(pod));
    return pod.mode_label == "DaemonSet" && node != view_.nodes.end() &&
           (!node->second.matches || node->second.untolerated_no_execute);
  }

  // Works for Slurm as the operator sees it, its own writes counted as done.
  bool serves(const PodView& pod) const {
    const std::string name = slurm_name_of(pod);
    const SlurmNodeView* node = view_.slurm.find(name);
    if (!pod.healthy() || !view_.slurm.known || node == nullptr) return false;
    const auto truth = world_.pods.find(pod.name);
    const bool sent = truth != world_.pods.end() && truth->second.view.uid == pod.uid && truth->second.by_operator;
    if (sent) return false;
    const auto kube = view_.nodes.find(pod.node);
    const bool by_user =
        (pod.cordoned() && !pod.cordon_cause) || (kube != view_.nodes.end() && kube->second.unschedulable);
    const auto now_drained = world_.slurm_nodes.find(name);
    return by_user || !(is_out_of_service(*node) || is_drained_by_us(*node) ||
                        (now_drained != world_.slurm_nodes.end() && is_drained_by_us(now_drained->second)));
  }

  void check_serving(const Plan& plan) {
    if (view_.spec.deleted || view_.spec.update == UpdateType::kScheduledUpdate) return;
    const bool mixed =
        std::ranges::any_of(view_.pods, [&](const PodView& pod) { return !is_of_mode(pod, view_.spec.mode); });
    if (mixed) return;  // going over to another mode has a bound of its own
    std::set<std::string> taken;
    for (const Action& action : plan.actions) {
      const auto* deleted = std::get_if<DeletePod>(&action.what);
      const auto* write = std::get_if<WriteSlurmNode>(&action.what);
      if (deleted != nullptr) taken.insert(deleted->slurm_node);
      if (write != nullptr && write->state == "DRAIN") taken.insert(write->node);
    }
    std::int64_t before = 0, lost = 0, desired = view_.spec.replicas;
    for (const PodView& pod : view_.pods) {
      const auto kube = view_.nodes.find(pod.node);
      const bool by_user = pod.cordoned() && !pod.cordon_cause;
      if (!serves(pod) || node_refused(pod)) continue;
      ++before;
      const bool cordon = by_user || (kube != view_.nodes.end() && kube->second.unschedulable);
      const bool removed = std::ranges::any_of(plan.actions, [&](const Action& action) {
        const auto* deleted = std::get_if<DeletePod>(&action.what);
        return deleted != nullptr && deleted->uid == pod.uid;
      });
      // One that a user has taken out of service, and that is out of it already, takes nothing with it.
      const bool out = cordon && is_drained_by_us(*view_.slurm.find(slurm_name_of(pod)));
      if ((removed && !out) || (taken.contains(slurm_name_of(pod)) && !cordon)) ++lost;
    }
    if (view_.spec.mode == ScalingMode::kDaemonSet) {
      desired = std::ranges::count_if(view_.nodes, [](const auto& entry) {
        const NodeView& node = entry.second;
        return node.matches && !node.untolerated_no_schedule && !node.untolerated_no_execute;
      });
    }
    const std::int64_t floor = desired - scaled(view_.spec.max_unavailable, desired);
    if (lost > 0 && before - lost < floor) {
      violate(fmt::format("{} of {} serving pods are taken away, {} have to serve", lost, before, floor));
      for (const Action& action : plan.actions) violate("  " + describe(action));
    }
  }

  // --- performing -------------------------------------------------------------------------------------------------

  void perform(const Action& action) {
    ++actions;
    log.push_back(fmt::format("{} {}", print_rfc3339(world_.now, 3), describe(action)));
    if (log.size() > 60) log.pop_front();
    remember(memory_, action, world_.now);
    if (world_.chance(faults.refuse)) return forget(memory_, action);
    const bool lost = world_.chance(faults.lose);
    if (lost && world_.chance(0.5)) return;
    const bool done = std::visit([&](const auto& what) { return apply(what); }, action.what);
    if (!done && !lost) forget(memory_, action);
  }

  Pod* pod_with(const std::string& name, const Uid& uid) {
    const auto it = world_.pods.find(name);
    return it == world_.pods.end() || it->second.view.uid != uid ? nullptr : &it->second;
  }

  bool apply(const AdoptPod& what) {
    Pod* pod = pod_with(what.name, what.uid);
    if (pod != nullptr) pod->view.owner = Owner::kUs;
    return pod != nullptr;
  }
  bool apply(const ReleasePod& what) {
    Pod* pod = pod_with(what.name, what.uid);
    if (pod != nullptr) pod->view.owner = Owner::kNone;
    return pod != nullptr;
  }
  bool apply(const CreateClaim& what) {
    world_.claims.try_emplace(what.name, ClaimView{.name = what.name, .owners = {}});
    return true;
  }
  bool apply(const PatchClaimOwners& what) {
    const auto it = world_.claims.find(what.claim);
    if (it == world_.claims.end()) return false;
    std::vector<OwnerView>& owners = it->second.owners;
    std::erase_if(owners, [&](const OwnerView& owner) {
      return owner.kind == OwnerView::Kind::kNodeSet || (owner.kind == OwnerView::Kind::kPod && owner.name == what.pod);
    });
    if (what.pod_owner) owners.push_back({OwnerView::Kind::kPod, what.pod, *what.pod_owner, true});
    if (what.nodeset_owner) owners.push_back({OwnerView::Kind::kNodeSet, world_.spec.name, world_.spec.uid, true});
    return true;
  }
  bool apply(const CreatePod& what) {
    if (world_.nodeset_gone) return false;
    return world_.create(what);
  }
  bool apply(const PatchPod& what) {
    Pod* pod = pod_with(what.name, what.uid);
    if (pod == nullptr) return false;
    PodView& view = pod->view;
    const std::map<std::string_view, std::optional<std::string>*> fields = {
        {names::kScalingMode, &view.mode_label},      {names::kPodName, &view.name_label},
        {names::kPodIndex, &view.index_label},        {names::kPodHostname, &view.hostname_label},
        {names::kPodProtect, &view.protect_label},    {names::kPodCordon, &view.cordon},
        {names::kPodCordonCause, &view.cordon_cause}, {names::kPodDeadline, &view.deadline},
        {names::kTopologySpec, &view.topology}};
    for (const auto* changes : {&what.labels, &what.annotations}) {
      for (const auto& [key, value] : *changes) *fields.at(key) = value;
    }
    return true;
  }
  bool apply(const SetPodConditions& what) {
    Pod* pod = pod_with(what.name, what.uid);
    if (pod != nullptr) pod->view.slurm_conditions = what.conditions;
    return pod != nullptr;
  }

  bool apply(const DeletePod& what) {
    Pod* pod = pod_with(what.name, what.uid);
    if (pod == nullptr) return false;
    const bool alive = !pod->view.node.empty() && !pod->view.terminal();
    if (what.before == Before::kUnbound && !pod->view.node.empty()) return false;
    if (what.before == Before::kSlurmIsClear) {
      if (!world_.slurm_up) return false;
      const auto node = world_.slurm_nodes.find(what.slurm_node);
      if (node != world_.slurm_nodes.end()) {
        const SlurmNodeView fresh = world_.look(node->second);
        if (!may_delete(what, &fresh)) return false;
      }
    }
    if (!pod->view.terminating && alive && !world_.spec.drain_limit) {
      if (world_.runs_job(what.uid)) violate("a pod with a running job is deleted: " + what.name);
      if (!world_.slurm_up) violate("a pod is deleted while slurmctld is away: " + what.name);
    }
    world_.remove(*pod, true);
    return true;
  }

  bool apply(const WriteSlurmNode& what) {
    if (!world_.slurm_up) return false;
    const auto it = world_.slurm_nodes.find(what.node);
    if (!may_write(what, it == world_.slurm_nodes.end() ? nullptr : &it->second)) return false;
    SlurmNodeView& node = it->second;
    const SlurmNodeView before = node;
    if (what.state == "DRAIN") flag(node, NodeFlag::kDrain, true);
    if (what.state == "UNDRAIN" || what.state == "RESUME") flag(node, NodeFlag::kDrain, false);
    if (what.state == "RESUME" && node.states.base == NodeState::kDown) node.states.base = NodeState::kIdle;
    if (what.reason) {
      node.reason = *what.reason;
      node.reason_since = world_.now;
    }
    if (what.comment) node.comment = *what.comment;
    if (what.topology) node.topology = *what.topology;
    if (what.features) node.features = *what.features;
    if (what.active_features) node.active_features = *what.active_features;
    check_admin(before, node, what);
    return true;
  }

  void check_admin(const SlurmNodeView& before, const SlurmNodeView& after, const WriteSlurmNode& what) {
    const bool held = before.reason.starts_with("admin");
    const bool hidden = before.reason.find("admin") != std::string::npos;
    if (held && is_drain(before) && (!is_drain(after) || after.reason != before.reason)) {
      violate("an administrator's drain is changed: " + describe({what, ""}));
    }
    if (hidden && after.reason.find("admin") == std::string::npos) {
      violate("an administrator's reason is lost: " + describe({what, ""}));
    }
    if (hidden && before.states.base == NodeState::kDown && after.states.base != NodeState::kDown) {
      violate("an administrator's DOWN is undone: " + describe({what, ""}));
    }
  }

  bool apply(const DeleteSlurmNode& what) {
    if (!world_.slurm_up) return false;
    const auto it = world_.slurm_nodes.find(what.node);
    if (it == world_.slurm_nodes.end()) return true;
    const SlurmNodeView fresh = world_.look(it->second);
    if (!may_prune(what, &fresh)) return false;
    for (const auto& [name, pod] : world_.pods) {
      if (pod.registered && slurm_name_of(pod.view) == what.node) violate("a live node's record is removed: " + name);
    }
    world_.slurm_nodes.erase(it);
    return true;
  }

  bool apply(const WriteReservation& what) {
    if (!world_.slurm_up) return false;
    if (what.nodes.empty() || (what.create && world_.reservation)) return false;
    world_.reservation = ReservationView{what.start, what.start + what.length, what.flags, what.nodes, "slurm"};
    world_.reservation->flags.emplace_back("SPEC_NODES");
    if (!world_.spec.has_reservation_finalizer) violate("a reservation without the finalizer");
    return true;
  }
  bool apply(const DeleteReservation&) {
    if (!world_.slurm_up) return false;
    world_.reservation.reset();
    return true;
  }

  bool apply(const CreateRevision& what) {
    RevisionView revision{.name = what.name,
                          .hash_label = what.hash,
                          .revision = what.revision,
                          .data = view_.template_data,
                          .template_hash = view_.template_hash,
                          .created = world_.now};
    return world_.revisions.try_emplace(what.name, revision).second;
  }
  bool apply(const PatchRevision& what) {
    const auto it = world_.revisions.find(what.name);
    if (it == world_.revisions.end()) return false;
    if (what.revision) it->second.revision = *what.revision;
    if (what.hash_label) it->second.hash_label = what.hash_label;
    if (what.template_hash) it->second.template_hash = what.template_hash;
    if (what.adopt) it->second.owner = Owner::kUs;
    return true;
  }
  bool apply(const DeleteRevision& what) { return world_.revisions.erase(what.name) > 0; }
  bool apply(const WriteStatus& what) {
    world_.status = what.status;
    return true;
  }
  bool apply(const SetFinalizer& what) {
    if (world_.nodeset_gone) return false;
    (what.name == names::kDrainFinalizer ? world_.spec.has_drain_finalizer : world_.spec.has_reservation_finalizer) =
        what.present;
    if (world_.spec.deleted && !world_.spec.has_drain_finalizer && !world_.spec.has_reservation_finalizer) {
      world_.nodeset_gone = true;
      if (std::ranges::any_of(world_.pods, [](const auto& pod) { return !pod.second.view.terminating; })) {
        violate("the NodeSet is let go while it has pods");
      }
    }
    return true;
  }

 public:
  std::deque<std::string> log;

 private:
  World& world_;
  State view_;
  Memory memory_;
};

}  // namespace bascule::op::nodeset::sim
