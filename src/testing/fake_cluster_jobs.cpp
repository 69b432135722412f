// The Job controller, the garbage collector and the namespace controller.
#include <fmt/format.h>

#include <algorithm>

#include "base/log.hpp"
#include "base/time.hpp"
#include "kube/condition.hpp"
#include "testing/fake_api_rules.hpp"
#include "testing/fake_cluster.hpp"

namespace bascule::testing {

using json::Array;
using json::Object;
using json::Value;

namespace {

constexpr std::string_view kTracking = "batch.kubernetes.io/job-tracking";

std::string controller_uid(const Value& object, std::string_view kind) {
  const Array* owners = json::array_at(object, {"metadata", "ownerReferences"});
  if (!owners) return {};
  for (const Value& owner : *owners) {
    if (json::bool_at(owner, {"controller"}) && json::string_at(owner, {"kind"}) == kind) {
      return std::string(json::string_at(owner, {"uid"}));
    }
  }
  return {};
}

bool finished(const Value& job) {
  const Array* conditions = json::array_at(job, {"status", "conditions"});
  return kube::holds(kube::find_condition(conditions, "Complete")) ||
         kube::holds(kube::find_condition(conditions, "Failed"));
}

bool has_finalizer(const Value& object, std::string_view finalizer) {
  return std::ranges::any_of(finalizers_of(object), [&](const std::string& f) { return f == finalizer; });
}

}  // namespace

void FakeCluster::jobs() {
  ApiTable& pods = api_.store().table(kube::resources::kPods);
  std::unordered_map<std::string, std::vector<ObjectPtr>> owned;
  for (const ObjectPtr& pod : pods.list("")) {
    const std::string uid = controller_uid(pod->value, "Job");
    if (uid.empty()) continue;
    if (!api_.store().by_uid(uid)) {
      if (has_finalizer(pod->value, kTracking)) drop_finalizer(pods, pod, kTracking);
    } else {
      owned[uid].push_back(pod);
    }
  }
  for (const ObjectPtr& job : api_.store().table(kube::resources::kJobs).list("")) {
    sync_job(job, owned[std::string(uid_of(job->value))]);
  }
}

void FakeCluster::sync_job(const ObjectPtr& job, const std::vector<ObjectPtr>& pods) {
  ApiTable& pod_table = api_.store().table(kube::resources::kPods);
  const Value& value = job->value;
  const std::string uid(uid_of(value));
  std::int64_t succeeded = json::int_at(value, {"status", "succeeded"}).value_or(0);
  std::int64_t failed = json::int_at(value, {"status", "failed"}).value_or(0);
  std::int64_t active = 0;
  std::int64_t ready = 0;
  std::vector<ObjectPtr> living;
  std::set<std::int64_t> indexes;
  const auto index_of = [](const Value& pod) {
    return std::stoll(std::string(
        json::string_at(pod, {"metadata", "annotations", "batch.kubernetes.io/job-completion-index"}, "-1")));
  };
  for (const ObjectPtr& pod : pods) {
    const std::string_view phase = json::string_at(pod->value, {"status", "phase"});
    const bool ended = phase == "Succeeded" || phase == "Failed" || deleting(pod->value);
    if (phase == "Succeeded" || !ended) indexes.insert(index_of(pod->value));
    if (!ended) {
      ++active;
      ready += phase == "Running";
      living.push_back(pod);
    } else if (has_finalizer(pod->value, kTracking)) {
      // Counted once: the finalizer says that it has not been yet.
      ++(phase == "Succeeded" ? succeeded : failed);
      if (phase != "Succeeded") seen_["failed " + uid] = loop_.now();
      drop_finalizer(pod_table, pod, kTracking);
    }
  }
  const auto end_living = [&] {
    for (const ObjectPtr& pod : living) {
      api_.writer().remove(pod_table, ns_of(pod->value), name_of(pod->value), {}, false);
    }
    waiting_ = true;
  };
  if (deleting(value)) return;
  const auto completions = json::int_at(value, {"spec", "completions"});
  const std::int64_t parallelism = json::int_at(value, {"spec", "parallelism"}).value_or(1);
  const bool suspended = json::bool_at(value, {"spec", "suspend"});
  Value after = value;
  Object& status = json::at_or_create(after, {"status"}).is_null() ? (after.at("status") = Object()).as_object()
                                                                   : after.at("status").get_object();
  if (!finished(value)) {
    if (!suspended && !status.contains("startTime")) status["startTime"] = print_rfc3339(loop_.wall());
    if (failed > json::int_at(value, {"spec", "backoffLimit"}).value_or(6)) {
      end_living();
      active = 0;
      set_condition(after, "Failed", "True", "BackoffLimitExceeded", "Job has reached the specified backoff limit",
                    loop_.wall());
    } else if (completions ? succeeded >= *completions : succeeded > 0 && active == 0) {
      set_condition(after, "Complete", "True", "CompletionsReached", "Reached expected number of succeeded pods",
                    loop_.wall());
      status["completionTime"] = print_rfc3339(loop_.wall());
    } else if (suspended) {
      end_living();
      active = 0;
      set_condition(after, "Suspended", "True", "JobSuspended", "Job suspended", loop_.wall());
    }
  }
  const auto put = [&](std::string_view field, std::int64_t number) {
    Object& s = after.at("status").get_object();
    number != 0 || s.contains(field) ? void(s[field] = number) : void();
  };
  put("active", active);
  put("ready", ready);
  put("succeeded", succeeded);
  put("failed", failed);
  write(api_.store().table(kube::resources::kJobs), job, after, "status");
  if (finished(after) || suspended) return;

  const auto last_failure = seen_.find("failed " + uid);
  if (last_failure != seen_.end() && loop_.now() - last_failure->second < options_.job_backoff) {
    waiting_ = true;
    return;
  }
  std::int64_t wanted = parallelism - active - creating_[uid];
  if (completions) wanted = std::min(wanted, *completions - succeeded - active - creating_[uid]);
  start_pods(value, wanted, std::move(indexes));
}

// `indexes` are those that have a pod.
void FakeCluster::start_pods(const Value& job, std::int64_t wanted, std::set<std::int64_t> indexes) {
  const std::string uid(uid_of(job));
  const bool indexed = json::string_at(job, {"spec", "completionMode"}) == "Indexed";
  for (std::int64_t index = 0; wanted > 0; --wanted) {
    Value pod = Object{{"metadata", Object()}, {"spec", Object()}};
    if (const Value* part = json::find(job, {"spec", "template"})) pod = *part;
    Object& meta = json::at_or_create(pod, {"metadata"}).is_null() ? (pod.at("metadata") = Object()).as_object()
                                                                   : pod.at("metadata").get_object();
    std::string prefix = std::string(name_of(job)) + "-";
    if (indexed) {
      while (indexes.contains(index)) ++index;
      indexes.insert(index);
      prefix += std::to_string(index) + "-";
      json::at_or_create(pod, {"metadata", "annotations", "batch.kubernetes.io/job-completion-index"}) =
          std::to_string(index);
      json::at_or_create(pod, {"metadata", "labels", "batch.kubernetes.io/job-completion-index"}) =
          std::to_string(index);
    }
    meta["generateName"] = prefix;
    meta["namespace"] = ns_of(job);
    meta["finalizers"] = Array{kTracking};
    meta["ownerReferences"] = Array{Object{{"apiVersion", "batch/v1"},
                                           {"kind", "Job"},
                                           {"name", name_of(job)},
                                           {"uid", uid},
                                           {"controller", true},
                                           {"blockOwnerDeletion", true}}};
    ++creating_[uid];
    waiting_ = true;
    spawn(gate_, create_pod(std::move(pod), uid));
  }
}

Task<> FakeCluster::create_pod(Value pod, std::string job_uid) {
  try {
    co_await api_.create_admitted(kube::resources::kPods, std::move(pod));
  } catch (const std::exception& e) {
    // Tried again at the next step, as the controller does.
    log::debug("a pod was refused", {{"job", job_uid}, {"error", e}});
    seen_["failed " + job_uid] = loop_.now();
  }
  --creating_[job_uid];
}

// --- garbage ---------------------------------------------------------------------------------------------------------

void FakeCluster::garbage() {
  ApiStore& store = api_.store();
  struct Item {
    ApiTable* table;
    ObjectPtr object;
  };
  std::unordered_map<std::string, std::vector<Item>> dependents;
  std::vector<Item> orphans;
  std::vector<Item> dying;  // with foregroundDeletion or orphan
  for (ApiTable* table : store.tables()) {
    for (const auto& [key, object] : table->objects) {
      if (deleting(object->value)) {
        const auto finalizers = finalizers_of(object->value);
        if (std::ranges::any_of(finalizers, [](const auto& f) { return f == "foregroundDeletion" || f == "orphan"; })) {
          dying.push_back({table, object});
        }
      }
      const Array* owners = json::array_at(object->value, {"metadata", "ownerReferences"});
      if (!owners || owners->empty()) continue;
      bool owned = false;
      for (const Value& owner : *owners) {
        const std::string uid(json::string_at(owner, {"uid"}));
        owned |= store.uid_exists(uid);
        dependents[uid].push_back({table, object});
      }
      if (!owned && !deleting(object->value)) orphans.push_back({table, object});
    }
  }
  for (const Item& item : orphans) {
    api_.writer().remove(*item.table, ns_of(item.object->value), name_of(item.object->value),
                         {.propagation = "Background"}, false);
  }
  for (const Item& owner : dying) {
    const std::string uid(uid_of(owner.object->value));
    if (has_finalizer(owner.object->value, "orphan")) {
      for (const Item& child : dependents[uid]) {
        const ObjectPtr current = child.table->find(ns_of(child.object->value), name_of(child.object->value));
        if (!current) continue;
        Value after = current->value;
        Array left;
        for (const Value& ref : *json::array_at(after, {"metadata", "ownerReferences"})) {
          if (json::string_at(ref, {"uid"}) != uid) left.push_back(ref);
        }
        after.at("metadata").get_object()["ownerReferences"] = std::move(left);
        write(*child.table, current, std::move(after), "");
      }
      drop_finalizer(*owner.table, owner.object, "orphan");
      continue;
    }
    for (const Item& child : dependents[uid]) {
      if (!deleting(child.object->value)) {
        api_.writer().remove(*child.table, ns_of(child.object->value), name_of(child.object->value),
                             {.propagation = "Background"}, false);
      }
    }
    if (dependents[uid].empty()) drop_finalizer(*owner.table, owner.object, "foregroundDeletion");
    waiting_ = true;
  }
}

void FakeCluster::namespaces() {
  ApiStore& store = api_.store();
  for (const ObjectPtr& ns : store.table(kube::resources::kNamespaces).list("")) {
    if (!deleting(ns->value)) continue;
    waiting_ = true;
    const std::string name(name_of(ns->value));
    bool empty = true;
    for (ApiTable* table : store.tables()) {
      if (!table->resource.name.namespaced) continue;
      for (const ObjectPtr& object : table->list(name)) {
        empty = false;
        if (!deleting(object->value)) {
          api_.writer().remove(*table, name, name_of(object->value), {.propagation = "Background"}, false);
        }
      }
    }
    if (empty) api_.erase(kube::resources::kNamespaces, {"", name});
  }
}

}  // namespace bascule::testing
