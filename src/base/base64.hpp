// Base64 (RFC 4648): the standard alphabet of section 4, and that of section 5 for URLs and tokens.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace bascule {

std::string base64_encode(std::string_view bytes);
// Without padding, as JSON Web Signatures have it (RFC 7515).
std::string base64url_encode(std::string_view bytes);
std::optional<std::string> base64url_decode(std::string_view text);
// White space is skipped, as in files that people wrap. nullopt: not base64.
std::optional<std::string> base64_decode(std::string_view text);

}  // namespace bascule
