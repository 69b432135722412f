// Whether slurmctld runs the configuration that was written for it. With inplaceReconfigure it keeps running when it
// cannot take a new one, and nobody but a sidecar's log would know. The configuration carries its digest as a word of
// SlurmctldParameters, which slurmctld says back (Slurm 26.05 and up).
//
// Asked only until the answer is yes: at rest nobody is asked.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>

#include "base/task.hpp"
#include "operator/reconcile/caches.hpp"
#include "operator/reconcile/plan.hpp"

namespace bascule::op::reconcile {

enum class RunningConfig : std::uint8_t {
  kUnknown,  // slurmctld does not answer
  kUntold,   // this Slurm does not tell
  kOther,
  kWanted,
};

// --- pure ----------------------------------------------------------------------------------------------------------

struct ConfigMemory {
  std::string digest;  // of what is wanted
  WallTime since{};    // wanted since, as far as this process knows
  bool settled = false;
};
struct ConfigVerdict {
  bool refused = false;           // to be said
  std::optional<Duration> again;  // ask again then
};
// kubelet brings a new configuration within two minutes and then it is tried: only what was not taken after three is
// said. What was `said_before` holds until slurmctld runs what is wanted, whoever forgot in between.
ConfigVerdict judge_config(ConfigMemory& memory, std::string_view wanted, RunningConfig running, bool said_before,
                           WallTime now);

// --- driver --------------------------------------------------------------------------------------------------------

class ConfigWatch final {
 public:
  // nullptr: never known.
  using Ask = std::function<Task<RunningConfig>(NamespacedName controller, std::string digest, std::stop_token stop)>;
  explicit ConfigWatch(Ask ask) : ask_(std::move(ask)) {}

  // Adds the fault to the plan of a Controller. How soon to look again; nullopt: when woken.
  Task<std::optional<Duration>> look(ObjectPtr controller, Plan& plan, WallTime now, std::stop_token stop);
  void forget(const NamespacedName& controller) { memory_.erase(controller); }

 private:
  Ask ask_;
  std::map<NamespacedName, ConfigMemory> memory_;
};

}  // namespace bascule::op::reconcile
