// When slurmctld takes a changed auth/slurm key. Every pod that is made has the new one, and workers keep the one they
// were made with: a slurmctld with another does not hear them, has them DOWN, and their jobs are lost. So no slurmctld
// is made anew while jobs run or may start, for whatever reason, and all others wait for it (builders/slurm_key.hpp).
// Between the question and the moment when slurmctld has the key minutes may pass, with a standby: hence nodes have to
// be drained. Pure.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "json/value.hpp"
#include "operator/api/types.hpp"
#include "operator/reconcile/nodes_now.hpp"
#include "operator/reconcile/plan.hpp"

namespace bascule::op::reconcile {

// By the NodeSet's status: some are ready.
bool has_workers(const json::Value& node_set);

// nullopt: slurmctld has the key, or somebody said to lose jobs for it. `live` is its StatefulSet, which may be
// nullptr, `keys` are of now.
std::optional<KeyWait> key_wait(const Controller& controller, const json::Value* live, const KeyHashes& keys,
                                const std::vector<const json::Value*>& node_sets);

// How the nodes of the NodeSets stand.
enum class NodesStand : std::uint8_t {
  kAsked,    // slurmctld has not answered yet
  kUnknown,  // it does not answer
  kOpen,     // jobs run on some or may start there
  kClear,
};
// `features`: each NodeSet's, which its nodes have and no others. nullopt: slurmctld did not answer.
NodesStand stand_of(const std::optional<NodesNow>& now, const std::set<std::string>& features);

// Takes out of a plan with `key_wait` what would have slurmctld take the key, and says why; false: nothing holds it up.
bool hold_key(Plan& plan, NodesStand stand);

}  // namespace bascule::op::reconcile
