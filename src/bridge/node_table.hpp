// Kubernetes nodes and Slurm nodes side by side, kept up change by change: which of them a class of pods may use, and
// does a pod fit now. Cost: a class is looked at once a change of nodes, whatever the number of pods. Pure; loop thread
// only.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>

#include "bridge/constraints.hpp"
#include "bridge/unit_plan.hpp"
#include "slurm/types.hpp"

namespace bascule::bridge {

class NodeTable final : public NodeView {
 public:
  using SlurmNodePtr = std::shared_ptr<const slurm::Node>;

  void on_node(const NodePtr& before, const NodePtr& after);
  void on_slurm_node(const SlurmNodePtr& before, const SlurmNodePtr& after);
  void on_pod(const PodPtr& before, const PodPtr& after) { usage_.on_pod(before, after); }
  NodeUsage& usage() noexcept { return usage_; }
  // Grows when something changed that may change an answer of candidates().
  std::uint64_t generation() const noexcept { return generation_; }

  const Candidates& candidates(const std::vector<PodPtr>& pods, const std::string& partition) override;
  NodePtr by_slurm_name(const std::string& name) const override;
  std::string refusal(const kube::Pod& pod, const kube::Node& node) const override;

 private:
  struct Class {
    std::uint64_t generation = 0;
    Candidates candidates;
  };
  Candidates look(const std::vector<PodConstraints>& constraints, const std::string& partition) const;

  std::unordered_map<std::string, NodePtr> nodes_;  // by Slurm name
  std::unordered_map<std::string, SlurmNodePtr> slurm_;
  std::unordered_map<std::string, Class> classes_;
  NodeUsage usage_;
  std::uint64_t generation_ = 1;
};

}  // namespace bascule::bridge
