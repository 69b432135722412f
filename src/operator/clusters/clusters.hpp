// One Slurm client and one mirror for each Controller object, found through its RestApi: the address is that Service's,
// the token is signed by us with the Controller's JWT key. Made anew when address or key change, taken down when the
// Controller or its last RestApi goes; kept while the Controller is being deleted, since its NodeSets drain then. What
// cannot be read (a missing Secret) leaves the cluster as it is.
//
// Clusters do not know each other: one that is dead holds up nobody but those who ask for it. Nothing here waits for an
// answer of Slurm.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/async.hpp"
#include "base/strong.hpp"
#include "kube/informer.hpp"
#include "net/http.hpp"
#include "runtime/metrics.hpp"
#include "slurm/client.hpp"
#include "slurm/mirror.hpp"

namespace bascule::op {

// Whoever holds one may use it to the end of what he does; it may have been replaced meanwhile: then its mirror has
// stopped, and calls go to the old address.
class SlurmCluster final {
 public:
  SlurmCluster(Loop& loop, NamespacedName controller, std::string url, std::unique_ptr<net::Transport> transport,
               slurm::ClientOptions client, slurm::MirrorOptions mirror);
  SlurmCluster(const SlurmCluster&) = delete;
  SlurmCluster& operator=(const SlurmCluster&) = delete;

  const NamespacedName& controller() const noexcept { return controller_; }
  const std::string& url() const noexcept { return url_; }
  slurm::Client& client() noexcept { return client_; }
  slurm::ClusterMirror& mirror() noexcept { return mirror_; }
  const slurm::ClusterMirror& mirror() const noexcept { return mirror_; }
  // Node and job tables are whole and confirmed, and slurmctld answers.
  bool known() const noexcept;
  std::string why_unknown() const;  // a sentence

 private:
  const NamespacedName controller_;
  const std::string url_;
  const std::unique_ptr<net::Transport> transport_;
  slurm::Client client_;
  slurm::ClusterMirror mirror_;
};
using ClusterPtr = std::shared_ptr<SlurmCluster>;

class SlurmClusters final {
 public:
  struct Parts {
    Loop& loop;
    kube::Informer<kube::DynamicObject>& controllers;  // these three not started yet
    kube::Informer<kube::DynamicObject>& restapis;
    kube::Informer<kube::DynamicObject>& secrets;
    // A way to http://HOST:PORT. May throw std::invalid_argument.
    std::function<std::unique_ptr<net::Transport>(const std::string& url)> connect;
    runtime::Metrics* metrics;  // may be nullptr
  };
  struct Options {
    slurm::MirrorOptions mirror = {};
    Duration token_lifetime = std::chrono::minutes(15);
    std::size_t workers = 2;
  };
  // Heard on the loop; must not await or throw. A cluster is named by its Controller.
  struct Listener {
    std::function<void(const NamespacedName& controller)> on_cluster = nullptr;  // made, replaced, gone, up or down
    std::function<void(const NamespacedName& controller, const slurm::ClusterMirror::NodeChange&)> on_node = nullptr;
    std::function<void(const NamespacedName& controller, const slurm::ClusterMirror::JobChange&)> on_job = nullptr;
  };

  SlurmClusters(Parts parts, Options options);
  ~SlurmClusters();
  void listen(Listener listener);  // before start()
  void start();                    // once the informers are synced
  Task<> stop();

  // nullptr: there is none.
  ClusterPtr find(const NamespacedName& controller) const;
  // Why there is none, a sentence: no RestApi, no JWT key ...
  std::string why_none(const NamespacedName& controller) const;
  std::vector<ClusterPtr> all() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bascule::op
