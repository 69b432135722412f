#include "operator/nodeset/actions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/time.hpp"
#include "operator/api/names.hpp"
#include "operator/nodeset/slurm_node.hpp"

namespace bascule::op::nodeset {

namespace {

// What is not seen back for so long was lost. Both may be repeated: a create fixes the name, a delete names the UID.
constexpr Duration kDeleteForgotten = std::chrono::minutes(1);
constexpr Duration kCreateForgotten = std::chrono::seconds(30);
constexpr Duration kTopologyForgotten = std::chrono::minutes(5);
// So long a Slurm node may have no pod before what was seen of it is forgotten.
constexpr Duration kNodeForgotten = std::chrono::hours(1);
// After this the pause before the next failed pod of a slot starts small again.
constexpr Duration kBackoffForgotten = std::chrono::minutes(30);

std::string say(const AdoptPod& a) {
  return fmt::format("adopt pod {}", a.name);
}
std::string say(const ReleasePod& a) {
  return fmt::format("release pod {}", a.name);
}
std::string say(const CreateClaim& a) {
  return fmt::format("create claim {}", a.name);
}
std::string say(const PatchClaimOwners& a) {
  return fmt::format("owners of claim {}: pod {}, NodeSet {}", a.claim, a.pod_owner ? a.pod : "no",
                     a.nodeset_owner ? "yes" : "no");
}
std::string say(const CreatePod& a) {
  return fmt::format("create pod {} of revision {}", a.name, a.hash);
}
std::string say(const PatchPod& a) {
  std::string text = fmt::format("patch pod {}:", a.name);
  for (const auto* changes : {&a.labels, &a.annotations}) {
    for (const auto& [key, value] : *changes) text += fmt::format(" {}{}", key, value ? "=" + *value : "-");
  }
  return text;
}
std::string say(const SetPodConditions& a) {
  std::string text = fmt::format("conditions of pod {}:", a.name);
  for (const PodCondition& condition : a.conditions) text += " " + condition.type;
  return text;
}
std::string say(const DeletePod& a) {
  return fmt::format("delete pod {}", a.name);
}
std::string say(const WriteSlurmNode& a) {
  std::string text = fmt::format("Slurm node {}:", a.node);
  if (a.state) text += fmt::format(" state={}", *a.state);
  if (a.reason) text += fmt::format(" reason=\"{}\"", *a.reason);
  if (a.comment) text += " comment";
  if (a.topology) text += fmt::format(" topology={}", *a.topology);
  if (a.features) text += " features";
  return text;
}
std::string say(const DeleteSlurmNode& a) {
  return fmt::format("delete Slurm node {}", a.node);
}
std::string say(const WriteReservation& a) {
  return fmt::format("{} reservation {} from {}, {} nodes", a.create ? "create" : "update", a.name,
                     print_rfc3339(a.start), a.nodes.size());
}
std::string say(const DeleteReservation& a) {
  return fmt::format("delete reservation {}", a.name);
}
std::string say(const CreateRevision& a) {
  return fmt::format("create revision {}", a.name);
}
std::string say(const PatchRevision& a) {
  return fmt::format("patch revision {}", a.name);
}
std::string say(const DeleteRevision& a) {
  return fmt::format("delete revision {}", a.name);
}
std::string say(const WriteStatus& a) {
  return fmt::format("status: {} pods, {} ready, {} updated", a.status.replicas, a.status.ready, a.status.updated);
}
std::string say(const SetFinalizer& a) {
  return fmt::format("{} finalizer {}", a.present ? "add" : "remove", a.name);
}

bool is_unguarding(const Action& action) {
  const auto* finalizer = std::get_if<SetFinalizer>(&action.what);
  return finalizer != nullptr && !finalizer->present && finalizer->name == names::kReservationFinalizer;
}

}  // namespace

bool may_write(const WriteSlurmNode& write, const SlurmNodeView* fresh) {
  if (fresh == nullptr) return false;
  if (write.expects_since && fresh->reason_since != *write.expects_since) return false;
  return !write.expects_reason || fresh->reason == *write.expects_reason;
}

bool may_delete(const DeletePod& what, const SlurmNodeView* fresh) {
  if (fresh == nullptr) return true;
  if (what.before == Before::kSlurmIsIdle) return !is_busy(*fresh);
  return what.before != Before::kSlurmIsClear || is_clear(*fresh);
}

bool may_prune(const DeleteSlurmNode& what, const SlurmNodeView* fresh) {
  return fresh != nullptr && fresh->comment == what.comment && !is_busy(*fresh);
}

void remember(Memory& memory, const Action& action, WallTime now) {
  if (const auto* created = std::get_if<CreatePod>(&action.what)) memory.created[created->name] = now;
  if (const auto* deleted = std::get_if<DeletePod>(&action.what)) memory.deleted[deleted->uid] = now;
  if (const auto* write = std::get_if<WriteSlurmNode>(&action.what)) {
    if (write->state == "DRAIN") memory.drained[write->node] = now;
    if (write->topology) memory.topology[write->node] = {*write->topology, now};
  }
  if (is_unguarding(action)) memory.unguarded = now;
}

void forget(Memory& memory, const Action& action) {
  if (const auto* created = std::get_if<CreatePod>(&action.what)) memory.created.erase(created->name);
  if (const auto* deleted = std::get_if<DeletePod>(&action.what)) memory.deleted.erase(deleted->uid);
  if (const auto* write = std::get_if<WriteSlurmNode>(&action.what)) {
    if (write->state == "DRAIN") memory.drained.erase(write->node);
    if (write->topology) memory.topology.erase(write->node);
  }
  if (is_unguarding(action)) memory.unguarded.reset();
}

void follow_clock(Memory& memory, Duration step) {
  for (auto* all : {&memory.deleted, &memory.absent_since, &memory.healthy_since}) {
    for (auto& [pod, when] : *all) when += step;
  }
  for (auto* all : {&memory.created, &memory.drained}) {
    for (auto& [name, when] : *all) when += step;
  }
  for (auto& [node, sent] : memory.topology) sent.second += step;
  for (auto& [pod, down] : memory.down) down.since += step;
  for (auto& [node, hook] : memory.hooks) hook.seen += step;
  for (auto& [node, refused] : memory.refused) refused.seen += step;
  for (auto& [pod, behind] : memory.behind) behind.since += step;
  for (auto& [slot, backoff] : memory.failed) backoff.until += step;
  if (memory.unguarded) *memory.unguarded += step;
}

void settle(Memory& memory, const State& state, WallTime now) {
  std::set<std::string> names;
  std::set<Uid> alive, all;
  for (const PodView& pod : state.pods) {
    names.insert(pod.name);
    all.insert(pod.uid);
    if (!pod.terminating) alive.insert(pod.uid);
  }
  std::erase_if(memory.created, [&](const auto& entry) {
    return names.contains(entry.first) || now - entry.second >= kCreateForgotten;
  });
  std::erase_if(memory.deleted, [&](const auto& entry) {
    return !alive.contains(entry.first) || now - entry.second >= kDeleteForgotten;
  });
  std::erase_if(memory.absent_since,
                [&](const auto& entry) { return !state.slurm.known || !all.contains(entry.first); });
  std::erase_if(memory.topology_told, [&](const auto& entry) { return !all.contains(entry.first); });
  std::erase_if(memory.healthy_since, [&](const auto& entry) { return !all.contains(entry.first); });
  std::erase_if(memory.down, [&](const auto& entry) { return !all.contains(entry.first); });
  std::erase_if(memory.behind, [&](const auto& entry) { return !all.contains(entry.first); });
  std::erase_if(memory.hooks, [&](const auto& entry) { return now - entry.second.seen >= kNodeForgotten; });
  std::erase_if(memory.refused, [&](const auto& entry) { return now - entry.second.seen >= kNodeForgotten; });
  if (!state.spec.has_reservation_finalizer || (memory.unguarded && now - *memory.unguarded >= kDeleteForgotten)) {
    memory.unguarded.reset();
  }
  std::erase_if(memory.failed, [&](const auto& entry) { return now - entry.second.until >= kBackoffForgotten; });
  if (state.slurm.known) {
    std::erase_if(memory.drained, [&](const auto& entry) { return state.slurm.as_of > entry.second; });
  }
  std::erase_if(memory.topology, [&](const auto& entry) { return now - entry.second.second >= kTopologyForgotten; });
}

std::string describe(const Action& action) {
  return fmt::format("{}: {}", std::visit([](const auto& what) { return say(what); }, action.what), action.why);
}

}  // namespace bascule::op::nodeset
