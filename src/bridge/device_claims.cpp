#include "bridge/device_claims.hpp"

#include "base/log.hpp"

namespace bascule::bridge {

using namespace std::chrono_literals;

DeviceClaims::DeviceClaims(kube::Client& kube, slurm::Client& slurm, slurm::ClusterMirror& mirror,
                           json::Interner& interner, const Config& config)
    : slurm_(slurm), mirror_(mirror), watch_(kube, interner, config), writer_(kube, config.scheduler_name) {}

Task<std::optional<JobLayout>> DeviceClaims::layout(JobId job, std::stop_token stop) {
  const std::shared_ptr<const slurm::Job> seen = mirror_.job(job);
  if (!seen) co_return std::nullopt;
  JobLayout layout;
  const slurm::Versions versions = co_await slurm_.versions(stop);
  if (versions.external_nodes) {
    layout = {seen->start_time, co_await slurm_.allocation(job, stop), true};
  } else {  // before v0.0.44 Slurm serves no more than the job's record
    const std::optional<slurm::Job> asked = co_await mirror_.ask(job, stop);
    if (!asked) co_return std::nullopt;
    layout = layout_of(*asked);
  }
  // Started anew meanwhile: what was answered may be of either start.
  const std::shared_ptr<const slurm::Job> now = mirror_.job(job);
  if (!now || now->start_time != seen->start_time || layout.start_time != seen->start_time) co_return std::nullopt;
  if (layout.nodes.empty()) co_return std::nullopt;
  co_return layout;
}

Task<ClaimWriter::Ensured> DeviceClaims::make(PodPtr pod, WantedClaim claim, std::stop_token stop) {
  const Uid uid = pod->meta.uid;
  ClaimWriter::Ensured made;
  for (const DeviceId& device : claim.devices()) {
    const std::string holder = ledger().holder(device, *pod);
    if (!holder.empty()) made = std::unexpected("device " + device.str() + " is held by " + holder);
  }
  if (made) {
    ledger().assume(*pod, claim.devices());
    made = co_await writer_.ensure(pod, claim, stop);
    const ClaimPtr seen = ledger().claim_of(*pod);  // of an earlier try: no change will come to tell of it
    if (!made || (seen && seen->allocated && stands_for(*seen, claim))) forget(uid);
  }
  if (made) co_return made;
  log::limited(log::Level::kWarning, 1s, "pod without its claim", {{"pod", pod->meta.key}, {"why", made.error()}});
  co_return std::unexpected("the pod's devices are not claimed yet: " + made.error());
}

Task<> DeviceClaims::undo(PodPtr pod, NamespacedName claim, std::stop_token stop) {
  co_await writer_.drop_unless_bound(pod->meta.key, pod->meta.uid, std::move(claim), stop);
  forget(pod->meta.uid);
}

Task<> DeviceClaims::drop(ClaimPtr claim, std::stop_token stop) {
  const NamespacedName pod{claim->meta.key.ns, claim->pod_name};
  co_await writer_.drop_unless_bound(pod, claim->pod, claim->meta.key, stop);
}

}  // namespace bascule::bridge
