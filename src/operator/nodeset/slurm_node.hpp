// What a Slurm node's state means for its worker pod, as truth tables. Whose a drain is, is told by its reason: ours
// begin with names::kReasonPrefix. A drain without a reason is not ours, so it is not undone.
// Source of the states: slurmctld, scontrol(1) "update NodeName"; conditions and reasons are slurm-operator's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "operator/nodeset/actions.hpp"
#include "operator/nodeset/values.hpp"
#include "slurm/types.hpp"

namespace bascule::op::nodeset {

bool is_drain(const SlurmNodeView& node) noexcept;
// DRAIN in force and nothing allocated or completing, by its states.
bool is_drained(const SlurmNodeView& node) noexcept;
bool is_busy(const SlurmNodeView& node) noexcept;  // by its states or by the job table
// DOWN because slurmd does not answer, by its reason.
bool is_down_unresponsive(const SlurmNodeView& node) noexcept;
// DOWN by slurmctld itself: slurmd fell silent, or came back from a host that was booted meanwhile. Also with a drain
// of ours in front.
bool is_given_up(const SlurmNodeView& node) noexcept;
// Our prefix, or no reason at all.
bool is_reason_ours(const SlurmNodeView& node) noexcept;
// Our prefix.
bool has_our_mark(const SlurmNodeView& node) noexcept;
// Drained in our name, and still so.
bool is_drained_by_us(const SlurmNodeView& node) noexcept;
// Drained, downed or failed by somebody else's will: not to be touched.
bool is_held_by_others(const SlurmNodeView& node) noexcept;
// By the preStop hook: nobody else's reason stands behind ours.
bool is_down_by_us(const SlurmNodeView& node) noexcept;
// Registered, and slurmctld refuses what with: it has no job, and gets none as long as it is as it is.
bool is_refused(const SlurmNodeView& node) noexcept;
// No job starts there whatever the pod is like: DOWN or refused.
bool is_out_of_service(const SlurmNodeView& node) noexcept;
// The reason that is not ours: that which ours was put before, if any, or the node's.
std::string_view kept_reason(const SlurmNodeView& node) noexcept;
// slurmctld's own words for a registration that it refuses. They take the place of any other reason.
bool is_refusal(std::string_view reason) noexcept;
// Drained or DOWN for what slurmctld or a job step found itself, a refusal or a failure; it is so until an
// administrator resumes the node.
bool is_closed_by_slurm(const SlurmNodeView& node) noexcept;
// No job can be hurt: drained, and no job by states or table.
bool is_clear(const SlurmNodeView& node) noexcept;

// DRAIN with our reason. nullopt: nothing to do, or somebody else has drained it, which serves as well. The reason of
// somebody else on a node that is not drained is kept behind ours.
std::optional<WriteSlurmNode> make_drain(const SlurmNodeView& node, std::string_view reason);
// Takes our drain back and restores the reason it was put before. nullopt: not drained by us, or down
// by us as well, which is make_resume()'s matter.
std::optional<WriteSlurmNode> make_undrain(const SlurmNodeView& node);
// From when on the node may go back into service, which the preStop hook of an earlier container put DOWN, or slurmctld
// itself when another host had it (`elsewhere`: the pod is not where it was then); nullopt: it is not ours to say. At
// once when the pod became ready after that. Clocks differ, and a drain of ours may have taken the place of the hook's
// reason and time: so also when the pod has been healthy for longer than one whose hook has run, counted from `seen`,
// since when our own clock has known both. `hook_of_another`: the hook that ran was not this pod's.
std::optional<WallTime> resume_due(const SlurmNodeView& node, const PodView& pod, WallTime seen, bool elsewhere,
                                   bool hook_of_another = false);
WriteSlurmNode make_resume(const SlurmNodeView& node);

// One pod condition a state, base first, message the node's reason. `since` is not set.
std::vector<PodCondition> conditions_of(const SlurmNodeView& node);

struct NodeCounts {
  std::int32_t total = 0;
  std::int32_t allocated = 0, down = 0, error = 0, future = 0, idle = 0, mixed = 0, unknown = 0;  // base states
  std::int32_t completing = 0, drain = 0, fail = 0, invalid = 0, invalid_reg = 0, maintenance = 0, not_responding = 0,
               undrain = 0;
  friend bool operator==(const NodeCounts&, const NodeCounts&) = default;
};
void count(NodeCounts& counts, const SlurmNodeView& node);

// Predicates on the conditions of a pod.
bool conditions_busy(const std::vector<PodCondition>& conditions) noexcept;
bool conditions_drain(const std::vector<PodCondition>& conditions) noexcept;
bool conditions_drained(const std::vector<PodCondition>& conditions) noexcept;
bool conditions_draining(const std::vector<PodCondition>& conditions) noexcept;

// It has nodes: running, suspended or completing.
bool is_at_work(const slurm::Job& job) noexcept;

// What jobs make of nodes. A job without an end, or without a known one, ends at kNever.
inline constexpr WallTime kNever = std::chrono::sys_days(std::chrono::year(2200) / 1 / 1);
struct Work {
  bool has_jobs = false;
  std::optional<WallTime> deadline;  // of running jobs
  std::vector<std::string> jobs;     // ids, for people: the first kMostNamedJobs
};
inline constexpr std::size_t kMostNamedJobs = 4;
struct Works {
  std::map<std::string, Work> nodes;
  std::vector<std::string> faults;  // jobs whose node list cannot be read, one sentence each
};
Works work_of(std::span<const slurm::Job> jobs);

// A text from people as a Slurm reason: white space to blanks, no control characters, at most 256 code points, never
// empty ("unknown").
std::string sanitize_reason(std::string_view text);

}  // namespace bascule::op::nodeset
