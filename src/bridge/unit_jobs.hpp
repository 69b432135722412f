// Which pod of a unit counts on which of its jobs. A single pod has one job; a gang may have several: the one it
// started with, and one more for those who came later. Pure.
//
//  - A pod belongs to the live job its label names, else to the one we have just marked it with, else to the best one
//    whose record names it. Better is: holds more bound pods, is named by more labels, runs, is older.
//  - A running job gives its nodes to its pods in order of rank; a bound pod, or one being bound, keeps its node.
//  - A node that a pod of a living gang has left goes to the gang's next pod, before that one waits for another job.
//  - What is left over is uncovered: it needs a job.
#pragma once

#include <string>
#include <vector>

#include "bridge/unit_plan.hpp"

namespace bascule::bridge {

struct HeldJob {
  const JobView* view = nullptr;
  std::size_t bound = 0;           // pods on its nodes, or being bound
  std::vector<PodPtr> pods;        // that wait for it, or to be bound; ranked
  std::vector<std::string> hosts;  // running: for pods[i], by name in Slurm
  std::string unreadable;          // running: why its node list cannot be read
  std::size_t members() const noexcept { return bound + pods.size(); }
};

struct UnitJobs {
  std::vector<HeldJob> jobs;            // live, the best first
  std::vector<PodPtr> uncovered;        // wait, and no job stands for them; ranked
  std::vector<const JobView*> surplus;  // live, but other jobs stand for their pods
};

bool wants_node(const kube::Pod& pod);  // ours to place: not bound, over, going, or gated
bool holds_node(const kube::Pod& pod);  // bound and not over, whatever its deletion says: it may still use the node
bool runs(const slurm::Job& job);       // RUNNING and not on its way out

UnitJobs assign_pods(const UnitView& unit, const NodeView& nodes, const UnitMemory& memory);

}  // namespace bascule::bridge
