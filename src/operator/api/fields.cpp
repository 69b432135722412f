#include "operator/api/fields.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "operator/api/read.hpp"

namespace bascule::op {

namespace {

std::string_view kind_of(const json::Value& value) {
  switch (value.kind()) {
    case boost::json::kind::null:
      return "nothing";
    case boost::json::kind::bool_:
      return value.get_bool() ? "true" : "false";
    case boost::json::kind::string:
      return "a text";
    case boost::json::kind::array:
      return "a list";
    case boost::json::kind::object:
      return "an object";
    default:
      return "a number";
  }
}

}  // namespace

Fields::Fields(std::string_view kind, const json::Value& object) : object_(object.if_object()) {
  const std::string_view ns = json::string_at(object, {"metadata", "namespace"});
  subject_ = fmt::format("{} {}{}{}", kind, ns, ns.empty() ? "" : "/", json::string_at(object, {"metadata", "name"}));
  if (!object_) throw BadObject(subject_, "", fmt::format("{} is {}, not an object", subject_, kind_of(object)));
}

const json::Value* Fields::value(std::string_view key) const noexcept {
  const json::Value* found = object_ ? object_->if_contains(key) : nullptr;
  return found && !found->is_null() ? found : nullptr;
}

std::string Fields::path_of(std::string_view key) const {
  if (path_.empty()) return std::string(key);
  return key.empty() ? path_ : fmt::format("{}.{}", path_, key);
}

void Fields::fault(std::string_view key, std::string_view what) const {
  const std::string path = path_of(key);
  throw BadObject(subject_, path, fmt::format("{}: {} {}", subject_, path, what));
}

void Fields::wrong(std::string_view key, const json::Value& found, std::string_view remedy) const {
  fault(key, fmt::format("is {}; it must be {}", kind_of(found), remedy));
}

Fields Fields::at(std::string_view key) const {
  const json::Value* found = value(key);
  if (found && !found->is_object()) wrong(key, *found, "an object with fields below it");
  return {subject_, path_of(key), found ? &found->get_object() : nullptr};
}

std::string Fields::text(std::string_view key, std::string_view fallback) const {
  const json::Value* found = value(key);
  if (!found) return std::string(fallback);
  if (found->is_structured()) wrong(key, *found, "a text");
  if (!found->is_string()) wrong(key, *found, fmt::format("a text, as in {}: \"{}\"", key, json::dump(*found)));
  return std::string(json::view(found->get_string()));
}

std::int64_t Fields::number(std::string_view key, std::int64_t fallback, std::int64_t least, std::int64_t most) const {
  const json::Value* found = value(key);
  if (!found) return fallback;
  const std::optional<std::int64_t> number = number_if(key);
  if (!number) wrong(key, *found, fmt::format("a whole number, as in {}: {}", key, std::max(fallback, least)));
  if (*number < least || *number > most) {
    fault(key, fmt::format("is {}; it must be from {} to {}", *number, least, most));
  }
  return *number;
}

std::optional<std::int64_t> Fields::number_if(std::string_view key) const {
  const json::Value* found = value(key);
  return found ? json::int_at(*found, {}) : std::nullopt;
}

bool Fields::flag(std::string_view key, bool fallback) const {
  const json::Value* found = value(key);
  if (!found) return fallback;
  if (!found->is_bool()) wrong(key, *found, "true or false, without quotes");
  return found->get_bool();
}

StringMap Fields::texts(std::string_view key) const {
  StringMap result;
  const Fields below = at(key);
  if (!below.object_) return result;
  for (const auto& [name, item] : *below.object_) result.emplace(name, below.text(name));
  return result;
}

std::vector<std::string> Fields::list_of_texts(std::string_view key) const {
  std::vector<std::string> result;
  for (const json::Value& item : array(key)) {
    if (!item.is_string()) wrong(key, item, "a list of texts");
    result.emplace_back(json::view(item.get_string()));
  }
  return result;
}

std::vector<std::string> Fields::names(std::string_view key) const {
  std::vector<std::string> result;
  for (const Fields& item : objects(key)) result.push_back(item.text("name"));
  return result;
}

KeyRef Fields::key_ref(std::string_view key) const {
  const Fields below = at(key);
  return {below.text("name"), below.text("key")};
}

json::Value Fields::object(std::string_view key) const {
  const Fields below = at(key);
  return below.object_ ? json::Value(*below.object_) : json::Value(json::Object{});
}

json::Array Fields::array(std::string_view key) const {
  const json::Value* found = value(key);
  if (!found) return {};
  if (!found->is_array()) wrong(key, *found, "a list");
  return found->get_array();
}

std::vector<Fields> Fields::objects(std::string_view key) const {
  std::vector<Fields> result;
  const json::Value* found = value(key);
  if (!found) return result;
  if (!found->is_array()) wrong(key, *found, "a list of objects");
  for (const json::Value& item : found->get_array()) {
    const std::string place = fmt::format("{}[{}]", key, result.size());
    if (!item.is_object()) wrong(place, item, "an object, as in - name: scripts");
    result.push_back({subject_, path_of(place), &item.get_object()});
  }
  return result;
}

}  // namespace bascule::op
