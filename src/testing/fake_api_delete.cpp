// Deletion: preconditions, grace, finalizers, propagation.
#include <fmt/format.h>

#include <algorithm>

#include "base/time.hpp"
#include "testing/fake_api_rules.hpp"
#include "testing/fake_api_status.hpp"
#include "testing/fake_api_writer.hpp"

namespace bascule::testing {

using json::Array;
using json::Object;
using json::Value;

ObjectPtr ApiWriter::remove(ApiTable& table, std::string_view ns, std::string_view name, const Deletion& how,
                            bool dry_run, ObjectPtr* last) {
  ObjectPtr before = need(table, ns, name);
  const Value& old = before->value;
  // The real server names the kind here, not the resource.
  kube::Resource by_kind = table.resource.name;
  by_kind.resource = by_kind.kind;
  if (how.uid && *how.uid != uid_of(old)) {
    throw ApiFailure::conflict(
        by_kind, name,
        fmt::format("the UID in the precondition ({}) does not match the UID in record ({}). The "
                    "object might have been deleted and then recreated",
                    *how.uid, uid_of(old)));
  }
  if (how.version && *how.version != std::to_string(before->version)) {
    throw ApiFailure::conflict(by_kind, name,
                               fmt::format("the ResourceVersion in the precondition ({}) does not match the "
                                           "ResourceVersion in record ({}). The object might have been modified",
                                           *how.version, before->version));
  }
  const bool pod = table.resource.name.kind == "Pod" && !table.resource.custom;
  std::int64_t grace = 0;
  if (pod && pod_needs_grace(old)) {
    grace = how.grace.value_or(json::int_at(old, {"spec", "terminationGracePeriodSeconds"}).value_or(30));
  }
  auto finalizers = finalizers_of(old);
  const auto add_finalizer = [&](const char* finalizer) {
    if (std::ranges::find(finalizers, finalizer) == finalizers.end()) finalizers.emplace_back(finalizer);
  };
  // batch/v1 Jobs leave their pods behind unless the client says otherwise.
  const std::string propagation = how.propagation.empty() && table.resource.name.kind == "Job" && !table.resource.custom
                                      ? "Orphan"
                                      : how.propagation;
  if (propagation == "Foreground") add_finalizer("foregroundDeletion");
  if (propagation == "Orphan") add_finalizer("orphan");
  const bool is_namespace = table.resource.name.kind == "Namespace" && json::array_at(old, {"spec", "finalizers"});
  if (last) *last = before;
  if (grace == 0 && finalizers.empty() && !is_namespace) {
    if (!dry_run) store_.remove(table, before);
    return nullptr;
  }
  const auto current = json::int_at(old, {"metadata", "deletionGracePeriodSeconds"});
  const bool shorter = deleting(old) && current && grace < *current && (how.grace || grace == 0);
  if (deleting(old) && !shorter && finalizers == finalizers_of(old)) return before;
  Value after = old;
  Object& meta = after.at("metadata").get_object();
  if (!deleting(old) || shorter) {
    meta["deletionTimestamp"] = print_rfc3339(loop_.wall() + std::chrono::seconds(grace));
    meta["deletionGracePeriodSeconds"] = grace;
    if (table.resource.generation) meta["generation"] = json::int_at(old, {"metadata", "generation"}).value_or(0) + 1;
  }
  if (!finalizers.empty()) {
    Array list;
    for (const std::string& finalizer : finalizers) list.emplace_back(finalizer);
    meta["finalizers"] = std::move(list);
  }
  if (is_namespace) json::at_or_create(after, {"status", "phase"}) = "Terminating";
  if (dry_run) {
    const auto object = std::make_shared<ApiObject>();
    object->value = std::move(after);
    return object;
  }
  return store_.put(table, before, std::move(after));
}

}  // namespace bascule::testing
