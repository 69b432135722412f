// Reasons of a NodeSet's condition Ready with which its status says nothing of what runs now.
#pragma once

#include <string_view>

namespace bascule::op::reasons {

inline constexpr std::string_view kBadSpec = "BadSpec";
inline constexpr std::string_view kSlurmUnknown = "SlurmUnknown";

}  // namespace bascule::op::reasons
