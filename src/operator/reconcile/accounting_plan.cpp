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
    try {
      const Controller controller = read_controller(*object);
      Plan unsaid;  // what is missing is told where the Controller is read for itself
      const auto now = key_hashes(view, {.slurm = controller.keys.slurm, .jwt = {}, .jwks = {}}, unsaid);
      if (!now) continue;
      KeyInUse key = key_in_use(controller, view, now->slurm);
      if (key.hash == keys.slurm) continue;
      if (made_for.empty() ? now->slurm != keys.slurm : key.hash != made_for) continue;
      if (!made_for.empty()) key.ref = key_mounted(*live);
      keys.slurm = key.hash;
      if (!key.ref.empty()) accounting.keys.slurm = std::move(key.ref);
      plan.notes.push_back(fmt::format(
          "slurmdbd keeps the auth/slurm key that Controller {} has until that takes another", controller.meta.name));
      return;
    } catch (const BadObject&) {  // told where it is read for itself
    }
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
