#include "kube/kubeconfig.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/base64.hpp"

namespace bascule::kube {
namespace {

const std::string kPem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

bool all(const std::string&) {
  return true;
}

Config build(std::string text, std::string_view context = {}) {
  return build_config({{"/home/u/.kube/config", std::move(text)}}, context, all);
}

std::string fault(std::string text, std::string_view context = {}) {
  try {
    build_config({{"/k", std::move(text)}}, context, [](const std::string& path) { return path != "/missing"; });
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "none";
}

// A config of one context whose cluster and user are given as flow maps.
std::string one(std::string_view cluster, std::string_view user = "{}", std::string_view context = "") {
  return fmt::format(
      "current-context: c\ncontexts: [{{name: c, context: {{cluster: k, user: u{}}}}}]\n"
      "clusters: [{{name: k, cluster: {}}}]\nusers: [{{name: u, user: {}}}]\n",
      context, cluster, user);
}

TEST(Kubeconfig, as_kubeadm_writes_it) {
  const Config config = build(R"(
apiVersion: v1
kind: Config
clusters:
- cluster: {certificate-authority-data: )" +
                              base64_encode(kPem) + R"(, server: "https://10.0.0.1:6443"}
  name: kubernetes
contexts:
- context: {cluster: kubernetes, user: admin, namespace: team}
  name: admin@kubernetes
current-context: admin@kubernetes
preferences: {}
users:
- name: admin
  user: {client-certificate: pki/admin.crt, client-key: /abs/admin.key}
)");
  EXPECT_EQ(config.http.url.host, "10.0.0.1");
  EXPECT_EQ(config.http.url.port, "6443");
  EXPECT_EQ(config.http.tls.ca.text, kPem);
  EXPECT_EQ(config.http.tls.certificate.file, "/home/u/.kube/pki/admin.crt");
  EXPECT_EQ(config.http.tls.key.file, "/abs/admin.key");
  EXPECT_EQ(config.ns, "team");
}

TEST(Kubeconfig, the_first_file_wins_and_entries_are_not_mixed) {
  const std::string first = "current-context: a\nclusters: [{name: k, cluster: {server: 'https://one'}}]\n";
  const std::string second = one("{server: 'https://two', tls-server-name: two}", "{tokenFile: t}") + "# and\n";
  const std::string third = "contexts: [{name: a, context: {cluster: k, user: u}}]\n";
  const Config config =
      build_config({{"/1/config", first}, {"/2/config", second}, {"/3/config", third}, {"/4", ""}}, "", all);
  EXPECT_EQ(config.http.url.host, "one");
  EXPECT_EQ(config.http.tls.server_name, "");
  EXPECT_EQ(config.token_file, "/2/t") << "relative to the file it stands in";
  EXPECT_EQ(build_config({{"/1/config", first}, {"/2/config", second}}, "c", all).http.url.host, "one");
}

TEST(Kubeconfig, fields) {
  const Config config =
      build(one("{server: 'https://h', insecure-skip-tls-verify: true, proxy-url: 'http://u:p@proxy:3128'}",
                "{token: abc, username: me, password: secret}"));
  EXPECT_TRUE(config.http.tls.insecure_skip_verify);
  ASSERT_TRUE(config.http.proxy);
  EXPECT_EQ(config.http.proxy->host, "proxy");
  EXPECT_EQ(config.token, "abc");
  EXPECT_EQ(config.user, "me");
  EXPECT_EQ(config.ns, "default");
  EXPECT_EQ(build(one("{server: 'localhost:8080'}")).http.url.scheme, "http");
  const Config exec = build(one("{server: 'https://h'}",
                                "{exec: {apiVersion: client.authentication.k8s.io/v1, command: bin/login, args: [a, "
                                "'1'], env: [{name: A, value: b}], provideClusterInfo: true, installHint: see docs}}"));
  ASSERT_TRUE(exec.exec);
  EXPECT_EQ(exec.exec->command, "/home/u/.kube/bin/login");
  EXPECT_EQ(exec.exec->args, (std::vector<std::string>{"a", "1"}));
  EXPECT_EQ(exec.exec->env[0].second, "b");
  EXPECT_EQ(exec.exec->cluster_info, R"({"server":"https://h"})");
}

TEST(Kubeconfig, faults_say_where_and_what_to_do) {
  EXPECT_EQ(fault("clusters: []"),
            "/k: current-context: is not set; choose a context with --context or with kubectl config use-context; "
            "there are none");
  EXPECT_EQ(fault(one("{server: 'https://h'}"), "other"), "/k: contexts: no context is named \"other\"; there are: c");
  EXPECT_EQ(fault("a: [1"), "/k: not YAML: " + fault("a: [1").substr(std::string("/k: not YAML: ").size()));
  EXPECT_EQ(fault("- 1"),
            "/k: not a kubeconfig: expected a map, found a list\n" + fault("- 1").substr(fault("- 1").find('\n') + 1));
  EXPECT_EQ(fault(one("{}")), "/k: clusters[0].cluster.server: is missing; expected https://HOST:PORT");
  EXPECT_EQ(fault(one("{server: 'https://h'}", "{token: 12345}")),
            "/k: users[0].user.token: expected text, found a number; YAML reads words like y, no and on as booleans "
            "and digits as numbers: put the value in quotes");
  EXPECT_EQ(fault(one("{server: 'https://h'}", "{}", ", namespace: n")),
            "/k: contexts[0].context.namespace: expected text, found the boolean false; YAML reads words like y, no "
            "and on as booleans and digits as numbers: put the value in quotes");
  EXPECT_EQ(fault(one("{server: 'https://h', certificate-authority: /missing}")),
            "/k: clusters[0].cluster.certificate-authority: /missing cannot be read; check the path and its "
            "permissions");
  EXPECT_EQ(fault(one("{server: 'https://h', certificate-authority-data: '@@'}")),
            "/k: clusters[0].cluster.certificate-authority-data: not base64; to name a file use "
            "certificate-authority");
  EXPECT_EQ(fault(one("{server: 'https://h', proxy-url: 'socks5://p:1'}")),
            "/k: clusters[0].cluster.proxy-url: URL \"socks5://p:1\": http://, https:// or unix:/ expected");
  EXPECT_EQ(fault(one("{server: 'https://h'}", "{client-certificate: /a}")),
            "/k: users[0].user.client-key: is missing; a certificate and its key come together");
  EXPECT_EQ(
      fault(one("{server: 'https://h'}", "{exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: x}}")),
      "/k: users[0].user.exec.apiVersion: \"client.authentication.k8s.io/v1alpha1\" is not supported; expected "
      "client.authentication.k8s.io/v1 or v1beta1: update the plug-in and this entry");
  // All at once.
  const std::string two = fault(one("{insecure-skip-tls-verify: 'yes'}", "{auth-provider: {name: gcp}}"));
  EXPECT_EQ(std::ranges::count(two, '\n'), 2);
}

}  // namespace
}  // namespace bascule::kube
