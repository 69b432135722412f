// Tokens for people: the Secret a Token object produces, and when it must be made anew.
// Source: Slurm "JSON Web Tokens (JWT) Authentication", RFC 7519.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "json/value.hpp"
#include "operator/api/types.hpp"

namespace bascule::op {

struct TokenClaims {
  std::string id;    // jti, unlike any other
  std::string user;  // sun
  WallTime issued{};
  Duration lifetime{};  // cut to what Slurm can hold: 0 to 2^31-2 s
};
// HS256 with the raw bytes of the key. Claims: jti, iss, iat, nbf, exp, sun.
std::string sign_jwt(std::string_view key, const TokenClaims& claims);

// What a token says of itself; nullopt: none of ours, damaged, or signed with another key. Expired ones are read too.
struct ReadToken {
  std::optional<WallTime> issued;
  std::optional<WallTime> expires;
  std::string user;
};
std::optional<ReadToken> read_jwt(std::string_view key, std::string_view token);

// When the stored token has to be replaced: at once when it cannot be read or is another user's (the key was changed,
// someone wrote into the Secret), else when a fifth of the lifetime is left. nullopt: never, since the Token is not to
// be refreshed.
std::optional<WallTime> refresh_due(const Token& token, const std::optional<ReadToken>& stored, WallTime now);

// Owned by the Token, so that it goes with it; immutable when it is never refreshed.
json::Value token_secret_object(const Token& token, std::string_view jwt);

}  // namespace bascule::op
