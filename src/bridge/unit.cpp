#include "bridge/unit.hpp"

#include <algorithm>
#include <charconv>

#include "bridge/names.hpp"

namespace bascule::bridge {

namespace {

Group group(GroupKind kind, std::string_view api_group, const kube::Pod& pod, std::string_view name,
            std::string_view part = {}) {
  std::string unit(api_group);
  for (const std::string_view piece : {std::string_view(pod.meta.key.ns), name, part}) {
    if (piece.empty()) continue;
    unit += '/';
    unit += piece;
  }
  return {kind, {pod.meta.key.ns, std::string(name)}, Uid(unit)};
}

bool digit(char c) noexcept {
  return c >= '0' && c <= '9';
}
// The run of digits at `at`, without leading zeros.
std::string_view number_at(std::string_view text, std::size_t& at) noexcept {
  while (at < text.size() && text[at] == '0') ++at;
  const std::size_t from = at;
  while (at < text.size() && digit(text[at])) ++at;
  return text.substr(from, at - from);
}

}  // namespace

std::optional<Group> group_of(const kube::Pod& pod) {
  if (!pod.scheduling_group.empty()) {
    return group(GroupKind::kWorkload, "scheduling.k8s.io", pod, pod.scheduling_group.view());
  }
  const kube::StringMap& labels = pod.meta.labels;
  if (const std::string_view name = kube::value_or(labels, names::kPodGroup); !name.empty()) {
    return group(GroupKind::kCoscheduling, "scheduling.x-k8s.io", pod, name);
  }
  const std::string_view set = kube::value_or(labels, names::kLwsName);
  const std::string_view key = kube::value_or(labels, names::kLwsGroupKey);
  if (!set.empty() && !key.empty()) {
    return group(GroupKind::kLeaderWorker, "leaderworkerset.x-k8s.io", pod, set, key);
  }
  return std::nullopt;
}

Uid unit_of(const kube::Pod& pod) {
  const auto group = group_of(pod);
  return group ? group->unit : pod.meta.uid;
}

JobId label_of(const kube::Pod& pod) noexcept {
  const std::string_view text = kube::value_or(pod.meta.labels, names::kSlurmJobId);
  JobId id;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id.value);
  return error == std::errc{} && end == text.data() + text.size() ? id : JobId{};
}

std::uint32_t restarts_of(const kube::Pod& pod) noexcept {
  const std::string_view text = kube::value_or(pod.meta.annotations, names::kSlurmRestarts, "0");
  std::uint32_t restarts = 0;
  std::from_chars(text.data(), text.data() + text.size(), restarts);
  return restarts;
}

std::int64_t submitted_of(const kube::Pod& pod) noexcept {
  const std::string_view text = kube::value_or(pod.meta.annotations, names::kSlurmSubmitted);
  std::int64_t submitted = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), submitted);
  return error == std::errc{} && end == text.data() + text.size() ? submitted : 0;
}

bool ranks_before(const kube::Pod& a, const kube::Pod& b) noexcept {
  if (a.meta.key.ns != b.meta.key.ns) return a.meta.key.ns < b.meta.key.ns;
  const std::string_view x = a.meta.key.name;
  const std::string_view y = b.meta.key.name;
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < x.size() && j < y.size()) {
    if (digit(x[i]) && digit(y[j])) {
      const std::string_view n = number_at(x, i);
      const std::string_view m = number_at(y, j);
      if (n.size() != m.size()) return n.size() < m.size();
      if (n != m) return n < m;
    } else if (x[i] != y[j]) {
      return x[i] < y[j];
    } else {
      ++i;
      ++j;
    }
  }
  if (x.size() - i != y.size() - j) return x.size() - i < y.size() - j;
  return x < y;  // equal but for leading zeros
}

void sort_by_rank(std::vector<PodPtr>& pods) {
  std::ranges::sort(pods, ranks_before, [](const PodPtr& pod) -> const kube::Pod& { return *pod; });
}

}  // namespace bascule::bridge
