#include "operator/explain/fields.hpp"

#include "kube/condition.hpp"

namespace bascule::op::explain {

std::optional<WallTime> time_at(const json::Value& value, json::Path path) {
  return parse_rfc3339(json::string_at(value, path));
}

const json::Value* condition_of(const json::Value& object, std::string_view type) {
  return kube::find_condition(json::array_at(object, {"status", "conditions"}), type);
}

}  // namespace bascule::op::explain
