// X.509 certificates as PEM texts: what one says, who vouches for it, and new ones.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/loop.hpp"

namespace bascule::net {

// The certificates of a text in their order, each once and written in one way, so that equal ones are equal texts. What
// cannot be read is left out.
std::vector<std::string> certificates_in(std::string_view pem);

struct CertificateFacts {
  WallTime from{};
  WallTime until{};
  std::vector<std::string> names;  // for DNS, in small letters
};
// Of the first in `pem`; nullopt: there is none that can be read.
std::optional<CertificateFacts> certificate_facts(std::string_view pem);
// Whether `key` is that of the first in `certificate`.
bool key_belongs(std::string_view certificate, std::string_view key);
// Whether a client that trusts `authority` alone believes a server that shows `chain` (its own certificate first),
// leaving times aside.
bool vouches(std::string_view authority, std::string_view chain);

struct IssuedCertificate {
  std::string authority;    // PEM; nobody keeps its key
  std::string certificate;  // PEM
  std::string key;          // PEM
};
// For a server with these DNS names, at least one, by an authority made for it alone. Throws std::runtime_error.
IssuedCertificate issue_certificate(const std::vector<std::string>& names, WallTime from, WallTime until);

}  // namespace bascule::net
