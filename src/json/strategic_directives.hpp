// Keys with a meaning inside a strategic merge patch.
#pragma once

#include <string_view>

namespace bascule::json {

inline constexpr std::string_view kPatch = "$patch";
inline constexpr std::string_view kRetainKeys = "$retainKeys";
inline constexpr std::string_view kDeleteFromPrimitiveList = "$deleteFromPrimitiveList";
inline constexpr std::string_view kSetElementOrder = "$setElementOrder";

inline bool is_list_directive(std::string_view key) noexcept {
  return key.starts_with(kDeleteFromPrimitiveList) || key.starts_with(kSetElementOrder);
}

}  // namespace bascule::json
