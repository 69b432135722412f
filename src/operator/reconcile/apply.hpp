// Whether a child has to be written: decided from what is wanted, what is there, and what this process wrote. Pure.
//
// Children are written by server-side apply. Each carries a stamp of what was last applied, so that a field we no
// longer want is noticed too; what others change of ours is noticed by comparison. The API server writes some values
// its own way ("1000m" becomes "1"): what it made of an application is remembered, so that it is not taken for a
// change.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/loop.hpp"
#include "json/value.hpp"
#include "operator/api/names.hpp"

namespace bascule::op::reconcile {

inline constexpr std::string_view kFieldManager = "slurm-operator";
using names::kStamp;

enum class Verdict : std::uint8_t {
  kKeep,
  kCreate,
  kApply,
  kAdopt,     // is ours without an owner, or slurm-operator's for us: adopt_owners() first, then judge again
  kForeign,   // there is one of that name that is not ours: left alone
  kGoing,     // it is being deleted: wait
  kAsk,       // what is cached is from before our last application, for too long: judge what the API server itself has
  kRecreate,  // differs where it cannot be changed: delete it, without its pods, and make it anew
};

// What this process knows of its last application of a child.
struct Applied {
  std::string stamp = {};
  std::string before = {};  // resourceVersion it was applied to; empty: it was created
  std::string after = {};   // resourceVersion since
  std::string digest = {};  // of what the API server made of it
  TimePoint at{};           // of the application
};

// Puts the stamp on.
json::Value stamped(json::Value wanted);
std::string digest_of(const json::Value& live);

// `wanted` is stamped. `live` may be nullptr.
Verdict judge(const json::Value& wanted, const json::Value* live, const Applied& last, TimePoint now = {});

// What is cached (nullptr: nothing) is from before that application.
bool is_unseen(const Applied& last, const json::Value* cached);

// `live` belongs to whom `wanted` will belong to: the same controller; where `wanted` has owners but no controller, at
// least one owner of the same kind.
bool is_ours(const json::Value& wanted, const json::Value& live);
// The owners of `wanted` take the place of another controller.
void adopt_owners(const json::Value& wanted, json::Value& live);
// An object that slurm-operator made is written by updates of its manager, whose fields no application of ours would
// ever take away. Its managedFields with those fields in our hands; nullopt: there are none.
// `live` is whole, managedFields included.
std::optional<json::Array> taken_over_fields(const json::Value& live);
// What no application takes away and is refused beside what is wanted: limits that the API server itself gave a
// Deployment of type RollingUpdate, with type Recreate; the other bound of a budget, which somebody else wrote. A merge
// patch that does; nullopt: none is needed.
std::optional<json::Value> patch_before(const json::Value& wanted, const json::Value& live);
// All that `wanted` says is so in `live`, up to how the API server writes it.
bool covers(const json::Value& live, const json::Value& wanted);

}  // namespace bascule::op::reconcile
