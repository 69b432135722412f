#include "operator/nodeset/scale.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "operator/api/names.hpp"
#include "operator/nodeset/claims.hpp"
#include "operator/nodeset/identity.hpp"
#include "operator/nodeset/slurm_node.hpp"

namespace bascule::op::nodeset {

namespace {

std::vector<PodFacts*> of_mode(Pass& pass, bool same) {
  std::vector<PodFacts*> pods;
  for (PodFacts& facts : pass.pods) {
    if (is_of_mode(*facts.pod, pass.spec().mode) == same) pods.push_back(&facts);
  }
  return pods;
}

// Deleted first; a pod that Slurm does not know or gives no job does not count as ready.
void sort_by_order(std::vector<PodFacts*>& pods) {
  std::ranges::sort(pods, [](const PodFacts* a, const PodFacts* b) {
    const auto works = [](const PodFacts* f) {
      return f->healthy() && f->registration == Registration::kRegistered && !f->is_idle();
    };
    if (a->pod->node.empty() == b->pod->node.empty() && works(a) != works(b)) return works(b);
    return goes_first(a->ranked(), b->ranked());
  });
}

// --- StatefulSet mode -----------------------------------------------------------------------------------------------

void scale_out(Pass& pass, std::size_t missing, Scaling& scaling) {
  std::set<std::int32_t> used;
  for (const PodView& pod : pass.state.pods) used.insert(ordinal_of(pod.name));
  for (const auto& [name, when] : pass.memory.created) used.insert(ordinal_of(name));
  for (std::int32_t ordinal = 0; missing > 0 && scaling.creates.size() < kBurst; ++ordinal) {
    if (used.contains(ordinal)) continue;
    scaling.creates.push_back(make_stateful(pass.spec(), pass.state.claims, ordinal, pass.update_hash));
    --missing;
  }
}

void scale_in(Pass& pass, std::vector<PodFacts*> pods, std::size_t surplus) {
  std::erase_if(pods, [](const PodFacts* facts) { return facts->going; });
  sort_by_order(pods);
  for (std::size_t i = 0; i < surplus; ++i) {
    pods[i]->condemn(Cause::kScaleIn,
                     fmt::format("pod {}/{} waits to be scaled in", pass.spec().ns, pods[i]->pod->name));
  }
}

Scaling scale_stateful(Pass& pass) {
  Scaling scaling;
  pass.desired = std::max(0, pass.spec().replicas);
  const std::vector<PodFacts*> pods = of_mode(pass, true);
  // A pod that goes keeps its ordinal, so its successor waits until it is gone; but it is not there to be scaled in.
  const auto sent = std::ranges::count_if(pass.memory.created, [&](const auto& entry) {
    return std::ranges::none_of(pods, [&](const PodFacts* facts) { return facts->pod->name == entry.first; });
  });
  const auto existing = static_cast<std::int64_t>(pods.size()) + sent;
  const auto live = std::ranges::count_if(pods, [](const PodFacts* facts) { return !facts->going; });
  if (existing < pass.desired) scale_out(pass, static_cast<std::size_t>(pass.desired - existing), scaling);
  if (live > pass.desired) scale_in(pass, pods, static_cast<std::size_t>(live - pass.desired));
  scaling.full = scaling.creates.empty();
  return scaling;
}

// --- DaemonSet mode -------------------------------------------------------------------------------------------------

// By hostname the node that has it: one with a pod first, else the first by name. Slurm tells nodes apart by it.
std::map<std::string, std::string> hostname_holders(Pass& pass,
                                                    const std::map<std::string, std::vector<PodFacts*>>& on) {
  std::map<std::string, std::string> holders;
  for (const bool with_pod : {true, false}) {
    for (const auto& [name, node] : pass.state.nodes) {
      if (on.contains(name) == with_pod && run_on(node).should_continue) holders.try_emplace(hostname_of(node), name);
    }
  }
  return holders;
}

// Why the node cannot have a pod although it should.
std::optional<std::string> node_fault(const NodeView& node, const std::map<std::string, std::string>& holders) {
  const std::string hostname = hostname_of(node);
  if (const auto fault = hostname_fault(hostname)) return fmt::format("node {}: {}", node.name, *fault);
  const auto holder = holders.find(hostname);
  if (holder == holders.end() || holder->second == node.name) return std::nullopt;
  return fmt::format("nodes {} and {} both have the hostname {} in Slurm; give one of them the annotation {}",
                     holder->second, node.name, hostname, names::kHostnameOverride);
}

// The busy one stays, else the oldest.
void condemn_doubles(Pass& pass, std::vector<PodFacts*> pods) {
  std::erase_if(pods,
                [](const PodFacts* facts) { return facts->going || facts->pod->terminal() || facts->condemned(); });
  std::ranges::sort(pods, {}, [](const PodFacts* facts) {
    return std::tuple(facts->node == nullptr || !is_busy(*facts->node), !facts->healthy(), facts->pod->created,
                      facts->pod->name);
  });
  for (std::size_t i = 1; i < pods.size(); ++i) {
    pods[i]->unbounded = true;
    pods[i]->condemn(Cause::kScaleIn,
                     fmt::format("pod {}/{} is one too many on its node", pass.spec().ns, pods[i]->pod->name));
  }
}

void examine(Pass& pass, const NodeView& node, const std::vector<PodFacts*>& pods, bool fits) {
  const std::string hostname = hostname_of(node);
  for (PodFacts* facts : pods) {
    if (facts->going || facts->pod->terminal()) continue;
    if (!run_on(node).should_continue) {
      facts->unbounded = true;
      facts->condemn(Cause::kScaleIn,
                     fmt::format("node {} no longer takes pods of NodeSet {}", node.name, pass.spec().name));
      continue;
    }
    facts->extra = !run_on(node).should_run;
    if (fits && facts->pod->hostname != hostname) {
      facts->condemn(Cause::kReplace, fmt::format("the hostname of node {} is now {}, not {}", node.name, hostname,
                                                  facts->pod->hostname));
      if (facts->pod->cordon_cause != to_string(Cause::kReplace)) {
        pass.plan.events.push_back({false, "HostnameMismatch", "Info", facts->why, facts->pod->name});
      }
    }
  }
  condemn_doubles(pass, pods);
}

Scaling scale_daemon(Pass& pass) {
  Scaling scaling;
  pass.desired = pass.state.status.desired;
  if (!pass.state.nodes_known || pass.state.controller != Presence::kPresent) {
    pass.plan.waits.emplace_back("the nodes of the cluster or the Controller are not known yet");
    scaling.full = false;
    return scaling;
  }
  std::map<std::string, std::vector<PodFacts*>> on;
  for (PodFacts* facts : of_mode(pass, true)) on[slot_of(*facts->pod)].push_back(facts);
  const auto holders = hostname_holders(pass, on);
  pass.desired = 0;
  for (const auto& [name, node] : pass.state.nodes) {
    const RunOn run = run_on(node);
    const auto pods = on.find(name);
    const auto fault = run.should_run || pods != on.end() ? node_fault(node, holders) : std::nullopt;
    if (fault) pass.plan.waits.push_back(*fault);
    if (run.should_run && !fault) ++pass.desired;
    if (pods != on.end()) {
      examine(pass, node, pods->second, !fault);
    } else if (run.should_run && !fault) {
      scaling.full = false;
      CreatePod pod = make_daemon(pass.spec(), node, pass.update_hash);
      if (scaling.creates.size() < kBurst && !pass.memory.created.contains(pod.name)) {
        scaling.creates.push_back(std::move(pod));
      }
    }
  }
  // Nobody collects a pod that was bound nowhere.
  for (const auto& [name, pods] : on) {
    if (name.empty() || pass.state.nodes.contains(name)) continue;
    for (PodFacts* facts : pods) {
      if (facts->pod->node.empty()) facts->condemn(Cause::kScaleIn, fmt::format("its node {} is gone", name));
    }
  }
  return scaling;
}

// Pods of the other mode go when those of this one all exist; at most max_unavailable are on their way at a time. New
// pods may well have no place before the old ones are gone, so what is not bound does not count.
void retire_other_mode(Pass& pass) {
  std::vector<PodFacts*> old = of_mode(pass, false);
  if (old.empty()) return;
  std::int64_t budget = std::max<std::int64_t>(1, pass.max_unavailable());
  for (const PodFacts& facts : pass.pods) {
    const bool same = is_of_mode(*facts.pod, pass.spec().mode);
    if (same ? !facts.pod->node.empty() && !facts.serves() : facts.going) --budget;
  }
  std::erase_if(old, [](const PodFacts* facts) { return facts->going; });
  std::ranges::sort(old, [](const PodFacts* a, const PodFacts* b) {
    return a->serves() != b->serves() ? b->serves() : goes_first(a->ranked(), b->ranked());
  });
  for (PodFacts* facts : old) {
    if (facts->serves() && budget <= 0) {
      pass.plan.waits.push_back(fmt::format("pod {} and others of the former scaling mode serve until those of {} do",
                                            facts->pod->name, to_string(pass.spec().mode)));
      break;
    }
    --budget;
    facts->unbounded = true;
    facts->condemn(Cause::kReplace, fmt::format("the scaling mode is now {}", to_string(pass.spec().mode)));
  }
}

}  // namespace

RunOn run_on(const NodeView& node) noexcept {
  if (!node.matches) return {false, false};
  return {!node.untolerated_no_schedule && !node.untolerated_no_execute, !node.untolerated_no_execute};
}

Scaling plan_scale(Pass& pass) {
  Scaling scaling = pass.spec().mode == ScalingMode::kStatefulSet ? scale_stateful(pass) : scale_daemon(pass);
  if (scaling.full) retire_other_mode(pass);
  return scaling;
}

void plan_creates(Pass& pass, Scaling scaling) {
  if (scaling.creates.empty()) return;
  if (pass.state.controller != Presence::kPresent) {
    pass.plan.waits.push_back(
        fmt::format("{} pods wait for the Controller that the NodeSet refers to", scaling.creates.size()));
    return;
  }
  std::size_t made = 0;
  for (CreatePod& pod : scaling.creates) {
    std::optional<std::string> blocked;
    const bool named = !pass.spec().host_network || pass.spec().mode == ScalingMode::kDaemonSet;
    const auto holder = named ? pass.state.others.find(pod.hostname) : pass.state.others.end();
    if (holder != pass.state.others.end()) blocked = held_by(holder->second, pod.hostname);
    for (const auto& [claim_template, name] : pod.claims) {
      const auto claim = pass.state.claims.find(name);
      if (claim == pass.state.claims.end()) {
        if (!blocked) pass.plan.act(CreateClaim{name, claim_template}, fmt::format("pod {} needs it", pod.name));
      } else if (const auto why = claim_blocks(claim->second, pod.name)) {
        blocked = why;
      }
    }
    if (blocked) {
      pass.plan.waits.push_back(fmt::format("pod {} waits: {}", pod.name, *blocked));
      pass.plan.wake_at(pass.now + kDrainLook);
      continue;
    }
    if (pass.spec().pin_to_node && pass.spec().mode == ScalingMode::kStatefulSet) {
      const auto& pins = pass.state.status.ordinal_to_node;
      const auto pin = pins.find(std::to_string(ordinal_of(pod.name)));
      const auto node = pin == pins.end() ? pass.state.nodes.end() : pass.state.nodes.find(pin->second);
      if (node != pass.state.nodes.end() && node->second.matches) pod.pin_node = node->first;
    }
    ++made;
    pass.plan.act(std::move(pod), fmt::format("{} pods are wanted", pass.desired));
  }
  if (made > 0) {
    pass.plan.events.push_back(
        {false, "ScalingUp", "ScaleUp", fmt::format("creating {} pods, {} are wanted", made, pass.desired), ""});
  }
}

}  // namespace bascule::op::nodeset
