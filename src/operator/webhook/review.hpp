// The admission of slinky.slurm.net's resources and of the bindings of worker pods, from the body of a review to the
// body of its answer, on slurm-operator's paths. Pure: what must be looked up is said first, then given.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "kube/admission_review.hpp"
#include "operator/webhook/rules.hpp"

namespace bascule::op {

inline constexpr std::string_view kValidatePrefix = "/validate-slinky-slurm-net-v1beta1-";  // + kind, lower case
inline constexpr std::string_view kBindingPath = "/mutate--v1-binding";

// Of a path; nullopt: none of ours validates there.
std::optional<Kind> validated_kind(std::string_view path) noexcept;

// What to look up for a review on a validating path; nothing for reviews that pass anyhow.
Wanted wanted(Kind kind, const kube::AdmissionReview& review);
kube::AdmissionVerdict validate(Kind kind, const kube::AdmissionReview& review, const Known& known);

}  // namespace bascule::op
