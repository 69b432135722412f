// Kubernetes nodes and Slurm nodes side by side, kept up change by change: which of them a class of pods may use, and
// does a pod fit now. Cost: a node that changed is judged once a class of pods, when that class is asked for again,
// whatever the number of pods and nodes. Pure; loop thread only.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <random>
#include <string>
#include <unordered_map>

#include "bridge/constraints.hpp"
#include "bridge/unit_plan.hpp"
#include "slurm/types.hpp"

namespace bascule::bridge {

class NodeTable final : public NodeView {
 public:
  using SlurmNodePtr = std::shared_ptr<const slurm::Node>;

  // Before it hears of anything: external nodes in Slurm that bear the mark of another cluster are that one's, and pods
  // of other schedulers have no job of ours, whatever their labels say.
  void set_self(const Identity& self) {
    cluster_ = self.cluster;
    usage_.set_bridge(self.bridge);
  }
  void on_node(const NodePtr& before, const NodePtr& after);
  void on_slurm_node(const SlurmNodePtr& before, const SlurmNodePtr& after);
  void on_pod(const PodPtr& before, const PodPtr& after) { usage_.on_pod(before, after); }
  // `devices` outlives this.
  void set_devices(const DeviceLedger* devices) { devices_ = devices; }
  // By the name in Kubernetes; empty: all.
  void on_devices(const std::string& kube_node);
  NodeUsage& usage() noexcept { return usage_; }
  Volumes& volumes() noexcept { return volumes_; }
  // Says what is known of a neighbour's job. Without it every one holds.
  void on_neighbour(std::function<void(const std::string& node, Neighbour&)> look) { look_ = std::move(look); }
  // Grows when something changed that may change an answer of candidates().
  std::uint64_t generation() const noexcept { return generation_; }
  // What its memory grows by: the most nodes there have been at a time.
  std::size_t places() const noexcept { return names_.size(); }
  // How many nodes have been judged, for a class each: what candidates() has cost.
  std::uint64_t judged() const noexcept { return judged_; }

  const Candidates& candidates(const std::vector<PodPtr>& pods, const std::string& partition) override;
  NodePtr by_slurm_name(const std::string& name) const override;
  std::string absence(const std::string& slurm_name) const override;
  std::string volume_problem(const kube::Pod& pod) const override { return volumes_.needs_of(pod).problem; }
  Volumes::Binding volumes_on(const kube::Pod& pod, const kube::Node& node) const override {
    return volumes_.binding_of(pod, node);
  }
  std::string refusal(const kube::Pod& pod, const kube::Node& node, const std::vector<PodPtr>& beside) const override;
  std::vector<Neighbour> neighbours(const std::string& node) const override;
  const DeviceLedger* devices() const override { return devices_; }
  const slurm::Node* slurm_node(const std::string& name) const override;

 private:
  using Reason = std::pair<std::string, int>;
  // Pods that may use the same nodes, and what was found of each node.
  struct Class {
    std::vector<PodConstraints> constraints;
    std::string partition;                // as the job asks for it
    std::vector<std::string> partitions;  // of which Slurm takes any; empty: all
    std::uint64_t generation = 0;
    std::vector<std::uint16_t> verdicts;  // by number of the node: kOutside, kUsable, else kRefused + index in reasons
    bool plugin_gpus = false;             // they ask for GPUs of a device plugin
    std::vector<Reason> reasons;          // why nodes are refused, and how many are; 0: a free place
    Candidates candidates;
  };
  struct SlurmSide {
    SlurmNodePtr node;
    bool elsewhere = false;  // another cluster's
  };
  void changed(const std::string& name);
  std::uint32_t number_of(const std::string& name);
  PodConstraints constraints_for(const kube::Pod& pod) const;
  Class& class_for(const std::vector<PodPtr>& pods, const std::string& partition);
  void drop_a_class();
  // True when the verdict is another than before.
  bool judge(Class& kind, std::uint32_t number) const;
  void conclude(Class& kind) const;
  bool is_without_gpus(const std::string& name) const;

  std::string cluster_;
  std::unordered_map<std::string, std::vector<NodePtr>> nodes_;  // by Slurm name; of several none is meant
  std::unordered_map<std::string, SlurmSide> slurm_;
  std::unordered_map<std::string, Class> classes_;
  std::unordered_map<std::string, std::uint32_t> numbers_;  // of every name that is a node of either
  std::vector<std::string> names_;                          // by number; empty: of none
  std::vector<std::uint32_t> free_;                         // numbers of none
  std::deque<std::uint32_t> changes_;  // the latest changed nodes; the last one made generation_ what it is
  NodeUsage usage_;
  Volumes volumes_;
  std::function<void(const std::string& node, Neighbour&)> look_;
  const DeviceLedger* devices_ = nullptr;
  std::uint64_t generation_ = 1;
  std::uint64_t judged_ = 0;
  std::minstd_rand dice_;
};

}  // namespace bascule::bridge
