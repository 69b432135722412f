#include "operator/api/derived.hpp"
#include "operator/api/read.hpp"
#include "operator/api/resources.hpp"
#include "operator/builders/loginset.hpp"
#include "operator/config/hash.hpp"
#include "operator/reconcile/controller_ref.hpp"
#include "operator/reconcile/plan.hpp"

namespace bascule::op::reconcile {

namespace {

// Whoever made it: host keys are never made anew, and those a user brings are as good.
std::string host_keys_hash(const json::Value& secret) {
  Hasher hasher;
  if (const json::Object* data = json::object_at(secret, {"data"})) {
    StringMap keys;
    for (const auto& [key, value] : *data) {
      if (value.is_string()) keys.emplace(key, json::view(value.get_string()));
    }
    for (const auto& [key, value] : keys) hasher.add(key, value);
  }
  return hasher.hex();
}

}  // namespace

Plan plan_loginset(const json::Value& object, View& view, std::string_view domain) {
  const LoginSet set = read_loginset(object);
  Plan plan;
  plan.add(kServices, login_service(set));
  plan.add(kConfigMaps, login_ssh_config(set));
  const json::Value* live = view.find(kDeployments, set.meta.name);
  const json::Value* host_keys = view.find(kSecrets, names::ssh_host_keys(set.meta.name));
  plan.needs_host_keys = host_keys == nullptr;
  auto controller = referenced_controller(view, set.controller, plan);
  std::optional<std::string> key;
  if (controller) key = take_key_in_use(*controller, view, plan);
  std::expected<std::string, std::string> sssd;
  if (!set.sssd.empty()) sssd = secret_bytes(view, set.sssd, "spec.sssdConfRef");
  if (!sssd) plan.wait(sssd.error());
  if (controller && key && sssd && host_keys) {
    plan.add(kDeployments, login_deployment({.set = set,
                                             .controller = *controller,
                                             .domain = domain,
                                             .slurm_key_hash = *key,
                                             .sssd_hash = set.sssd.empty() ? std::string() : sha256_hex(*sssd),
                                             .host_keys_hash = host_keys_hash(*host_keys)}));
  }
  if (auto wait = workload_wait(kDeployments, set.meta.name, live)) plan.wait(*std::move(wait));
  plan.status["replicas"] = live ? json::int_at(*live, {"status", "replicas"}).value_or(0) : 0;
  plan.status["selector"] = selector_text(names::kLogin, set.meta.name);
  return plan;
}

}  // namespace bascule::op::reconcile
