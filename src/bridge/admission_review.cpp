#include "bridge/admission_review.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bridge/admission_rules.hpp"
#include "bridge/names.hpp"

namespace bascule::bridge {

namespace {

using Operation = kube::AdmissionOperation;

// Bounds what a refusal may say: every sentence is about a field, and a pod may have thousands of wrong ones.
constexpr std::size_t kMaxSentences = 20;
constexpr std::string_view kSuperusers = "system:masters";  // the API server lets this group do anything
constexpr std::string_view kKubelets = "system:nodes";
constexpr std::string_view kDefaultScheduler = "default-scheduler";
constexpr std::string_view kMirror = "kubernetes.io/config.mirror";

std::string_view scheduler_of(const json::Value& pod) {
  return json::string_at(pod, {"spec", "schedulerName"}, kDefaultScheduler);
}

bool is_of(const Review& review, std::string_view group) {
  return std::ranges::find(review.groups, group) != review.groups.end();
}

// Anybody may write the annotation; only a kubelet runs the pod already.
bool is_mirror(const Review& review) {
  return is_of(review, kKubelets) && json::find(*review.object, {"metadata", "annotations", kMirror}) != nullptr;
}

bool is_of_daemon_set(const json::Value& pod) {
  const json::Array* owners = json::array_at(pod, {"metadata", "ownerReferences"});
  return owners != nullptr && std::ranges::any_of(*owners, [](const json::Value& owner) {
           return json::bool_at(owner, {"controller"}) && json::string_at(owner, {"kind"}) == "DaemonSet" &&
                  json::string_at(owner, {"apiVersion"}).starts_with("apps/");
         });
}

// What the pod alone says: handled, not handled, or (unknown) as its namespace is.
Managed by_pod(const Config& config, const Review& review) {
  const json::Value& pod = *review.object;
  if (is_mirror(review)) return Managed::kNo;
  if (scheduler_of(pod) == config.scheduler_name) return Managed::kYes;
  return is_of_daemon_set(pod) ? Managed::kNo : Managed::kUnknown;
}

bool concerns_us(const Review& review) {
  const bool written = review.operation == Operation::kCreate || review.operation == Operation::kUpdate;
  if (!written || !review.group.empty() || review.resource != "pods") return false;
  return review.sub_resource.empty() || review.sub_resource == "resize";
}

Managed handled(const Config& config, const Review& review, Managed by_namespace) {
  const Managed own = by_pod(config, review);
  return own == Managed::kUnknown ? by_namespace : own;
}

bool is_trusted(const Config& config, const Review& review) {
  if (is_of(review, kSuperusers)) return true;
  return std::ranges::any_of(config.trusted_users, [&](std::string_view pattern) {
    if (pattern.ends_with('*')) return review.user.starts_with(pattern.substr(0, pattern.size() - 1));
    return review.user == pattern;
  });
}

std::string subject(const Review& review) {
  std::string_view name = json::string_at(*review.object, {"metadata", "name"});
  if (name.empty()) name = json::string_at(*review.object, {"metadata", "generateName"});
  return fmt::format("pod {}/{}", review.ns, name);
}

Verdict refuse(const Review& review, std::vector<std::string> sentences, int code = 403) {
  Verdict verdict;
  verdict.allowed = false;
  verdict.code = code;
  verdict.reason = code == 403 ? "Forbidden" : "ServiceUnavailable";
  verdict.message = subject(review) + ": ";
  for (std::size_t i = 0; i < sentences.size(); ++i) {
    if (i == kMaxSentences) {
      verdict.message += fmt::format("; and {} more", sentences.size() - i);
      break;
    }
    verdict.message += (i == 0 ? "" : "; ") + sentences[i];
  }
  return verdict;
}

Verdict refuse_unknown(const Review& review) {
  return refuse(
      review,
      {fmt::format("the labels of namespace {} cannot be read at the moment, so it is not known whether Slurm "
                   "places its pods; try again",
                   review.ns)},
      503);
}

bool covers_our_taint(const json::Value& toleration, std::string_view scheduler) {
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
  if (list != nullptr) {
    // Of several the first counts; tolerationSeconds would let the pod be evicted after all.
    const auto first = std::ranges::find_if(
        *list, [&](const json::Value& item) { return covers_our_taint(item, config.scheduler_name); });
    if (first != list->end() && json::find(*first, {"tolerationSeconds"}) == nullptr) return;
  }
  json::Value toleration = json::Object{{"key", names::kManagedNodeTaint},
                                        {"operator", "Equal"},
                                        {"value", config.scheduler_name},
                                        {"effect", "NoExecute"}};
  if (list == nullptr) {
    patch.push_back(
        json::Object{{"op", "add"}, {"path", "/spec/tolerations"}, {"value", json::Array{std::move(toleration)}}});
  } else {
    patch.push_back(json::Object{{"op", "add"}, {"path", "/spec/tolerations/0"}, {"value", std::move(toleration)}});
  }
}

}  // namespace

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
  return config.managed_namespace_selector && concerns_us(review) && by_pod(config, review) == Managed::kUnknown;
}

Verdict mutate(const Config& config, const Review& review, Managed by_namespace) {
  // Scheduler name and node are fixed at creation: changing them later would make every update fail.
  if (!concerns_us(review) || review.operation != Operation::kCreate || !review.sub_resource.empty()) return {};
  const Managed state = handled(config, review, by_namespace);
  if (state == Managed::kNo) return {};
  if (state == Managed::kUnknown) return refuse_unknown(review);

  Verdict verdict;
  const json::Value& pod = *review.object;
  if (json::object_at(pod, {"spec"}) == nullptr) return verdict;  // the API server will refuse it
  if (json::find(pod, {"spec", "nodeName"}) != nullptr && !json::string_at(pod, {"spec", "nodeName"}).empty()) {
    verdict.patch.push_back(json::Object{{"op", "remove"}, {"path", "/spec/nodeName"}});
  }
  std::string_view scheduler = scheduler_of(pod);
  if (scheduler.empty() || scheduler == kDefaultScheduler) {
    scheduler = config.scheduler_name;
    verdict.patch.push_back(
        json::Object{{"op", "add"}, {"path", "/spec/schedulerName"}, {"value", config.scheduler_name}});
  }
  if (scheduler == config.scheduler_name) add_toleration(config, pod, verdict.patch);
  return verdict;
}

Verdict validate(const Config& config, const Review& review, Managed by_namespace) {
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
    shape_faults(config, pod, faults);
    request_faults(config, review.ns, pod, faults);
    if (!faults.empty()) return refuse(review, std::move(faults));
    Verdict verdict;
    request_warnings(pod, verdict.warnings);
    return verdict;
  }
  if (!is_trusted(config, review)) change_faults(*review.old_object, pod, faults);
  group_faults(*review.old_object, pod, faults);
  Sentences old_faults;
  Sentences new_faults;
  request_faults(config, review.ns, *review.old_object, old_faults);
  request_faults(config, review.ns, pod, new_faults);
  std::ranges::sort(old_faults);
  for (std::string& fault : new_faults) {
    if (!std::ranges::binary_search(old_faults, fault)) faults.push_back(std::move(fault));
  }
  return faults.empty() ? Verdict{} : refuse(review, std::move(faults));
}

}  // namespace bascule::bridge
