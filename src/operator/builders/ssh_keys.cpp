#include "operator/builders/ssh_keys.hpp"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/rsa.h>

#include <array>
#include <memory>
#include <stdexcept>
#include <vector>

#include "base/base64.hpp"
#include "base/check.hpp"

namespace bascule::op {

namespace {

struct Free {
  void operator()(EVP_PKEY* key) const noexcept { EVP_PKEY_free(key); }
  void operator()(BIGNUM* number) const noexcept { BN_clear_free(number); }
};
using Key = std::unique_ptr<EVP_PKEY, Free>;
using Number = std::unique_ptr<BIGNUM, Free>;

[[noreturn]] void fail(const char* what) {
  throw std::runtime_error(std::string("OpenSSL cannot make an SSH key: ") + what);
}

// Writes the data types of RFC 4251, section 5.
class Wire final {
 public:
  Wire& number(std::uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes_ += static_cast<char>((value >> shift) & 0xFFU);
    return *this;
  }
  Wire& text(std::string_view value) {
    number(static_cast<std::uint32_t>(value.size()));
    bytes_ += value;
    return *this;
  }
  Wire& raw(std::string_view value) {
    bytes_ += value;
    return *this;
  }
  // Positive: a zero byte in front where the highest bit is set.
  Wire& big(const BIGNUM* value) {
    std::string bytes(static_cast<std::size_t>(BN_num_bytes(value)), '\0');
    BN_bn2bin(value, reinterpret_cast<unsigned char*>(bytes.data()));
    if (!bytes.empty() && (static_cast<unsigned char>(bytes.front()) & 0x80U) != 0) bytes.insert(0, 1, '\0');
    return text(bytes);
  }
  const std::string& bytes() const noexcept { return bytes_; }

 private:
  std::string bytes_;
};

Number number_of(const Key& key, const char* name) {
  BIGNUM* number = nullptr;
  if (EVP_PKEY_get_bn_param(key.get(), name, &number) != 1) fail(name);
  return Number(number);
}

std::string octets_of(const Key& key, const char* name) {
  std::size_t size = 0;
  if (EVP_PKEY_get_octet_string_param(key.get(), name, nullptr, 0, &size) != 1) fail(name);
  std::string bytes(size, '\0');
  if (EVP_PKEY_get_octet_string_param(key.get(), name, reinterpret_cast<unsigned char*>(bytes.data()), size, &size) !=
      1) {
    fail(name);
  }
  return bytes;
}

// The public part as it stands in a public key, and the whole as it stands in a private one.
struct Parts {
  std::string type;
  std::string open;
  std::string secret;
};

Parts ed25519() {
  const Key key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  if (!key) fail("Ed25519");
  const std::string open = octets_of(key, OSSL_PKEY_PARAM_PUB_KEY);
  const std::string seed = octets_of(key, OSSL_PKEY_PARAM_PRIV_KEY);
  return {"ssh-ed25519", Wire().text(open).bytes(), Wire().text(open).text(seed + open).bytes()};
}

Parts ecdsa() {
  const Key key(EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256"));
  if (!key) fail("ECDSA");
  // The uncompressed point, as SSH has it.
  EVP_PKEY_set_utf8_string_param(key.get(), OSSL_PKEY_PARAM_EC_POINT_CONVERSION_FORMAT, "uncompressed");
  const std::string point = octets_of(key, OSSL_PKEY_PARAM_ENCODED_PUBLIC_KEY);
  const Number secret = number_of(key, OSSL_PKEY_PARAM_PRIV_KEY);
  const std::string open = Wire().text("nistp256").text(point).bytes();
  return {"ecdsa-sha2-nistp256", open, Wire().raw(open).big(secret.get()).bytes()};
}

Parts rsa(int bits) {
  constexpr int kLeastBits = 1024;
  if (bits < kLeastBits) fail("RSA needs at least 1024 bits");
  const Key key(EVP_PKEY_Q_keygen(nullptr, nullptr, "RSA", static_cast<std::size_t>(bits)));
  if (!key) fail("RSA");
  const Number n = number_of(key, OSSL_PKEY_PARAM_RSA_N);
  const Number e = number_of(key, OSSL_PKEY_PARAM_RSA_E);
  const Number d = number_of(key, OSSL_PKEY_PARAM_RSA_D);
  const Number p = number_of(key, OSSL_PKEY_PARAM_RSA_FACTOR1);
  const Number q = number_of(key, OSSL_PKEY_PARAM_RSA_FACTOR2);
  const Number inverse = number_of(key, OSSL_PKEY_PARAM_RSA_COEFFICIENT1);
  return {"ssh-rsa", Wire().big(e.get()).big(n.get()).bytes(),
          Wire().big(n.get()).big(e.get()).big(d.get()).big(inverse.get()).big(p.get()).big(q.get()).bytes()};
}

std::string pem(std::string_view bytes) {
  constexpr std::size_t kWidth = 70;
  const std::string text = base64_encode(bytes);
  std::string result = "-----BEGIN OPENSSH PRIVATE KEY-----\n";
  for (std::size_t at = 0; at < text.size(); at += kWidth) result += text.substr(at, kWidth) + '\n';
  return result + "-----END OPENSSH PRIVATE KEY-----\n";
}

SshKey encode(const Parts& parts) {
  constexpr std::size_t kBlock = 8;
  const std::string open = Wire().text(parts.type).raw(parts.open).bytes();
  std::array<unsigned char, 4> check{};
  if (RAND_bytes(check.data(), static_cast<int>(check.size())) != 1) fail("random numbers");
  const std::string_view word(reinterpret_cast<const char*>(check.data()), check.size());
  std::string secret = Wire().raw(word).raw(word).text(parts.type).raw(parts.secret).text("").bytes();
  for (char pad = 1; secret.size() % kBlock != 0; ++pad) secret += pad;
  using namespace std::string_view_literals;
  const std::string whole =
      Wire().raw("openssh-key-v1\0"sv).text("none").text("none").text("").number(1).text(open).text(secret).bytes();
  return {pem(whole), parts.type + ' ' + base64_encode(open) + '\n'};
}

}  // namespace

SshKey make_ssh_key(SshKeyType type, int rsa_bits) {
  switch (type) {
    case SshKeyType::kEd25519:
      return encode(ed25519());
    case SshKeyType::kEcdsa:
      return encode(ecdsa());
    case SshKeyType::kRsa:
      return encode(rsa(rsa_bits));
  }
  BASCULE_CHECK(false, "every type has its case");
  return {};
}

StringMap make_host_keys(int rsa_bits) {
  const SshKey ec = make_ssh_key(SshKeyType::kEcdsa);
  const SshKey ed = make_ssh_key(SshKeyType::kEd25519);
  const SshKey rsa_key = make_ssh_key(SshKeyType::kRsa, rsa_bits);
  return {{"ssh_host_ecdsa_key", ec.private_key},    {"ssh_host_ecdsa_key.pub", ec.public_key},
          {"ssh_host_ed25519_key", ed.private_key},  {"ssh_host_ed25519_key.pub", ed.public_key},
          {"ssh_host_rsa_key", rsa_key.private_key}, {"ssh_host_rsa_key.pub", rsa_key.public_key}};
}

}  // namespace bascule::op
