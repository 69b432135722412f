// Revisions of a NodeSet's template: which one is wanted, which one was before, and their history.
// A revision's identity is its hash; names are <NodeSet>-<hash>. Source: Kubernetes' ControllerRevision history.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "operator/nodeset/actions.hpp"
#include "operator/nodeset/values.hpp"

namespace bascule::op::nodeset {

// As Kubernetes hashes revisions: FNV-1 32 bit over the text and the collision count, in an alphabet without words.
std::string revision_hash(std::string_view data, std::optional<std::int32_t> collisions);
std::string revision_name(std::string_view nodeset, std::string_view hash);

struct Revisions {
  std::string update_hash;   // what new pods get
  std::string current_hash;  // what status knew before
  std::optional<std::int32_t> collisions;
};

// Adopts orphans, creates or renumbers the update revision, truncates history. A create that finds its name taken by
// other data means a collision: the driver raises Status::collisions and plans again.
Revisions plan_revisions(const State& state, Plan& plan);

}  // namespace bascule::op::nodeset
