// What the bridge says to a pod that is created or changed. Pure: a review and what is known of its namespace go in,
// a decision comes out. Source: Kubernetes "Dynamic Admission Control", admission.k8s.io/v1.
//
// A pod is handled when its namespace is managed or it names our scheduler. Mirror pods never are: kubelet has started
// them already. Pods of DaemonSets are only when they name our scheduler: their place is not for Slurm to choose.
// Invariants: a pod that is not handled passes untouched; an update is refused only for what it changes, so that a pod
// let in earlier, or while the webhook was away, can still be updated and deleted.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "bridge/config.hpp"
#include "json/value.hpp"

namespace bascule::bridge {

enum class Operation : std::uint8_t { kCreate, kUpdate, kOther };

// Of an AdmissionReview. Texts and objects belong to the document it was read from.
struct Review {
  std::string_view uid;
  std::string_view ns;
  Operation operation = Operation::kOther;
  bool pods = false;  // about pods, not some other resource
  std::string_view sub_resource;
  std::string_view user;
  std::vector<std::string_view> groups;
  const json::Value* object = nullptr;
  const json::Value* old_object = nullptr;

  std::string pod() const;  // "pod ns/name"
};
// The error is a sentence for the caller: not an AdmissionReview of v1, or parts missing.
std::expected<Review, std::string> read_review(const json::Value& document);

// Whether the review's namespace is managed. kUnknown: a selector is configured and the labels are not known.
enum class Managed : std::uint8_t { kNo, kYes, kUnknown };
// True when the decision hangs on the labels of the namespace.
bool needs_namespace(const Config& config, const Review& review);
Managed managed(const Config& config, std::string_view ns, const json::Object* labels);
bool matches(const LabelSelector& selector, const json::Object& labels);

struct Decision {
  bool allowed = true;
  int code = 200;       // of the status when not allowed: 403, or 503 when it may be tried again
  std::string message;  // all faults, one sentence each
  json::Array patch;    // RFC 6902; empty: nothing to change
  std::vector<std::string> warnings;
};
Decision mutate(const Config& config, const Review& review, Managed managed);
Decision validate(const Config& config, const Review& review, Managed managed);

// The AdmissionReview to send back.
json::Value answer(const Review& review, const Decision& decision);

}  // namespace bascule::bridge
