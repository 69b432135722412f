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

std::optional<std::string> take_key_in_use(Controller& controller, View& view, Plan& plan) {
  const auto keys = key_hashes(view, {.slurm = controller.keys.slurm, .jwt = {}, .jwks = {}}, plan);
  if (!keys) return std::nullopt;
  KeyInUse key = key_in_use(controller, view, keys->slurm);
  controller.keys.slurm = std::move(key.ref);
  return std::move(key.hash);
}

}  // namespace bascule::op::reconcile
