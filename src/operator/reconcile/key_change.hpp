// When slurmctld takes a changed auth/slurm key. Every pod that is made has the new one, and busy workers keep the one
// they were made with: a slurmctld with another does not hear them, has them DOWN, and their jobs are lost. So no
// slurmctld is made anew while jobs run, for whatever reason. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "json/value.hpp"
#include "operator/api/types.hpp"

namespace bascule::op::reconcile {

// As its status says; also when that says nothing of its workers' Slurm nodes.
bool may_run_jobs(const json::Value& node_set);

// What is said while jobs hold it up; nullopt: slurmctld has the key, or somebody said to lose jobs for it. `live` is
// its StatefulSet, which may be nullptr, `hash` that of the key now.
std::optional<std::string> key_wait(const Controller& controller, const json::Value* live, std::string_view hash);

}  // namespace bascule::op::reconcile
