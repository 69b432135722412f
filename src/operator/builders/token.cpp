#include "operator/builders/token.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/base64.hpp"
#include "base/check.hpp"
#include "base/time.hpp"
#include "operator/builders/object.hpp"

namespace bascule::op {

namespace {

constexpr std::size_t kMaxToken = std::size_t{16} * 1024;
constexpr std::string_view kHead = R"({"alg":"HS256","typ":"JWT"})";

std::string signature(std::string_view key, std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  const unsigned char* done =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(text.data()),
           text.size(), digest.data(), &length);
  BASCULE_CHECK(done != nullptr, "OpenSSL has HMAC-SHA-256");
  return {reinterpret_cast<const char*>(digest.data()), length};
}

std::optional<json::Value> document(std::string_view part) {
  const std::optional<std::string> text = base64url_decode(part);
  if (!text) return std::nullopt;
  try {
    return json::parse(*text);
  } catch (const json::ParseError&) {
    return std::nullopt;
  }
}

std::optional<WallTime> time_at(const json::Value& claims, std::string_view claim) {
  constexpr std::int64_t kLast = 9'000'000'000;  // WallTime ends in 2262
  const std::optional<std::int64_t> seconds = json::int_at(claims, {claim});
  if (!seconds || *seconds < 0 || *seconds > kLast) return std::nullopt;
  return WallTime(std::chrono::seconds(*seconds));
}

}  // namespace

std::string sign_jwt(std::string_view key, const TokenClaims& claims) {
  constexpr Duration kMost = std::chrono::seconds((std::int64_t{1} << 31) - 2);
  const std::int64_t issued = epoch_seconds(claims.issued);
  const std::int64_t expires = epoch_seconds(claims.issued + std::clamp(claims.lifetime, Duration(0), kMost));
  const std::string body = json::dump(json::Object{{"jti", claims.id},
                                                   {"iss", "slurm-operator"},
                                                   {"iat", issued},
                                                   {"nbf", issued},
                                                   {"exp", expires},
                                                   {"sun", claims.user}});
  const std::string token = base64url_encode(kHead) + '.' + base64url_encode(body);
  return token + '.' + base64url_encode(signature(key, token));
}

std::optional<ReadToken> read_jwt(std::string_view key, std::string_view token) {
  if (token.size() > kMaxToken || key.empty()) return std::nullopt;
  const std::size_t first = token.find('.');
  const std::size_t last = token.rfind('.');
  if (first == std::string_view::npos || first == last) return std::nullopt;
  const std::optional<std::string> signed_by = base64url_decode(token.substr(last + 1));
  const std::string ours = signature(key, token.substr(0, last));
  if (!signed_by || signed_by->size() != ours.size() ||
      CRYPTO_memcmp(signed_by->data(), ours.data(), ours.size()) != 0) {
    return std::nullopt;
  }
  const std::optional<json::Value> head = document(token.substr(0, first));
  const std::optional<json::Value> claims = document(token.substr(first + 1, last - first - 1));
  if (!head || !claims || json::string_at(*head, {"alg"}) != "HS256") return std::nullopt;
  return ReadToken{time_at(*claims, "iat"), time_at(*claims, "exp"), std::string(json::string_at(*claims, {"sun"}))};
}

std::optional<WallTime> refresh_due(const Token& token, const std::optional<ReadToken>& stored, WallTime now) {
  if (!token.refresh) return std::nullopt;
  if (!stored || !stored->expires || stored->user != token.username) return now;
  constexpr int kParts = 5;
  return std::max(now, *stored->expires - token.lifetime / kParts);
}

json::Value token_secret_object(const Token& token, std::string_view jwt) {
  const Subject owner = subject(token);
  return secret(owner, child_meta(owner, token.secret.name, {}, {}, {}), {{token.secret.key, std::string(jwt)}},
                !token.refresh);
}

}  // namespace bascule::op
