#include "operator/explain/fields.hpp"

#include <algorithm>

namespace bascule::op::explain {

std::string text_at(const json::Value& value, json::Path path) {
  return std::string(json::string_at(value, path));
}
std::optional<WallTime> time_at(const json::Value& value, json::Path path) {
  return parse_rfc3339(json::string_at(value, path));
}

const json::Value* condition_of(const json::Value& object, std::string_view type) {
  const json::Array* list = json::array_at(object, {"status", "conditions"});
  if (list == nullptr) return nullptr;
  const auto found =
      std::ranges::find_if(*list, [&](const json::Value& c) { return json::string_at(c, {"type"}) == type; });
  return found == list->end() ? nullptr : &*found;
}
bool holds(const json::Value* condition) {
  return condition != nullptr && json::string_at(*condition, {"status"}) == "True";
}

}  // namespace bascule::op::explain
