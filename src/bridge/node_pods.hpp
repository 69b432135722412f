// Pods for whose sake a node is treated with care, by the node's name in Kubernetes, kept up change by change. Pure;
// loop thread only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bridge/unit.hpp"

namespace bascule::bridge {

struct NodePod {
  enum class Why : std::uint8_t {
    kWorker,  // of a NodeSet, with a slurmd in it: the bridge's taint would evict it, and its jobs would end
    kAdrift,  // of ours, and Slurm does not know its job: nothing in Slurm holds what it uses
  };
  Why why = Why::kWorker;
  NamespacedName pod;
  std::string of;  // the NodeSet, or the job
  friend bool operator==(const NodePod&, const NodePod&) = default;
};

class NodePods final {
 public:
  // `bridge` is the scheduler's name.
  explicit NodePods(std::string bridge);

  // The nodes of which something is another now; mostly none.
  std::vector<std::string> on_pod(const PodPtr& before, const PodPtr& after);
  // The first by name; nullopt: there is none.
  std::optional<NodePod> first(const std::string& node, NodePod::Why why) const;

 private:
  std::optional<NodePod> look(const kube::Pod& pod) const;

  std::string bridge_;
  json::Interner interner_;
  kube::Taint taint_;
  using Place = std::pair<NodePod::Why, NamespacedName>;
  std::unordered_map<std::string, std::map<Place, NodePod>> nodes_;
};

}  // namespace bascule::bridge
