// Certificates made at test time.
#pragma once

#include <memory>
#include <string>

namespace bascule::net::test {

struct KeyPair {
  std::string certificate;  // PEM
  std::string key;          // PEM
};

struct CertificateSpec {
  std::string common_name;
  std::string alternative_names = "";  // as in openssl.cnf: "DNS:localhost,IP:127.0.0.1"
  int valid_from_days = -1;            // from now
  int valid_to_days = 1;
};

// A certificate authority with a key of its own.
class Authority final {
 public:
  explicit Authority(const std::string& name);
  Authority(const std::string& name, const Authority& above);  // an intermediate one
  ~Authority();
  const std::string& certificate() const { return certificate_; }
  KeyPair issue(const CertificateSpec& spec) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
  std::string certificate_;
};

}  // namespace bascule::net::test
