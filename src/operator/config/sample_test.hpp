// Custom resources for tests.
#pragma once

#include <string_view>

#include "json/patch.hpp"
#include "json/yaml.hpp"
#include "operator/api/read.hpp"

namespace bascule::op::test {

inline json::Value custom(std::string_view name, std::string_view spec) {
  json::Value value = json::Object{
      {"metadata", json::Object{{"name", name}, {"namespace", "slurm"}, {"uid", std::string(name) + "-uid"}}}};
  value.get_object()["spec"] = json::parse_yaml(spec);
  return value;
}

constexpr std::string_view kMinimalController = R"(
slurmKeyRef: {name: slurm-auth-slurm, key: slurm.key}
jwtKeyRef: {name: slurm-auth-jwt, key: jwt.key}
slurmctld: {image: "slurmctld:26.05"}
)";

// `more` is merged over the minimal one.
inline Controller controller(std::string_view more = "{}", std::string_view name = "slurm") {
  return read_controller(
      custom(name, json::dump(json::merged(json::parse_yaml(kMinimalController), json::parse_yaml(more)))));
}

inline NodeSet node_set(std::string_view name, std::string_view more = "{}") {
  return read_nodeset(custom(
      name, json::dump(json::merged(json::parse_yaml("{controllerRef: {name: slurm}, slurmd: {image: slurmd:26.05}}"),
                                    json::parse_yaml(more)))));
}

inline Accounting accounting(std::string_view more = "{}", std::string_view name = "slurm") {
  constexpr std::string_view kBase = R"(
slurmKeyRef: {name: slurm-auth-slurm, key: slurm.key}
jwtKeyRef: {name: slurm-auth-jwt, key: jwt.key}
slurmdbd: {image: "slurmdbd:26.05"}
storageConfig: {host: mariadb, username: slurm, passwordKeyRef: {name: mariadb-password, key: password}}
)";
  return read_accounting(custom(name, json::dump(json::merged(json::parse_yaml(kBase), json::parse_yaml(more)))));
}

}  // namespace bascule::op::test
