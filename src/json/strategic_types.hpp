// What strategic merge knows of the built-in types. Built once from a text; immutable and shared afterwards.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace bascule::json::detail {

struct StrategicField {
  bool list = false;
  // What the object or the items are; nullptr: free keys, or items that are no objects.
  const struct StrategicType* type = nullptr;
  bool merges = false;       // a list: items are merged, not replaced
  std::string merge_key;     // empty: a set of scalars
  bool retain_keys = false;  // what a patch does not name goes away
  bool replaces = false;     // an object: replaced as a whole
};

struct StrategicType {
  std::string name;
  std::map<std::string, StrategicField, std::less<>> fields;

  const StrategicField* find(std::string_view field) const noexcept {
    const auto at = fields.find(field);
    return at == fields.end() ? nullptr : &at->second;
  }
};

std::string_view strategic_table() noexcept;
// nullptr when unknown.
const StrategicType* strategic_type(std::string_view name);

}  // namespace bascule::json::detail
