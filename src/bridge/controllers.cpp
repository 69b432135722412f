#include "bridge/controllers.hpp"

#include <stdexcept>

#include "base/log.hpp"
#include "bridge/bridge_metrics.hpp"
#include "bridge/device_watch.hpp"
#include "bridge/node_sync.hpp"
#include "bridge/pod_sync.hpp"
#include "bridge/scheduler.hpp"
#include "runtime/client_metrics.hpp"

namespace bascule::bridge {

struct Controllers::Impl {
  Impl(kube::Client& k, slurm::Client& s, ControllersOptions o, runtime::Metrics* m)
      : kube(k),
        slurm(s),
        options(std::move(o)),
        metrics(m),
        pods(k, {.resource = kube::resources::kPods}, kube::decode_pod, interner),
        nodes(k, {.resource = kube::resources::kNodes}, kube::decode_node, interner),
        devices(k, interner, options.config),
        mirror(k.loop(), s, options.mirror),
        events(k, "slurm-bridge-controllers", options.instance) {}

  kube::Client& kube;
  slurm::Client& slurm;
  ControllersOptions options;
  runtime::Metrics* metrics;
  json::Interner interner;
  kube::Informer<kube::Pod> pods;
  kube::Informer<kube::Node> nodes;
  DeviceWatch devices;
  slurm::ClusterMirror mirror;
  kube::EventRecorder events;

  void must_lead() const {
    if (options.may_act && !options.may_act()) throw std::runtime_error("this process does not lead any longer");
  }
};

Controllers::Controllers(kube::Client& kube, slurm::Client& slurm, ControllersOptions options,
                         runtime::Metrics* metrics)
    : impl_(std::make_unique<Impl>(kube, slurm, std::move(options), metrics)) {}
Controllers::~Controllers() = default;

Task<> Controllers::run(std::stop_token stop) {
  Impl& self = *impl_;
  const std::string cluster = co_await cluster_uid(self.kube, stop);
  if (cluster.empty()) co_return;
  const std::string& bridge = self.options.config.scheduler_name;
  DeviceLedger* devices = &self.devices.ledger();
  const auto must_lead = [&self] { self.must_lead(); };
  PodSync pod_sync(
      {self.kube, self.slurm, self.pods, self.mirror, self.events, self.metrics, devices, &self.nodes, must_lead},
      {bridge, cluster}, self.options.pod_workers);
  NodeSync node_sync(
      {self.kube, self.slurm, self.nodes, self.mirror, self.events, self.metrics, devices, &self.pods, must_lead},
      self.options.config, {bridge, cluster}, self.options.node_workers);
  const auto slurm = watch_slurm(self.metrics, self.mirror);
  const auto dropped = runtime::watch_events(self.metrics, self.events);
  self.pods.start();
  self.nodes.start();
  self.devices.start();
  self.mirror.start();
  bool synced = co_await self.pods.wait_synced(stop, TimePoint::max());
  synced = synced && co_await self.nodes.wait_synced(stop, TimePoint::max());
  if (synced) {
    log::info("controllers started", {{"pods", self.pods.size()}, {"nodes", self.nodes.size()}});
    pod_sync.start();
    node_sync.start();
    while (co_await sleep_for(self.kube.loop(), std::chrono::hours(24), stop)) {
    }
  }
  co_await pod_sync.stop();
  co_await node_sync.stop();
  co_await self.mirror.stop();
  co_await self.pods.stop();
  co_await self.nodes.stop();
  co_await self.devices.stop();
  co_await self.events.stop(self.kube.loop().now() + std::chrono::seconds(2));
}

}  // namespace bascule::bridge
