#include "bridge/unit.hpp"

#include <charconv>

#include "bridge/names.hpp"

namespace bascule::bridge {

JobId label_of(const kube::Pod& pod) noexcept {
  const std::string_view text = kube::value_or(pod.meta.labels, names::kSlurmJobId);
  JobId id;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id.value);
  return error == std::errc{} && end == text.data() + text.size() ? id : JobId{};
}

}  // namespace bascule::bridge
