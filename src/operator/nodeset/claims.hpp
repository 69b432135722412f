// Who owns the claims of worker pods: by the retention policy a claim goes with its pod when the pod is scaled in, or
// with the NodeSet when that is deleted. A pod that is replaced, by an update or because it ended, keeps its claims.
#pragma once

#include <optional>
#include <string>

#include "operator/nodeset/actions.hpp"
#include "operator/nodeset/values.hpp"

namespace bascule::op::nodeset {

struct ClaimOwners {
  bool pod = false;
  bool nodeset = false;
  friend bool operator==(const ClaimOwners&, const ClaimOwners&) = default;
};
ClaimOwners wanted_owners(const Spec& spec, bool scaled_in) noexcept;

struct ClaimFix {
  PatchClaimOwners patch;
  bool conflict = false;  // another controller owns the claim: the policy is not followed
};
// nullopt: the owners are as they should be, or somebody else's matter.
std::optional<ClaimFix> fix_owners(const Spec& spec, const ClaimView& claim, const PodView& pod, bool scaled_in);

// Why a pod of this name must not be made on the claim: it is being deleted, or is about to be, with an earlier pod.
std::optional<std::string> claim_blocks(const ClaimView& claim, const std::string& pod_name);

}  // namespace bascule::op::nodeset
