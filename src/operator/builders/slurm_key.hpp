// Which auth/slurm key the daemons of a cluster are made for. slurmctld takes a changed one when no jobs run
// (reconcile/ key_change.hpp). Until then nobody is made anew for it: whoever has another key than slurmctld is not
// heard by it. Pure.
#pragma once

#include <string>
#include <string_view>

#include "json/value.hpp"
#include "operator/api/types.hpp"

namespace bascule::op {

// The hash of the key that slurmctld's or slurmdbd's StatefulSet was made for; empty: there is none, or slurm-operator
// made it, whose hash may be made in another way. `stateful_set` may be nullptr.
std::string_view key_made_for(const json::Value* stateful_set);
// Where its pods have the key from; empty: nowhere.
KeyRef key_mounted(const json::Value& stateful_set);

struct KeyInUse {
  KeyRef ref;  // where it is mounted from: spec.slurmKeyRef may name another one already
  std::string hash;
};
// `stateful_set`: of slurmctld, may be nullptr. `hash`: of the key as its Secret is now.
KeyInUse key_in_use(const Controller& controller, const json::Value* stateful_set, std::string_view hash);

}  // namespace bascule::op
