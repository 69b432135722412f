// JSON Patch (RFC 6902) and JSON Merge Patch (RFC 7396), both directions. Pure functions over values.
#pragma once

#include <string_view>

#include "json/value.hpp"

namespace bascule::json {

// All six operations; either all apply or the target stays as it was. Throws PatchError naming the operation.
void apply_patch(Value& target, const Value& patch);
Value patched(const Value& target, const Value& patch);

// Operations (add, remove, replace) that turn `from` into `to`; empty when equal. Lists are compared by their common
// beginning and end, what lies between is changed item by item. A list of operations is what admission answers carry.
Array diff_patch(const Value& from, const Value& to);

void apply_merge(Value& target, const Value& patch);
Value merged(const Value& target, const Value& patch);
// {} when equal. A null inside an object of `to` cannot be said in a merge patch: it is the same as an absent key, and
// apply(from, diff) then lacks the key.
Value diff_merge(const Value& from, const Value& to);

// "~" and "/" as RFC 6901 writes them in a pointer token.
std::string pointer_token(std::string_view key);

}  // namespace bascule::json
