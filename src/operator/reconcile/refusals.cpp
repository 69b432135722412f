#include "operator/reconcile/refusals.hpp"

#include <algorithm>

#include "operator/config/hash.hpp"

namespace bascule::op::reconcile {

namespace {

constexpr Duration kFirstPause = std::chrono::milliseconds(5);
constexpr Duration kLongestPause = std::chrono::minutes(5);
constexpr int kDoublings = 16;

std::string hash_of(const Plan& plan) {
  Hasher hasher;
  for (const Child& child : plan.children) hasher.add(child.resource->kind, json::dump(child.object));
  for (const Unwanted& unwanted : plan.unwanted) hasher.add(unwanted.resource->kind, unwanted.name);
  return hasher.hex();
}

}  // namespace

std::optional<Duration> Refusals::hold(const std::string& object, Plan& plan, TimePoint now) const {
  const auto known = known_.find(object);
  if (known == known_.end() || now >= known->second.until || known->second.children != hash_of(plan)) {
    return std::nullopt;
  }
  std::ranges::copy(known->second.faults, std::back_inserter(plan.faults));
  std::ranges::copy(known->second.waits, std::back_inserter(plan.waits));
  return known->second.until - now;
}

Duration Refusals::failed(const std::string& object, const Plan& plan, std::size_t faults, std::size_t waits,
                          TimePoint now) {
  Known& known = known_[object];
  std::string children = hash_of(plan);
  known.times = known.children == children ? std::min(known.times + 1, kDoublings) : 0;
  known.children = std::move(children);
  known.faults.assign(plan.faults.begin() + static_cast<std::ptrdiff_t>(faults), plan.faults.end());
  known.waits.assign(plan.waits.begin() + static_cast<std::ptrdiff_t>(waits), plan.waits.end());
  const Duration pause = std::min<Duration>(kFirstPause * (1 << known.times), kLongestPause);
  known.until = now + pause;
  return pause;
}

}  // namespace bascule::op::reconcile
