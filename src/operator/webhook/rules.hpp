// What is said to a custom resource of slinky.slurm.net that is created or changed. Pure: the object, what it was
// before and what is known of the objects it refers to go in, findings come out.
//
// The API server has checked types, enums and patterns against the CRD before; a rule that meets something else than
// the CRD promises stays silent. Invariants: what slurm-operator accepts is refused only when it can never work; an
// update that does not touch the spec is never refused, so that an object let in earlier can be labelled, released from
// finalizers and deleted; what cannot be read is unknown and refuses nothing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "json/value.hpp"
#include "operator/webhook/findings.hpp"

namespace bascule::op {

enum class Kind : std::uint8_t { kController, kAccounting, kRestApi, kLoginSet, kNodeSet, kToken };

// "Controller"; and back from the last word of a webhook's path, "controller".
std::string_view to_string(Kind kind) noexcept;
std::optional<Kind> kind_of(std::string_view lower_case) noexcept;

// An object of the same namespace that the examined one refers to. Not in the maps below: unknown.
struct ConfigMapFacts {
  bool exists = false;
  std::vector<std::string> keys;
};
struct ClaimFacts {
  bool exists = false;
  std::vector<std::string> access_modes;
};
struct Known {
  std::map<std::string, ConfigMapFacts, std::less<>> config_maps;
  std::map<std::string, ClaimFacts, std::less<>> claims;
  std::vector<json::Value> node_sets;  // of the namespace; none when they are not known
};

// What to look up before `examine`; at most kMaxLookups names together.
inline constexpr std::size_t kMaxLookups = 64;
struct Wanted {
  std::set<std::string, std::less<>> config_maps;
  std::set<std::string, std::less<>> claims;
  bool node_sets = false;
};
Wanted wanted(Kind kind, const json::Value& object);

// Whether nothing is examined: the spec is as it was, or the object is being deleted. `old` is nullptr at creation,
// here and below.
bool is_untouched(const json::Value& object, const json::Value* old) noexcept;
Findings examine(Kind kind, const json::Value& object, const json::Value* old, const Known& known);

// Why the object must not be deleted so, as a sentence; `propagation` as in DeleteOptions.
std::optional<std::string> deletion_fault(Kind kind, const json::Value& object, std::string_view propagation);

}  // namespace bascule::op
