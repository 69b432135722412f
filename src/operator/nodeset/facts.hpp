// One pass over a NodeSet: what is known of each pod, computed once, and what every part of the plan says about it.
// Parts only ever add to a pod's role; what is done about it is decided in one place (pod_plan.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operator/nodeset/actions.hpp"
#include "operator/nodeset/order.hpp"
#include "operator/nodeset/values.hpp"

namespace bascule::op::nodeset {

// A pod whose Slurm node is missing for so long is really not registered, and not merely about to be.
inline constexpr Duration kAbsentSettles = std::chrono::seconds(60);
inline constexpr Duration kDrainLook = std::chrono::seconds(30);

enum class Registration : std::uint8_t {
  kUnknown,  // Slurm is not known, or the node is missing and it is too early to believe it
  kAbsent,
  kRegistered,
};

// Why a pod has to go. The word is written into the annotation pod-cordon-cause.
enum class Cause : std::uint8_t { kNone, kScaleIn, kUpdate, kReplace, kDelete };
std::string_view to_string(Cause cause) noexcept;

struct PodFacts {
  const PodView* pod = nullptr;
  bool going = false;  // terminating, or its deletion was sent
  std::string slurm_name;
  const OtherPod* holder = nullptr;  // another NodeSet's pod, whose the Slurm node of this name is: `node` is nullptr
  const SlurmNodeView* node = nullptr;
  Registration registration = Registration::kUnknown;
  const NodeView* kube_node = nullptr;
  bool drained_by_us = false;  // and not because a user cordoned the pod or its node
  bool drain_sent = false;     // not seen back yet
  std::optional<WallTime> deadline;
  bool hook_of_another = false;  // the node is DOWN by a preStop hook that was not this pod's
  bool taken_again = false;      // of a drain or DOWN of ours nothing is left but slurmctld's refusal, which is over
  WallTime down_since{};  // healthy behind a Slurm node that is DOWN for one reason, as long as we have seen it so

  // Filled by the parts of the plan.
  Cause cause = Cause::kNone;
  std::string why;             // a sentence, for the drain reason
  bool unbounded = false;      // may be drained however many serve: the user asked for this one
  bool extra = false;          // it stays where none is asked for
  bool replace_ended = false;  // the pod has ended and its back-off is over
  bool waits_backoff = false;

  bool healthy() const noexcept { return pod->running_and_ready() && !going; }
  bool condemned() const noexcept { return cause != Cause::kNone; }
  // Works for Slurm, as far as this operator is concerned.
  bool serves() const noexcept;
  // Slurm gives it no job, and it has none: DOWN, or its registration is refused.
  bool is_idle() const noexcept;
  bool user_cordoned() const noexcept { return pod->cordoned() && !pod->cordon_cause; }
  bool node_cordoned() const noexcept { return kube_node != nullptr && kube_node->unschedulable; }
  Ranked ranked() const noexcept { return {pod, deadline}; }
  void condemn(Cause because, std::string sentence) {
    if (condemned()) return;
    cause = because;
    why = std::move(sentence);
  }
};

struct Pass {
  const State& state;
  Memory& memory;
  WallTime now;
  std::string update_hash;
  std::vector<PodFacts> pods;  // ours
  std::int64_t desired = 0;    // pods there should be
  Plan plan;

  const Spec& spec() const noexcept { return state.spec; }
  bool is_available(const PodFacts& facts) const noexcept;
  std::int64_t max_unavailable() const noexcept;
  // How many more serving pods may be taken out of service, besides those that are unbounded.
  std::int64_t allowance() const noexcept;
};

// Why a pod of ours cannot be Slurm's node of this name.
std::string held_by(const OtherPod& holder, const std::string& slurm_name);

// max_unavailable of `total`: a percentage is rounded up; 1 when it makes no sense.
std::int64_t scaled(const IntOrPercent& value, std::int64_t total) noexcept;

// Takes the pods that are ours (adopting and releasing), and what is known of them.
void gather(Pass& pass);

}  // namespace bascule::op::nodeset
