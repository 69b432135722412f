// Identifiers that must not be mixed up: distinct types over strings and numbers, comparable, hashable, printable.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "base/uid.hpp"

namespace bascule {

template <class Tag>
class StrongString final {
 public:
  StrongString() = default;
  explicit StrongString(std::string text) : text_(std::move(text)) {}
  explicit StrongString(std::string_view text) : text_(text) {}
  explicit StrongString(const char* text) : text_(text) {}
  const std::string& str() const noexcept { return text_; }
  bool empty() const noexcept { return text_.empty(); }
  friend auto operator<=>(const StrongString&, const StrongString&) = default;

 private:
  std::string text_;
};

using NodeName = StrongString<struct NodeNameTag>;  // of a Kubernetes Node
using SlurmNodeName = StrongString<struct SlurmNodeNameTag>;

// Namespace and name of an object; `ns` is empty for cluster-scoped ones. Printed as ns/name, or name alone.
struct NamespacedName {
  std::string ns;
  std::string name;

  // "ns/name" or "name"; more slashes stay in the name.
  static NamespacedName parse(std::string_view text) {
    const std::size_t slash = text.find('/');
    if (slash == std::string_view::npos) return {"", std::string(text)};
    return {std::string(text.substr(0, slash)), std::string(text.substr(slash + 1))};
  }
  std::string str() const { return ns.empty() ? name : ns + "/" + name; }
  bool empty() const noexcept { return name.empty(); }
  friend auto operator<=>(const NamespacedName&, const NamespacedName&) = default;
};

// A Slurm job id; 0 means none.
struct JobId {
  std::uint32_t value = 0;
  explicit operator bool() const noexcept { return value != 0; }
  std::string str() const { return std::to_string(value); }
  friend auto operator<=>(const JobId&, const JobId&) = default;
};

}  // namespace bascule

template <class Tag>
struct std::hash<bascule::StrongString<Tag>> {
  std::size_t operator()(const bascule::StrongString<Tag>& s) const noexcept {
    return std::hash<std::string>{}(s.str());
  }
};
template <>
struct std::hash<bascule::NamespacedName> {
  std::size_t operator()(const bascule::NamespacedName& n) const noexcept {
    return std::hash<std::string>{}(n.ns) * 31 + std::hash<std::string>{}(n.name);
  }
};
template <>
struct std::hash<bascule::JobId> {
  std::size_t operator()(const bascule::JobId& id) const noexcept { return std::hash<std::uint32_t>{}(id.value); }
};
