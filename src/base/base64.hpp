// Standard base64 (RFC 4648, section 4).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace bascule {

std::string base64_encode(std::string_view bytes);
// White space is skipped, as in files that people wrap. nullopt: not base64.
std::optional<std::string> base64_decode(std::string_view text);

}  // namespace bascule
