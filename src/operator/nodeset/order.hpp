// Which worker pod is given up first, when one has to go.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "operator/nodeset/values.hpp"

namespace bascule::op::nodeset {

struct Ranked {
  const PodView* pod = nullptr;
  std::optional<WallTime> deadline;  // by when its jobs end; nullopt: none runs
};

// The annotation pod-deletion-cost: a base-10 int32 without plus sign and leading zeros; anything else counts as 0.
std::int32_t deletion_cost(const PodView& pod) noexcept;

// True when `a` goes before `b`: not bound; pending, unknown; not ready; cheaper; jobs end earlier (idle earliest);
// cordoned; higher ordinal; ready later; made later. A strict order: the name decides last.
bool goes_first(const Ranked& a, const Ranked& b) noexcept;

}  // namespace bascule::op::nodeset
