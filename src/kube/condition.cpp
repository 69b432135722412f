#include "kube/condition.hpp"

#include <algorithm>

namespace bascule::kube {

const json::Value* find_condition(const json::Array* conditions, std::string_view type) noexcept {
  if (conditions == nullptr) return nullptr;
  const auto found =
      std::ranges::find_if(*conditions, [&](const json::Value& c) { return json::string_at(c, {"type"}) == type; });
  return found == conditions->end() ? nullptr : &*found;
}

bool holds(const json::Value* condition) noexcept {
  return condition != nullptr && json::string_at(*condition, {"status"}) == "True";
}

}  // namespace bascule::kube
