#include "net/test_pki.hpp"

#include <gtest/gtest.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <functional>

namespace bascule::net::test {

struct Authority::Parts {
  EVP_PKEY* key = nullptr;
  X509* certificate = nullptr;
};

namespace {

std::string pem_of(const std::function<void(BIO*)>& write) {
  BIO* bio = BIO_new(BIO_s_mem());
  write(bio);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string out(data, static_cast<std::size_t>(size));
  BIO_free(bio);
  return out;
}

std::string pem_of(X509* certificate) {
  return pem_of([certificate](BIO* bio) { PEM_write_bio_X509(bio, certificate); });
}

void extend(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  ASSERT_NE(extension, nullptr) << value;
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

X509* make(const CertificateSpec& spec, EVP_PKEY* key, X509* issuer, EVP_PKEY* issuer_key, bool authority) {
  X509* certificate = X509_new();
  X509_set_version(certificate, 2);
  std::uint32_t serial = 0;
  RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), static_cast<long>(serial & 0x7fffffff));
  X509_gmtime_adj(X509_getm_notBefore(certificate), spec.valid_from_days * 86400L);
  X509_gmtime_adj(X509_getm_notAfter(certificate), spec.valid_to_days * 86400L);
  X509_set_pubkey(certificate, key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(spec.common_name.c_str()), -1, -1, 0);
  X509_set_issuer_name(certificate, X509_get_subject_name(issuer != nullptr ? issuer : certificate));
  if (authority) extend(certificate, certificate, NID_basic_constraints, "critical,CA:TRUE");
  if (!spec.alternative_names.empty()) extend(certificate, issuer, NID_subject_alt_name, spec.alternative_names);
  X509_sign(certificate, issuer_key, EVP_sha256());
  return certificate;
}

}  // namespace

Authority::Authority(const std::string& name) : parts_(std::make_unique<Parts>()) {
  parts_->key = EVP_EC_gen("P-256");
  parts_->certificate =
      make({.common_name = name, .valid_from_days = -10, .valid_to_days = 10}, parts_->key, nullptr, parts_->key, true);
  certificate_ = pem_of(parts_->certificate);
}

Authority::Authority(const std::string& name, const Authority& above) : parts_(std::make_unique<Parts>()) {
  parts_->key = EVP_EC_gen("P-256");
  parts_->certificate = make({.common_name = name, .valid_from_days = -10, .valid_to_days = 10}, parts_->key,
                             above.parts_->certificate, above.parts_->key, true);
  certificate_ = pem_of(parts_->certificate);
}

Authority::~Authority() {
  X509_free(parts_->certificate);
  EVP_PKEY_free(parts_->key);
}

KeyPair Authority::issue(const CertificateSpec& spec) const {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = make(spec, key, parts_->certificate, parts_->key, false);
  KeyPair pair;
  pair.certificate = pem_of(certificate);
  pair.key = pem_of([key](BIO* bio) { PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr); });
  X509_free(certificate);
  EVP_PKEY_free(key);
  return pair;
}

}  // namespace bascule::net::test
