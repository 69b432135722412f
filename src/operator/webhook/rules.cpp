#include "operator/webhook/rules.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/duration.hpp"
#include "kube/condition.hpp"
#include "operator/api/read.hpp"
#include "operator/api/reasons.hpp"
#include "operator/config/text.hpp"
#include "operator/webhook/common_rules.hpp"

namespace bascule::op {

namespace {

constexpr std::array<std::pair<Kind, std::pair<std::string_view, std::string_view>>, 6> kKinds = {{
    {Kind::kController, {"Controller", "controller"}},
    {Kind::kAccounting, {"Accounting", "accounting"}},
    {Kind::kRestApi, {"RestApi", "restapi"}},
    {Kind::kLoginSet, {"LoginSet", "loginset"}},
    {Kind::kNodeSet, {"NodeSet", "nodeset"}},
    {Kind::kToken, {"Token", "token"}},
}};

// Refreshing takes a reconcile and a write; a life below this would be spent on them.
constexpr Duration kMinLifetime = std::chrono::seconds(10);

void accounting_rules(const json::Value& object, const json::Value* old, Findings& findings) {
  const bool external = json::bool_at(object, {"spec", "external"});
  if (old == nullptr && !external) name_rules(object, "NAME-accounting", true, findings);
  external_rules(object, findings);
  service_rules(object, fmt::format("{}-accounting", name_of(object)), findings);
  jwt_key_rules(object, old, findings);
  // These become lines of slurmdbd.conf.
  for (const std::string_view field : {"host", "database", "username"}) {
    const std::string_view text = json::string_at(object, {"spec", "storageConfig", field});
    if (text.empty()) continue;
    if (const auto value = conf_value(text); !value) {
      findings.fault(fmt::format("spec.storageConfig.{}", field), "{}", value.error());
    }
  }
  if (!external && json::object_at(object, {"spec", "storageConfig"}) == nullptr) {
    findings.warn("spec.storageConfig", "is missing; slurmdbd does not start without a database");
  }
}

void restapi_rules(const json::Value& object, const json::Value* old, Findings& findings) {
  if (old == nullptr) name_rules(object, "NAME-restapi", false, findings);
  if (json::string_at(object, {"spec", "controllerRef", "name"}).empty()) {
    findings.warn("spec.controllerRef.name", "is empty; nothing is started until it names a Controller");
  }
  service_rules(object, fmt::format("{}-restapi", name_of(object)), findings);
}

void loginset_rules(const json::Value& object, const json::Value* old, Findings& findings) {
  if (old == nullptr) name_rules(object, "NAME", false, findings);
  controller_ref_rules(object, old, findings);
  service_rules(object, name_of(object), findings);
  if (json::string_at(object, {"spec", "sssdConfRef", "name"}).empty()) {
    findings.fault("spec.sssdConfRef.name", "is empty; name the Secret with sssd.conf");
  }
  const std::string_view type = json::string_at(object, {"spec", "strategy", "type"});
  if (!type.empty() && type != "RollingUpdate" && type != "Recreate") {
    findings.fault("spec.strategy.type", "{} is not a strategy of Deployments; use RollingUpdate or Recreate",
                   quoted(type));
  }
}

void read(Kind kind, const json::Value& object) {
  switch (kind) {
    case Kind::kController:
      read_controller(object);
      break;
    case Kind::kAccounting:
      read_accounting(object);
      break;
    case Kind::kRestApi:
      read_restapi(object);
      break;
    case Kind::kLoginSet:
      read_loginset(object);
      break;
    case Kind::kNodeSet:
      check_nodeset(object);
      break;
    case Kind::kToken:
      read_token(object);
      break;
  }
}

// What the operator could not read afterwards: types and ranges the CRD leaves open.
void reading_rules(Kind kind, const json::Value& object, Findings& findings) {
  try {
    read(kind, object);
  } catch (const BadObject& error) {
    std::string_view sentence = error.what();
    for (const std::string& known : {error.object() + ": ", error.field() + " "}) {
      if (sentence.starts_with(known)) sentence.remove_prefix(known.size());
    }
    findings.fault(error.field(), "{}", sentence);
  }
}

// What was counted is old. Where the Controller is gone the count is of nobody's jobs, and right.
bool may_have_jobs(const json::Value& node_set) {
  const json::Value* ready = kube::find_condition(json::array_at(node_set, {"status", "conditions"}), "Ready");
  if (ready == nullptr || json::int_at(node_set, {"status", "replicas"}).value_or(0) <= 0) return false;
  const std::string_view reason = json::string_at(*ready, {"reason"});
  return reason == reasons::kSlurmUnknown || reason == reasons::kBadSpec;
}

}  // namespace

void token_rules(const json::Value& object, const json::Value* old, Findings& findings) {
  jwt_key_rules(object, old, findings);
  const std::string_view lifetime = json::string_at(object, {"spec", "lifetime"});
  if (parse_duration(lifetime).value_or(kMinLifetime) < kMinLifetime) {
    findings.fault("spec.lifetime", "{} is too short to be renewed in time; use at least 10s", quoted(lifetime));
  }
  if (json::object_at(object, {"spec", "secretRef"}) != nullptr && key_of(object, "secretRef").name.empty()) {
    findings.fault("spec.secretRef.name", "is empty; name the Secret to write, or leave secretRef out");
  }
}

std::string_view to_string(Kind kind) noexcept {
  return std::ranges::find(kKinds, kind, [](const auto& entry) { return entry.first; })->second.first;
}

std::optional<Kind> kind_of(std::string_view lower_case) noexcept {
  const auto found = std::ranges::find(kKinds, lower_case, [](const auto& entry) { return entry.second.second; });
  return found == kKinds.end() ? std::nullopt : std::optional(found->first);
}

Wanted wanted(Kind kind, const json::Value& object) {
  Wanted names;
  names.node_sets = kind == Kind::kNodeSet;
  if (kind != Kind::kController || json::bool_at(object, {"spec", "external"})) return names;
  for (const std::string& name : file_maps(object)) {
    if (names.config_maps.size() + 1 == kMaxLookups) break;
    names.config_maps.insert(name);
  }
  const std::string_view claim = json::string_at(object, {"spec", "persistence", "existingClaim"});
  if (json::bool_at(object, {"spec", "ha", "enabled"}) && !claim.empty()) names.claims.emplace(claim);
  return names;
}

bool is_untouched(const json::Value& object, const json::Value* old) noexcept {
  if (json::find(object, {"metadata", "deletionTimestamp"}) != nullptr) return true;
  if (old == nullptr) return false;
  const json::Value* before = json::find(*old, {"spec"});
  const json::Value* after = json::find(object, {"spec"});
  return before == after || (before != nullptr && after != nullptr && json::equal(*before, *after));
}

Findings examine(Kind kind, const json::Value& object, const json::Value* old, const Known& known) {
  Findings findings;
  if (is_untouched(object, old)) return findings;
  switch (kind) {
    case Kind::kController:
      controller_rules(object, old, known, findings);
      break;
    case Kind::kAccounting:
      accounting_rules(object, old, findings);
      break;
    case Kind::kRestApi:
      restapi_rules(object, old, findings);
      break;
    case Kind::kLoginSet:
      loginset_rules(object, old, findings);
      break;
    case Kind::kNodeSet:
      nodeset_rules(object, old, known, findings);
      break;
    case Kind::kToken:
      token_rules(object, old, findings);
      break;
  }
  if (findings.faults.empty()) reading_rules(kind, object, findings);
  return findings;
}

// In the foreground Kubernetes deletes the pods before the NodeSet, and no finalizer of the NodeSet holds it back.
std::optional<std::string> deletion_fault(Kind kind, const json::Value& object, std::string_view propagation) {
  if (kind != Kind::kNodeSet || propagation != "Foreground") return std::nullopt;
  const std::int64_t busy = json::int_at(object, {"status", "slurmAllocated"}).value_or(0);
  std::string fault;
  if (busy > 0) {
    fault = fmt::format("jobs run on {} of its nodes", busy);
  } else if (may_have_jobs(object)) {
    fault = "nobody knows whether jobs run on its nodes";
  } else {
    return std::nullopt;
  }
  return fault +
         ", and a deletion in the foreground would end them at once; delete it in the background, which lets them end "
         "first (kubectl and helm: --cascade=background; Argo CD: PrunePropagationPolicy=background)";
}

}  // namespace bascule::op
