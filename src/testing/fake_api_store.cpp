#include "testing/fake_api_store.hpp"

#include <fmt/format.h>

#include "base/check.hpp"

namespace bascule::testing {

std::string key_of(std::string_view ns, std::string_view name) {
  return ns.empty() ? std::string(name) : fmt::format("{}/{}", ns, name);
}
std::string_view name_of(const json::Value& object) noexcept {
  return json::string_at(object, {"metadata", "name"});
}
std::string_view ns_of(const json::Value& object) noexcept {
  return json::string_at(object, {"metadata", "namespace"});
}
std::string_view uid_of(const json::Value& object) noexcept {
  return json::string_at(object, {"metadata", "uid"});
}
bool deleting(const json::Value& object) noexcept {
  return !json::string_at(object, {"metadata", "deletionTimestamp"}).empty();
}

ApiTable::ApiTable(Loop& loop, ApiResource r)
    : resource(std::move(r)),
      head(fmt::format(R"({{"kind":"{}","apiVersion":"{}",)", resource.name.kind, resource.name.api_version())),
      news(loop) {}

json::Value ApiTable::full(const ApiObject& object) const {
  json::Object out{{"kind", resource.name.kind}, {"apiVersion", resource.name.api_version()}};
  for (const auto& [key, value] : object.value.get_object()) out[key] = value;
  return out;
}

ObjectPtr ApiTable::find(std::string_view ns, std::string_view object_name) const {
  const auto at = objects.find(key_of(ns, object_name));
  return at == objects.end() ? nullptr : at->second;
}

std::vector<ObjectPtr> ApiTable::list(std::string_view ns) const {
  std::vector<ObjectPtr> out;
  const std::string prefix = ns.empty() ? std::string() : fmt::format("{}/", ns);
  if (ns.empty()) out.reserve(objects.size());
  for (auto at = objects.lower_bound(prefix); at != objects.end() && at->first.starts_with(prefix); ++at) {
    out.push_back(at->second);
  }
  return out;
}

ApiStore::ApiStore(Loop& loop, std::size_t history, std::uint64_t seed)
    : loop_(loop), history_(history), random_(seed) {}

ApiTable& ApiStore::add(ApiResource resource) {
  const std::string key = fmt::format("{}/{}/{}", resource.name.group, resource.name.version, resource.name.resource);
  auto& place = tables_[key];
  if (!place) {
    place = std::make_unique<ApiTable>(loop_, std::move(resource));
    place->forgotten = version_;
    order_.push_back(place.get());
  }
  return *place;
}

ApiTable* ApiStore::table(std::string_view group, std::string_view version, std::string_view plural) noexcept {
  const auto at = tables_.find(fmt::format("{}/{}/{}", group, version, plural));
  return at == tables_.end() ? nullptr : at->second.get();
}

ApiTable& ApiStore::table(const kube::Resource& resource) {
  ApiTable* found = table(resource.group, resource.version, resource.resource);
  BASCULE_CHECK(found != nullptr, "a test asks for a resource that the fake serves");
  return *found;
}

ObjectPtr ApiStore::put(ApiTable& table, const ObjectPtr& before, json::Value value) {
  const auto object = std::make_shared<ApiObject>();
  object->version = ++version_;
  json::at_or_create(value, {"metadata", "resourceVersion"}) = std::to_string(object->version);
  object->value = std::move(value);
  table.objects[key_of(ns_of(object->value), name_of(object->value))] = object;
  uids_[std::string(uid_of(object->value))] = object;
  append(table, {.version = object->version, .before = before, .after = object, .removed = false});
  return object;
}

void ApiStore::remove(ApiTable& table, const ObjectPtr& before) {
  const auto object = std::make_shared<ApiObject>();
  object->version = ++version_;
  object->value = before->value;
  json::at_or_create(object->value, {"metadata", "resourceVersion"}) = std::to_string(object->version);
  table.objects.erase(key_of(ns_of(before->value), name_of(before->value)));
  uids_.erase(std::string(uid_of(before->value)));
  append(table, {.version = object->version, .before = before, .after = object, .removed = true});
}

void ApiStore::append(ApiTable& table, ApiEvent event) {
  table.history.push_back(std::move(event));
  while (table.history.size() > history_) {
    table.forgotten = table.dropped = table.history.front().version;
    table.history.pop_front();
  }
  table.news.notify();
  if (on_event) on_event(table, ApiEvent(table.history.back()));
}

void ApiStore::compact() {
  for (ApiTable* table : order_) {
    if (!table->history.empty()) table->dropped = table->history.back().version;
    table->history.clear();
    table->forgotten = version_;
    table->news.notify();
  }
}

ObjectPtr ApiStore::by_uid(std::string_view uid) const {
  const auto at = uids_.find(std::string(uid));
  return at == uids_.end() ? nullptr : at->second;
}

std::string ApiStore::make_uid() {
  const std::uint64_t a = random_();
  const std::uint64_t b = random_();
  return fmt::format("{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}", a >> 32, (a >> 16) & 0xffff, a & 0xfff,
                     0x8000 | (b >> 48 & 0x3fff), b & 0xffffffffffff);
}

std::string ApiStore::name_suffix() {
  static constexpr std::string_view kLetters = "bcdfghjklmnpqrstvwxz2456789";
  std::string out;
  for (int i = 0; i < 5; ++i) out += kLetters[random_() % kLetters.size()];
  return out;
}

// --- the table -------------------------------------------------------------------------------------------------------

namespace {

ApiResource builtin(std::string group, std::string version, std::string plural, std::string kind, bool namespaced,
                    std::string_view traits, std::vector<std::string> short_names = {}) {
  ApiResource out{.name = {std::move(group), std::move(version), std::move(plural), std::move(kind), namespaced}};
  for (const char c : out.name.kind) {
    out.singular += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  out.short_names = std::move(short_names);
  for (const char trait : traits) {
    out.status |= trait == 's';
    out.scale |= trait == 'c';
    out.generation |= trait == 'g';
    out.returns_deleted |= trait == 'd';
    if (trait == 'v') out.unconditional = false;
  }
  return out;
}

}  // namespace

// Traits: s status, c scale, g generation, d a deletion returns the object, v an update needs a resourceVersion.
std::vector<ApiResource> builtin_resources() {
  return {
      builtin("", "v1", "namespaces", "Namespace", false, "sd", {"ns"}),
      builtin("", "v1", "nodes", "Node", false, "s", {"no"}),
      builtin("", "v1", "pods", "Pod", true, "sgd", {"po"}),
      builtin("", "v1", "secrets", "Secret", true, ""),
      builtin("", "v1", "configmaps", "ConfigMap", true, "", {"cm"}),
      builtin("", "v1", "services", "Service", true, "sd", {"svc"}),
      builtin("", "v1", "serviceaccounts", "ServiceAccount", true, "d", {"sa"}),
      builtin("", "v1", "events", "Event", true, "", {"ev"}),
      builtin("", "v1", "persistentvolumes", "PersistentVolume", false, "sd", {"pv"}),
      builtin("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", true, "sd", {"pvc"}),
      builtin("storage.k8s.io", "v1", "storageclasses", "StorageClass", false, "", {"sc"}),
      builtin("storage.k8s.io", "v1", "csinodes", "CSINode", false, ""),
      builtin("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", false, "s"),
      builtin("", "v1", "endpoints", "Endpoints", true, "", {"ep"}),
      builtin("", "v1", "limitranges", "LimitRange", true, "", {"limits"}),
      builtin("", "v1", "resourcequotas", "ResourceQuota", true, "sd", {"quota"}),
      builtin("events.k8s.io", "v1", "events", "Event", true, "", {"ev"}),
      builtin("coordination.k8s.io", "v1", "leases", "Lease", true, "v"),
      builtin("batch", "v1", "jobs", "Job", true, "sg"),
      builtin("batch", "v1", "cronjobs", "CronJob", true, "sg", {"cj"}),
      builtin("apps", "v1", "deployments", "Deployment", true, "scg", {"deploy"}),
      builtin("apps", "v1", "replicasets", "ReplicaSet", true, "scg", {"rs"}),
      builtin("apps", "v1", "statefulsets", "StatefulSet", true, "scg", {"sts"}),
      builtin("apps", "v1", "daemonsets", "DaemonSet", true, "sg", {"ds"}),
      builtin("apps", "v1", "controllerrevisions", "ControllerRevision", true, ""),
      builtin("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", true, "sg", {"pdb"}),
      builtin("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", true, "g", {"netpol"}),
      builtin("rbac.authorization.k8s.io", "v1", "roles", "Role", true, ""),
      builtin("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", true, ""),
      builtin("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", false, ""),
      builtin("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", false, ""),
      builtin("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", false, "g", {"pc"}),
      builtin("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", true, "sg"),
      builtin("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", true, "s"),
      builtin("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", true, ""),
      builtin("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", false, "g"),
      builtin("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", false, "g"),
      builtin("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", false, "sgv",
              {"crd"}),
      builtin("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration",
              false, "g"),
      builtin("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration",
              false, "g"),
  };
}

}  // namespace bascule::testing
