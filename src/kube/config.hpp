// How to reach a cluster: kubeconfig files merged as kubectl merges them, or the service account of a pod.
// Source: "Organizing Cluster Access Using kubeconfig Files", client.authentication.k8s.io/v1.
#pragma once

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "kube/client.hpp"
#include "net/client.hpp"

namespace bascule::kube {

// A kubeconfig that cannot be used: one line a fault, each with the file, the field and the remedy.
struct ConfigError final : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Config {
  net::ClientOptions http;
  std::string ns = "default";  // the context's namespace
  std::string token;           // inline
  std::string token_file;      // read again, at most once a minute and after a 401
  std::string user, password;  // basic auth (rare)
  struct Exec {
    std::string command;  // a name looked up in PATH, or an absolute path
    std::vector<std::string> args;
    std::vector<std::pair<std::string, std::string>> env;
    std::string api_version;
    std::string install_hint;  // told when the program is not there
    std::string cluster_info;  // JSON for spec.cluster, or empty
  };
  std::optional<Exec> exec;
};

struct ConfigChoice {
  std::string
      path;  // --kubeconfig; empty: KUBECONFIG (a path list), else in-cluster when in a pod, else ~/.kube/config
  std::string context;  // empty: current-context
};
// Throws ConfigError. Without proxy-url the environment says which proxy to take (net/proxy.hpp). Reads the environment
// and files; not to be called while other threads change the environment.
Config load_config(const ConfigChoice& choice);
Config in_cluster_config();  // throws ConfigError outside a pod

// A transport and a client with their token source, owned together. Throws ConfigError. Destroy only when no call is in
// flight. `options.token` and `options.authorization` are set from `config`.
class Connection final {
 public:
  Connection(net::IoLoop& loop, Config config, ClientOptions options);
  ~Connection();
  Client& client() noexcept;
  const std::string& default_namespace() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bascule::kube
