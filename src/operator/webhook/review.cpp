#include "operator/webhook/review.hpp"

#include <fmt/format.h>

namespace bascule::op {

namespace {

// Bound what an answer says: a list may have thousands of wrong items.
constexpr std::size_t kMaxFaults = 20;
constexpr std::size_t kMaxWarnings = 20;

bool is_examined(const kube::AdmissionReview& review) {
  const bool written =
      review.operation == kube::AdmissionOperation::kCreate || review.operation == kube::AdmissionOperation::kUpdate;
  return written && review.sub_resource.empty();
}

const json::Value* before(const kube::AdmissionReview& review) {
  return review.operation == kube::AdmissionOperation::kUpdate ? review.old_object : nullptr;
}

std::string whose(Kind kind, const kube::AdmissionReview& review, const json::Value& object) {
  std::string_view name = json::string_at(object, {"metadata", "name"});
  if (name.empty()) name = json::string_at(object, {"metadata", "generateName"});
  return fmt::format("{} {}/{}: ", to_string(kind), review.ns, name);
}

std::string all_of(Kind kind, const kube::AdmissionReview& review, const std::vector<Finding>& faults) {
  std::string message = whose(kind, review, *review.object);
  for (std::size_t i = 0; i < faults.size(); ++i) {
    if (i == kMaxFaults) {
      message += fmt::format("; and {} more", faults.size() - i);
      break;
    }
    message += (i == 0 ? "" : "; ") + faults[i].text();
  }
  return message;
}

bool is_deletion(const kube::AdmissionReview& review) {
  return review.operation == kube::AdmissionOperation::kDelete && review.sub_resource.empty() &&
         review.old_object != nullptr;
}

kube::AdmissionVerdict judge_deletion(Kind kind, const kube::AdmissionReview& review) {
  kube::AdmissionVerdict verdict;
  const std::optional<std::string> fault = deletion_fault(kind, *review.old_object, review.propagation);
  if (!fault) return verdict;
  verdict.allowed = false;
  verdict.code = 403;
  verdict.reason = "Forbidden";
  verdict.message = whose(kind, review, *review.old_object) + *fault;
  return verdict;
}

}  // namespace

std::optional<Kind> validated_kind(std::string_view path) noexcept {
  return path.starts_with(kValidatePrefix) ? kind_of(path.substr(kValidatePrefix.size())) : std::nullopt;
}

Wanted wanted(Kind kind, const kube::AdmissionReview& review) {
  if (!is_examined(review) || is_untouched(*review.object, before(review))) return {};
  return wanted(kind, *review.object);
}

kube::AdmissionVerdict validate(Kind kind, const kube::AdmissionReview& review, const Known& known) {
  kube::AdmissionVerdict verdict;
  if (is_deletion(review)) return judge_deletion(kind, review);
  if (!is_examined(review)) return verdict;
  const Findings findings = examine(kind, *review.object, before(review), known);
  for (const Finding& warning : findings.warnings) {
    if (verdict.warnings.size() == kMaxWarnings) break;
    verdict.warnings.push_back(warning.text());
  }
  if (findings.faults.empty()) return verdict;
  verdict.allowed = false;
  verdict.code = 422;
  verdict.reason = "Invalid";
  verdict.message = all_of(kind, review, findings.faults);
  return verdict;
}

}  // namespace bascule::op
