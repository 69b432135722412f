#include "operator/nodeset/slurm_node.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/time.hpp"
#include "operator/api/names.hpp"
#include "slurm/hostlist.hpp"

namespace bascule::op::nodeset {

namespace {

using slurm::NodeFlag;
using slurm::NodeState;
using namespace std::string_view_literals;

// Between our reason and the one it was put before.
constexpr std::string_view kBefore = "; before: ";
// What the preStop hook says (builders/scripts.hpp).
constexpr std::string_view kHookReason = "pod is terminating";
// slurmctld's own words (node_mgr.c, ping_nodes.c). It takes such a node back by itself only as ReturnToService says,
// and by default not at all.
constexpr std::array kGivenUp = {"Not responding"sv, "Node unexpectedly rebooted"sv};
// Each of them may be the first of several (node_mgr.c, validate_node_specs(); gres.c).
constexpr std::array kRefusals = {"gres/"sv,
                                  "Low socket*core*thread count"sv,
                                  "Low CPUs"sv,
                                  "Low RealMemory"sv,
                                  "Low TmpDisk"sv,
                                  "CoreSpec differ"sv,
                                  "Could not unpack gres data"sv,
                                  "Failed to parse dynamic_conf"sv,
                                  "Failed to set topology"sv,
                                  "RestrictedCoresPerGPU"sv,
                                  "Reported active features"sv};
// What slurmctld and slurmstepd drain a node for themselves. Nobody takes that back but an administrator.
constexpr std::array kFailures = {"Kill task failed"sv, "Prolog/Epilog failure"sv, "Prolog error"sv,
                                  "Epilog error"sv,     "Job env setup error"sv,   "batch job complete failure"sv,
                                  "Duplicate jobid"sv};
// A pod whose hook has run is not ready for so long, when its containers have ended.
constexpr Duration kHookSettles = std::chrono::seconds(30);

constexpr std::array kBaseWords = {
    std::pair{NodeState::kAllocated, "Allocated"sv}, std::pair{NodeState::kDown, "Down"sv},
    std::pair{NodeState::kError, "Error"sv},         std::pair{NodeState::kFuture, "Future"sv},
    std::pair{NodeState::kIdle, "Idle"sv},           std::pair{NodeState::kMixed, "Mixed"sv},
    std::pair{NodeState::kUnknown, "Unknown"sv},
};
constexpr std::array kFlagWords = {
    std::pair{NodeFlag::kCompleting, "Completing"sv},
    std::pair{NodeFlag::kDrain, "Drain"sv},
    std::pair{NodeFlag::kFail, "Fail"sv},
    std::pair{NodeFlag::kInvalid, "Invalid"sv},
    std::pair{NodeFlag::kInvalidReg, "InvalidReg"sv},
    std::pair{NodeFlag::kMaintenance, "Maintenance"sv},
    std::pair{NodeFlag::kNotResponding, "NotResponding"sv},
    std::pair{NodeFlag::kUndrain, "Undrain"sv},
};

WriteSlurmNode state_write(const SlurmNodeView& node, std::string_view state, std::string reason) {
  WriteSlurmNode write;
  write.node = node.name;
  write.state = state;
  write.reason = std::move(reason);
  write.expects_reason = node.reason;
  return write;
}

bool begins_with_any(std::span<const std::string_view> all, std::string_view text) noexcept {
  return std::ranges::any_of(all, [&](std::string_view words) { return text.starts_with(words); });
}

bool has_condition(const std::vector<PodCondition>& conditions, std::string_view word) noexcept {
  return std::ranges::any_of(conditions, [&](const PodCondition& condition) {
    return std::string_view(condition.type).starts_with(names::kPodConditionPrefix) &&
           std::string_view(condition.type).substr(names::kPodConditionPrefix.size()) == word;
  });
}

}  // namespace

bool is_drain(const SlurmNodeView& node) noexcept {
  return node.states.has(NodeFlag::kDrain);
}

bool is_drained(const SlurmNodeView& node) noexcept {
  return is_drain(node) && !node.states.has(NodeFlag::kUndrain) && !node.states.has(NodeFlag::kCompleting) &&
         node.states.base != NodeState::kAllocated && node.states.base != NodeState::kMixed;
}

bool is_busy(const SlurmNodeView& node) noexcept {
  return node.has_jobs || node.states.has(NodeFlag::kCompleting) || node.states.base == NodeState::kAllocated ||
         node.states.base == NodeState::kMixed;
}

bool is_down_unresponsive(const SlurmNodeView& node) noexcept {
  return node.states.base == NodeState::kDown && node.reason.find("Not responding") != std::string::npos;
}

bool is_given_up(const SlurmNodeView& node) noexcept {
  return node.states.base == NodeState::kDown && std::ranges::find(kGivenUp, kept_reason(node)) != kGivenUp.end();
}

bool is_reason_ours(const SlurmNodeView& node) noexcept {
  return node.reason.empty() || has_our_mark(node);
}

bool has_our_mark(const SlurmNodeView& node) noexcept {
  return node.reason.starts_with(names::kReasonPrefix);
}

bool is_drained_by_us(const SlurmNodeView& node) noexcept {
  return is_drain(node) && !node.states.has(NodeFlag::kUndrain) && has_our_mark(node);
}

bool is_held_by_others(const SlurmNodeView& node) noexcept {
  if (has_our_mark(node)) return false;
  if (is_drain(node)) return true;
  return !node.reason.empty() && (node.states.base == NodeState::kDown || node.states.has(NodeFlag::kFail));
}

bool is_refused(const SlurmNodeView& node) noexcept {
  return node.states.has(NodeFlag::kInvalidReg) && !is_busy(node);
}

bool is_out_of_service(const SlurmNodeView& node) noexcept {
  return node.states.base == NodeState::kDown || is_refused(node);
}

std::string_view kept_reason(const SlurmNodeView& node) noexcept {
  if (!has_our_mark(node)) return node.reason;
  const std::size_t at = node.reason.find(kBefore);
  return at == std::string::npos ? std::string_view() : std::string_view(node.reason).substr(at + kBefore.size());
}

bool is_refusal(std::string_view reason) noexcept {
  return begins_with_any(kRefusals, reason);
}

bool is_closed_by_slurm(const SlurmNodeView& node) noexcept {
  const std::string_view reason = kept_reason(node);
  return (is_drain(node) || node.states.base == NodeState::kDown) &&
         (is_refusal(reason) || begins_with_any(kFailures, reason));
}

bool is_down_by_us(const SlurmNodeView& node) noexcept {
  return node.states.base == NodeState::kDown && has_our_mark(node) && kept_reason(node).empty();
}

bool is_clear(const SlurmNodeView& node) noexcept {
  // slurmctld that has just started shows nodes it has not heard of yet as UNKNOWN. One whose registration it refused
  // it has heard of, and shows so for ever.
  const bool heard = node.states.base != NodeState::kUnknown || node.states.has(NodeFlag::kInvalidReg);
  return is_drained(node) && !is_busy(node) && heard;
}

std::optional<WriteSlurmNode> make_drain(const SlurmNodeView& node, std::string_view reason) {
  const bool drained = is_drain(node) && !node.states.has(NodeFlag::kUndrain);
  if (drained && !has_our_mark(node)) return std::nullopt;
  std::string text = fmt::format("{}{}", names::kReasonPrefix, reason);
  if (const std::string_view kept = kept_reason(node); !kept.empty()) text += fmt::format("{}{}", kBefore, kept);
  if (drained && node.reason == text) return std::nullopt;
  return state_write(node, "DRAIN", std::move(text));
}

std::optional<WriteSlurmNode> make_undrain(const SlurmNodeView& node) {
  if (!is_drained_by_us(node) || is_down_by_us(node)) return std::nullopt;
  return state_write(node, "UNDRAIN", std::string(kept_reason(node)));
}

std::optional<WallTime> resume_due(const SlurmNodeView& node, const PodView& pod, WallTime seen, bool elsewhere,
                                   bool hook_of_another) {
  const bool lost = elsewhere && is_given_up(node) && !is_drain(node);
  if (!is_down_by_us(node) && !lost) return std::nullopt;
  if (node.states.has(NodeFlag::kNotResponding) || !pod.healthy()) return std::nullopt;
  if (hook_of_another || pod.ready_since > node.reason_since) return seen;
  return seen + kHookSettles + (node.reason.ends_with(kHookReason) ? pod.grace : Duration{});
}

WriteSlurmNode make_resume(const SlurmNodeView& node) {
  WriteSlurmNode write = state_write(node, "RESUME", "");
  write.expects_since = node.reason_since;  // the hook of a pod that ends says what the one before it said
  return write;
}

std::vector<PodCondition> conditions_of(const SlurmNodeView& node) {
  std::vector<PodCondition> all;
  const auto add = [&](std::string_view word) {
    all.push_back({fmt::format("{}{}", names::kPodConditionPrefix, word), node.reason, {}});
  };
  for (const auto& [state, word] : kBaseWords) {
    if (node.states.base == state) add(word);
  }
  for (const auto& [flag, word] : kFlagWords) {
    if (node.states.has(flag)) add(word);
  }
  return all;
}

void count(NodeCounts& counts, const SlurmNodeView& node) {
  ++counts.total;
  switch (node.states.base) {
    case NodeState::kAllocated:
      ++counts.allocated;
      break;
    case NodeState::kDown:
      ++counts.down;
      break;
    case NodeState::kError:
      ++counts.error;
      break;
    case NodeState::kFuture:
      ++counts.future;
      break;
    case NodeState::kIdle:
      ++counts.idle;
      break;
    case NodeState::kMixed:
      ++counts.mixed;
      break;
    case NodeState::kUnknown:
      ++counts.unknown;
      break;
  }
  const auto add = [&](std::int32_t& field, NodeFlag flag) { field += node.states.has(flag) ? 1 : 0; };
  add(counts.completing, NodeFlag::kCompleting);
  add(counts.drain, NodeFlag::kDrain);
  add(counts.fail, NodeFlag::kFail);
  add(counts.invalid, NodeFlag::kInvalid);
  add(counts.invalid_reg, NodeFlag::kInvalidReg);
  add(counts.maintenance, NodeFlag::kMaintenance);
  add(counts.not_responding, NodeFlag::kNotResponding);
  add(counts.undrain, NodeFlag::kUndrain);
}

bool conditions_busy(const std::vector<PodCondition>& conditions) noexcept {
  return has_condition(conditions, "Allocated") || has_condition(conditions, "Mixed") ||
         has_condition(conditions, "Completing");
}

bool conditions_drain(const std::vector<PodCondition>& conditions) noexcept {
  return has_condition(conditions, "Drain") && !has_condition(conditions, "Undrain");
}

bool conditions_drained(const std::vector<PodCondition>& conditions) noexcept {
  return conditions_drain(conditions) && !conditions_busy(conditions);
}

bool conditions_draining(const std::vector<PodCondition>& conditions) noexcept {
  return conditions_drain(conditions) && conditions_busy(conditions);
}

bool is_at_work(const slurm::Job& job) noexcept {
  const slurm::JobState base = job.states.base;
  return base == slurm::JobState::kRunning || base == slurm::JobState::kSuspended ||
         job.states.has(slurm::JobFlag::kCompleting);
}

Works work_of(std::span<const slurm::Job> jobs) {
  Works works;
  for (const slurm::Job& job : jobs) {
    if (!is_at_work(job) || job.nodes.empty()) continue;
    const bool runs = job.states.base == slurm::JobState::kRunning;
    const auto nodes = slurm::expand_hostlist(job.nodes);
    if (!nodes) {
      works.faults.push_back(fmt::format("the node list \"{}\" of Slurm job {} cannot be read: {}", job.nodes,
                                         job.id.str(), nodes.error()));
      continue;
    }
    WallTime end = kNever;
    if (job.time_limit && *job.time_limit != slurm::kInfinite) {
      const std::int64_t seconds = job.start_time + std::int64_t{60} * *job.time_limit;
      if (seconds < epoch_seconds(kNever)) end = WallTime(std::chrono::seconds(seconds));
    }
    for (const std::string& name : *nodes) {
      Work& work = works.nodes[name];
      work.has_jobs = true;
      if (work.jobs.size() < kMostNamedJobs) work.jobs.push_back(job.id.str());
      if (runs) work.deadline = work.deadline ? std::max(*work.deadline, end) : end;
    }
  }
  return works;
}

std::string sanitize_reason(std::string_view text) {
  constexpr std::size_t kMostCodePoints = 256;
  const auto trimmed = [](std::string_view part) {
    const std::size_t from = part.find_first_not_of(' ');
    return from == std::string_view::npos ? std::string_view()
                                          : part.substr(from, part.find_last_not_of(' ') - from + 1);
  };
  std::string clean;
  for (const char c : text) {
    if (c == '\t' || c == '\n' || c == '\r') {
      clean += ' ';
    } else if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) {
      clean += c;
    }
  }
  // Ours alone: what stands behind it is taken for somebody else's reason.
  for (std::size_t at = clean.find(kBefore); at != std::string::npos; at = clean.find(kBefore)) clean[at] = ',';
  std::string_view rest = trimmed(clean);
  std::size_t points = 0;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    if ((static_cast<unsigned char>(rest[i]) & 0xc0) == 0x80) continue;
    if (++points > kMostCodePoints) {
      rest = trimmed(rest.substr(0, i));
      break;
    }
  }
  return rest.empty() ? "unknown" : std::string(rest);
}

}  // namespace bascule::op::nodeset
