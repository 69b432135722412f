// When slurmctld takes a changed auth/slurm key. Every pod that is made has the new one, and workers keep the one they
// were made with: a slurmctld with another does not hear them, has them DOWN, and their jobs are lost. So no slurmctld
// is made anew while jobs run or may start, for whatever reason, and all others wait for it (builders/slurm_key.hpp).
// Between the question and the moment when slurmctld has the key minutes may pass, with a standby: hence nodes have to
// be drained. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "json/value.hpp"
#include "operator/api/types.hpp"
#include "operator/reconcile/nodes_stand.hpp"
#include "operator/reconcile/plan.hpp"

namespace bascule::op::reconcile {

// By the NodeSet's status. One that is not ready for a moment is there, with its jobs.
bool has_workers(const json::Value& node_set);

// nullopt: slurmctld has the key, or somebody said to lose jobs for it. `live` is its StatefulSet, which may be
// nullptr, `keys` are of now.
std::optional<KeyWait> key_wait(const Controller& controller, const json::Value* live, const KeyHashes& keys,
                                View& view);

// slurmctld must not take the key yet. `workers`: it has some.
bool holds_key(NodesStand stand, bool workers) noexcept;
// Takes out of a plan with `key_wait` what would have slurmctld take the key, and says why; false: nothing holds it up.
// `beside`: those of the Controllers beside it for which it is held.
bool hold_key(Plan& plan, NodesStand stand, const std::vector<std::string>& beside = {});

}  // namespace bascule::op::reconcile
