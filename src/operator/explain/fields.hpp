// Fields of objects as people are told of them. What is not there is empty.
#pragma once

#include <optional>
#include <string_view>

#include "base/time.hpp"
#include "json/text.hpp"

namespace bascule::op::explain {

using json::text_at;
std::optional<WallTime> time_at(const json::Value& value, json::Path path);
// Of an object's status; nullptr: it has none of this type. Points into the object.
const json::Value* condition_of(const json::Value& object, std::string_view type);

}  // namespace bascule::op::explain
