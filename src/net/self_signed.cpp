#include "net/self_signed.hpp"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <memory>
#include <stdexcept>

#include "net/openssl_free.hpp"

namespace bascule::net {

namespace {

using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Free<X509_EXTENSION_free>>;
using Memory = std::unique_ptr<BIO, Free<BIO_free>>;

void check(bool done, const char* what) {
  if (!done) throw std::runtime_error(std::string("a certificate cannot be made: ") + what);
}

template <class Write>
std::string pem(Write write) {
  const Memory memory(BIO_new(BIO_s_mem()));
  check(memory && write(memory.get()) == 1, "PEM");
  char* data = nullptr;
  const long size = BIO_get_mem_data(memory.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

}  // namespace

SelfSigned make_self_signed(const std::string& name, WallTime now) {
  constexpr std::int64_t kDay = 86400;
  const Key key(EVP_EC_gen("P-256"));
  const Certificate made(X509_new());
  check(key && made, "memory");
  std::uint32_t serial = 0;
  check(RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial) == 1, "randomness");
  const std::int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
  X509_set_version(made.get(), 2);
  check(ASN1_INTEGER_set(X509_get_serialNumber(made.get()), static_cast<long>(serial >> 1U)) == 1, "serial number");
  check(ASN1_TIME_set(X509_getm_notBefore(made.get()), seconds - kDay) != nullptr, "its begin");
  check(ASN1_TIME_set(X509_getm_notAfter(made.get()), seconds + 3650 * kDay) != nullptr, "its end");
  check(X509_set_pubkey(made.get(), key.get()) == 1, "key");
  X509_NAME* subject = X509_get_subject_name(made.get());
  const auto* bytes = reinterpret_cast<const unsigned char*>(name.data());
  check(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, bytes, static_cast<int>(name.size()), -1, 0) == 1,
        "name");
  check(X509_set_issuer_name(made.get(), subject) == 1, "issuer");
  X509V3_CTX context;
  X509V3_set_ctx(&context, made.get(), made.get(), nullptr, nullptr, 0);
  const Extension names(X509V3_EXT_conf_nid(nullptr, &context, NID_subject_alt_name, ("DNS:" + name).c_str()));
  check(names && X509_add_ext(made.get(), names.get(), -1) == 1, "names");
  check(X509_sign(made.get(), key.get(), EVP_sha256()) > 0, "signature");
  return {pem([&](BIO* bio) { return PEM_write_bio_X509(bio, made.get()); }), pem([&](BIO* bio) {
            return PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
          })};
}

}  // namespace bascule::net
