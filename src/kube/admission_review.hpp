// What the API server asks an admission webhook, and what it is told. Pure. Source: Kubernetes "Dynamic Admission
// Control", admission.k8s.io/v1; v1beta1 differs in the name of the version alone, which the answer repeats.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "json/value.hpp"

namespace bascule::kube {

enum class AdmissionOperation : std::uint8_t { kCreate, kUpdate, kDelete, kConnect };

// Texts and objects belong to the document it was read from.
struct AdmissionReview {
  std::string_view version;  // admission.k8s.io/v1
  std::string_view uid;
  std::string_view ns;
  std::string_view name;  // may be empty at creation
  AdmissionOperation operation = AdmissionOperation::kConnect;
  std::string_view group;
  std::string_view resource;
  std::string_view sub_resource;
  std::string_view user;
  std::vector<std::string_view> groups;
  bool dry_run = false;
  std::string_view propagation;             // of a DELETE: Background, Foreground, Orphan; empty: the kind's default
  const json::Value* object = nullptr;      // never nullptr at CREATE and UPDATE
  const json::Value* old_object = nullptr;  // never nullptr at UPDATE
};
// The error is a sentence for the caller.
std::expected<AdmissionReview, std::string> read_admission_review(const json::Value& document);

struct AdmissionVerdict {
  bool allowed = true;
  int code = 200;           // of the status when not allowed: 403, 422, 503 ...
  std::string reason = {};  // and its machine word: Forbidden, Invalid, ServiceUnavailable ...
  std::string message = {};
  json::Array patch = {};  // RFC 6902; empty: nothing to change
  std::vector<std::string> warnings = {};
};
// The AdmissionReview to send back.
json::Value admission_answer(const AdmissionReview& review, const AdmissionVerdict& verdict);

}  // namespace bascule::kube
