#include "operator/builders/token.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/base64.hpp"
#include "operator/builders/ssh_keys.hpp"
#include "operator/config/sample_test.hpp"

namespace bascule::op {
namespace {

using namespace std::chrono_literals;

const WallTime kNow = WallTime(1'790'000'000s);

Token token(std::string_view more = "{}") {
  return read_token(test::custom(
      "t", json::dump(json::merged(json::parse_yaml("{username: alice, jwtKeyRef: {name: j, key: k}, lifetime: 50m}"),
                                   json::parse_yaml(more)))));
}

TEST(JwtTest, SignsAndReads) {
  const std::string jwt = sign_jwt("key", {"id-1", "alice", kNow, 15min});
  const auto read = read_jwt("key", jwt);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->user, "alice");
  EXPECT_EQ(read->issued, kNow);
  EXPECT_EQ(read->expires, kNow + 15min);
  EXPECT_FALSE(read_jwt("other", jwt));
  EXPECT_FALSE(read_jwt("key", ""));
  EXPECT_FALSE(read_jwt("key", "a.b"));
  EXPECT_FALSE(read_jwt("", jwt));
  std::string forged = jwt;
  forged[forged.find('.') + 3] ^= 1;
  EXPECT_FALSE(read_jwt("key", forged));
}

TEST(JwtTest, KnownToken) {
  // Made by other means from the same header, claims and key.
  EXPECT_EQ(sign_jwt("secret", {"1", "u", WallTime(1000s), 60s}),
            "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9."
            "eyJqdGkiOiIxIiwiaXNzIjoic2x1cm0tb3BlcmF0b3IiLCJpYXQiOjEwMDAsIm5iZiI6MTAwMCwiZXhwIjoxMDYwLCJzdW4iOiJ1In0."
            "Cm5e5Tv6lxaFXANimigMrxVFaCS2GbJqS83_bOrCSlw");
}

TEST(JwtTest, LifetimeIsCutToWhatSlurmHolds) {
  const auto lifetime = [](Duration asked) {
    return *read_jwt("k", sign_jwt("k", {"1", "u", WallTime(0s), asked}))->expires - WallTime(0s);
  };
  EXPECT_EQ(lifetime(-5s), 0s);
  EXPECT_EQ(lifetime(24h * 365 * 100), std::chrono::seconds(2147483646));
}

TEST(RefreshTest, AFifthBeforeTheEnd) {
  const ReadToken fresh{kNow, kNow + 50min, "alice"};
  EXPECT_EQ(refresh_due(token(), fresh, kNow), kNow + 40min);
  EXPECT_EQ(refresh_due(token(), fresh, kNow + 45min), kNow + 45min);
  EXPECT_EQ(refresh_due(token(), fresh, kNow + 2h), kNow + 2h);
  EXPECT_EQ(refresh_due(token("refresh: false"), fresh, kNow + 2h), std::nullopt);
}

TEST(RefreshTest, WhatCannotBeReadIsDueNow) {
  // A33: a changed key wedged it.
  EXPECT_EQ(refresh_due(token(), std::nullopt, kNow), kNow);
  EXPECT_EQ(refresh_due(token(), ReadToken{kNow, std::nullopt, "alice"}, kNow), kNow);
  EXPECT_EQ(refresh_due(token(), ReadToken{kNow, kNow + 50min, "bob"}, kNow), kNow);
}

TEST(TokenSecretTest, GoesWithItsToken) {
  const json::Value object = token_secret_object(token(), "jwt");
  EXPECT_EQ(json::string_at(object, {"metadata", "name"}), "t-jwt-alice");
  EXPECT_EQ(json::string_at(object, {"data", "SLURM_JWT"}), base64_encode("jwt"));
  EXPECT_FALSE(json::bool_at(object, {"immutable"}, true));
  EXPECT_TRUE(json::bool_at(token_secret_object(token("refresh: false"), "jwt"), {"immutable"}));
  const json::Value& owner = json::array_at(object, {"metadata", "ownerReferences"})->at(0);  // A28, A32
  EXPECT_EQ(json::string_at(owner, {"kind"}), "Token");
  EXPECT_EQ(json::string_at(owner, {"uid"}), "t-uid");
}

// `ssh-keygen -y` prints the public key of a private one: it reads what we wrote.
std::string public_key_by_openssh(const SshKey& key) {
  std::string path = (std::filesystem::temp_directory_path() / "bascule-key-XXXXXX").string();
  const int file = ::mkstemp(path.data());
  if (file < 0) return "";
  ::close(file);
  std::ofstream(path) << key.private_key;
  FILE* pipe = ::popen(("ssh-keygen -y -P '' -f " + path + " 2>&1").c_str(), "r");
  std::array<char, 4096> buffer{};
  std::string out;
  while (pipe && std::fgets(buffer.data(), static_cast<int>(buffer.size()), pipe)) out += buffer.data();
  if (pipe) ::pclose(pipe);
  std::filesystem::remove(path);
  return out;
}

TEST(SshKeysTest, OpenSshReadsThem) {
  if (std::system("command -v ssh-keygen >/dev/null 2>&1") != 0) GTEST_SKIP() << "no ssh-keygen here";
  for (const SshKeyType type : {SshKeyType::kEd25519, SshKeyType::kEcdsa, SshKeyType::kRsa}) {
    for (int round = 0; round < 3; ++round) {
      const SshKey key = make_ssh_key(type, 2048);
      EXPECT_EQ(public_key_by_openssh(key), key.public_key);
    }
  }
}

TEST(SshKeysTest, SixFiles) {
  const StringMap files = make_host_keys(1024);
  EXPECT_EQ(files.size(), std::size(kHostKeyFiles));
  for (const std::string_view file : kHostKeyFiles) EXPECT_FALSE(files.at(std::string(file)).empty());
  EXPECT_TRUE(files.at("ssh_host_ecdsa_key.pub").starts_with("ecdsa-sha2-nistp256 "));
  EXPECT_THROW(make_ssh_key(SshKeyType::kRsa, 256), std::runtime_error);
}

}  // namespace
}  // namespace bascule::op
