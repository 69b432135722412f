#include "bridge/admission_review.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/base64.hpp"
#include "bridge/admission_rules.hpp"
#include "bridge/names.hpp"

namespace bascule::bridge {

namespace {

// Bounds what a refusal may say: every sentence is about a field, and a pod may have thousands of wrong ones.
constexpr std::size_t kMaxSentences = 20;
constexpr std::string_view kSuperusers = "system:masters";  // the API server lets this group do anything
constexpr std::string_view kDefaultScheduler = "default-scheduler";
constexpr std::string_view kMirror = "kubernetes.io/config.mirror";

std::string_view scheduler_of(const json::Value& pod) {
  return json::string_at(pod, {"spec", "schedulerName"}, kDefaultScheduler);
}

bool is_mirror(const json::Value& pod) {
  return json::find(pod, {"metadata", "annotations", kMirror}) != nullptr;
}

bool is_of_daemon_set(const json::Value& pod) {
  const json::Array* owners = json::array_at(pod, {"metadata", "ownerReferences"});
  return owners != nullptr && std::ranges::any_of(*owners, [](const json::Value& owner) {
           return json::bool_at(owner, {"controller"}) && json::string_at(owner, {"kind"}) == "DaemonSet" &&
                  json::string_at(owner, {"apiVersion"}).starts_with("apps/");
         });
}

// What the pod alone says: handled, not handled, or (unknown) as its namespace is.
Managed by_pod(const Config& config, const json::Value& pod) {
  if (is_mirror(pod)) return Managed::kNo;
  if (scheduler_of(pod) == config.scheduler_name) return Managed::kYes;
  return is_of_daemon_set(pod) ? Managed::kNo : Managed::kUnknown;
}

bool concerns_us(const Review& review) {
  if (!review.pods || review.object == nullptr || review.operation == Operation::kOther) return false;
  return review.sub_resource.empty() || review.sub_resource == "resize";
}

Managed handled(const Config& config, const Review& review, Managed by_namespace) {
  const Managed own = by_pod(config, *review.object);
  return own == Managed::kUnknown ? by_namespace : own;
}

bool is_trusted(const Config& config, const Review& review) {
  if (std::ranges::find(review.groups, kSuperusers) != review.groups.end()) return true;
  return std::ranges::any_of(config.trusted_users, [&](std::string_view pattern) {
    if (pattern.ends_with('*')) return review.user.starts_with(pattern.substr(0, pattern.size() - 1));
    return review.user == pattern;
  });
}

Decision refuse(const Review& review, std::vector<std::string> sentences, int code = 403) {
  Decision decision{.allowed = false, .code = code, .message = review.pod() + ": ", .patch = {}, .warnings = {}};
  for (std::size_t i = 0; i < sentences.size(); ++i) {
    if (i == kMaxSentences) {
      decision.message += fmt::format("; and {} more", sentences.size() - i);
      break;
    }
    decision.message += (i == 0 ? "" : "; ") + sentences[i];
  }
  return decision;
}

Decision refuse_unknown(const Review& review) {
  return refuse(
      review,
      {fmt::format("the labels of namespace {} cannot be read at the moment, so it is not known whether Slurm "
                   "places its pods; try again",
                   review.ns)},
      503);
}

bool tolerates_our_taint(const json::Value& toleration, std::string_view scheduler) {
  // tolerationSeconds would let the pod be evicted after all.
  if (json::find(toleration, {"tolerationSeconds"}) != nullptr) return false;
  const std::string_view effect = json::string_at(toleration, {"effect"});
  if (!effect.empty() && effect != "NoExecute") return false;
  const std::string_view key = json::string_at(toleration, {"key"});
  if (json::string_at(toleration, {"operator"}, "Equal") == "Exists") {
    return key.empty() || key == names::kManagedNodeTaint;
  }
  return key == names::kManagedNodeTaint && json::string_at(toleration, {"value"}) == scheduler;
}

void add_toleration(const Config& config, const json::Value& pod, json::Array& patch) {
  const json::Array* list = json::array_at(pod, {"spec", "tolerations"});
  if (list != nullptr && std::ranges::any_of(*list, [&](const json::Value& item) {
        return tolerates_our_taint(item, config.scheduler_name);
      })) {
    return;
  }
  json::Value toleration = json::Object{{"key", names::kManagedNodeTaint},
                                        {"operator", "Equal"},
                                        {"value", config.scheduler_name},
                                        {"effect", "NoExecute"}};
  if (list == nullptr) {
    patch.push_back(
        json::Object{{"op", "add"}, {"path", "/spec/tolerations"}, {"value", json::Array{std::move(toleration)}}});
  } else {
    patch.push_back(json::Object{{"op", "add"}, {"path", "/spec/tolerations/-"}, {"value", std::move(toleration)}});
  }
}

Operation operation_of(std::string_view word) {
  if (word == "CREATE") return Operation::kCreate;
  return word == "UPDATE" ? Operation::kUpdate : Operation::kOther;
}

}  // namespace

std::string Review::pod() const {
  std::string_view name = object == nullptr ? std::string_view{} : json::string_at(*object, {"metadata", "name"});
  if (name.empty() && object != nullptr) name = json::string_at(*object, {"metadata", "generateName"});
  return fmt::format("pod {}/{}", ns, name);
}

std::expected<Review, std::string> read_review(const json::Value& document) {
  const std::string_view version = json::string_at(document, {"apiVersion"});
  if (json::string_at(document, {"kind"}) != "AdmissionReview" || version != "admission.k8s.io/v1") {
    return std::unexpected("the body is not an AdmissionReview of admission.k8s.io/v1");
  }
  const json::Value* request = json::find(document, {"request"});
  if (request == nullptr || !request->is_object()) return std::unexpected("the AdmissionReview has no request");
  Review review;
  review.uid = json::string_at(*request, {"uid"});
  if (review.uid.empty()) return std::unexpected("the AdmissionReview's request has no uid");
  review.ns = json::string_at(*request, {"namespace"});
  review.operation = operation_of(json::string_at(*request, {"operation"}));
  review.pods = json::string_at(*request, {"resource", "group"}).empty() &&
                json::string_at(*request, {"resource", "resource"}) == "pods";
  review.sub_resource = json::string_at(*request, {"subResource"});
  review.user = json::string_at(*request, {"userInfo", "username"});
  if (const json::Array* groups = json::array_at(*request, {"userInfo", "groups"})) {
    for (const json::Value& group : *groups) {
      if (const auto* text = group.if_string()) review.groups.push_back(json::view(*text));
    }
  }
  const auto object_at = [&](std::string_view key) {
    const json::Value* value = json::find(*request, {key});
    return value != nullptr && value->is_object() ? value : nullptr;
  };
  review.object = object_at("object");
  review.old_object = object_at("oldObject");
  if (review.pods && review.operation != Operation::kOther && review.object == nullptr) {
    return std::unexpected("the AdmissionReview's request has no object");
  }
  if (review.pods && review.operation == Operation::kUpdate && review.old_object == nullptr) {
    return std::unexpected("the AdmissionReview's request is an UPDATE without oldObject");
  }
  return review;
}

bool matches(const LabelSelector& selector, const json::Object& labels) {
  return std::ranges::all_of(selector.requirements, [&](const LabelRequirement& requirement) {
    const json::Value* found = labels.if_contains(requirement.key);
    const auto* text = found == nullptr ? nullptr : found->if_string();
    if (requirement.op == "Exists") return found != nullptr;
    if (requirement.op == "DoesNotExist") return found == nullptr;
    const bool in =
        text != nullptr && std::ranges::find(requirement.values, json::view(*text)) != requirement.values.end();
    return requirement.op == "NotIn" ? !in : in;
  });
}

Managed managed(const Config& config, std::string_view ns, const json::Object* labels) {
  if (config.managed_namespace_selector) {
    if (labels == nullptr) return Managed::kUnknown;
    return matches(*config.managed_namespace_selector, *labels) ? Managed::kYes : Managed::kNo;
  }
  const auto& list = config.managed_namespaces;
  return std::ranges::find(list, ns) != list.end() ? Managed::kYes : Managed::kNo;
}

bool needs_namespace(const Config& config, const Review& review) {
  return config.managed_namespace_selector && concerns_us(review) &&
         by_pod(config, *review.object) == Managed::kUnknown;
}

Decision mutate(const Config& config, const Review& review, Managed by_namespace) {
  // Scheduler name and node are fixed at creation: changing them later would make every update fail.
  if (!concerns_us(review) || review.operation != Operation::kCreate || !review.sub_resource.empty()) return {};
  const Managed state = handled(config, review, by_namespace);
  if (state == Managed::kNo) return {};
  if (state == Managed::kUnknown) return refuse_unknown(review);

  Decision decision;
  const json::Value& pod = *review.object;
  if (json::object_at(pod, {"spec"}) == nullptr) return decision;  // the API server will refuse it
  if (json::find(pod, {"spec", "nodeName"}) != nullptr && !json::string_at(pod, {"spec", "nodeName"}).empty()) {
    decision.patch.push_back(json::Object{{"op", "remove"}, {"path", "/spec/nodeName"}});
  }
  std::string_view scheduler = scheduler_of(pod);
  if (scheduler.empty() || scheduler == kDefaultScheduler) {
    scheduler = config.scheduler_name;
    decision.patch.push_back(
        json::Object{{"op", "add"}, {"path", "/spec/schedulerName"}, {"value", config.scheduler_name}});
  }
  if (scheduler == config.scheduler_name) add_toleration(config, pod, decision.patch);
  return decision;
}

Decision validate(const Config& config, const Review& review, Managed by_namespace) {
  if (!concerns_us(review)) return {};
  const Managed state = handled(config, review, by_namespace);
  if (state == Managed::kNo) return {};
  if (state == Managed::kUnknown) return refuse_unknown(review);

  const json::Value& pod = *review.object;
  if (review.sub_resource == "resize") {
    return refuse(review, {"cannot be resized, since its Slurm allocation could not follow; delete it and create it "
                           "with the new size"});
  }
  Sentences faults;
  if (review.operation == Operation::kCreate) {
    preset_faults(pod, faults);
    shape_faults(pod, faults);
    request_faults(config, review.ns, pod, faults);
    if (!faults.empty()) return refuse(review, std::move(faults));
    Decision decision;
    request_warnings(pod, decision.warnings);
    return decision;
  }
  if (!is_trusted(config, review)) change_faults(*review.old_object, pod, faults);
  Sentences old_faults;
  Sentences new_faults;
  request_faults(config, review.ns, *review.old_object, old_faults);
  request_faults(config, review.ns, pod, new_faults);
  std::ranges::sort(old_faults);
  for (std::string& fault : new_faults) {
    if (!std::ranges::binary_search(old_faults, fault)) faults.push_back(std::move(fault));
  }
  return faults.empty() ? Decision{} : refuse(review, std::move(faults));
}

json::Value answer(const Review& review, const Decision& decision) {
  json::Object response{{"uid", review.uid}, {"allowed", decision.allowed}};
  if (!decision.allowed) {
    response["status"] = json::Object{{"status", "Failure"},
                                      {"message", decision.message},
                                      {"reason", decision.code == 403 ? "Forbidden" : "ServiceUnavailable"},
                                      {"code", decision.code}};
  } else if (!decision.patch.empty()) {
    response["patchType"] = "JSONPatch";
    response["patch"] = base64_encode(json::dump(decision.patch));
  }
  if (!decision.warnings.empty()) {
    json::Array warnings;
    for (const std::string& warning : decision.warnings) warnings.emplace_back(warning);
    response["warnings"] = std::move(warnings);
  }
  return json::Object{
      {"apiVersion", "admission.k8s.io/v1"}, {"kind", "AdmissionReview"}, {"response", std::move(response)}};
}

}  // namespace bascule::bridge
