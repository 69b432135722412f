#include "operator/builders/restapi.hpp"

#include <fmt/format.h>

#include "operator/api/derived.hpp"
#include "operator/api/read.hpp"
#include "operator/api/resources.hpp"
#include "operator/reconcile/controller_ref.hpp"
#include "operator/reconcile/plan.hpp"

namespace bascule::op::reconcile {

Plan plan_restapi(const json::Value& object, View& view) {
  const RestApi api = read_restapi(object);
  Plan plan;
  plan.add(kServices, restapi_service(api));
  const std::string name = names::restapi(api.meta.name);
  const json::Value* live = view.find(kDeployments, name);
  if (auto controller = referenced_controller(view, api.controller, plan)) {
    const std::string config = names::config(controller->meta.name);
    const json::Value* map = view.find(kConfigMaps, config);
    const std::string conf(map ? json::string_at(*map, {"data", names::kSlurmConf}) : std::string_view());
    // It has no part in JWKS and signs nothing: the auth/slurm key alone is mounted.
    const auto key = take_key_in_use(*controller, view, plan);
    if (conf.empty()) {
      plan.wait(fmt::format("ConfigMap {} of Controller {} has no slurm.conf yet", config, controller->meta.name));
    } else if (key) {
      plan.add(kDeployments, restapi_deployment(api, *controller, conf, {.slurm = *key, .jwt = {}}));
    }
  }
  if (auto wait = workload_wait(kDeployments, name, live)) plan.wait(*std::move(wait));
  plan.status["replicas"] = live ? json::int_at(*live, {"status", "replicas"}).value_or(0) : 0;
  plan.status["selector"] = selector_text(names::kSlurmrestd, api.meta.name);
  return plan;
}

}  // namespace bascule::op::reconcile
