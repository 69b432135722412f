// A Kubernetes node and its Slurm node as the tests of node_plan.hpp say them.
#pragma once

#include <gmock/gmock.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bridge/names.hpp"
#include "bridge/node_plan.hpp"

namespace bascule::bridge::node_world {

using namespace std::chrono_literals;

inline const Identity kSelf{"slurm-bridge-scheduler", "c1"};

// What a test says of a Kubernetes node.
struct Kube {
  std::string name = "n1";
  bool external = true;
  std::string slurm_name = {};
  bool cordoned = false;
  std::string ready = "True";
  bool unreachable = false;
  std::string taint = {};  // value of our taint; empty: none
  std::string ip = "10.0.0.1";
  std::int64_t cpus = 8, mib = 1000;
  std::string partitions = {}, topology = {};
  std::int64_t plugin_gpus = 0;  // nvidia.com/gpu
};

inline json::Interner& interner() {
  static json::Interner strings;
  return strings;
}

inline NodePtr make(const Kube& k) {
  json::Interner& in = interner();
  auto node = std::make_shared<kube::Node>();
  node->meta.key.name = k.name;
  const auto put = [&](kube::StringMap& map, std::string_view key, std::string_view value) {
    map.emplace_back(in(key), in(value));
    std::ranges::sort(map);
  };
  if (k.external) put(node->meta.labels, names::kExternalNode, "true");
  if (!k.slurm_name.empty()) put(node->meta.labels, names::kSlurmNodeName, k.slurm_name);
  if (!k.partitions.empty()) put(node->meta.annotations, names::kExternalNodePartitions, k.partitions);
  if (!k.topology.empty()) put(node->meta.annotations, names::kTopologySpec, k.topology);
  node->unschedulable = k.cordoned;
  if (!k.taint.empty()) node->taints.push_back({in(names::kManagedNodeTaint), in(k.taint), in("NoExecute")});
  if (k.unreachable) node->taints.push_back({in("node.kubernetes.io/unreachable"), {}, in("NoExecute")});
  node->allocatable = {{in("cpu"), Quantity(k.cpus)}, {in("memory"), Quantity(k.mib << 20)}};
  node->capacity = {{in("cpu"), Quantity(k.cpus * 2)}, {in("memory"), Quantity(k.mib << 21)}};
  if (k.plugin_gpus > 0) node->allocatable.emplace_back(in("nvidia.com/gpu"), Quantity(k.plugin_gpus));
  node->internal_ip = k.ip;
  node->ready.present = true;
  node->ready.status = in(k.ready);
  return node;
}

// A node of ours as Slurm shows it after registration of Kube{}.
inline slurm::Node registered() {
  slurm::Node node;
  node.name = "n1";
  node.states.base = slurm::NodeState::kIdle;
  node.states.flags = static_cast<std::uint32_t>(slurm::NodeFlag::kExternal);
  node.address = "10.0.0.1";
  node.cpus = 8;
  node.memory = 1000;
  node.partitions = {"bridge"};
  node.extra = print_mark({kSelf.bridge, kSelf.cluster, ""});
  return node;
}
// One that slurmd has registered.
inline slurm::Node hybrid() {
  slurm::Node node = registered();
  node.states.flags = 0;
  node.extra.clear();
  return node;
}
inline void set(slurm::Node& node, slurm::NodeFlag flag, bool on) {
  const auto bit = static_cast<std::uint32_t>(flag);
  node.states.flags = on ? node.states.flags | bit : node.states.flags & ~bit;
}
inline slurm::Node drained(slurm::Node node, std::string reason) {
  set(node, slurm::NodeFlag::kDrain, true);
  node.reason = std::move(reason);
  return node;
}

struct World {
  Config config;
  std::set<std::string> partitions{"bridge", "p2"};
  NodeMemory memory;
  TimePoint now{1000s};
  bool nodes_known = true, slurm_known = true, may_reshape = true, has_nodes = true;
  NodeDevices devices = {};
  std::string leaving = {};
  std::optional<NodePod> worker = {}, adrift = {};
  bool jobs_known = true;
  std::optional<JobId> required_by = {}, allocated_to = {};
  bool drain_listed = true;

  World() { config.partition = "bridge"; }
  NodePlan plan(const std::vector<Kube>& kube, const std::optional<slurm::Node>& slurm) {
    NodeSides sides;
    sides.slurm_name = slurm ? slurm->name : "n1";
    for (const Kube& k : kube) sides.nodes.push_back(make(k));
    sides.nodes_known = nodes_known;
    sides.slurm_known = slurm_known;
    if (slurm) sides.slurm = std::make_shared<slurm::Node>(*slurm);
    sides.partitions = &partitions;
    sides.may_reshape = may_reshape;
    sides.devices = devices;
    sides.slurm_has_nodes = has_nodes;
    sides.leaving = leaving;
    sides.worker = worker;
    sides.adrift = adrift;
    sides.jobs_known = jobs_known;
    sides.required_by = required_by;
    sides.allocated_to = allocated_to;
    sides.drain_listed = drain_listed;
    return plan_node(config, kSelf, sides, memory, now);
  }
};

inline Kube tainted(Kube kube = {}) {
  kube.taint = "slurm-bridge-scheduler";
  return kube;
}
inline auto says(std::string_view reason) {
  return testing::Contains(testing::Field(&NodeSay::reason, reason));
}

}  // namespace bascule::bridge::node_world
