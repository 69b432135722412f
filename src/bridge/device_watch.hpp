// Keeps a DeviceLedger: watches ResourceSlices, DeviceClasses and ResourceClaims where the API server serves them. A
// server that does not has no devices for Slurm, which is known, not unknown; it is asked again each minute.
#pragma once

#include <memory>
#include <string>

#include "base/async.hpp"
#include "bridge/config.hpp"
#include "bridge/device_ledger.hpp"
#include "kube/client.hpp"
#include "kube/informer.hpp"

namespace bascule::bridge {

class DeviceWatch final {
 public:
  // `kube` and `interner` outlive this; of the configuration the scheduler's name and the drivers count.
  DeviceWatch(kube::Client& kube, json::Interner& interner, const Config& config);
  ~DeviceWatch();  // after stop() has completed

  DeviceLedger& ledger() noexcept { return ledger_; }
  void start();
  Task<> stop();

 private:
  Task<> run();

  kube::Client& kube_;
  DeviceLedger ledger_;
  kube::Informer<ResourceSlice> slices_;
  kube::Informer<DeviceClass> classes_;
  kube::Informer<ResourceClaim> claims_;
  Gate gate_;
  std::stop_source stop_;
};

}  // namespace bascule::bridge
