#include "kube/objects.hpp"

#include <algorithm>

namespace bascule::kube {

const InternedString* find(const StringMap& map, std::string_view key) noexcept {
  const auto at = std::ranges::lower_bound(map, key, {}, [](const auto& entry) { return entry.first.view(); });
  return at != map.end() && at->first.view() == key ? &at->second : nullptr;
}

std::string_view value_or(const StringMap& map, std::string_view key, std::string_view fallback) noexcept {
  const InternedString* value = find(map, key);
  return value == nullptr ? fallback : value->view();
}

Quantity amount(const ResourceList& list, std::string_view name) noexcept {
  const auto at = std::ranges::lower_bound(list, name, {}, [](const auto& entry) { return entry.first.view(); });
  return at != list.end() && at->first.view() == name ? at->second : Quantity();
}

const OwnerReference* ObjectMeta::controller() const noexcept {
  const auto at = std::ranges::find_if(owners, &OwnerReference::controller);
  return at == owners.end() ? nullptr : &*at;
}

bool ObjectMeta::has_finalizer(std::string_view name) const noexcept {
  return std::ranges::any_of(finalizers, [name](const InternedString& f) { return f.view() == name; });
}

std::string print(const HostPort& port) {
  std::string text = std::to_string(port.number);
  if (port.protocol == Protocol::kUdp) text += "/UDP";
  if (port.protocol == Protocol::kSctp) text += "/SCTP";
  return text;
}

bool tolerates(const Toleration& toleration, const Taint& taint) noexcept {
  if (!toleration.effect.empty() && toleration.effect.view() != taint.effect.view()) return false;
  // Without a key only Exists means something: everything.
  if (toleration.key.empty()) return toleration.exists;
  if (toleration.key.view() != taint.key.view()) return false;
  return toleration.exists || toleration.value.view() == taint.value.view();
}

}  // namespace bascule::kube
