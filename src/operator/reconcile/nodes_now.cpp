#include "operator/reconcile/nodes_now.hpp"

#include "operator/nodeset/slurm_node.hpp"
#include "operator/nodeset/view.hpp"

namespace bascule::op::reconcile {

NodesNow nodes_now(const std::vector<slurm::Node>& nodes, const std::optional<std::vector<slurm::Job>>& jobs) {
  nodeset::Works works;
  if (jobs) works = nodeset::work_of(*jobs);
  NodesNow now{.nodes = {}, .partitions = {}, .whole = jobs && works.faults.empty()};
  if (jobs) {
    for (const slurm::Job& job : *jobs) {
      if (nodeset::is_at_work(job)) now.partitions.insert(job.partition.str());
    }
  }
  for (const slurm::Node& node : nodes) {
    const auto work = works.nodes.find(node.name);
    now.nodes.push_back(nodeset::view_slurm_node(node, work == works.nodes.end() ? nullptr : &work->second));
  }
  return now;
}

}  // namespace bascule::op::reconcile
