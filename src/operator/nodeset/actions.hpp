// What a NodeSet plan asks for. Every action is idempotent, names what it was decided on where a race matters, and says
// why in words. The driver performs them in order; one that fails does not hold up those of other pods, and everything
// is decided anew by the next plan.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "operator/nodeset/values.hpp"

namespace bascule::op::nodeset {

struct AdoptPod {  // add our controller reference, after a live read of the NodeSet
  std::string name;
  Uid uid;
};
struct ReleasePod {  // take our reference away
  std::string name;
  Uid uid;
};

struct CreateClaim {
  std::string name;
  std::string claim_template;
};
// Replaces every owner that names our NodeSet or the pod by those given; all other owners stay.
struct PatchClaimOwners {
  std::string claim;
  std::string pod;  // of the claim
  std::optional<Uid> pod_owner;
  bool nodeset_owner = false;
};

// Identity of a pod to be; the rest comes from the template. The name is fixed in both modes, so that a create whose
// answer was lost cannot make two pods.
struct CreatePod {
  std::string name;
  std::string generate_name;  // DaemonSet mode: kept in the object, it tells whose orphan a pod is
  std::string hostname;
  std::string hash;
  std::optional<std::string> only_node;  // required affinity: DaemonSet mode replaces the user's terms
  std::optional<std::string> pin_node;   // required affinity: added to every term of the user's
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> claims;  // claim template: claim
};

// nullopt takes a key away. The uid is a precondition.
struct PatchPod {
  std::string name;
  Uid uid;
  std::map<std::string, std::optional<std::string>> labels;
  std::map<std::string, std::optional<std::string>> annotations;
};
// Replaces all conditions SlurmNodeState*; others stay.
struct SetPodConditions {
  std::string name;
  Uid uid;
  std::vector<PodCondition> conditions;
};

// What must be found true immediately before a pod is deleted.
enum class Before : std::uint8_t {
  kNothing,
  kUnbound,       // the pod is still bound to no node: delete with its resourceVersion as precondition
  kSlurmIsClear,  // slurmctld itself, asked for this node, says drained without jobs, or not registered
  kSlurmIsIdle,   // ... or without jobs: the node is another pod's as well, and not drained for this one
};
struct DeletePod {
  std::string name;
  Uid uid;  // precondition
  Before before = Before::kSlurmIsClear;
  std::string slurm_node;
};

// Absent fields are not sent. `expects_reason`: the write is for a node with this reason; the driver asks slurmctld for
// the node first and drops the write when the reason has changed (may_write()), or is of another time where one reason
// looks like the next.
struct WriteSlurmNode {
  std::string node;
  std::optional<std::string> state;  // DRAIN, UNDRAIN, IDLE
  std::optional<std::string> reason, comment, topology;
  std::optional<std::vector<std::string>> features, active_features;
  std::optional<std::string> expects_reason;
  std::optional<WallTime> expects_since;
};
// The record of a node that is surely gone, with this comment still; may_prune() before.
struct DeleteSlurmNode {
  std::string node;
  std::string comment;
};

struct WriteReservation {  // create or update
  std::string name;
  bool create = false;
  WallTime start{};
  Duration length{};
  std::vector<std::string> flags;
  std::vector<std::string> nodes;
};
struct DeleteReservation {
  std::string name;
};

struct CreateRevision {
  std::string name, hash;
  std::int64_t revision = 0;
};
struct PatchRevision {  // only what is given
  std::string name;
  std::optional<std::int64_t> revision = {};
  std::optional<std::string> hash_label = {};
  std::optional<std::string> template_hash = {};
  bool adopt = false;
};
struct DeleteRevision {
  std::string name;
};

struct WriteStatus {
  Status status;
};
struct SetFinalizer {
  std::string name;
  bool present = true;
};

using What = std::variant<AdoptPod, ReleasePod, CreateClaim, PatchClaimOwners, CreatePod, PatchPod, SetPodConditions,
                          DeletePod, WriteSlurmNode, DeleteSlurmNode, WriteReservation, DeleteReservation,
                          CreateRevision, PatchRevision, DeleteRevision, WriteStatus, SetFinalizer>;
struct Action {
  What what;
  std::string why;
  bool for_update = false;  // towards the newest revision: not before that is stored
};

struct Event {
  bool warning = false;
  std::string reason;  // CamelCase
  std::string action;
  std::string note;
  std::string about_pod;         // related object; empty: none
  std::string about_claim = {};  // likewise
};

struct Plan {
  std::vector<Action> actions;
  std::vector<Event> events;       // transitions only: none at rest
  std::vector<std::string> waits;  // what is waited for, one sentence each, for people
  std::optional<WallTime> wake;    // plan again at this time at the latest
  // Pods that the status counts though none is asked for where they are; they stay all the same.
  std::int32_t extra = 0, extra_available = 0;
  bool at_rest() const noexcept { return actions.empty(); }

  template <class T>
  void act(T what, std::string why) {
    actions.push_back({std::move(what), std::move(why)});
  }
  void wake_at(WallTime when) { wake = wake ? std::min(*wake, when) : when; }  // the earliest counts
};

// Checks against a fresh answer of slurmctld for that one node (nullptr: not registered).
bool may_write(const WriteSlurmNode& write, const SlurmNodeView* fresh);
bool may_delete(const DeletePod& what, const SlurmNodeView* fresh);
bool may_prune(const DeleteSlurmNode& what, const SlurmNodeView* fresh);

// To be called before an action is sent, and taken back when it has surely not been done.
void remember(Memory& memory, const Action& action, WallTime now);
void forget(Memory& memory, const Action& action);
// Civil time has stepped: what was seen and sent is as old as it was.
void follow_clock(Memory& memory, Duration step);
// Forgets what has been seen back or is too old to matter. plan_nodeset() calls it.
void settle(Memory& memory, const State& state, WallTime now);

// A short line for logs and `explain`: "delete pod foo-2: ...".
std::string describe(const Action& action);

}  // namespace bascule::op::nodeset
