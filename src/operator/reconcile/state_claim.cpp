#include "operator/reconcile/state_claim.hpp"

#include "operator/api/resources.hpp"

namespace bascule::op::reconcile {

namespace {

constexpr Duration kAgain = std::chrono::minutes(1);

}  // namespace

Task<> StateClaims::look(ObjectPtr controller, CachedView& view, std::stop_token stop) {
  const NamespacedName key = controller->meta.key;
  std::string name(json::string_at(controller->value, {"spec", "persistence", "existingClaim"}));
  if (name.empty() || !json::bool_at(controller->value, {"spec", "ha", "enabled"})) {
    known_.erase(key);
    co_return;
  }
  Known known = known_[key];
  if (known.name != name || kube_.loop().now() >= known.due) {
    known = {.name = name, .due = kube_.loop().now() + kAgain};
    try {
      known.claim = co_await kube_.get(kClaims, {key.ns, name}, {}, stop);
    } catch (const kube::Error&) {  // what is not known is no fault
    }
    known_[key] = known;
  }
  if (!known.claim.is_null()) view.put(kClaims, name, known.claim);
}

}  // namespace bascule::op::reconcile
