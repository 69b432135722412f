// What is read off a node, and the texts the bridge leaves on it in Slurm: mark, reasons, size, names. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bridge/device_inventory.hpp"
#include "bridge/unit.hpp"
#include "slurm/types.hpp"

namespace bascule::bridge {

// Whose nodes are whose when several bridges or clusters share one Slurm. Kept in the Slurm node's "extra".
struct NodeMark {
  std::string bridge;        // scheduler name
  std::string cluster;       // uid of the namespace kube-system
  std::string topology;      // normalised topology spec last applied, so that only its changes are
  std::string devices = {};  // fingerprint of the GPUs it was registered with: Slurm does not show which they are
  bool cpu_devices = false;  // its CPUs were devices
  friend bool operator==(const NodeMark&, const NodeMark&) = default;
};
std::string print_mark(const NodeMark& mark);
std::optional<NodeMark> parse_mark(std::string_view extra);

// What of a Kubernetes node Slurm is told. The one computation for registering and for comparing.
struct NodeShape {
  std::uint32_t cpus = 0;    // allocatable, whole: what kubelet will admit; with CPU devices: these
  std::uint64_t memory = 0;  // MiB, allocatable
  std::uint32_t sockets = 1, cores = 0, threads = 1;
  bool cpu_devices = false;
  std::string gres = {}, gres_conf = {};
  friend bool operator==(const NodeShape&, const NodeShape&) = default;
};
NodeShape shape_of(const kube::Node& node, const NodeDevices& devices = {});
// "8 nvidia.com/gpu": GPUs that a device plugin offers on the node where no driver publishes any in ResourceSlices, so
// that `shape_of` leaves them out; empty: there are none.
std::string uncounted_gpus(const kube::Node& node, const NodeDevices& devices);
// The line of slurm.conf that registers an external node of this shape.
std::string node_line(std::string_view slurm_name, const kube::Node& node, const NodeShape& shape,
                      const std::vector<std::string>& features, std::string_view topology);
// Of NodeMark::devices; empty when there are none.
std::string device_mark(const NodeShape& shape);

// The name in Slurm: the label slurm-nodename, or the node's own.
std::string slurm_name_of(const kube::Node& node);
// The taint that keeps other schedulers off, of whatever scheduler's name; nullptr: the node has none.
const kube::Taint* managed_taint(const kube::Node& node);
// Slurm has put down a node whose slurmd answers: somebody has to resume it.
bool is_down_alive(const slurm::Node& node);
// Partitions asked for by annotation, trimmed, without blanks, sorted, once each.
std::vector<std::string> partitions_of(const kube::Node& node);
// Items trimmed, sorted, once each.
std::string normal_topology(std::string_view text);

// Reasons for draining. They begin with our mark, and the first two read as slurm-bridge's.
std::string cordon_reason(std::string_view kube_name);
std::string removal_reason(std::string_view slurm_name);
std::string lost_reason(std::string_view kube_name);
// A pod of ours is on the node, of which Slurm does not know the job.
std::string adrift_reason(std::string_view kube_name, const NamespacedName& pod, std::string_view job);
std::string reshape_reason(std::string_view slurm_name, const NodeShape& shape, std::string_view address);
// Slurm has it allocated to nobody.
std::string stranded_reason(std::string_view kube_name);
// For the record when the node is back in service.
std::string schedulable_reason(std::string_view kube_name);
// The same with the cluster's name: of nodes that bear no mark it alone tells whose bridge drained them.
std::string reason_of_cluster(std::string reason, std::string_view cluster);
// True when `text` is a reason that the bridge (ours or slurm-bridge) gave, and names no other cluster. slurmctld may
// have written more behind it (" : Not responding").
bool is_our_reason(std::string_view text, std::string_view cluster);
// The same, and it names `cluster`.
bool is_reason_of_cluster(std::string_view text, std::string_view cluster);
// True for what is left of an undrain of ours: a drain with that text is somebody else's.
bool is_schedulable_reason(std::string_view text);
// Slurm has said more behind that than that slurmd did not answer.
bool is_behind_schedulable(std::string_view text);
// True when the node drains to be registered anew.
bool is_reshape_reason(std::string_view text);
bool is_removal_reason(std::string_view text);

// What may go into a slurm.conf line unquoted: anything else could add keys of its own.
bool is_plain_node_name(std::string_view text);
bool is_plain_feature(std::string_view text);
bool is_plain_topology(std::string_view text);
bool is_plain_address(std::string_view text);

// Items of a comma-separated list: trimmed, sorted, once each, without empty ones.
std::vector<std::string> items_of(std::string_view text);
std::string join_items(const std::vector<std::string>& items);

}  // namespace bascule::bridge
