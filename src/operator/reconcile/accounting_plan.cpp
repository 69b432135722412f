#include <fmt/format.h>

#include "operator/api/read.hpp"
#include "operator/api/resources.hpp"
#include "operator/builders/accounting.hpp"
#include "operator/config/slurmdbd_conf.hpp"
#include "operator/reconcile/controller_ref.hpp"
#include "operator/reconcile/plan.hpp"

namespace bascule::op::reconcile {

namespace {

// slurmdbd hears those who have its key: as long as a Controller of it has the key that it has, it keeps it, from
// wherever it has it. One that is made now starts with that of a Controller that waits.
void keep_key(Accounting& accounting, View& view, KeyHashes& keys, Plan& plan) {
  const json::Value* live = view.find(kStatefulSets, names::accounting(accounting.meta.name));
  const std::string_view made_for = key_made_for(live);
  if (made_for == keys.slurm) return;
  for (const json::Value* object : view.controllers_of(accounting.meta.name)) {
    ControllerKey key = key_of_controller(*object, view);
    if (key.in_use.hash.empty() || key.in_use.hash == keys.slurm) continue;
    if (made_for.empty() ? key.now != keys.slurm : key.in_use.hash != made_for) continue;
    if (!made_for.empty()) key.in_use.ref = key_mounted(*live);
    keys.slurm = std::move(key.in_use.hash);
    if (!key.in_use.ref.empty()) accounting.keys.slurm = std::move(key.in_use.ref);
    plan.notes.push_back(
        fmt::format("slurmdbd keeps the auth/slurm key that Controller {} has until that takes another",
                    json::string_at(*object, {"metadata", "name"})));
    return;
  }
}

}  // namespace

Plan plan_accounting(const json::Value& object, View& view) {
  Accounting accounting = read_accounting(object);
  Plan plan;
  if (accounting.external) {
    // One that has moved outside leaves nothing here that could write to its database.
    const std::string name = names::accounting(accounting.meta.name);
    for (const kube::Resource* resource : {&kStatefulSets, &kServices, &kSecrets}) {
      plan.unwanted.push_back({resource, name});
    }
    return plan;
  }
  plan.add(kServices, accounting_service(accounting));
  std::optional<KeyHashes> keys = key_hashes(view, accounting.keys, plan);
  if (keys) keep_key(accounting, view, *keys, plan);
  const KeyRef& ref = accounting.storage.password;
  std::expected<std::string, std::string> password;
  if (!ref.empty()) password = secret_bytes(view, ref, "spec.storageConfig.passwordKeyRef");
  if (!password) {
    plan.wait(password.error());
  } else if (const auto conf = slurmdbd_conf(accounting, *password); !conf) {
    plan.faults.push_back({"BadConfiguration", conf.error()});
  } else {
    plan.add(kSecrets, accounting_config(accounting, *conf));
    if (keys) plan.add(kStatefulSets, accounting_stateful_set(accounting, *conf, *keys));
  }
  const std::string name = names::accounting(accounting.meta.name);
  if (auto wait = workload_wait(kStatefulSets, name, view.find(kStatefulSets, name))) plan.wait(*std::move(wait));
  return plan;
}

}  // namespace bascule::op::reconcile
