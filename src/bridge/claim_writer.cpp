#include "bridge/claim_writer.hpp"

#include "base/log.hpp"
#include "base/time.hpp"
#include "bridge/names.hpp"
#include "bridge/pod_patch.hpp"

namespace bascule::bridge {

namespace {

// How often a claim that others change at the same time is read and judged anew at once.
constexpr int kReads = 3;

}  // namespace

Task<json::Value> ClaimWriter::create_or_get(const WantedClaim& wanted, std::stop_token stop) {
  try {
    json::Value made = co_await kube_.create(kResourceClaims, wanted.key.ns, claim_object(wanted, bridge_), {}, stop);
    log::info("claim made", {{"claim", wanted.key}, {"pod", wanted.pod}, {"job", wanted.job}});
    co_return made;
  } catch (const kube::AlreadyExists&) {
    // An earlier try made it.
  }
  co_return co_await kube_.get(kResourceClaims, wanted.key, {}, stop);
}

Task<ClaimWriter::Ensured> ClaimWriter::ensure(PodPtr pod, WantedClaim wanted, std::stop_token stop) {
  json::Value object;
  bool gone = false;
  try {
    object = co_await create_or_get(wanted, stop);
  } catch (const kube::NotFound&) {
    gone = true;
  }
  if (gone) co_return std::unexpected("the claim went while it was looked at");
  json::Interner interner;
  const ClaimPtr claim = decode_claim(json::dump(object), interner);
  if (claim->pod != wanted.pod_uid || kube::value_or(claim->meta.annotations, names::kClaimedBy) != bridge_) {
    co_return std::unexpected("ResourceClaim " + wanted.key.str() + " is not this bridge's; delete it");
  }
  if (claim->meta.deleted) {
    // By somebody's hand: for a pod that is not bound nothing else takes the protection away.
    if (claim->meta.has_finalizer(kClaimProtection)) {
      co_await drop_unless_bound(wanted.pod, wanted.pod_uid, wanted.key, stop);
    }
    co_return std::unexpected("ResourceClaim " + wanted.key.str() + " of an earlier try is being deleted");
  }
  if (!stands_for(*claim, wanted)) co_return std::unexpected(co_await replace(claim, stop));
  if (!claim->meta.has_finalizer(kClaimProtection)) {
    const bool there =
        co_await patch_claim(wanted.key, claim->meta.uid, {{"finalizers", json::Array{kClaimProtection}}}, stop);
    co_return std::unexpected(there ? "ResourceClaim " + wanted.key.str() + " of an earlier try is protected first"
                                    : std::string("the claim went while it was looked at"));
  }
  const json::Array* reserved = json::array_at(object, {"status", "reservedFor"});
  if (!claim->allocated || reserved == nullptr || reserved->empty()) {
    json::Value patch = json::Object{{"metadata", json::Object{{"resourceVersion", claim->meta.resource_version}}},
                                     {"status", claim_status(wanted, print_rfc3339(kube_.loop().wall()))}};
    // An allocation may not be changed, its time neither.
    if (claim->allocated) patch.as_object()["status"].as_object().erase("allocation");
    bool changed = false;
    try {
      co_await kube_.patch(kResourceClaims, wanted.key, kube::PatchType::kMerge, std::move(patch), "status", {}, stop);
    } catch (const kube::Conflict&) {
      changed = true;
    } catch (const kube::NotFound&) {
      changed = true;
    }
    if (changed) co_return std::unexpected("ResourceClaim " + wanted.key.str() + " was changed by somebody else");
  }
  if (pod->extended_claim == wanted.key.name) co_return std::string();
  json::Object patch{{"status", json::Object{{"extendedResourceClaimStatus", pod_claim_status(wanted)}}}};
  std::optional<std::string> version = co_await patch_pod(kube_, pod, std::move(patch), "status", stop);
  if (version) co_return *std::move(version);
  co_await drop_unless_bound(wanted.pod, wanted.pod_uid, wanted.key, stop);
  co_return std::unexpected("the pod has gone");
}

Task<std::string> ClaimWriter::replace(ClaimPtr claim, std::stop_token stop) {
  const std::string name = "ResourceClaim " + claim->meta.key.str();
  bool dropped = false, changed = false;
  try {
    dropped = co_await drop(claim, stop);
  } catch (const kube::Conflict&) {
    changed = true;
  }
  if (changed) co_return name + " was changed by somebody else";
  co_return name + (dropped ? " of an earlier try is replaced" : " of an earlier try is used by another pod too");
}

Task<bool> ClaimWriter::patch_claim(NamespacedName key, Uid uid, json::Object metadata, std::stop_token stop) {
  metadata["uid"] = uid.str();
  const bool of_this_version = metadata.contains("resourceVersion");
  try {
    co_await kube_.patch(kResourceClaims, key, kube::PatchType::kStrategic,
                         json::Object{{"metadata", std::move(metadata)}}, {}, {}, stop);
    co_return true;
  } catch (const kube::NotFound&) {
  } catch (const kube::Conflict&) {
    if (of_this_version) throw;
  } catch (const kube::Invalid& error) {
    // A uid that differs is refused as a change of an immutable field; a finalizer of one that has been deleted as new.
    const std::string_view why = error.what();
    if (!why.contains("metadata.uid") && !why.contains("metadata.finalizers")) throw;
  }
  co_return false;
}

Task<bool> ClaimWriter::drop(ClaimPtr claim, std::stop_token stop) {
  // Without the protection Kubernetes would let go a claim that another pod still uses.
  if (serves_others(*claim)) co_return false;
  const NamespacedName key = claim->meta.key;
  json::Object unprotected{{"resourceVersion", claim->meta.resource_version},
                           {"$deleteFromPrimitiveList/finalizers", json::Array{kClaimProtection}}};
  const bool there = co_await patch_claim(key, claim->meta.uid, std::move(unprotected), stop);
  if (!there) co_return true;
  try {
    kube::DeleteOptions options;
    options.uid = claim->meta.uid;
    co_await kube_.remove(kResourceClaims, key, options, stop);
    log::info("claim removed", {{"claim", key}});
  } catch (const kube::NotFound&) {
  } catch (const kube::Conflict&) {  // another one of that name
  }
  co_return true;
}

Task<> ClaimWriter::drop_unless_bound(NamespacedName pod, Uid uid, NamespacedName claim, std::stop_token stop) {
  for (int tries = 1;; ++tries) {
    json::Interner interner;
    ClaimPtr read;
    try {
      read = decode_claim(json::dump(co_await kube_.get(kResourceClaims, claim, {}, stop)), interner);
    } catch (const kube::NotFound&) {
    }
    if (!read) co_return;
    const std::optional<json::Value> now = co_await read_pod(kube_, pod, uid, stop);
    if (now && is_bound(*now)) co_return;
    try {
      co_await drop(read, stop);
      co_return;
    } catch (const kube::Conflict&) {
      if (tries == kReads) throw;
    }
  }
}

}  // namespace bascule::bridge
