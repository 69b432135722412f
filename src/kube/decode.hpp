// Parts that every decoder of objects shares. Included by sources that decode only: it brings the hot reader.
#pragma once

#include <algorithm>
#include <vector>

#include "json/hot.hpp"
#include "kube/objects.hpp"

namespace bascule::kube {

using json::hot::Value;

// Annotations that nobody decides by and that cost much: kubectl's copy of the object, and anything over this size.
inline constexpr std::size_t kMaxAnnotation = std::size_t{16} << 10;  // bytes

inline InternedString interned(Value value, json::Interner& interner) {
  const std::optional<std::string_view> text = value.string();
  return text ? interner(*text) : InternedString();
}
inline std::string owned(Value value) {
  return std::string(value.string().value_or(std::string_view()));
}
inline std::int64_t integer_or(Value value, std::int64_t fallback) {
  return value.integer().value_or(fallback);
}

void decode_meta(Value value, json::Interner& interner, ObjectMeta& meta);
StringMap decode_strings(Value value, json::Interner& interner);
// Into `list`, which keeps its memory.
void decode_resources(Value value, json::Interner& interner, ResourceList& list);
// An item of status.conditions; `type` lives as long as the text.
struct NamedCondition {
  std::string_view type;
  Condition condition;
};
NamedCondition decode_condition(Value value, json::Interner& interner);

}  // namespace bascule::kube
