// Whether two values of an object mean the same, up to how the API server writes them. Pure.
#pragma once

#include "json/value.hpp"

namespace bascule::kube {

// All that `wanted` says is so in `live`: what is null or empty may be absent, amounts may be written another way
// ("1024Mi", "1Gi"), and `live` may say more. Items of lists are in order, or found by name, port or the like.
bool covers(const json::Value& live, const json::Value& wanted);

}  // namespace bascule::kube
