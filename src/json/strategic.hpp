// Kubernetes strategic merge patch, made and applied on our side as the API server does it.
// Sources: Kubernetes documentation "Update API Objects in Place Using kubectl patch"; design document "Strategic Merge
// Patch" of sig-api-machinery; the x-kubernetes-patch-strategy and x-kubernetes-patch-merge-key of the OpenAPI
// document.
#pragma once

#include <string_view>

#include "json/value.hpp"

namespace bascule::json {

namespace detail {
struct StrategicType;
}

// Which fields merge, and by which key, for one type of object.
class StrategicSchema final {
 public:
  // By kind ("Pod", "Node", "Deployment" ...), or by a type inside one ("PodTemplateSpec", "PodSpec", "Container").
  // Throws PatchError for a kind that has no strategic merge: custom resources take a merge patch instead.
  static StrategicSchema of(std::string_view kind);
  static bool known(std::string_view kind) noexcept;

  const detail::StrategicType* type() const noexcept { return type_; }

 private:
  explicit StrategicSchema(const detail::StrategicType* type) noexcept : type_(type) {}
  const detail::StrategicType* type_;
};

// Both objects. Directives: $patch: replace|delete|merge, $deleteFromPrimitiveList/FIELD, $setElementOrder/FIELD,
// $retainKeys. Throws PatchError, the target then unchanged.
void apply_strategic(Value& target, const Value& patch, StrategicSchema schema);
Value strategic_merged(const Value& target, const Value& patch, StrategicSchema schema);

// The patch that turns `from` into `to`; {} when equal. Same limits as the API: a null or empty value of `to` may come
// out as an absent field. Throws PatchError when a list that merges by key has an item without the key.
Value diff_strategic(const Value& from, const Value& to, StrategicSchema schema);

}  // namespace bascule::json
