// Conditions of a status: a list that Kubernetes treats as a map by `type` (API conventions, "Typical status
// properties").
#pragma once

#include <string_view>

#include "json/value.hpp"

namespace bascule::kube {

// nullptr: there is no list, or none of this type in it. Points into the list.
const json::Value* find_condition(const json::Array* conditions, std::string_view type) noexcept;
// Whether it is there and "True"; "Unknown" is not.
bool holds(const json::Value* condition) noexcept;

}  // namespace bascule::kube
