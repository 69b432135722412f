#include "operator/reconcile/controller_ref.hpp"

#include <fmt/format.h>

#include "operator/api/read.hpp"
#include "operator/api/resources.hpp"

namespace bascule::op::reconcile {

std::optional<Controller> referenced_controller(View& view, const std::string& name, Plan& plan) {
  constexpr const char* kEvent = "ControllerRefFailed";
  const json::Value* object = view.find(kControllers, name);
  if (!object) {
    plan.wait(fmt::format("Controller {}, named in spec.controllerRef, does not exist", name), kEvent);
    return std::nullopt;
  }
  try {
    return read_controller(*object);
  } catch (const BadObject& error) {
    plan.wait(error.what(), kEvent);
    return std::nullopt;
  }
}

KeyInUse key_in_use(const Controller& controller, View& view, std::string_view hash) {
  return op::key_in_use(controller, view.find(kStatefulSets, names::controller(controller.meta.name)), hash);
}

ControllerKey key_of_controller(const json::Value& controller, View& view) {
  try {
    const Controller read = read_controller(controller);
    Plan unsaid;  // what is missing is told where the Controller is read for itself
    const auto hashes = key_hashes(view, {.slurm = read.keys.slurm, .jwt = {}, .jwks = {}}, unsaid);
    const std::string now = hashes ? hashes->slurm : std::string();
    return {key_in_use(read, view, now), now};
  } catch (const BadObject&) {  // likewise
    const json::Value* live =
        view.find(kStatefulSets, names::controller(json::string_at(controller, {"metadata", "name"})));
    return {{live ? key_mounted(*live) : KeyRef{}, std::string(key_made_for(live))}, {}};
  }
}

void miss_key(const KeyRef& in_use, const KeyRef& wanted, View& view, Plan& plan) {
  if (in_use == wanted || secret_bytes(view, in_use, "")) return;
  const bool there = view.find(kSecrets, in_use.name) != nullptr;
  plan.wait(fmt::format(
      "Secret {0}, whose key {1} is in use, {2}: pods that start anew until slurmctld has taken the other one wait for "
      "it; put it back",
      in_use.name, in_use.key, there ? "has no such key" : "does not exist"));
}

std::optional<std::string> take_key_in_use(Controller& controller, View& view, Plan& plan) {
  const auto keys = key_hashes(view, {.slurm = controller.keys.slurm, .jwt = {}, .jwks = {}}, plan);
  if (!keys) return std::nullopt;
  KeyInUse key = key_in_use(controller, view, keys->slurm);
  miss_key(key.ref, controller.keys.slurm, view, plan);
  controller.keys.slurm = std::move(key.ref);
  return std::move(key.hash);
}

}  // namespace bascule::op::reconcile
