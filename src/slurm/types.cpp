#include "slurm/types.hpp"

#include <array>
#include <utility>

namespace bascule::slurm {

namespace {

using namespace std::string_view_literals;

// The first word of a value is the one printed; the others are older or other spellings of it.
constexpr std::array kJobStates = {
    std::pair{"PENDING"sv, JobState::kPending},     std::pair{"RUNNING"sv, JobState::kRunning},
    std::pair{"SUSPENDED"sv, JobState::kSuspended}, std::pair{"COMPLETED"sv, JobState::kCompleted},
    std::pair{"CANCELLED"sv, JobState::kCancelled}, std::pair{"FAILED"sv, JobState::kFailed},
    std::pair{"TIMEOUT"sv, JobState::kTimeout},     std::pair{"NODE_FAIL"sv, JobState::kNodeFail},
    std::pair{"PREEMPTED"sv, JobState::kPreempted}, std::pair{"BOOT_FAIL"sv, JobState::kBootFail},
    std::pair{"DEADLINE"sv, JobState::kDeadline},   std::pair{"OUT_OF_MEMORY"sv, JobState::kOutOfMemory},
};
constexpr std::array kJobFlags = {
    std::pair{"LAUNCH_FAILED"sv, JobFlag::kLaunchFailed},
    std::pair{"REQUEUED"sv, JobFlag::kRequeued},
    std::pair{"REQUEUE_HOLD"sv, JobFlag::kRequeueHold},
    std::pair{"SPECIAL_EXIT"sv, JobFlag::kSpecialExit},
    std::pair{"RESIZING"sv, JobFlag::kResizing},
    std::pair{"CONFIGURING"sv, JobFlag::kConfiguring},
    std::pair{"COMPLETING"sv, JobFlag::kCompleting},
    std::pair{"STOPPED"sv, JobFlag::kStopped},
    std::pair{"RECONFIG_FAIL"sv, JobFlag::kReconfigFail},
    std::pair{"POWER_UP_NODE"sv, JobFlag::kPowerUpNode},
    std::pair{"REVOKED"sv, JobFlag::kRevoked},
    std::pair{"REQUEUE_FED"sv, JobFlag::kRequeueFed},
    std::pair{"RESV_DEL_HOLD"sv, JobFlag::kResvDelHold},
    std::pair{"SIGNALING"sv, JobFlag::kSignaling},
    std::pair{"STAGE_OUT"sv, JobFlag::kStageOut},
    std::pair{"EXPEDITING"sv, JobFlag::kExpediting},
    std::pair{"OTHER"sv, JobFlag::kOther},
};
constexpr std::array kNodeStates = {
    std::pair{"IDLE"sv, NodeState::kIdle},     std::pair{"ALLOCATED"sv, NodeState::kAllocated},
    std::pair{"MIXED"sv, NodeState::kMixed},   std::pair{"DOWN"sv, NodeState::kDown},
    std::pair{"FUTURE"sv, NodeState::kFuture}, std::pair{"ERROR"sv, NodeState::kError},
};
constexpr std::array kNodeFlags = {
    std::pair{"DRAIN"sv, NodeFlag::kDrain},
    std::pair{"COMPLETING"sv, NodeFlag::kCompleting},
    std::pair{"NOT_RESPONDING"sv, NodeFlag::kNotResponding},
    std::pair{"FAIL"sv, NodeFlag::kFail},
    std::pair{"MAINTENANCE"sv, NodeFlag::kMaintenance},
    std::pair{"PLANNED"sv, NodeFlag::kPlanned},
    std::pair{"RESERVED"sv, NodeFlag::kReserved},
    std::pair{"UNDRAIN"sv, NodeFlag::kUndrain},
    std::pair{"DYNAMIC_NORM"sv, NodeFlag::kDynamicNorm},
    std::pair{"EXTERNAL"sv, NodeFlag::kExternal},
    std::pair{"INVALID_REG"sv, NodeFlag::kInvalidReg},
    std::pair{"INVALID"sv, NodeFlag::kInvalid},
    std::pair{"REBOOT_ISSUED"sv, NodeFlag::kRebooting},
    std::pair{"REBOOT_REQUESTED"sv, NodeFlag::kRebooting},
    std::pair{"POWERED_DOWN"sv, NodeFlag::kPoweredDown},
    std::pair{"POWERING_DOWN"sv, NodeFlag::kPoweringDown},
    std::pair{"POWERING_UP"sv, NodeFlag::kPoweringUp},
    std::pair{"BLOCKED"sv, NodeFlag::kBlocked},
    std::pair{"CLOUD"sv, NodeFlag::kCloud},
    std::pair{"OTHER"sv, NodeFlag::kOther},
};

template <class Table, class Value>
bool lookup(const Table& table, std::string_view word, Value& value) noexcept {
  for (const auto& [name, candidate] : table) {
    if (name == word) {
      value = candidate;
      return true;
    }
  }
  return false;
}

template <class Table, class Value>
std::string_view name_of(const Table& table, Value value) noexcept {
  for (const auto& [name, candidate] : table) {
    if (candidate == value) return name;
  }
  return "UNKNOWN";
}

// A word that is neither a base state nor a known flag sets kOther: it is seen, and never taken for a state.
template <class States, class State, class Flag, class StateTable, class FlagTable>
States parse(const StateTable& states, const FlagTable& flags, const std::vector<std::string_view>& words) noexcept {
  States parsed;
  for (const std::string_view word : words) {
    State state{};
    Flag flag{};
    if (word == "UNKNOWN") continue;
    if (lookup(states, word, state)) {
      if (parsed.base == State::kUnknown) parsed.base = state;
    } else {
      if (!lookup(flags, word, flag)) flag = Flag::kOther;
      parsed.flags |= static_cast<std::uint32_t>(flag);
    }
  }
  return parsed;
}

template <class States, class FlagTable>
std::string join(std::string_view base, const FlagTable& table, const States& states) {
  std::string text(base);
  std::uint32_t done = 0;
  for (const auto& [name, flag] : table) {
    if (!states.has(flag) || (done & static_cast<std::uint32_t>(flag)) != 0) continue;
    done |= static_cast<std::uint32_t>(flag);
    text += '+';
    text += name;
  }
  return text;
}

}  // namespace

std::string_view to_string(JobState state) noexcept {
  return name_of(kJobStates, state);
}

bool JobStates::ended() const noexcept {
  switch (base) {
    case JobState::kUnknown:
    case JobState::kPending:
    case JobState::kRunning:
    case JobState::kSuspended:
      return false;
    default:
      return !has(JobFlag::kRequeued) && !has(JobFlag::kRequeueHold) && !has(JobFlag::kSpecialExit);
  }
}

JobStates parse_job_states(const std::vector<std::string_view>& words) noexcept {
  return parse<JobStates, JobState, JobFlag>(kJobStates, kJobFlags, words);
}

std::string print(const JobStates& states) {
  return join(to_string(states.base), kJobFlags, states);
}

NodeStates parse_node_states(const std::vector<std::string_view>& words) noexcept {
  return parse<NodeStates, NodeState, NodeFlag>(kNodeStates, kNodeFlags, words);
}

std::string print(const NodeStates& states) {
  return join(name_of(kNodeStates, states.base), kNodeFlags, states);
}

}  // namespace bascule::slurm
