// The children of a Controller. With an external one only the ConfigMap is made.
#pragma once

#include <string>
#include <string_view>

#include "json/value.hpp"
#include "operator/api/types.hpp"
#include "operator/config/files.hpp"

namespace bascule::op {

// Of the Secrets' content that pods mount: sha256_hex of the key's bytes; empty when it is not there.
struct KeyHashes {
  std::string slurm;
  std::string jwt;  // of the JWT key and, if there is one, the JWKS
};

// All of these throw BadObject when the user's part cannot be built.
json::Value controller_internal_service(const Controller& controller);  // headless, for each pod
json::Value controller_service(const Controller& controller);           // what everyone dials
// `slurm_conf` as config/slurm_conf.hpp makes it.
json::Value controller_config(const Controller& controller, std::string_view slurm_conf, const FilePlan& files);
json::Value controller_stateful_set(const Controller& controller, std::string_view slurm_conf, const FilePlan& files,
                                    const KeyHashes& keys);
// monitoring.coreos.com/v1; wanted when wants_service_monitor says so and the cluster serves that kind.
json::Value controller_service_monitor(const Controller& controller);
bool wants_service_monitor(const Controller& controller) noexcept;

}  // namespace bascule::op
