#include "operator/webhook/binding.hpp"

#include "operator/api/names.hpp"
#include "operator/config/node_conf.hpp"

namespace bascule::op {

namespace {

std::string_view topology_of(const json::Value& object) noexcept {
  return json::string_at(object, {"metadata", "annotations", names::kTopologySpec});
}

}  // namespace

bool is_worker(const json::Value& pod) noexcept {
  return json::string_at(pod, {"metadata", "labels", names::kAppName}) == names::kSlurmd.name;
}

std::optional<json::Value> binding_patch(const json::Value& pod, const json::Value& node) {
  if (!is_worker(pod)) return std::nullopt;
  std::string_view topology = topology_of(node);
  if (!is_topology(topology)) topology = {};
  if (topology_of(pod) == topology) return std::nullopt;
  json::Object metadata{{"annotations", json::Object{{names::kTopologySpec, topology}}}};
  if (const std::string_view uid = json::string_at(pod, {"metadata", "uid"}); !uid.empty()) metadata["uid"] = uid;
  return json::Object{{"metadata", std::move(metadata)}};
}

}  // namespace bascule::op
