// The children of a RestApi.
#pragma once

#include <string_view>

#include "json/value.hpp"
#include "operator/builders/controller.hpp"

namespace bascule::op {

json::Value restapi_service(const RestApi& api);
// `slurm_conf` is what the Controller's ConfigMap holds: slurmrestd reads it only when it starts.
json::Value restapi_deployment(const RestApi& api, const Controller& controller, std::string_view slurm_conf,
                               const KeyHashes& keys);

}  // namespace bascule::op
