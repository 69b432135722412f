// One pass over a NodeSet: performs a plan and writes the status. What the process remembers of the NodeSet beside the
// plan's memory is in `Entry`; losing it costs calls, never correctness.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "base/async.hpp"
#include "operator/nodeset/driver_state.hpp"
#include "operator/nodeset/perform.hpp"

namespace bascule::op::nodeset {

struct Entry {
  Uid uid;
  Memory memory;
  Duration ahead{};  // of civil time over the loop's, for which the times of `memory` are
  // Slurm nodes written to: not again before the mirror has looked since.
  std::map<std::string, TimePoint> slurm_writes;
  // What was sent about a pod, or about the NodeSet (no name), and the version all of it was decided on: not again on
  // the same version.
  struct Sent {
    std::string version;
    std::set<std::string> words;
  };
  std::map<std::string, Sent> sent;
  std::optional<std::int32_t> collisions;  // not in the status yet
  std::optional<TimePoint> unknown_since;  // Slurm
  std::optional<TimePoint> condition_at;
  std::string described;  // the pod whose conditions were written last
  std::string told;       // the last fault that became an event
  std::uint32_t failures = 0;
  std::string not_done;             // an action that failed, and why
  std::uint32_t failed_passes = 0;  // since all was done
  std::vector<std::string> waits;
};

class DriverPass final {
 public:
  DriverPass(const NodeSetDriver::Parts& parts, const NodeSetDriver::Options& options, Reading& now, Entry& entry);

  // Performs everything but the status.
  Task<> perform(const Plan& plan, std::stop_token stop);
  Task<> write_status(const Plan& plan, std::stop_token stop);
  void tell(const Plan& plan) const;

  bool failed() const noexcept { return failed_; }
  bool again() const noexcept { return again_; }  // decide anew soon: what it was decided on has changed
  bool wrote_slurm() const noexcept { return wrote_slurm_; }
  bool held_back() const noexcept { return held_back_; }  // something waits for the mirror's next look

 private:
  using Actions = std::vector<const Action*>;

  // True when it was done, or need not be.
  Task<bool> act(Action action, std::stop_token stop);
  Task<> act_in_order(Actions actions, std::stop_token stop);
  Task<> act_in_order_when_free(Actions actions, std::stop_token stop);
  Task<> act_in_groups(Actions actions, std::stop_token stop);
  Task<> create_pods(Actions actions, std::stop_token stop);
  Task<> describe_pods(Actions actions, std::stop_token stop);
  Task<> describe_when_free(const Action& action, TimePoint over, std::stop_token stop);
  void report(const Action& action, const Performed& result);
  void tell_done(const Action& action) const;
  void tell_failed(const Action& action, const std::string& why) const;
  std::string subject_of(const Action& action) const;
  bool lacks_claim(const CreatePod& pod) const;
  // A pod (empty: the NodeSet) and its version that something is decided on.
  struct Ground {
    std::string object;
    std::string version;
  };
  std::optional<Ground> ground_of(const Action& action) const;
  bool was_sent(const Ground& ground, const std::string& words) const;
  void note_sent(const Ground& ground, std::string words);
  bool is_held_back(const Action& action) const;
  bool may_act() const { return !options_.may_act || options_.may_act(); }
  void event(kube::EventType type, std::string_view reason, std::string_view action, std::string note,
             const kube::ObjectReference& related = {}) const;
  kube::ObjectReference pod_at(const std::string& name) const;
  kube::ObjectReference claim_at(const std::string& name) const;
  kube::ObjectReference related_to(const Action& action) const;
  std::optional<Condition> ready_condition(const Plan& plan, const Status& status);

  const NodeSetDriver::Parts& parts_;
  const NodeSetDriver::Options& options_;
  Loop& loop_;
  Reading& now_;
  Entry& entry_;
  Performer performer_;
  Semaphore at_once_;
  std::map<std::string, std::string> pods_by_slurm_name_;
  bool failed_ = false;
  std::string not_done_;  // the first action that failed, and why
  std::set<std::string> unmade_claims_;
  bool again_ = false;
  bool wrote_slurm_ = false;
  bool held_back_ = false;
  std::size_t pods_made_or_deleted_ = 0;  // by the plan
  std::size_t claims_changed_ = 0;        // likewise
};

}  // namespace bascule::op::nodeset
