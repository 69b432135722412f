// What the NodeSet core decides by: plain values, taken from the informers and the mirror by the driver. Nothing here
// is read from a clock, a network or a JSON document. Times are civil time, since they are compared with what is
// written in objects and in Slurm.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/loop.hpp"
#include "base/strong.hpp"
#include "slurm/types.hpp"

namespace bascule::op::nodeset {

enum class ScalingMode : std::uint8_t { kStatefulSet, kDaemonSet };
enum class UpdateType : std::uint8_t { kRollingUpdate, kScheduledUpdate, kOnDelete };
enum class Retention : std::uint8_t { kRetain, kDelete };
enum class PodPhase : std::uint8_t { kNone, kPending, kRunning, kSucceeded, kFailed, kUnknown };
// Of a referenced object or of an owner.
enum class Presence : std::uint8_t { kUnknown, kPresent, kGone };

// "25%", 3, or something that is neither (then it counts as 1).
struct IntOrPercent {
  std::int64_t value = 25;
  bool percent = true;
  bool valid = true;
};

struct ScheduledUpdate {
  WallTime start{};
  Duration length = std::chrono::minutes(30);
  std::vector<std::string> flags;
  friend bool operator==(const ScheduledUpdate&, const ScheduledUpdate&) = default;
};

// The NodeSet with its defaults, and what of the operator's configuration concerns it.
struct Spec {
  std::string ns, name;
  Uid uid;
  std::string controller;
  std::int64_t generation = 1;
  std::optional<WallTime> deleted;  // deletionTimestamp
  bool has_drain_finalizer = false;
  bool has_reservation_finalizer = false;
  bool orphans = false;  // deleted with the finalizer by which the garbage collector leaves what it owns

  ScalingMode mode = ScalingMode::kStatefulSet;
  std::int32_t replicas = 1;  // not read in DaemonSet mode
  UpdateType update = UpdateType::kRollingUpdate;
  IntOrPercent max_unavailable;
  std::optional<ScheduledUpdate> scheduled;
  std::int32_t history_limit = 0;
  Retention when_scaled = Retention::kRetain;
  Retention when_deleted = Retention::kRetain;
  Duration min_ready{};
  std::uint32_t padding = 0;  // digits of an ordinal at least
  bool pin_to_node = false;
  bool protect = true;
  bool prune_records = false;           // NodeNotFound; false: Never
  std::optional<Duration> drain_limit;  // how long jobs may hold up a removal; nullopt: for ever
  std::string template_hostname;        // spec.template.spec.hostname
  bool host_network = false;
  std::vector<std::string> claim_templates;
  std::vector<std::string> propagated_conditions;  // types of Node conditions that may name a drain's reason, in order
};

// A pod condition of type SlurmNodeState*, status True.
struct PodCondition {
  std::string type;
  std::string message;
  WallTime since{};  // lastTransitionTime
  friend bool operator==(const PodCondition&, const PodCondition&) = default;
};

enum class Owner : std::uint8_t { kNone, kUs, kOther };  // of an object's controller reference

struct PodView {
  std::string name;
  std::string generate_name;
  Uid uid;
  Owner owner = Owner::kUs;
  bool selected = true;  // its labels match the NodeSet's selector
  bool terminating = false;
  WallTime created{};

  std::string hostname;  // spec.hostname
  bool host_network = false;
  std::string node;                           // spec.nodeName; empty: not bound
  Duration grace = std::chrono::seconds(30);  // terminationGracePeriodSeconds
  std::string target_node;                    // the single node its required affinity names (DaemonSet mode)
  std::map<std::string, std::string> claims;  // claim template: claim, of the pod's volumes

  PodPhase phase = PodPhase::kNone;
  bool ready = false;
  WallTime ready_since{};  // of the Ready condition; the epoch when it has no time
  std::vector<PodCondition> slurm_conditions;

  std::string cluster;  // label: the Controller it was made for
  // Labels; nullopt: absent
  std::optional<std::string> mode_label, hash_label, name_label, index_label, hostname_label, protect_label;
  // Annotations; nullopt: absent
  std::optional<std::string> cordon, cordon_cause, deletion_cost, deadline, topology;

  bool terminal() const noexcept { return phase == PodPhase::kSucceeded || phase == PodPhase::kFailed; }
  bool running_and_ready() const noexcept { return phase == PodPhase::kRunning && ready; }
  bool healthy() const noexcept { return running_and_ready() && !terminating; }
  bool cordoned() const noexcept { return cordon == "true"; }
};

// A Kubernetes node as this NodeSet sees it.
struct NodeView {
  struct Condition {
    std::string type, reason, message;
    bool is_true = false;
  };
  std::string name;
  bool unschedulable = false;
  bool matches = true;  // the template's node selector and required affinity
  // Taints that neither the template nor kDaemonTolerations tolerate.
  bool untolerated_no_schedule = false;
  bool untolerated_no_execute = false;
  std::optional<std::string> cordon_reason, hostname_override, topology, features;  // annotations
  std::vector<Condition> conditions;
};

// A node in Slurm.
struct SlurmNodeView {
  std::string name;
  slurm::NodeStates states;
  std::string reason;
  WallTime reason_since{};
  std::string comment;
  std::string topology;
  std::vector<std::string> features, active_features;
  std::string reservation;
  bool has_jobs = false;             // running, suspended or completing ones, by the job table
  std::optional<WallTime> deadline;  // by when all running jobs end; nullopt: none runs
  std::vector<std::string> jobs;     // ids of some of these jobs, for people
  // A job that has not ended and requires the node by name; looked up for nodes whose record may be removed.
  std::optional<JobId> required_by;
};

struct ReservationView {
  WallTime start{}, end{};
  std::vector<std::string> flags;  // as Slurm gives them
  std::vector<std::string> nodes;  // expanded
  std::string users;
};

// One look at Slurm. When it is not known nothing about Slurm is decided or taken back.
struct SlurmView {
  bool known = false;  // node and job tables are whole and confirmed, slurmctld answers
  std::string why;     // when not known
  WallTime as_of{};    // when these tables were asked for
  std::map<std::string, SlurmNodeView> nodes;
  std::optional<ReservationView> reservation;  // of this NodeSet's name
  const SlurmNodeView* find(const std::string& name) const {
    const auto it = nodes.find(name);
    return it == nodes.end() ? nullptr : &it->second;
  }
};

struct OwnerView {
  enum class Kind : std::uint8_t { kNodeSet, kPod, kOther };  // by API version, kind and (NodeSet: our) name
  Kind kind = Kind::kOther;
  std::string name;
  Uid uid;
  bool controller = false;
  friend bool operator==(const OwnerView&, const OwnerView&) = default;
};

struct ClaimView {
  std::string name;
  bool deleting = false;
  std::vector<OwnerView> owners;
};

struct RevisionView {
  std::string name;
  std::optional<std::string> hash_label;
  std::int64_t revision = 0;
  std::string data;                               // canonical text
  std::optional<std::string> template_hash = {};  // annotation; older ones have none
  WallTime created{};
  Owner owner = Owner::kUs;
};

struct Condition {
  std::string type, reason, message;
  bool is_true = false;
  std::int64_t generation = 0;
  WallTime since{};
  friend bool operator==(const Condition&, const Condition&) = default;
};

struct Status {
  std::int32_t replicas = 0, ready = 0, available = 0, unavailable = 0, updated = 0, desired = 0;
  std::int32_t slurm_idle = 0, slurm_allocated = 0, slurm_down = 0, slurm_drain = 0;
  std::int64_t observed_generation = 0;
  std::string hash;  // of the update revision
  std::optional<std::int32_t> collisions;
  std::map<std::string, std::string> ordinal_to_node;
  std::string selector;
  std::optional<Condition> reservation_created;  // the only condition of ours; others are not touched
  std::optional<WallTime> reservation_start;     // spec start time that the reservation was made for
  std::optional<WallTime> reservation_done;      // spec start time whose reservation has come and gone
  friend bool operator==(const Status&, const Status&) = default;
};

// A pod of another NodeSet of the same Controller, by what it is called in Slurm.
struct OtherPod {
  std::string nodeset, pod;
  WallTime created{};
  Uid uid;
  // Slurm has one node of a name: the pod that is there longer has it, as both NodeSets see it.
  bool precedes(const PodView& ours) const noexcept {
    return std::tie(created, uid) < std::tie(ours.created, ours.uid);
  }
};

struct State {
  Spec spec;
  Status status;  // as stored
  Presence controller = Presence::kUnknown;
  std::string template_data;  // canonical text of the pods' template
  std::string template_hash;  // of what in it makes a revision; empty: not known
  std::vector<RevisionView> revisions;
  std::vector<PodView> pods;               // of the namespace: ours, selected or owned by nobody
  std::map<std::string, OtherPod> others;  // by Slurm node, as far as pods of ours have its name or could be made
  bool nodes_known = false;
  std::map<std::string, NodeView> nodes;
  std::map<std::string, ClaimView> claims;
  SlurmView slurm;
};

// What the process remembers between plans. Losing it (a restart, with fresh views) costs time, never correctness. All
// times but slurmctld's own (reason_since) were read here: follow_clock() when civil time steps.
struct Memory {
  struct Backoff {
    WallTime until{};
    Duration delay{};
  };
  // Writes that were sent and not seen back: what they will have done counts as done.
  std::map<Uid, WallTime> deleted;                                   // pods
  std::map<std::string, WallTime> created;                           // pods, by name
  std::map<std::string, WallTime> drained;                           // Slurm nodes
  std::map<std::string, std::pair<std::string, WallTime>> topology;  // of Slurm nodes
  std::map<Uid, std::string> topology_told;                          // of whose pods Slurm knows it
  std::map<Uid, WallTime> absent_since;                              // pods whose Slurm node is missing
  std::map<Uid, WallTime> healthy_since;                             // pods whose node's comment names another
  // Healthy pods whose Slurm node is DOWN. `since` is by our own clock; slurmctld's tells one reason from the next.
  struct Down {
    std::string reason;
    WallTime reason_since{}, since{};
  };
  std::map<Uid, Down> down;
  // By Slurm node, and kept while it has no pod:
  struct Hook {  // that put it DOWN
    WallTime reason_since{};
    Uid pod;           // that was there when it was seen first
    bool ran = false;  // the pod's containers, by then
    WallTime seen{};
  };
  std::map<std::string, Hook> hooks;
  struct Refused {       // slurmctld's reason took the place of ours, and of nobody else's
    std::string reason;  // empty: it is still ours
    WallTime seen{};
  };
  std::map<std::string, Refused> refused;
  // Pods that have to go, and whose Slurm node somebody else has drained: for what, and since when.
  struct Behind {
    std::string why;
    WallTime since{};
  };
  std::map<Uid, Behind> behind;
  std::optional<WallTime> unguarded;      // the removal of the reservation's finalizer was sent
  std::map<std::string, Backoff> failed;  // by slot: pods that ended and were replaced
  bool orphans = false;  // seen while the NodeSet goes: the garbage collector takes its mark off before its end
};

}  // namespace bascule::op::nodeset
