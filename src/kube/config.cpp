#include "kube/config.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "base/file.hpp"
#include "kube/kubeconfig.hpp"
#include "net/proxy.hpp"

namespace bascule::kube {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAccount = "/var/run/secrets/kubernetes.io/serviceaccount/";
constexpr std::size_t kMaxFile = std::size_t{4} << 20;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

bool readable(const std::string& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && ::access(path.c_str(), R_OK) == 0;
}

std::string read_config(const std::string& path) {
  auto text = read_file(path, kMaxFile);
  if (text) return *std::move(text);
  if (text.error().too_large) throw ConfigError(fmt::format("{}: is too large for a kubeconfig", path));
  throw ConfigError(fmt::format("{}: cannot be read: {}", path, text.error().why));
}

// The files of KUBECONFIG; those that do not exist are passed over, as kubectl does.
std::vector<KubeconfigFile> read_list(const std::string& list) {
  std::vector<KubeconfigFile> files;
  std::istringstream parts(list);
  for (std::string part; std::getline(parts, part, ':');) {
    std::error_code ignored;
    if (part.empty() || !fs::exists(part, ignored)) continue;
    files.push_back({fs::absolute(part).string(), read_config(part)});
  }
  return files;
}

bool in_pod() {
  return !environment("KUBERNETES_SERVICE_HOST").empty() && readable(std::string(kAccount) + "token");
}

Config choose_config(const ConfigChoice& choice) {
  if (!choice.path.empty()) {
    return build_config({{fs::absolute(choice.path).string(), read_config(choice.path)}}, choice.context, readable);
  }
  if (const std::string list = environment("KUBECONFIG"); !list.empty()) {
    const std::vector<KubeconfigFile> files = read_list(list);
    if (!files.empty()) return build_config(files, choice.context, readable);
    throw ConfigError(fmt::format("KUBECONFIG={}: none of these files exists; correct or unset it", list));
  }
  if (choice.context.empty() && in_pod()) return in_cluster_config();
  const std::string path = environment("HOME") + "/.kube/config";
  std::error_code ignored;
  if (fs::exists(path, ignored)) return build_config({{path, read_config(path)}}, choice.context, readable);
  throw ConfigError(
      fmt::format("no cluster is configured: not in a pod, KUBECONFIG is not set and {} does not exist; name a file "
                  "with --kubeconfig",
                  path));
}

}  // namespace

Config load_config(const ConfigChoice& choice) {
  Config config = choose_config(choice);
  try {
    net::use_proxy_of_environment(config.http);
  } catch (const std::invalid_argument& error) {
    throw ConfigError(error.what());
  }
  return config;
}

Config in_cluster_config() {
  const std::string host = environment("KUBERNETES_SERVICE_HOST");
  const std::string port = environment("KUBERNETES_SERVICE_PORT");
  if (host.empty() || port.empty()) {
    throw ConfigError(
        "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: not in a pod; name a "
        "kubeconfig with --kubeconfig");
  }
  const std::string account(kAccount);
  if (!readable(account + "token")) {
    throw ConfigError(
        fmt::format("{}token: cannot be read; the pod needs a service account with "
                    "automountServiceAccountToken",
                    account));
  }
  Config config;
  const bool v6 = host.find(':') != std::string::npos;
  try {
    config.http.url = net::parse_url(fmt::format("https://{}{}{}:{}", v6 ? "[" : "", host, v6 ? "]" : "", port));
  } catch (const std::invalid_argument& error) {
    throw ConfigError(fmt::format("KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT: {}", error.what()));
  }
  config.http.tls.ca.file = account + "ca.crt";
  config.token_file = account + "token";
  if (readable(account + "namespace")) {
    std::string ns = read_config(account + "namespace");
    while (!ns.empty() && (ns.back() == '\n' || ns.back() == ' ')) ns.pop_back();
    if (!ns.empty()) config.ns = std::move(ns);
  }
  return config;
}

}  // namespace bascule::kube
