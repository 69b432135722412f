// The one queue: pods of the bridge beside native Slurm jobs. Pure, but for read_queue.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bridge/unit.hpp"
#include "json/value.hpp"
#include "kube/client.hpp"
#include "slurm/client.hpp"

namespace bascule::bridge {

struct QueueRow {
  JobId job;  // 0: pods that no Slurm job stands for yet
  std::string partition, name, user, account, qos;
  std::string state;  // as Slurm says it; WAITING and GATED of pods without a job
  std::optional<std::uint32_t> priority;
  std::int64_t seconds = 0;  // since it began
  std::uint32_t nodes = 0;   // held, or a pod each while it waits; 0 not known (native jobs that wait)
  std::string node_list;     // hostlist, empty while it waits
  std::string reason;        // why it waits
  std::string expected;      // RFC 3339: when Slurm expects to start it
  std::vector<NamespacedName> pods;
};

struct QueueFilter {
  std::string ns;         // only jobs of pods there; empty: all, native jobs too
  std::string partition;  // one of this list, as squeue has it; empty: all
  // Uid of this cluster; jobs of pods of another one, which may have the same names, show none. Empty: not known.
  std::string cluster = {};
};

struct Queue {
  std::vector<QueueRow> rows;
  std::size_t without_job = 0;  // left out by the filter's partition: which one pods without a job get is not known
};

// Jobs that are not over: those that hold nodes by id, then the waiting ones by priority, the highest first, then pods
// without a job by age. `pods` are the bridge's; a job's pods are those whose label names it, else those its record
// names.
Queue make_queue(const std::vector<slurm::Job>& jobs, const std::vector<PodPtr>& pods, const QueueFilter& filter,
                 WallTime now);
// Aligned; `wide` cuts nothing and adds account, QOS, priority, expected start and every pod.
std::string to_text(const std::vector<QueueRow>& rows, bool wide, bool colours);
json::Value to_json(const std::vector<QueueRow>& rows);
// As squeue writes it: 0:07, 1:02:03, 2-00:00:00.
std::string print_run_time(std::int64_t seconds);

struct QueueContent {
  std::vector<slurm::Job> jobs;
  std::vector<PodPtr> pods;
  std::string cluster;  // as QueueFilter has it; empty for those who may not read the namespace kube-system
};
// One list call each. `ns`: empty for all namespaces. Throws kube::Error's and slurm::Error's kinds.
Task<QueueContent> read_queue(kube::Client& kube, slurm::Client& slurm, std::string ns, std::string scheduler_name);

}  // namespace bascule::bridge
