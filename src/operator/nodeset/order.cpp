#include "operator/nodeset/order.hpp"

#include <charconv>
#include <tuple>

#include "operator/nodeset/identity.hpp"

namespace bascule::op::nodeset {

namespace {

int phase_weight(PodPhase phase) noexcept {
  switch (phase) {
    case PodPhase::kUnknown:
      return 1;
    case PodPhase::kRunning:
      return 2;
    default:
      return 0;
  }
}

// An empty time counts as the latest.
WallTime or_latest(WallTime time) noexcept {
  return time == WallTime{} ? WallTime::max() : time;
}

}  // namespace

std::int32_t deletion_cost(const PodView& pod) noexcept {
  if (!pod.deletion_cost || pod.deletion_cost->empty()) return 0;
  const std::string& text = *pod.deletion_cost;
  const bool plain = text == "0" || text.front() == '-' || (text.front() >= '1' && text.front() <= '9');
  std::int32_t cost = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), cost);
  return plain && error == std::errc() && end == text.data() + text.size() ? cost : 0;
}

bool goes_first(const Ranked& a, const Ranked& b) noexcept {
  const PodView& p = *a.pod;
  const PodView& q = *b.pod;
  const auto fixed = [](const Ranked& r) {
    const PodView& pod = *r.pod;
    return std::tuple(!pod.node.empty(), phase_weight(pod.phase), pod.ready, deletion_cost(pod),
                      r.deadline.value_or(WallTime::min()), !pod.cordoned(), -std::int64_t{ordinal_of(pod.name)});
  };
  if (const auto left = fixed(a), right = fixed(b); left != right) return left < right;
  if (p.ready && or_latest(p.ready_since) != or_latest(q.ready_since)) {
    return or_latest(p.ready_since) > or_latest(q.ready_since);
  }
  if (or_latest(p.created) != or_latest(q.created)) return or_latest(p.created) > or_latest(q.created);
  return p.name > q.name;
}

}  // namespace bascule::op::nodeset
