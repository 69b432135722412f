// Writes what claim_plan.hpp decided: claim, its allocation, and the pod's word of it; and takes claims away. Every
// step may be repeated: the name is the pod's own, and what stands already is used.
#pragma once

#include <expected>
#include <stop_token>
#include <string>

#include "base/async.hpp"
#include "bridge/claim_plan.hpp"
#include "kube/client.hpp"

namespace bascule::bridge {

class ClaimWriter final {
 public:
  ClaimWriter(kube::Client& kube, std::string bridge) : kube_(kube), bridge_(std::move(bridge)) {}

  // The pod's resourceVersion since (empty: it was not written); or why not.
  using Ensured = std::expected<std::string, std::string>;
  // The claim stands, is allocated and reserved for the pod, and the pod names it. Else it may be tried again a little
  // later. Throws as kube::Client does.
  Task<Ensured> ensure(PodPtr pod, WantedClaim wanted, std::stop_token stop);
  // This very claim, which its pod may not be using: its protection goes first, so that a death in between leaves one
  // that the next try deletes. None is fine. False: it serves other pods too, and is Kubernetes' to remove when these
  // are over. Throws kube::Conflict when it has changed since it was read.
  Task<bool> drop(ClaimPtr claim, std::stop_token stop);
  // The claim of a pod that is thought to have no node, unless the pod turns out to be bound. `uid` is the pod's.
  Task<> drop_unless_bound(NamespacedName pod, Uid uid, NamespacedName claim, std::stop_token stop);

 private:
  // False: this very claim is not there any more. With a resourceVersion a claim that has changed is a kube::Conflict.
  Task<bool> patch_claim(NamespacedName key, Uid uid, json::Object metadata, std::stop_token stop);
  // Why a claim of an earlier try that is of no use is still there.
  Task<std::string> replace(ClaimPtr claim, std::stop_token stop);
  Task<json::Value> create_or_get(const WantedClaim& wanted, std::stop_token stop);

  kube::Client& kube_;
  std::string bridge_;
};

}  // namespace bascule::bridge
