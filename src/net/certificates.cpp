#include "net/certificates.hpp"

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "base/text.hpp"
#include "base/time.hpp"
#include "net/openssl_free.hpp"
#include "net/openssl_time.hpp"

namespace bascule::net {

namespace {

using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Free<X509_EXTENSION_free>>;
using Memory = std::unique_ptr<BIO, Free<BIO_free>>;
using Names = std::unique_ptr<GENERAL_NAMES, Free<GENERAL_NAMES_free>>;
using Store = std::unique_ptr<X509_STORE, Free<X509_STORE_free>>;
using Verification = std::unique_ptr<X509_STORE_CTX, Free<X509_STORE_CTX_free>>;
struct FreeStack {
  void operator()(STACK_OF(X509) * stack) const noexcept { sk_X509_free(stack); }
};
using Stack = std::unique_ptr<STACK_OF(X509), FreeStack>;

// Without one OpenSSL asks on the terminal.
int no_password(char*, int, int, void*) {
  return -1;
}

Memory memory(std::string_view text) {
  return Memory(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::vector<Certificate> read_certificates(std::string_view pem) {
  std::vector<Certificate> out;
  const Memory bio = memory(pem);
  while (bio) {
    ERR_clear_error();
    if (Certificate one(PEM_read_bio_X509(bio.get(), nullptr, no_password, nullptr)); one) {
      out.push_back(std::move(one));
    } else if (ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE || BIO_eof(bio.get()) != 0) {
      break;
    }
  }
  ERR_clear_error();
  return out;
}

template <class Write>
std::string pem(Write write) {
  const Memory bio(BIO_new(BIO_s_mem()));
  if (!bio || write(bio.get()) != 1) throw std::runtime_error("a certificate cannot be written");
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

std::string pem_of(X509* certificate) {
  return pem([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}

std::vector<std::string> dns_names(const X509* certificate) {
  std::vector<std::string> out;
  const Names names(static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    int type = 0;
    const void* value = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names.get(), i), &type);
    if (type != GEN_DNS) continue;
    const auto* text = static_cast<const ASN1_STRING*>(value);
    out.push_back(lowered({reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                           static_cast<std::size_t>(ASN1_STRING_length(text))}));
  }
  return out;
}

// --- new ones --------------------------------------------------------------------------------------------------------

void check(bool done, const char* what) {
  if (done) return;
  ERR_clear_error();
  throw std::runtime_error(std::string("a certificate cannot be made: ") + what);
}

// Of an authority, or of a server with `names`.
struct Wanted {
  std::string subject;
  WallTime from, until;
  std::string names;  // "DNS:a,DNS:b"
};

void extend(X509* certificate, X509V3_CTX& context, int nid, const std::string& value) {
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  check(extension && X509_add_ext(certificate, extension.get(), -1) == 1, OBJ_nid2sn(nid));
}

void begin(X509* certificate, const Wanted& wanted, EVP_PKEY* key) {
  std::uint64_t serial = 0;
  check(RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial) == 1, "randomness");
  X509_set_version(certificate, X509_VERSION_3);
  check(ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial >> 1U) == 1, "serial number");
  check(ASN1_TIME_set(X509_getm_notBefore(certificate), epoch_seconds(wanted.from)) != nullptr, "its begin");
  check(ASN1_TIME_set(X509_getm_notAfter(certificate), epoch_seconds(wanted.until)) != nullptr, "its end");
  check(X509_set_pubkey(certificate, key) == 1, "key");
  const auto* bytes = reinterpret_cast<const unsigned char*>(wanted.subject.data());
  const int size = static_cast<int>(std::min<std::size_t>(wanted.subject.size(), ub_common_name));
  X509_NAME* subject = X509_get_subject_name(certificate);
  check(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, bytes, size, -1, 0) == 1, "subject");
}

// Signed by `issuer`, or by itself.
Certificate make(const Wanted& wanted, EVP_PKEY* key, X509* issuer, EVP_PKEY* issuer_key) {
  Certificate made(X509_new());
  check(made != nullptr, "memory");
  begin(made.get(), wanted, key);
  const bool authority = issuer == nullptr;
  if (authority) issuer = made.get();
  check(X509_set_issuer_name(made.get(), X509_get_subject_name(issuer)) == 1, "issuer");
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, made.get(), nullptr, nullptr, 0);
  extend(made.get(), context, NID_basic_constraints, authority ? "critical,CA:TRUE" : "critical,CA:FALSE");
  extend(made.get(), context, NID_key_usage, authority ? "critical,keyCertSign,cRLSign" : "critical,digitalSignature");
  extend(made.get(), context, NID_subject_key_identifier, "hash");
  if (!authority) {
    extend(made.get(), context, NID_ext_key_usage, "serverAuth");
    extend(made.get(), context, NID_authority_key_identifier, "keyid:always");
    extend(made.get(), context, NID_subject_alt_name, wanted.names);
  }
  check(X509_sign(made.get(), issuer_key, EVP_sha256()) > 0, "signature");
  return made;
}

bool is_dns_name(const std::string& name) {
  constexpr std::size_t kLongest = 253;
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.";
  return !name.empty() && name.size() <= kLongest && name.find_first_not_of(kLetters) == std::string::npos;
}

}  // namespace

std::vector<std::string> certificates_in(std::string_view pem_text) {
  std::vector<std::string> out;
  for (const Certificate& one : read_certificates(pem_text)) {
    std::string text = pem_of(one.get());
    if (std::ranges::find(out, text) == out.end()) out.push_back(std::move(text));
  }
  return out;
}

std::optional<CertificateFacts> certificate_facts(std::string_view pem_text) {
  const std::vector<Certificate> all = read_certificates(pem_text);
  if (all.empty()) return std::nullopt;
  const std::optional<WallTime> from = wall_time(X509_get0_notBefore(all.front().get()));
  const std::optional<WallTime> until = wall_time(X509_get0_notAfter(all.front().get()));
  if (!from || !until) return std::nullopt;
  CertificateFacts facts{.from = *from, .until = *until, .names = dns_names(all.front().get())};
  ERR_clear_error();
  return facts;
}

bool key_belongs(std::string_view certificate, std::string_view key_text) {
  const std::vector<Certificate> all = read_certificates(certificate);
  const Memory bio = memory(key_text);
  const Key key(bio ? PEM_read_bio_PrivateKey(bio.get(), nullptr, no_password, nullptr) : nullptr);
  const bool belongs = !all.empty() && key && X509_check_private_key(all.front().get(), key.get()) == 1;
  ERR_clear_error();
  return belongs;
}

bool vouches(std::string_view authority, std::string_view chain) {
  const std::vector<Certificate> trusted = read_certificates(authority);
  const std::vector<Certificate> shown = read_certificates(chain);
  const Stack between(sk_X509_new_null());
  const Store store(X509_STORE_new());
  const Verification verification(X509_STORE_CTX_new());
  if (trusted.empty() || shown.empty() || !between || !store || !verification) return false;
  for (const Certificate& one : shown) sk_X509_push(between.get(), one.get());
  bool good = X509_STORE_add_cert(store.get(), trusted.front().get()) == 1 &&
              X509_STORE_CTX_init(verification.get(), store.get(), shown.front().get(), between.get()) == 1;
  if (good) {
    X509_VERIFY_PARAM* rules = X509_STORE_CTX_get0_param(verification.get());
    // As in Go: what is named is trusted, be it a root or not.
    X509_VERIFY_PARAM_set_flags(rules, X509_V_FLAG_NO_CHECK_TIME | X509_V_FLAG_PARTIAL_CHAIN);
    X509_VERIFY_PARAM_set_purpose(rules, X509_PURPOSE_SSL_SERVER);
    good = X509_verify_cert(verification.get()) == 1;
  }
  ERR_clear_error();
  return good;
}

IssuedCertificate issue_certificate(const std::vector<std::string>& names, WallTime from, WallTime until) {
  check(!names.empty() && std::ranges::all_of(names, is_dns_name), "its names");
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "DNS:" : ",DNS:") + name;
  const Key authority_key(EVP_EC_gen("P-256"));
  const Key key(EVP_EC_gen("P-256"));
  check(authority_key && key, "key");
  const Certificate authority =
      make({names.front() + " CA", from, until, {}}, authority_key.get(), nullptr, authority_key.get());
  const Certificate made = make({names.front(), from, until, list}, key.get(), authority.get(), authority_key.get());
  return {.authority = pem_of(authority.get()),
          .certificate = pem_of(made.get()),
          .key = pem([&](BIO* bio) {
            return PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
          })};
}

}  // namespace bascule::net
