#include "testing/fake_api_rules.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/time.hpp"
#include "testing/fake_api_status.hpp"

namespace bascule::testing {

namespace {

using json::Array;
using json::Object;
using json::Value;

void set_if_absent(Value& object, json::Path path, Value value) {
  Value& place = json::at_or_create(object, path);
  if (place.is_null()) place = std::move(value);
}

void default_pod_spec(Value& spec) {
  set_if_absent(spec, {"restartPolicy"}, "Always");
  set_if_absent(spec, {"terminationGracePeriodSeconds"}, 30);
  set_if_absent(spec, {"dnsPolicy"}, "ClusterFirst");
  set_if_absent(spec, {"securityContext"}, Object());
  set_if_absent(spec, {"schedulerName"}, "default-scheduler");
  for (const char* list : {"containers", "initContainers"}) {
    Value* containers = json::find(spec, {list});
    if (!containers || !containers->is_array()) continue;
    for (Value& container : containers->get_array()) {
      if (!container.is_object()) continue;
      set_if_absent(container, {"terminationMessagePath"}, "/dev/termination-log");
      set_if_absent(container, {"terminationMessagePolicy"}, "File");
      set_if_absent(container, {"imagePullPolicy"}, "IfNotPresent");
      set_if_absent(container, {"resources"}, Object());
      // Limits stand in for requests that are not said.
      const Value* limits = json::find(container, {"resources", "limits"});
      if (!limits || !limits->is_object()) continue;
      const Object copy = limits->get_object();
      for (const auto& [name, amount] : copy)
        set_if_absent(container, {"resources", "requests", std::string_view(name)}, amount);
    }
  }
}

void default_pod(Value& pod) {
  Value& spec = json::at_or_create(pod, {"spec"});
  default_pod_spec(spec);
  // Admission plug-ins that are always on: ServiceAccount, Priority, DefaultTolerationSeconds.
  set_if_absent(spec, {"serviceAccountName"}, "default");
  set_if_absent(spec, {"enableServiceLinks"}, true);
  set_if_absent(spec, {"priority"}, 0);
  set_if_absent(spec, {"preemptionPolicy"}, "PreemptLowerPriority");
  Value& tolerations = json::at_or_create(spec, {"tolerations"});
  if (!tolerations.is_array()) tolerations = Array();
  for (const char* key : {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}) {
    const bool present = std::ranges::any_of(tolerations.get_array(), [&](const Value& t) {
      return json::string_at(t, {"key"}) == key ||
             (json::string_at(t, {"key"}).empty() && json::string_at(t, {"operator"}) == "Exists");
    });
    if (present) continue;
    tolerations.get_array().push_back(
        Object{{"key", key}, {"operator", "Exists"}, {"effect", "NoExecute"}, {"tolerationSeconds", 300}});
  }
}

void default_job(Value& job) {
  const bool no_completions = !json::int_at(job, {"spec", "completions"});
  if (no_completions && !json::int_at(job, {"spec", "parallelism"})) set_if_absent(job, {"spec", "completions"}, 1);
  set_if_absent(job, {"spec", "parallelism"}, 1);
  set_if_absent(job, {"spec", "backoffLimit"}, 6);
  set_if_absent(job, {"spec", "completionMode"}, "NonIndexed");
  set_if_absent(job, {"spec", "suspend"}, false);
  set_if_absent(job, {"spec", "podReplacementPolicy"}, "TerminatingOrFailed");
  default_pod_spec(json::at_or_create(job, {"spec", "template", "spec"}));
}

}  // namespace

void set_defaults(const ApiResource& resource, Value& object) {
  const std::string& kind = resource.name.kind;
  if (resource.custom) return;
  if (kind == "Pod") default_pod(object);
  if (kind == "Job") default_job(object);
  if (kind == "Deployment" || kind == "ReplicaSet" || kind == "StatefulSet") {
    set_if_absent(object, {"spec", "replicas"}, 1);
    default_pod_spec(json::at_or_create(object, {"spec", "template", "spec"}));
  }
  if (kind == "DaemonSet") default_pod_spec(json::at_or_create(object, {"spec", "template", "spec"}));
  if (kind == "Secret") set_if_absent(object, {"type"}, "Opaque");
  if (kind == "Secret") {
    // stringData is write-only; a fake has no need of base64 for what tests never read back.
    object.get_object().stable_erase("stringData");
  }
}

void set_initial_state(const ApiResource& resource, Value& object, WallTime now) {
  const std::string& kind = resource.name.kind;
  // A kubelet registers its Node with status; everybody else's status begins empty.
  if (resource.status && kind != "Node") object.get_object().stable_erase("status");
  if (resource.custom) return;
  if (kind == "Pod") {
    Object status{{"phase", "Pending"}, {"qosClass", "BestEffort"}};
    object.get_object()["status"] = std::move(status);
    const Array* gates = json::array_at(object, {"spec", "schedulingGates"});
    if (gates && !gates->empty()) {
      set_condition(object, "PodScheduled", "False", "SchedulingGated",
                    "Scheduling is blocked due to non-empty scheduling gates", now);
    }
  }
  if (kind == "Namespace") {
    json::at_or_create(object, {"status", "phase"}) = "Active";
    json::at_or_create(object, {"spec", "finalizers"}) = Array{"kubernetes"};
    const std::string name(name_of(object));  // its own: the object moves as it grows
    json::at_or_create(object, {"metadata", "labels", "kubernetes.io/metadata.name"}) = name;
  }
  if (kind == "Job") {
    const std::string uid(uid_of(object));
    const std::string name(name_of(object));
    if (!json::bool_at(object, {"spec", "manualSelector"})) {
      json::at_or_create(object, {"spec", "selector", "matchLabels", "batch.kubernetes.io/controller-uid"}) = uid;
      for (const char* label : {"batch.kubernetes.io/controller-uid", "controller-uid"}) {
        json::at_or_create(object, {"spec", "template", "metadata", "labels", label}) = uid;
      }
      for (const char* label : {"batch.kubernetes.io/job-name", "job-name"}) {
        json::at_or_create(object, {"spec", "template", "metadata", "labels", label}) = name;
      }
    }
    json::at_or_create(object, {"status"}) = Object();
  }
  if (kind == "CustomResourceDefinition") {
    set_condition(object, "NamesAccepted", "True", "NoConflicts", "no conflicts found", now);
    set_condition(object, "Established", "True", "InitialNamesAccepted", "the initial names have been accepted", now);
  }
}

void check_new(const ApiResource& resource, const Value& object) {
  const std::string_view name = name_of(object);
  const bool bad =
      name.empty() || name.size() > 253 || name.find('/') != std::string_view::npos || name == "." || name == "..";
  const bool rbac = resource.name.group == "rbac.authorization.k8s.io";
  const bool shape =
      !rbac && name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-.") != std::string_view::npos;
  if (bad || shape) {
    throw ApiFailure::invalid(resource.name, name, "metadata.name",
                              fmt::format("Invalid value: \"{}\": a lowercase RFC 1123 subdomain must consist of lower "
                                          "case alphanumeric characters, '-' or '.', and must start and end with an "
                                          "alphanumeric character",
                                          name));
  }
  if (resource.name.kind == "Pod" && !resource.custom) {
    const Array* containers = json::array_at(object, {"spec", "containers"});
    if (!containers || containers->empty()) {
      throw ApiFailure::invalid(resource.name, name, "spec.containers", "Required value", "FieldValueRequired");
    }
    const Array* gates = json::array_at(object, {"spec", "schedulingGates"});
    if (gates && !gates->empty() && !json::string_at(object, {"spec", "nodeName"}).empty()) {
      throw ApiFailure::invalid(resource.name, name, "spec.nodeName",
                                "Forbidden: cannot be set until all schedulingGates have been cleared",
                                "FieldValueForbidden");
    }
  }
}

namespace {

const Value& part(const Value& object, json::Path path) {
  static const Value kNull;
  const Value* found = json::find(object, path);
  return found ? *found : kNull;
}

// Source: "Pod update and replacement": image, activeDeadlineSeconds, tolerations (additions),
// terminationGracePeriodSeconds may change; gates may go; while gated, nodeSelector and affinity may narrow.
void check_pod_change(const ApiResource& resource, const Value& before, const Value& after) {
  const std::string_view name = name_of(before);
  const auto gates = [](const Value& pod) {
    const Array* list = json::array_at(pod, {"spec", "schedulingGates"});
    return list ? *list : Array();
  };
  const Array old_gates = gates(before);
  for (const Value& gate : gates(after)) {
    if (std::ranges::any_of(old_gates, [&](const Value& old) { return json::equal(old, gate); })) continue;
    throw ApiFailure::invalid(resource.name, name, "spec.schedulingGates",
                              fmt::format("Forbidden: only deletion is allowed, but found new scheduling gate '{}'",
                                          json::string_at(gate, {"name"})),
                              "FieldValueForbidden");
  }
  Value a = part(before, {"spec"});
  Value b = part(after, {"spec"});
  if (const Array* old = json::array_at(a, {"tolerations"})) {
    const Array* fresh = json::array_at(b, {"tolerations"});
    for (const Value& t : *old) {
      if (fresh && std::ranges::any_of(*fresh, [&](const Value& f) { return json::equal(f, t); })) continue;
      throw ApiFailure::invalid(resource.name, name, "spec.tolerations",
                                "Forbidden: existing toleration can not be modified except its tolerationSeconds",
                                "FieldValueForbidden");
    }
  }
  for (Value* spec : {&a, &b}) {
    if (!spec->is_object()) continue;
    for (const char* free :
         {"schedulingGates", "tolerations", "activeDeadlineSeconds", "terminationGracePeriodSeconds"}) {
      spec->get_object().stable_erase(free);
    }
    if (!old_gates.empty()) {
      spec->get_object().stable_erase("nodeSelector");
      spec->get_object().stable_erase("affinity");
    }
    for (const char* list : {"containers", "initContainers"}) {
      Value* containers = json::find(*spec, {list});
      if (!containers || !containers->is_array()) continue;
      for (Value& c : containers->get_array()) {
        if (c.is_object()) c.get_object().stable_erase("image");
      }
    }
  }
  if (json::equal(a, b)) return;
  throw ApiFailure::invalid(resource.name, name, "spec",
                            "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
                            "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
                            "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be "
                            "set to 1 if it was previously negative)",
                            "FieldValueForbidden");
}

}  // namespace

void check_change(const ApiResource& resource, const Value& before, const Value& after) {
  const std::string_view name = name_of(before);
  if (deleting(before)) {
    const auto old = finalizers_of(before);
    for (const std::string& finalizer : finalizers_of(after)) {
      if (std::ranges::find(old, finalizer) != old.end()) continue;
      throw ApiFailure::invalid(resource.name, name, "metadata.finalizers",
                                fmt::format("Forbidden: no new finalizers can be added if the object is being deleted, "
                                            "found new finalizers []string{{\"{}\"}}",
                                            finalizer),
                                "FieldValueForbidden");
    }
  }
  if (resource.custom) return;
  if (resource.name.kind == "Pod") check_pod_change(resource, before, after);
  if (resource.name.kind == "StatefulSet" &&
      !json::equal(part(before, {"spec", "volumeClaimTemplates"}), part(after, {"spec", "volumeClaimTemplates"}))) {
    throw ApiFailure::invalid(resource.name, name, "spec", "Forbidden: updates to statefulset spec for this field");
  }
  if (resource.name.kind == "Job") {
    const bool suspended = json::bool_at(before, {"spec", "suspend"});
    const char* frozen[] = {"completions", "selector", "completionMode"};
    for (const char* field : frozen) {
      if (json::equal(part(before, {"spec", field}), part(after, {"spec", field}))) continue;
      throw ApiFailure::invalid(resource.name, name, fmt::format("spec.{}", field),
                                "Invalid value: field is immutable");
    }
    if (!suspended && !json::equal(part(before, {"spec", "template"}), part(after, {"spec", "template"}))) {
      throw ApiFailure::invalid(resource.name, name, "spec.template", "Invalid value: field is immutable");
    }
  }
}

bool pod_needs_grace(const Value& pod) {
  const std::string_view phase = json::string_at(pod, {"status", "phase"});
  return !json::string_at(pod, {"spec", "nodeName"}).empty() && phase != "Succeeded" && phase != "Failed";
}

std::vector<std::string> finalizers_of(const Value& object) {
  std::vector<std::string> out;
  if (const Array* list = json::array_at(object, {"metadata", "finalizers"})) {
    for (const Value& v : *list) {
      if (v.is_string()) out.emplace_back(json::view(v.get_string()));
    }
  }
  return out;
}

void set_condition(Value& object, std::string_view type, std::string_view status, std::string_view reason,
                   std::string_view message, WallTime now) {
  Value& list = json::at_or_create(object, {"status", "conditions"});
  if (!list.is_array()) list = Array();
  Value* found = nullptr;
  for (Value& c : list.get_array()) {
    if (json::string_at(c, {"type"}) == type) found = &c;
  }
  if (!found) found = &list.get_array().emplace_back(Object{{"type", type}});
  const bool turned = json::string_at(*found, {"status"}) != status;
  Object& c = found->get_object();
  c["status"] = status;
  if (turned) c["lastTransitionTime"] = print_rfc3339(now);
  reason.empty() ? void(c.stable_erase("reason")) : void(c["reason"] = reason);
  message.empty() ? void(c.stable_erase("message")) : void(c["message"] = message);
}

}  // namespace bascule::testing
