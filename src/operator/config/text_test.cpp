#include "operator/config/text.hpp"

#include <gtest/gtest.h>

#include "operator/config/hash.hpp"
#include "operator/config/ssh_conf.hpp"

namespace bascule::op {
namespace {

TEST(TextTest, LinesEndWithANewline) {
  EXPECT_EQ(Text().str(), "");
  EXPECT_TRUE(Text().empty());
  EXPECT_EQ(Text().heading("X").set("foo", "bar").raw("fizz ~ buzz").str(), "#\n### X ###\nfoo=bar\nfizz ~ buzz\n");
}

TEST(TextTest, ValuesAreQuotedAsSlurmReadsThem) {
  EXPECT_EQ(conf_value("secret"), "secret");
  EXPECT_EQ(conf_value("two words"), "\"two words\"");
  EXPECT_EQ(conf_value("a#b\\c"), "a\\#b\\\\c");
  EXPECT_EQ(conf_value("a\"b"), "a\"b");
  EXPECT_FALSE(conf_value(""));
  EXPECT_FALSE(conf_value("a\nStorageHost=evil"));
  EXPECT_FALSE(conf_value("a \"b"));
  EXPECT_FALSE(conf_value("\"ab"));
  EXPECT_FALSE(conf_value("pass word\n").error().contains("pass"));
}

TEST(HashTest, KnownValues) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("foo"), "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae");
  EXPECT_EQ(hash_of({}), "");
}

TEST(HashTest, NoByteMovesUnseen) {
  // A26.
  EXPECT_NE(hash_of({{"a", "xy"}, {"b", "z"}}), hash_of({{"a", "x"}, {"b", "yz"}}));
  EXPECT_NE(hash_of({{"a", "x"}}), hash_of({{"b", "x"}}));
  EXPECT_NE(hash_of({{"a", "1:b1:c"}}), hash_of({{"a", "1:b"}, {"c", ""}}));
  EXPECT_EQ(hash_of({{"b", "2"}, {"a", "1"}}), hash_of({{"a", "1"}, {"b", "2"}}));
}

TEST(SshConfTest, Login) {
  EXPECT_EQ(login_sshd_config("Banner none\n"),
            "#\n### GENERAL ###\nInclude /etc/ssh/sshd_config.d/*.conf\nUsePAM yes\nX11Forwarding yes\n"
            "Subsystem sftp internal-sftp\n#\n### EXTRA CONFIG ###\nBanner none\n\n");
}

TEST(SshConfTest, Worker) {
  EXPECT_EQ(worker_sshd_config(""),
            "#\n### GENERAL ###\nInclude /etc/ssh/sshd_config.d/*.conf\nUsePAM yes\n"
            "Subsystem sftp internal-sftp\nAuthenticationMethods publickey password\n#\n### EXTRA CONFIG ###\n\n");
  EXPECT_EQ(authorized_keys("ssh-ed25519 AAAA root"), "#\n### SLINKY ###\nssh-ed25519 AAAA root\n");
}

TEST(ClusterDomainTest, FirstSvcDomainOfASearchLine) {
  EXPECT_EQ(cluster_domain(""), "cluster.local");
  EXPECT_EQ(cluster_domain("search\nnameserver 10.0.0.1"), "cluster.local");
  EXPECT_EQ(cluster_domain("search slurm.svc.cluster.local svc.cluster.local cluster.local\n"), "cluster.local");
  EXPECT_EQ(cluster_domain("nameserver 10.0.0.1\nsearch slurm.svc.foo.local svc.foo.local foo.local\n"), "foo.local");
}

}  // namespace
}  // namespace bascule::op
