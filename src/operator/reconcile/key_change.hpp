// When slurmctld takes a changed auth/slurm key. Every pod that is made has the new one, and busy workers keep the one
// they were made with: a slurmctld with another does not hear them, has them DOWN, and their jobs are lost. So no
// slurmctld is made anew while jobs run, for whatever reason, and all others wait for it (builders/slurm_key.hpp).
// Pure.
#pragma once

#include <optional>
#include <string_view>

#include "json/value.hpp"
#include "operator/api/types.hpp"
#include "operator/reconcile/plan.hpp"

namespace bascule::op::reconcile {

// As the NodeSet's status says, which may say nothing of its workers' Slurm nodes.
Jobs jobs_of(const json::Value& node_set);
bool has_workers(const json::Value& node_set);

// nullopt: slurmctld has the key, or somebody said to lose jobs for it. `live` is its StatefulSet, which may be
// nullptr, `hash` that of the key now.
std::optional<KeyWait> key_wait(const Controller& controller, const json::Value* live, std::string_view hash);

// Takes out of a plan with `key_wait` what would have slurmctld take the key, and says why; false: nothing holds it up.
bool hold_key(Plan& plan, Jobs jobs);

}  // namespace bascule::op::reconcile
