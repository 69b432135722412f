// Which pod of a unit counts on which of its jobs. A single pod has one job; a gang may have several: the one it
// started with, and one more for those who came later. Pure.
//
//  - A pod belongs to the live job its label names, else to the one we have just marked it with, else to the best one
//    whose record names it. Better is: holds more bound pods, is named by more labels, runs, is older.
//  - A running job gives its nodes to its pods in order of rank; a bound pod, one being bound, or one whose claim to
//  devices stands on a node of the job keeps its node. A node takes one pod, or of a job whose pods may share nodes as
//  many as Slurm gave it CPUs for, and the devices of each.
//  - A node that a pod of a living gang has left goes to the gang's next pod, before that one waits for another job; of
//  a node that is shared, no more is taken than Slurm gave there.
//  - A job that Slurm has requeued keeps its place in the queue for those who come after the pods it stopped.
//  - What is left over is uncovered: it needs a job.
#pragma once

#include <string>
#include <vector>

#include "bridge/unit_plan.hpp"

namespace bascule::bridge {

struct HeldJob {
  const JobView* view = nullptr;
  std::size_t bound = 0;           // pods on its nodes, or being bound
  std::size_t going = 0;           // of these, deleted ones that have not ended yet
  std::vector<PodPtr> pods;        // that wait for it, or to be bound; ranked
  std::vector<std::string> hosts;  // running: for pods[i], by name in Slurm
  std::string unreadable;          // running: why its node list cannot be read
  std::size_t members() const noexcept { return bound + pods.size(); }
  std::size_t staying() const noexcept { return bound - going; }  // what is on its nodes of a gang that lives
};

struct UnitJobs {
  std::vector<HeldJob> jobs;            // live, the best first
  std::vector<PodPtr> uncovered;        // wait, and no job stands for them; ranked
  std::vector<const JobView*> surplus;  // live, but other jobs stand for their pods
};

bool wants_node(const kube::Pod& pod);  // ours to place: not bound, over, going, or gated
bool holds_node(const kube::Pod& pod);  // bound and not over, whatever its deletion says: it may still use the node
bool runs(const slurm::Job& job);       // RUNNING and not on its way out
// ... but its nodes boot, or PrologSlurmctld has not ended: not to be used yet, and the job is queued again should it
// fail.
bool is_configuring(const slurm::Job& job);
// An answer of slurmctld alone says that the job still runs as it is known to (nullptr: it is not known). One that the
// mirror has dropped, for an older one that came in meanwhile, may speak of another run.
bool confirms(const slurm::Job& answer, const slurm::Job* known);
// Slurm has put the job back into its queue at least once, after preemption or by an administrator.
bool requeued(const slurm::Job& job);
// ... because it could not be launched, and holds it until somebody releases it (24.11): it is nobody's to inherit.
bool launch_failed(const slurm::Job& job);
// Whether a change of states leaves open how often: only its restarts tell, which come with all else.
bool hides_requeue(const slurm::Job& known, const slurm::JobStates& now);
// ... after this pod was bound: its node is not its own any more. A job that is pending without that comes from the old
// state of a slurmctld that was killed.
bool requeued_since(const slurm::Job& job, std::uint32_t restarts);
inline bool requeued_since(const slurm::Job& job, const kube::Pod& pod) {
  return requeued_since(job, restarts_of(pod));
}
// The pod was bound for a job of that id that was submitted at another time: slurmctld has lost that one and has given
// its id anew, be it to the same gang. For a job that was not requeued since.
bool is_another(const slurm::Job& job, const kube::Pod& pod);
// Whether a job of this record is the one that the label of a pod of `unit` means. A slurmctld that was killed forgets
// the jobs of its last seconds and gives their ids to others.
bool stands_for(const JobRecord& record, const kube::Pod& pod, const Uid& unit);
// Whether others may come for the job when its pods are gone: other members of its gang, or what the pod's controller
// makes in its place.
bool has_successors(const JobRecord& record);

UnitJobs assign_pods(const Config& config, const UnitView& unit, const NodeView& nodes, const UnitMemory& memory);

}  // namespace bascule::bridge
