// What the bridge says to a pod that is created or changed. Pure: a review and what is known of its namespace go in,
// a decision comes out. Source: Kubernetes "Dynamic Admission Control", admission.k8s.io/v1.
//
// A pod is handled when its namespace is managed or it names our scheduler. Mirror pods that a kubelet makes never are:
// it has started them already. Pods of DaemonSets are only when they name our scheduler: their place is not for Slurm
// to choose. Invariants: a pod that is not handled passes untouched; an update is refused only for what it changes, so
// that a pod let in earlier, or while the webhook was away, can still be updated and deleted.
#pragma once

#include <cstdint>
#include <string_view>

#include "bridge/config.hpp"
#include "json/value.hpp"
#include "kube/admission_review.hpp"

namespace bascule::bridge {

using Review = kube::AdmissionReview;
using Verdict = kube::AdmissionVerdict;

// Whether the review's namespace is managed. kUnknown: a selector is configured and the labels are not known.
enum class Managed : std::uint8_t { kNo, kYes, kUnknown };
// True when the decision hangs on the labels of the namespace.
bool needs_namespace(const Config& config, const Review& review);
Managed managed(const Config& config, std::string_view ns, const json::Object* labels);
bool matches(const LabelSelector& selector, const json::Object& labels);

// A refusal names all faults, one sentence each; its code is 403, or 503 when it may be tried again.
Verdict mutate(const Config& config, const Review& review, Managed by_namespace);
Verdict validate(const Config& config, const Review& review, Managed by_namespace);

}  // namespace bascule::bridge
