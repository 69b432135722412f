// Which slurmctld pod of a Controller serves, as the label by which its Service finds it. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "json/value.hpp"
#include "operator/api/types.hpp"

namespace bascule::op::reconcile {

struct CtldPod {
  std::string name;
  std::string uid;
  bool active = false;                  // carries the label
  std::optional<bool> serves = {};      // by its own word; nullopt: not known
  std::optional<std::string> url = {};  // where it is asked for it
  bool runs = false;                    // its slurmctld is a running container
};
struct LabelChange {
  std::string pod;
  std::string uid;
  bool active = false;  // set it, or take it away
};

// Where slurmctld in this pod says whether it serves: a standby answers /readyz with an error, while
// Slurm's ping calls it up. nullopt: it has no address yet, or speaks no HTTP, by its probes.
std::optional<std::string> ready_url(const Controller& controller, const json::Value& pod);
bool slurmctld_runs(const json::Value& pod);

// `pods` are those that exist, by ordinal. Their own word counts; where none has one, `answering` does: the host names
// of the slurmctlds that answer Slurm's ping; nullopt: not known. Of several that answer the first of the configuration
// serves: a backup gives back when its elder returns. When none serves, the first of the configuration is the one, if
// it runs or speaks at all: it is no standby, and about to take over from one that no longer says it serves. Else all
// stays, and when no pod carries the label it waits for the first, since without it nobody ever finds out who answers.
// A standby that never served gets it in no case: whom it answers "standby" tries again after half of Slurm's
// SlurmctldTimeout, a minute; whom nobody answers, after a second (slurm_send_recv_controller_msg).
std::vector<LabelChange> plan_active_label(const Controller& controller, const std::vector<CtldPod>& pods,
                                           const std::optional<std::vector<std::string>>& answering);

}  // namespace bascule::op::reconcile
