// How many pods there should be and where: what is missing is to be made, what is too much is condemned.
// StatefulSet mode counts to spec.replicas, DaemonSet mode wants one pod on every node that takes it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "operator/nodeset/facts.hpp"

namespace bascule::op::nodeset {

// Creates of one pass, at most.
inline constexpr std::size_t kBurst = 250;

// Taints, key and effect, that pods of DaemonSet mode tolerate besides what their template says, as Kubernetes' own
// daemons do: they do not make a node one that should have no pod.
inline constexpr std::pair<std::string_view, std::string_view> kDaemonTolerations[] = {
    {"node.kubernetes.io/not-ready", "NoExecute"},      {"node.kubernetes.io/unreachable", "NoExecute"},
    {"node.kubernetes.io/disk-pressure", "NoSchedule"}, {"node.kubernetes.io/memory-pressure", "NoSchedule"},
    {"node.kubernetes.io/pid-pressure", "NoSchedule"},  {"node.kubernetes.io/unschedulable", "NoSchedule"},
};

struct RunOn {
  bool should_run = false;
  bool should_continue = false;
  friend bool operator==(const RunOn&, const RunOn&) = default;
};
RunOn run_on(const NodeView& node) noexcept;

struct Scaling {
  std::vector<CreatePod> creates;
  bool full = true;  // as many pods as wanted exist, ready or not
};

// Sets pass.desired and condemns. Nothing is known of nodes (DaemonSet mode) or of the Controller: nothing is scaled.
Scaling plan_scale(Pass& pass);

// Emits the creates whose claims are ready, missing claims first.
void plan_creates(Pass& pass, Scaling scaling);

}  // namespace bascule::op::nodeset
