#include "kube/discovery.hpp"

#include <algorithm>

namespace bascule::kube {

namespace {

json::Value parse_answer(const std::string& path, const std::string& text) {
  try {
    return json::parse(text);
  } catch (const json::ParseError& error) {
    throw Malformed(200, "", path + ": the answer is not JSON: " + error.what());
  }
}

constexpr std::size_t kLongestGroup = 253;
constexpr std::size_t kLongestVersion = 63;

}  // namespace

bool Discovery::can_be(std::string_view api_version) noexcept {
  const std::size_t slash = api_version.find('/');
  if (slash == std::string_view::npos) return api_version.size() <= kLongestVersion;
  return slash <= kLongestGroup && api_version.size() - slash - 1 <= kLongestVersion;
}

Task<std::vector<Resource>> Discovery::resources(std::string group, std::string version, std::stop_token stop) {
  const std::string name = group.empty() ? version : group + "/" + version;
  if (!can_be(name)) co_return std::vector<Resource>();
  const auto known = served_.find(name);
  if (known != served_.end() && client_.loop().now() < known->second.until) co_return known->second.resources;
  const std::string path = (group.empty() ? "/api/" : "/apis/") + name;
  std::optional<std::string> text;
  try {
    text = co_await client_.raw(path, stop);
  } catch (const NotServed&) {
    // No such group or version.
  }
  std::vector<Resource> out;
  if (text) {
    const json::Value answer = parse_answer(path, *text);
    const json::Array* list = json::array_at(answer, {"resources"});
    if (list == nullptr) throw Malformed(200, "", path + ": the answer has no resources");
    for (const json::Value& item : *list) {
      out.push_back({group, version, std::string(json::string_at(item, {"name"})),
                     std::string(json::string_at(item, {"kind"})), json::bool_at(item, {"namespaced"})});
    }
  }
  const TimePoint now = client_.loop().now();
  std::erase_if(served_, [now](const auto& entry) { return entry.second.until <= now; });
  served_[name] = {out, now + keep_};
  co_return out;
}

Task<bool> Discovery::serves(Resource resource, std::stop_token stop) {
  const std::vector<Resource> served = co_await resources(resource.group, resource.version, std::move(stop));
  co_return std::ranges::any_of(served, [&](const Resource& r) { return r.resource == resource.resource; });
}

Task<std::optional<Resource>> Discovery::of_kind(std::string group, std::string version, std::string kind,
                                                 std::stop_token stop) {
  const std::vector<Resource> served = co_await resources(std::move(group), std::move(version), std::move(stop));
  const auto found = std::ranges::find_if(served, [&kind](const Resource& r) {
    return r.kind == kind && r.resource.find('/') == std::string::npos;  // no subresource
  });
  co_return found == served.end() ? std::nullopt : std::optional(*found);
}

Task<std::vector<std::string>> Discovery::versions(std::string group, std::stop_token stop) {
  const std::string path = group.empty() ? "/api" : "/apis/" + group;
  std::optional<std::string> text;
  try {
    text = co_await client_.raw(path, std::move(stop));
  } catch (const NotServed&) {
  }
  std::vector<std::string> out;
  if (!text) co_return out;
  const json::Value answer = parse_answer(path, *text);
  if (const std::string_view preferred = json::string_at(answer, {"preferredVersion", "version"}); !preferred.empty()) {
    out.emplace_back(preferred);
  }
  const json::Array* list = json::array_at(answer, {"versions"});
  if (list == nullptr) throw Malformed(200, "", path + ": the answer has no versions");
  for (const json::Value& item : *list) {
    std::string version(item.is_string() ? json::view(item.get_string()) : json::string_at(item, {"version"}));
    if (!version.empty() && std::ranges::find(out, version) == out.end()) out.push_back(std::move(version));
  }
  co_return out;
}

}  // namespace bascule::kube
