// Kubernetes strategic merge patch, made and applied on our side as the API server does it.
// Sources: Kubernetes documentation "Update API Objects in Place Using kubectl patch"; design documents "Strategic
// Merge Patch" and "Order in Strategic Merge Patch" of sig-api-machinery; the x-kubernetes-patch-strategy and
// x-kubernetes-patch-merge-key of the OpenAPI document (json/strategic_types.cpp).
#pragma once

#include <string>
#include <string_view>
#include <vector>

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
  static bool known(std::string_view kind);

  const detail::StrategicType* type() const noexcept { return type_; }

 private:
  explicit StrategicSchema(const detail::StrategicType* type) noexcept : type_(type) {}
  const detail::StrategicType* type_;
};

// Both are objects. Directives: $patch: replace|delete, $deleteFromPrimitiveList/FIELD, $setElementOrder/FIELD,
// $retainKeys. Throws PatchError, the target then unchanged: for a directive without sense, for a list item without its
// merge key, and, as the API server, for an object or a list within a field the type does not have.
void apply_strategic(Value& target, const Value& patch, StrategicSchema schema);
Value strategic_merged(Value target, const Value& patch, StrategicSchema schema);

// The patch that turns `from` into `to`; {} when equal. Nulls in `to` count as absent. Carries $setElementOrder and
// $retainKeys, so that it also does right on an object that others changed meanwhile.
// Throws PatchError when a strategic patch cannot say it: items without the merge key, repeated keys that do not stand
// together, repeated members of a set, a changed field the type does not have. A merge patch can.
Value diff_strategic(const Value& from, const Value& to, StrategicSchema schema);

}  // namespace bascule::json
