#include "bridge/device_watch.hpp"

#include "base/log.hpp"
#include "kube/discovery.hpp"

namespace bascule::bridge {

namespace {

using namespace std::chrono_literals;

// An API server that starts, or is being upgraded, may come to serve them.
constexpr Duration kAskAgain = 1min;

}  // namespace

DeviceWatch::DeviceWatch(kube::Client& kube, json::Interner& interner, const Config& config)
    : kube_(kube),
      ledger_(config.scheduler_name, config.device_drivers),
      slices_(kube, {.resource = kResourceSlices}, decode_slice, interner),
      classes_(kube, {.resource = kDeviceClasses}, decode_class, interner),
      // A claim that an API server does not remember yet would have its devices given again.
      claims_(kube, {.resource = kResourceClaims, .fresh = true}, decode_claim, interner),
      gate_(kube.loop()) {
  slices_.on_change([this](const SlicePtr& before, const SlicePtr& after) { ledger_.on_slice(before, after); });
  classes_.on_change([this](const ClassPtr& before, const ClassPtr& after) { ledger_.on_class(before, after); });
  claims_.on_change([this](const ClaimPtr& before, const ClaimPtr& after) { ledger_.on_claim(before, after); });
}

DeviceWatch::~DeviceWatch() = default;

void DeviceWatch::start() {
  spawn(gate_, run());
}

Task<> DeviceWatch::run() {
  const std::stop_token stop = stop_.get_token();
  kube::Discovery discovery(kube_);
  while (!stop.stop_requested()) {
    std::string problem;
    bool served = false;
    try {
      served = co_await discovery.serves(kResourceSlices, stop);
    } catch (const kube::Error& error) {
      problem = error.what();
    } catch (const net::Error& error) {
      problem = error.what();
    }
    if (served) break;
    if (problem.empty()) {
      ledger_.set_unknown({});
      discovery.forget();
    } else {
      log::limited(log::Level::kWarning, 10s, "cannot ask whether devices are served", {{"why", problem}});
    }
    const bool again = co_await sleep_for(kube_.loop(), problem.empty() ? kAskAgain : 2s, stop);
    if (!again) co_return;
  }
  if (stop.stop_requested()) co_return;
  ledger_.set_unknown(std::string(kDevicesUnread));
  classes_.start();
  slices_.start();
  claims_.start();
  bool synced = co_await classes_.wait_synced(stop, TimePoint::max());
  synced = synced && co_await slices_.wait_synced(stop, TimePoint::max());
  synced = synced && co_await claims_.wait_synced(stop, TimePoint::max());
  if (synced) ledger_.set_unknown({});
}

Task<> DeviceWatch::stop() {
  stop_.request_stop();
  co_await gate_.close();
  co_await classes_.stop();
  co_await slices_.stop();
  co_await claims_.stop();
}

}  // namespace bascule::bridge
