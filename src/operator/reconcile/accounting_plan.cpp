#include "operator/api/read.hpp"
#include "operator/api/resources.hpp"
#include "operator/builders/accounting.hpp"
#include "operator/config/slurmdbd_conf.hpp"
#include "operator/reconcile/controller_ref.hpp"
#include "operator/reconcile/plan.hpp"

namespace bascule::op::reconcile {

namespace {

// slurmdbd hears those who have its key: as long as a Controller of it waits to take another, so does it.
void keep_key(const Accounting& accounting, View& view, KeyHashes& keys) {
  for (const json::Value* object : view.controllers_of(accounting.meta.name)) {
    try {
      const Controller controller = read_controller(*object);
      if (controller.keys.slurm != accounting.keys.slurm) continue;
      const std::string in_use = key_in_use(controller, view, keys.slurm);
      if (in_use == keys.slurm) continue;
      keys.slurm = in_use;
      return;
    } catch (const BadObject&) {  // told where it is read for itself
    }
  }
}

}  // namespace

Plan plan_accounting(const json::Value& object, View& view) {
  const Accounting accounting = read_accounting(object);
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
  if (keys) keep_key(accounting, view, *keys);
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
