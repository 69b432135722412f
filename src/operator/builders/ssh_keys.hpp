// Host keys for sshd. Source of the formats: OpenSSH's PROTOCOL.key, RFC 4253 section 6.6, RFC 5656, RFC 8709.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "operator/api/types.hpp"

namespace bascule::op {

inline constexpr std::string_view kHostKeyFiles[] = {"ssh_host_ecdsa_key",   "ssh_host_ecdsa_key.pub",
                                                     "ssh_host_ed25519_key", "ssh_host_ed25519_key.pub",
                                                     "ssh_host_rsa_key",     "ssh_host_rsa_key.pub"};

enum class SshKeyType : std::uint8_t { kEd25519, kEcdsa, kRsa };

struct SshKey {
  std::string private_key;  // OpenSSH PEM, no passphrase
  std::string public_key;   // a line as in authorized_keys, no comment
};

inline constexpr int kRsaBits = 4096;

// From the system's random numbers. RSA takes a second or so: make host keys only when there are none.
// `rsa_bits` at least 1024. Throws std::runtime_error when OpenSSL cannot.
SshKey make_ssh_key(SshKeyType type, int rsa_bits = kRsaBits);

// The six kHostKeyFiles: ECDSA P-256, Ed25519, RSA.
StringMap make_host_keys(int rsa_bits = kRsaBits);

}  // namespace bascule::op
