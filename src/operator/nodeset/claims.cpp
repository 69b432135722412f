#include "operator/nodeset/claims.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace bascule::op::nodeset {

namespace {

bool names_nodeset(const OwnerView& owner) {
  return owner.kind == OwnerView::Kind::kNodeSet;
}
bool names_pod(const OwnerView& owner, const std::string& name) {
  return owner.kind == OwnerView::Kind::kPod && owner.name == name;
}

}  // namespace

ClaimOwners wanted_owners(const Spec& spec, bool scaled_in) noexcept {
  const bool with_pod = spec.when_scaled == Retention::kDelete && scaled_in;
  return {with_pod, spec.when_deleted == Retention::kDelete && !with_pod};
}

std::optional<ClaimFix> fix_owners(const Spec& spec, const ClaimView& claim, const PodView& pod, bool scaled_in) {
  bool has_pod = false;
  bool has_nodeset = false;
  bool weak = false;      // ours, but not as controller
  bool conflict = false;  // somebody else is the controller
  for (const OwnerView& owner : claim.owners) {
    const bool ours = names_nodeset(owner) ? owner.uid == spec.uid : names_pod(owner, pod.name) && owner.uid == pod.uid;
    if ((names_nodeset(owner) || names_pod(owner, pod.name)) && !ours) return std::nullopt;  // of an earlier one: stale
    if (!ours) {
      conflict |= owner.controller;
      continue;
    }
    (names_nodeset(owner) ? has_nodeset : has_pod) = true;
    weak |= !owner.controller;
  }
  const bool retain_all = spec.when_scaled == Retention::kRetain && spec.when_deleted == Retention::kRetain;
  ClaimFix fix{{.claim = claim.name, .pod = pod.name, .pod_owner = {}}, conflict && !retain_all};
  ClaimOwners wanted = wanted_owners(spec, scaled_in);
  if (fix.conflict) wanted = {};
  if (!weak && wanted == ClaimOwners{has_pod, has_nodeset}) return std::nullopt;
  if (wanted.pod) fix.patch.pod_owner = pod.uid;
  fix.patch.nodeset_owner = wanted.nodeset;
  return fix;
}

std::optional<std::string> claim_blocks(const ClaimView& claim, const std::string& pod_name) {
  if (claim.deleting) return fmt::format("claim {} is being deleted", claim.name);
  const bool goes = !claim.owners.empty() && std::ranges::all_of(claim.owners, [&](const OwnerView& owner) {
    return names_pod(owner, pod_name);
  });
  if (goes) return fmt::format("claim {} belongs to an earlier pod {} and goes with it", claim.name, pod_name);
  return std::nullopt;
}

}  // namespace bascule::op::nodeset
