// Slurm's records as far as Bascule decides by them, and what it sends. Units are Slurm's: memory MiB, time limits
// minutes, times seconds since the epoch. Absent numbers are std::nullopt, "infinite" is kept apart. Source: slurmrestd
// OpenAPI v0.0.41 to v0.0.45, job_info, node, partition_info, job_desc_msg.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/strong.hpp"
#include "slurm/shared_text.hpp"

namespace bascule::slurm {

// Base states and flags of a job; an answer holds one base state first, then flags.
enum class JobState : std::uint8_t {
  kUnknown,
  kPending,
  kRunning,
  kSuspended,
  kCompleted,
  kCancelled,
  kFailed,
  kTimeout,
  kNodeFail,
  kPreempted,
  kBootFail,
  kDeadline,
  kOutOfMemory,
};
enum class JobFlag : std::uint32_t {
  kLaunchFailed = 1u << 0,
  kRequeued = 1u << 1,
  kRequeueHold = 1u << 2,
  kSpecialExit = 1u << 3,
  kResizing = 1u << 4,
  kConfiguring = 1u << 5,
  kCompleting = 1u << 6,
  kStopped = 1u << 7,
  kReconfigFail = 1u << 8,
  kPowerUpNode = 1u << 9,
  kRevoked = 1u << 10,
  kRequeueFed = 1u << 11,
  kResvDelHold = 1u << 12,
  kSignaling = 1u << 13,
  kStageOut = 1u << 14,
  kExpediting = 1u << 15,
  kOther = 1u << 31,
};
std::string_view to_string(JobState state) noexcept;  // PENDING, RUNNING ...

struct JobStates {
  JobState base = JobState::kUnknown;
  std::uint32_t flags = 0;
  bool has(JobFlag flag) const noexcept { return (flags & static_cast<std::uint32_t>(flag)) != 0; }
  // The job is over and will not run again: a terminal base state without a requeue flag.
  bool ended() const noexcept;
  friend bool operator==(const JobStates&, const JobStates&) = default;
};
JobStates parse_job_states(const std::vector<std::string_view>& words) noexcept;
std::string print(const JobStates& states);  // "CANCELLED+COMPLETING"

inline constexpr std::uint32_t kInfinite = std::numeric_limits<std::uint32_t>::max();

struct Job {
  JobId id;
  JobStates states;
  std::string name;
  std::string nodes;  // hostlist of the allocation; empty while pending
  std::string admin_comment;
  SharedText user;  // name, or number when the name is not known
  SharedText account;
  SharedText partition;
  SharedText qos;
  SharedText reservation;
  SharedText required_nodes;  // hostlists as asked
  SharedText excluded_nodes;
  SharedText constraints;   // "features" of the answer
  SharedText state_reason;  // None, Priority, Resources, JobHeldUser ...
  SharedText state_description;
  SharedText comment;
  SharedText tres_per_node;
  std::vector<std::string> gres_detail;  // one a node, in the order of `nodes`
  std::vector<std::uint32_t> node_cpus;  // of the allocation: one a node, in the order of `nodes`
  bool external = false;                 // flag EXTERNAL_JOB; from v0.0.43
  bool hold = false;
  std::uint32_t restart_count = 0;
  std::optional<std::uint32_t> priority;
  std::optional<std::uint32_t> time_limit;  // minutes; kInfinite
  std::int64_t submit_time = 0;
  std::int64_t start_time = 0;  // running: began; pending: expected, 0 unknown
  std::int64_t end_time = 0;    // ended, or will end by the time limit; 0 unknown
  friend bool operator==(const Job&, const Job&) = default;
};

struct JobBrief {
  JobId id;
  JobStates states;
};

enum class NodeFlag : std::uint32_t {
  kDrain = 1u << 0,
  kCompleting = 1u << 1,
  kNotResponding = 1u << 2,
  kFail = 1u << 3,
  kMaintenance = 1u << 4,
  kPlanned = 1u << 5,
  kReserved = 1u << 6,
  kUndrain = 1u << 7,
  kDynamicNorm = 1u << 8,
  kExternal = 1u << 9,
  kInvalid = 1u << 10,
  kRebooting = 1u << 11,
  kPoweredDown = 1u << 12,
  kPoweringDown = 1u << 13,
  kPoweringUp = 1u << 14,
  kBlocked = 1u << 15,
  kCloud = 1u << 16,
  kInvalidReg = 1u << 17,
  kOther = 1u << 31,
};
enum class NodeState : std::uint8_t { kUnknown, kIdle, kAllocated, kMixed, kDown, kFuture, kError };
struct NodeStates {
  NodeState base = NodeState::kUnknown;
  std::uint32_t flags = 0;
  bool has(NodeFlag flag) const noexcept { return (flags & static_cast<std::uint32_t>(flag)) != 0; }
  friend bool operator==(const NodeStates&, const NodeStates&) = default;
};
NodeStates parse_node_states(const std::vector<std::string_view>& words) noexcept;
std::string print(const NodeStates& states);  // "IDLE+DRAIN+EXTERNAL"

struct Node {
  std::string name;
  NodeStates states;
  std::string reason;
  std::string reason_set_by;
  std::string address;
  std::int64_t reason_time = 0;
  std::uint32_t cpus = 0;
  std::uint32_t sockets = 0;
  std::uint32_t cores = 0;    // a socket
  std::uint32_t threads = 0;  // a core
  std::uint64_t memory = 0;   // MiB
  std::string gres;
  std::string gres_used;
  std::vector<std::string> features;
  std::vector<std::string> active_features;
  std::vector<std::string> partitions;
  std::string topology;
  std::uint32_t alloc_cpus = 0;  // right only in answers to a list of all nodes
  std::uint64_t alloc_memory = 0;
  std::string comment;
  std::string extra;
  std::string reservation;  // of the one in force on it
  friend bool operator==(const Node&, const Node&) = default;
};

struct Partition {
  std::string name;
  std::string nodes;  // hostlist
  std::vector<std::string> states;
  std::optional<std::uint32_t> default_time;  // minutes
  std::optional<std::uint32_t> max_time;
  bool is_default = false;  // slurmrestd up to v0.0.45 does not say: always false
  friend bool operator==(const Partition&, const Partition&) = default;
};

// At least and at most so many nodes.
struct NodeCount {
  std::uint32_t minimum = 1;
  std::uint32_t maximum = 1;
  NodeCount(std::uint32_t exactly) noexcept : minimum(exactly), maximum(exactly) {}
  NodeCount(std::uint32_t at_least, std::uint32_t at_most) noexcept : minimum(at_least), maximum(at_most) {}
  friend bool operator==(const NodeCount&, const NodeCount&) = default;
};

// What a submit or update says (job_desc_msg). Absent fields are not sent.
struct JobDescription {
  std::optional<std::string> name, account, partition, qos, reservation, constraints, licenses, wckey, mcs_label;
  std::optional<std::string> user_id, group_id;
  std::optional<std::string> admin_comment, comment;
  std::optional<std::string> tres_per_node, tres_per_task;
  std::optional<NodeCount> nodes;
  std::optional<std::uint32_t> tasks, tasks_per_node, cpus_per_task;
  std::optional<std::uint64_t> memory_per_node, memory_per_cpu;  // MiB; one of them. 0 for each node: all
  std::optional<std::uint32_t> time_limit;                       // minutes
  std::optional<std::uint32_t> priority;
  std::optional<std::vector<std::string>> required_nodes, excluded_nodes;
  std::optional<bool> exclusive;  // true: shared=["none"]; false: shared=[]
  std::optional<bool> hold;
  friend bool operator==(const JobDescription&, const JobDescription&) = default;
};

// GET resources/{id}: what a job holds on one node.
struct NodeAllocation {
  struct Gres {
    std::string name, type, index;  // index: "0,2-3", may be empty
    std::uint64_t count = 0;
  };
  std::string node;
  std::uint32_t sockets = 0, cores_per_socket = 0;
  std::uint64_t memory = 0;  // MiB
  std::string core_bitmap;   // hexadecimal, bit 0 = core 0 of socket 0
  std::vector<Gres> gres;
};

struct NodeUpdate {
  std::optional<std::string> state;  // DRAIN, UNDRAIN, RESUME, DOWN, IDLE
  std::optional<std::string> reason, comment, extra, topology;
  std::optional<std::vector<std::string>> features;
  std::optional<std::vector<std::string>> active_features;  // nullopt: as `features`
};

struct Reservation {
  std::string name;
  std::int64_t start_time = 0;
  std::int64_t end_time = 0;
  std::vector<std::string> flags;  // MAINT, IGNORE_JOBS, DAILY ...; SPEC_NODES in answers only
  std::string nodes;               // hostlist
  std::string users;               // comma-separated
  friend bool operator==(const Reservation&, const Reservation&) = default;
};
// Made or, if it exists, changed. Absent fields are not sent.
struct ReservationUpdate {
  std::string name;
  std::optional<std::int64_t> start_time;
  std::optional<std::uint32_t> duration;  // minutes
  std::optional<std::vector<std::string>> flags, users, nodes;
};

}  // namespace bascule::slurm
