// What the bridge does next about one node that Kubernetes and Slurm share. Pure: what is known of both sides and the
// time go in, the next steps come out.
//
//   labelled, ready --add--> in Slurm --cordoned, not ready, stranded--> drained --back--> in service
//                               |--label gone, Node gone, size changed--> drained --idle--> removed (--> added anew)
//
// A node may be known to Slurm in two ways. External: it carries the label external-node and we registered it; only
// such nodes are ever removed, and only when the mark we left in Slurm ("extra") names this bridge and cluster. Hybrid:
// slurmd registered it; we set the taint and pass on cordon and readiness, and never remove or change it. That slurmd
// may itself be a pod, of a NodeSet: the taint is set only when it evicts none of them.
//
// Source of truth: the Node for what is wanted, Slurm for what is; why a node is drained is its reason in Slurm, which
// begins with our mark exactly when we drained it. Invariants: an administrator's drain is never undone; a node that is
// not external or not ours is never removed; what is not known (mirror not synced, slurmctld away) causes nothing at
// all, the taint stays; devices that are not there are not known to be gone for kDevicesSettle; a node is put down only
// when it was empty after it had been drained; when both sides agree there is nothing to do.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "bridge/config.hpp"
#include "bridge/node_facts.hpp"
#include "bridge/node_pods.hpp"
#include "bridge/unit.hpp"
#include "kube/events.hpp"
#include "slurm/types.hpp"

namespace bascule::bridge {

// A node reported not ready gets this long before it is drained; one that the node lifecycle controller has already
// given up (taint unreachable) none.
inline constexpr Duration kReadyGrace = std::chrono::seconds(40);
// The taint keeps other schedulers away, so it goes only after Slurm has lacked the node for so long.
inline constexpr Duration kAbsentSettles = std::chrono::seconds(60);
// A kubelet that starts deletes the devices of its node, and their driver publishes them again a little later; a driver
// or a DeviceClass may be installed anew. So fewer devices than Slurm was told of count only when they have lasted.
inline constexpr Duration kDevicesSettle = std::chrono::minutes(10);
// A slurmctld that was killed may come back with a node allocated to no job. What it says of nodes and of jobs is not
// of one moment, so that counts only when it has lasted.
inline constexpr Duration kStrandedSettles = std::chrono::seconds(30);
// How often a node that drains is looked at when nothing else happens.
inline constexpr Duration kDrainLook = std::chrono::seconds(30);

// Both sides of one node, as far as they are known.
struct NodeSides {
  std::string slurm_name;
  std::vector<NodePtr> nodes;   // Kubernetes nodes of that name in Slurm; more than one is a mistake of theirs
  bool nodes_known = false;     // the Node informer is synced
  bool slurm_has_nodes = true;  // any; a list without one is as likely a mistake as the truth
  bool slurm_known = false;     // the node list of Slurm is in and slurmctld answers
  std::shared_ptr<const slurm::Node> slurm;           // nullptr: not in Slurm, when slurm_known
  const std::set<std::string>* partitions = nullptr;  // of Slurm; nullptr: not asked yet
  NodeDevices devices = {};                           // of the Kubernetes node
  bool may_reshape = true;                            // a busy node may be drained to be registered anew: few at a time
  std::string leaving = {};                           // an earlier name of the node, still in Slurm and to be removed
  std::optional<NodePod> adrift = {};                 // of ours, on the node, and Slurm does not know its job
  bool jobs_known = true;                             // of Slurm, all of them
  std::optional<JobId> required_by = {};   // a job that has not ended and names the node: it would end with it
  std::optional<JobId> allocated_to = {};  // a job that has not ended and has the node, where `slurm` shows none
  // The list that `slurm` has its allocation from was read after the node had been drained.
  bool drain_listed = false;
  std::optional<NodePod> worker = {};  // of a NodeSet, on the node, and the taint would evict it
};

// What the process remembers of a node between plans. Losing it costs time, never correctness.
struct NodeMemory {
  std::optional<TimePoint> not_ready_since;
  bool removed = false;                     // by us
  std::optional<TimePoint> unshared_since;  // Slurm has lacked the node, or not in our partition, since then
  RegisteredDevices registered;             // when it was last seen in Slurm
  std::optional<TimePoint> fewer_since;     // the node is ready and has fewer than that
  std::optional<TimePoint> stranded_since;
};

struct NodeSay {
  kube::EventType type;
  std::string reason;  // CamelCase
  std::string note;
};

// Performed in this order. Empty: both sides agree.
struct NodePlan {
  std::optional<std::string> add;           // slurm.conf line
  std::optional<slurm::NodeUpdate> update;  // features, topology, extra
  std::optional<slurm::NodeUpdate> state;   // DRAIN, UNDRAIN, DOWN or RESUME with reason
  bool remove = false;
  bool anew = false;          // it is registered anew after that
  std::optional<bool> taint;  // set or take away
  bool need_partitions = false;
  std::optional<TimePoint> wake;  // plan again at this time at the latest
  std::vector<NodeSay> say;       // the state as people should read it; repeated every time

  bool writes_slurm() const noexcept { return add || update || state || remove; }
  bool acts() const noexcept { return writes_slurm() || taint; }
  bool idle() const noexcept { return !acts() && !need_partitions; }
};

// No job has anything of the node.
bool is_idle(const slurm::Node& node);
// Allocated, and nothing of it is given to anybody: by the node alone, jobs may know better.
bool looks_stranded(const slurm::Node& node);

NodePlan plan_node(const Config& config, const Identity& self, const NodeSides& sides, NodeMemory& memory,
                   TimePoint now);

}  // namespace bascule::bridge
