#include "kube/covers.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/quantity.hpp"

namespace bascule::kube {

namespace {

constexpr std::string_view kIdentities[] = {"name", "uid", "mountPath", "containerPort", "port", "type", "key"};
constexpr std::string_view kAmounts[] = {"limits", "requests", "capacity", "sizeLimit", "divisor"};

// The API server does not keep these.
bool is_nothing(const json::Value& value) {
  if (value.is_null()) return true;
  if (const auto* text = value.if_string()) return text->empty();
  if (const auto* array = value.if_array()) return array->empty();
  if (const auto* object = value.if_object()) {
    return std::ranges::all_of(*object, [](const auto& member) { return is_nothing(member.value()); });
  }
  return false;
}

std::optional<Quantity> amount_of(const json::Value& value) {
  if (const auto* text = value.if_string()) return Quantity::parse(json::view(*text));
  if (value.is_number()) return Quantity::parse(json::dump(value));
  return std::nullopt;
}

bool covers_value(const json::Value& live, const json::Value& wanted, bool amounts);

bool covers_list(const json::Array& live, const json::Array& wanted, bool amounts) {
  const auto covers_item = [&](const json::Value& a, const json::Value& b) { return covers_value(a, b, amounts); };
  if (live.size() == wanted.size() && std::ranges::equal(live, wanted, covers_item)) return true;
  for (const std::string_view identity : kIdentities) {
    const auto has_it = [&](const json::Value& item) { return json::find(item, {identity}) != nullptr; };
    if (!std::ranges::all_of(wanted, has_it)) continue;
    return std::ranges::all_of(wanted, [&](const json::Value& item) {
      return std::ranges::any_of(live, [&](const json::Value& other) {
        const json::Value* name = json::find(other, {identity});
        return name && json::equal(*name, *json::find(item, {identity})) && covers_item(other, item);
      });
    });
  }
  return false;
}

bool covers_value(const json::Value& live, const json::Value& wanted, bool amounts) {
  if (const auto* object = wanted.if_object()) {
    const auto* there = live.if_object();
    if (!there) return false;
    return std::ranges::all_of(*object, [&](const auto& member) {
      const json::Value* found = there->if_contains(member.key());
      if (!found) return is_nothing(member.value());
      const std::string_view key = member.key();
      return covers_value(*found, member.value(), amounts || std::ranges::find(kAmounts, key) != std::end(kAmounts));
    });
  }
  if (const auto* array = wanted.if_array()) return live.is_array() && covers_list(live.get_array(), *array, amounts);
  if (json::equal(live, wanted)) return true;
  if (is_nothing(live) && is_nothing(wanted)) return true;
  if (!amounts) return false;
  const std::optional<Quantity> a = amount_of(live);
  const std::optional<Quantity> b = amount_of(wanted);
  return a && b && *a == *b;
}

}  // namespace

bool covers(const json::Value& live, const json::Value& wanted) {
  return covers_value(live, wanted, false);
}

}  // namespace bascule::kube
