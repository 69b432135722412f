// Fields of objects as people are told of them. What is not there is empty.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/time.hpp"
#include "json/value.hpp"

namespace bascule::op::explain {

std::string text_at(const json::Value& value, json::Path path);
std::optional<WallTime> time_at(const json::Value& value, json::Path path);
// Of an object's status; nullptr: it has none of this type. Points into the object.
const json::Value* condition_of(const json::Value& object, std::string_view type);

}  // namespace bascule::op::explain
