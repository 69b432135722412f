// A small slurmctld in memory: jobs, nodes, partitions and a scheduler, for tests. No wire, no I/O; the time is given
// with every call, and whatever lies between two calls (starts, ends, time limits, purges) happens in its order when
// the later one is made. The scheduler: highest priority first, then lowest id; a job starts when its partition has
// enough nodes (or, for a number of tasks, room on few enough nodes) that are up, not drained, have its features, are
// required or not excluded, and have the CPUs, memory and GPUs free (or are wholly free, for an exclusive job). There
// is no backfill reservation: a job that does not fit does not hold back others.
#pragma once

#include <cstdint>
#include <expected>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/loop.hpp"
#include "slurm/types.hpp"

namespace bascule::testing {

// What slurmctld says no with.
struct SlurmNo {
  std::int32_t number = 0;
  std::string name;
  bool job_made = false;  // the job is in the queue all the same
};

// "gres/gpu:h100:2" -> 2 of type h100; text without gpu -> 0.
struct GpuRequest {
  std::string type;
  std::uint32_t count = 0;
};
std::optional<GpuRequest> parse_gpu_request(std::string_view tres_per_node);

struct SlurmModelOptions {
  std::string cluster = "farm";
  std::string release = "26.05.5";
  Duration min_job_age = std::chrono::seconds(300);
  Duration schedule_delay{};          // from a change to the scheduler's next pass
  std::size_t schedule_depth = 2000;  // pending jobs looked at in one pass
  std::uint32_t first_job_id = 1;
};

class SlurmModel final {
 public:
  struct Gpus {
    std::string type;
    std::uint32_t count = 0;
    std::set<std::uint32_t> used;
  };
  struct NodeRecord {
    slurm::Node view;  // states, reason, features ... as set; alloc_* kept up
    Gpus gpus;
    std::map<std::uint32_t, std::uint32_t> cores;  // core -> job id
    std::set<std::uint32_t> jobs;
    bool stranded = false;
  };
  struct Share {  // of a job on one node
    std::string node;
    std::uint32_t cpus = 0;
    std::uint64_t memory = 0;
    std::vector<std::uint32_t> cores;
    std::vector<std::uint32_t> gpus;
  };
  struct JobRecord {
    slurm::JobDescription asked;
    GpuRequest gpus;  // of asked.tres_per_node
    slurm::Job view;
    std::vector<Share> shares;
    std::optional<Duration> runs_for;  // native jobs that end by themselves
    WallTime started{};
    WallTime begin{};  // not before
    WallTime ended{};
  };

  SlurmModel(WallTime now, SlurmModelOptions options);

  // --- what an administrator and other users do
  // -----------------------------------------------------------------------
  void add_partition(std::string name, bool is_default, std::optional<std::vector<std::string>> nodes = std::nullopt);
  // State=UP or DOWN: jobs of one that is down wait, for the reason PartitionDown.
  void set_partition_up(WallTime now, const std::string& name, bool up);
  // A slurm.conf node line; without State a static IDLE node.
  std::expected<void, SlurmNo> add_node(WallTime now, std::string_view conf, bool dynamic);
  std::expected<JobId, SlurmNo> submit(WallTime now, slurm::JobDescription asked, bool external,
                                       std::optional<Duration> runs_for = std::nullopt, std::string user = "root");
  std::expected<void, SlurmNo> update_job(WallTime now, JobId id, const slurm::JobDescription& change);
  std::expected<void, SlurmNo> cancel(WallTime now, JobId id);
  // Preempted or requeued by an administrator: a running job waits in the queue again, and may start after `delay`
  // (what Slurm calls BeginTime). External jobs of 26.05 are never requeued, the batch jobs that stand in for them
  // in 24.11 are.
  void requeue(WallTime now, JobId id, Duration delay);
  // A killed slurmctld came back with a state in which this running job had not started yet: it waits, nothing is
  // counted.
  void forget_start(WallTime now, JobId id);
  // 24.11: a batch job that is started again, which slurmd refuses ("launch failed requeued held").
  void fail_launch(WallTime now, JobId id);
  // Says of a pending job that it is expected to start then, whatever comes of it.
  void expect_start(WallTime now, JobId id, Duration in);
  // Ends a running job so.
  void end(WallTime now, JobId id, slurm::JobState state, std::string reason = "None");
  std::expected<void, SlurmNo> update_node(WallTime now, const std::string& name, const slurm::NodeUpdate& change);
  std::expected<void, SlurmNo> delete_node(WallTime now, const std::string& name);
  // slurmctld came up without its state file: no jobs; `keep_nodes` false: nor dynamic nodes. Ids go on or start anew.
  void lose_state(WallTime now, bool keep_nodes, bool reset_ids);
  // slurmctld was killed after it had saved the nodes and before the jobs: it comes up with this node, on which no job
  // is, allocated. It stays so until a job ends there or it is put down.
  void strand(WallTime now, const std::string& node);
  // slurmctld came up with its state.
  void restarted(WallTime now);

  // --- looking
  // --------------------------------------------------------------------------------------------------------
  void catch_up(WallTime now);
  const JobRecord* job(JobId id) const noexcept;
  const std::map<std::uint32_t, JobRecord>& jobs() const noexcept { return jobs_; }
  const NodeRecord* node(const std::string& name) const noexcept;
  const std::map<std::string, NodeRecord>& nodes() const noexcept { return nodes_; }
  const std::vector<slurm::Partition>& partitions() const noexcept { return partitions_; }
  bool in_partition(const std::string& node, const std::string& partition) const;
  std::int64_t last_job_update() const noexcept { return last_job_update_; }
  std::int64_t last_node_update() const noexcept { return last_node_update_; }
  std::int64_t last_partition_update() const noexcept { return last_partition_update_; }
  std::uint64_t submitted() const noexcept { return submitted_; }
  const SlurmModelOptions& options() const noexcept { return options_; }

 private:
  bool fits(const JobRecord& job, const NodeRecord& node) const;
  bool could_ever_fit(const JobRecord& job, const NodeRecord& node) const;
  std::expected<void, SlurmNo> validate(const JobRecord& job) const;
  void touch_jobs(WallTime now);
  void touch_nodes(WallTime now);
  void want_schedule(WallTime now);
  void schedule(WallTime now);
  bool try_start(WallTime now, JobRecord& job, std::vector<NodeRecord*>& free);
  std::uint32_t tasks_that_fit(const JobRecord& job, const NodeRecord& node) const;
  // `tasks`: on each of them; empty: one each.
  void start(WallTime now, JobRecord& job, const std::vector<NodeRecord*>& on, std::vector<std::uint32_t> tasks = {});
  void finish(WallTime now, JobRecord& job, slurm::JobState state, std::string reason);
  void release(JobRecord& job);
  void wait_again(WallTime now, JobRecord& job);
  void refresh(NodeRecord& node);
  const std::optional<std::set<std::string>>* members(const std::string& partition) const;

  SlurmModelOptions options_;
  std::map<std::uint32_t, JobRecord> jobs_;
  std::map<std::string, NodeRecord> nodes_;
  std::vector<slurm::Partition> partitions_;
  std::map<std::string, std::optional<std::set<std::string>>> members_;  // nullopt: all nodes
  std::set<std::string> down_;                                           // partitions
  // When what happens next: ends of running jobs and purges of ended ones.
  std::set<std::pair<WallTime, std::uint32_t>> ends_;
  std::set<std::pair<WallTime, std::uint32_t>> purges_;
  std::set<WallTime> begins_;
  std::optional<WallTime> schedule_at_;
  std::int64_t last_job_update_ = 0;
  std::int64_t last_node_update_ = 0;
  std::int64_t last_partition_update_ = 0;
  std::uint32_t next_id_;
  std::uint64_t submitted_ = 0;
};

// Names with & and |, & binding closer.
bool matches_features(std::string_view constraint, const std::vector<std::string>& features);
// "0-2,5" of {0,1,2,5}.
std::string print_ranges(const std::vector<std::uint32_t>& numbers);

}  // namespace bascule::testing
