#include "kube/admission_review.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/base64.hpp"

namespace bascule::kube {

namespace {

constexpr std::array<std::string_view, 2> kVersions = {"admission.k8s.io/v1", "admission.k8s.io/v1beta1"};
constexpr std::array<std::pair<std::string_view, AdmissionOperation>, 4> kOperations = {{
    {"CREATE", AdmissionOperation::kCreate},
    {"UPDATE", AdmissionOperation::kUpdate},
    {"DELETE", AdmissionOperation::kDelete},
    {"CONNECT", AdmissionOperation::kConnect},
}};

const json::Value* object_at(const json::Value& request, std::string_view key) {
  const json::Value* value = json::find(request, {key});
  return value != nullptr && value->is_object() ? value : nullptr;
}

}  // namespace

std::expected<AdmissionReview, std::string> read_admission_review(const json::Value& document) {
  AdmissionReview review;
  review.version = json::string_at(document, {"apiVersion"});
  if (json::string_at(document, {"kind"}) != "AdmissionReview" ||
      std::ranges::find(kVersions, review.version) == kVersions.end()) {
    return std::unexpected("the body is not an AdmissionReview of admission.k8s.io/v1");
  }
  const json::Value* request = object_at(document, "request");
  if (request == nullptr) return std::unexpected("the AdmissionReview has no request");
  review.uid = json::string_at(*request, {"uid"});
  if (review.uid.empty()) return std::unexpected("the AdmissionReview's request has no uid");
  const std::string_view word = json::string_at(*request, {"operation"});
  const auto operation = std::ranges::find(kOperations, word, [](const auto& entry) { return entry.first; });
  if (operation == kOperations.end()) {
    return std::unexpected(fmt::format("the AdmissionReview's operation is '{:.20}'", word));
  }
  review.operation = operation->second;
  review.ns = json::string_at(*request, {"namespace"});
  review.name = json::string_at(*request, {"name"});
  review.group = json::string_at(*request, {"resource", "group"});
  review.resource = json::string_at(*request, {"resource", "resource"});
  review.sub_resource = json::string_at(*request, {"subResource"});
  review.dry_run = json::bool_at(*request, {"dryRun"});
  review.propagation = json::string_at(*request, {"options", "propagationPolicy"});
  review.user = json::string_at(*request, {"userInfo", "username"});
  if (const json::Array* groups = json::array_at(*request, {"userInfo", "groups"})) {
    for (const json::Value& group : *groups) {
      if (const auto* text = group.if_string()) review.groups.push_back(json::view(*text));
    }
  }
  review.object = object_at(*request, "object");
  review.old_object = object_at(*request, "oldObject");
  const bool update = review.operation == AdmissionOperation::kUpdate;
  if ((update || review.operation == AdmissionOperation::kCreate) && review.object == nullptr) {
    return std::unexpected("the AdmissionReview's request has no object");
  }
  if (update && review.old_object == nullptr) {
    return std::unexpected("the AdmissionReview's request is an UPDATE without oldObject");
  }
  return review;
}

json::Value admission_answer(const AdmissionReview& review, const AdmissionVerdict& verdict) {
  json::Object response{{"uid", review.uid}, {"allowed", verdict.allowed}};
  if (!verdict.allowed) {
    response["status"] = json::Object{
        {"status", "Failure"}, {"message", verdict.message}, {"reason", verdict.reason}, {"code", verdict.code}};
  } else if (!verdict.patch.empty()) {
    response["patchType"] = "JSONPatch";
    response["patch"] = base64_encode(json::dump(verdict.patch));
  }
  if (!verdict.warnings.empty()) {
    json::Array warnings;
    for (const std::string& warning : verdict.warnings) warnings.emplace_back(warning);
    response["warnings"] = std::move(warnings);
  }
  return json::Object{{"apiVersion", review.version}, {"kind", "AdmissionReview"}, {"response", std::move(response)}};
}

}  // namespace bascule::kube
