#include "net/certificates.hpp"

#include <gmock/gmock.h>

#include "net/test_pki.hpp"
#include "net/tls.hpp"

namespace bascule::net {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const WallTime kNow = std::chrono::sys_days(std::chrono::year(2026) / 5 / 1);
constexpr auto kDay = std::chrono::days(1);

struct CertificatesTest : ::testing::Test {
  IssuedCertificate one = issue_certificate({"hook.ns", "hook.ns.svc"}, kNow - 1h, kNow + 365 * kDay);
  IssuedCertificate other = issue_certificate({"hook.ns", "hook.ns.svc"}, kNow - 1h, kNow + 365 * kDay);
};

TEST_F(CertificatesTest, AnIssuedOneSaysWhatWasAskedFor) {
  const auto facts = certificate_facts(one.certificate);
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->from, kNow - 1h);
  EXPECT_EQ(facts->until, kNow + 365 * kDay);
  EXPECT_THAT(facts->names, ElementsAre("hook.ns", "hook.ns.svc"));
  EXPECT_EQ(certificate_facts(one.authority)->until, facts->until);
  EXPECT_NO_THROW(make_tls_context({.certificate = one.certificate, .key = one.key, .server = true}));
}

TEST_F(CertificatesTest, ItsAuthorityVouchesForItAndNoOther) {
  EXPECT_TRUE(vouches(one.authority, one.certificate));
  EXPECT_FALSE(vouches(other.authority, one.certificate)) << "of the same name";
  EXPECT_FALSE(vouches("", one.certificate));
  EXPECT_FALSE(vouches(one.authority, ""));
}

TEST_F(CertificatesTest, KeyAndCertificateBelongTogether) {
  EXPECT_TRUE(key_belongs(one.certificate, one.key));
  EXPECT_FALSE(key_belongs(one.certificate, other.key));
  EXPECT_FALSE(key_belongs(one.certificate, "no key"));
  EXPECT_FALSE(key_belongs("", one.key));
}

// A TLS client with both in its bundle, as the API server between two certificates, takes either.
TEST_F(CertificatesTest, ABundleOfTwoOfOneNameTakesBoth) {
  const std::string bundle = other.authority + one.authority;
  EXPECT_THAT(certificates_in(bundle), ElementsAre(other.authority, one.authority));
  EXPECT_NO_THROW(make_tls_context({.ca = bundle}));
}

TEST_F(CertificatesTest, AnIntermediateIsFollowed) {
  const test::Authority root("root");
  const test::Authority middle("middle", root);
  const auto pair = middle.issue({.common_name = "x", .alternative_names = "DNS:Hook.NS,IP:127.0.0.1"});
  EXPECT_TRUE(vouches(root.certificate(), pair.certificate + middle.certificate()));
  EXPECT_TRUE(vouches(middle.certificate(), pair.certificate)) << "as Go has it";
  EXPECT_FALSE(vouches(root.certificate(), pair.certificate));
  EXPECT_THAT(certificate_facts(pair.certificate)->names, ElementsAre("hook.ns"));
}

TEST_F(CertificatesTest, WhatCannotBeReadIsLeftOut) {
  const std::string broken = "-----BEGIN CERTIFICATE-----\nbm8=\n-----END CERTIFICATE-----\n";
  EXPECT_THAT(certificates_in("words\n" + broken + one.authority + broken + one.authority + "-----BEGIN CERT"),
              ElementsAre(one.authority));
  EXPECT_THAT(certificates_in(one.key), IsEmpty());
  EXPECT_THAT(certificates_in("-----BEGIN CERTIFICATE-----"), IsEmpty());
  EXPECT_FALSE(certificate_facts(broken));
  EXPECT_FALSE(certificate_facts(""));
}

TEST_F(CertificatesTest, NamesThatAreNoneAreRefused) {
  const auto issue = [](std::vector<std::string> names) { return issue_certificate(names, kNow, kNow + 1h); };
  EXPECT_THROW(issue({}), std::runtime_error);
  EXPECT_THROW(issue({"a,IP:127.0.0.1"}), std::runtime_error);
  EXPECT_THROW(issue({std::string(500, 'x')}), std::runtime_error);
  EXPECT_THAT(certificate_facts(issue({std::string(200, 'x')}).certificate)->names, SizeIs(1));
}

}  // namespace
}  // namespace bascule::net
