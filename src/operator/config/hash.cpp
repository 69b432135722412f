#include "operator/config/hash.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

#include "base/check.hpp"

namespace bascule::op {

std::string sha256_hex(std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  const int done = EVP_Digest(bytes.data(), bytes.size(), digest.data(), &length, EVP_sha256(), nullptr);
  BASCULE_CHECK(done == 1, "OpenSSL has SHA-256");
  std::string text;
  for (unsigned int i = 0; i < length; ++i) fmt::format_to(std::back_inserter(text), "{:02x}", digest[i]);
  return text;
}

Hasher& Hasher::add(std::string_view key, std::string_view value) {
  fmt::format_to(std::back_inserter(bytes_), "{}:{}{}:{}", key.size(), key, value.size(), value);
  return *this;
}

std::string hash_of(const StringMap& map) {
  Hasher hasher;
  for (const auto& [key, value] : map) hasher.add(key, value);
  return hasher.hex();
}

}  // namespace bascule::op
