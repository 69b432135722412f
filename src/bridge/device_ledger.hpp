// Devices of all nodes and claims of all pods side by side, kept up change by change: what a node has, which claim a
// device is allocated to, which claim is a pod's. Claims being written are held here before the server shows them.
// A claim's owner is what its writer says: it is a pod's only in the pod's own namespace.
// Pure; loop thread only.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "bridge/device_inventory.hpp"

namespace bascule::bridge {

inline constexpr std::string_view kDevicesUnread = "the devices of the cluster have not been read yet";

class DeviceLedger final {
 public:
  // `bridge` is the scheduler's name: claims that carry it are ours.
  explicit DeviceLedger(std::string bridge, DeviceDrivers drivers = {})
      : bridge_(std::move(bridge)), drivers_(std::move(drivers)) {}

  void on_slice(const SlicePtr& before, const SlicePtr& after);
  void on_class(const ClassPtr& before, const ClassPtr& after);
  void on_claim(const ClaimPtr& before, const ClaimPtr& after);
  // Told of every node whose devices may be others now; empty: of all.
  std::function<void(const std::string& kube_node)> on_node = nullptr;
  // Told of every pod whose claim of ours changed.
  std::function<void(const ClaimPtr& claim)> on_our_claim = nullptr;

  // Why devices cannot be told at all; empty: all tables are in.
  void set_unknown(std::string why);
  const std::string& unknown() const noexcept { return unknown_; }

  const DeviceDrivers& drivers() const noexcept { return drivers_; }
  // By the name in Kubernetes. The reference holds until the next change.
  const NodeDevices& on(const std::string& kube_node) const;
  // Of devices that a pod asks for by class: why the node, which has these GRES in Slurm, cannot give them, in words
  // shared by many nodes; or empty.
  std::string shortage(const kube::ResourceList& requests, const std::string& kube_node,
                       std::string_view slurm_gres) const;

  bool ours(const ResourceClaim& claim) const;
  // The claim of ours that belongs to this pod; nullptr: none.
  ClaimPtr claim_of(const kube::Pod& pod) const;
  // A claim of it is being written or was, and is not seen yet.
  bool assumes(const Uid& pod) const noexcept { return assumed_.contains(pod); }
  // Who holds the device, except for `pod`: "claim ns/name"; empty: nobody.
  std::string holder(const DeviceId& device, const kube::Pod& pod) const;
  // Being written for this pod; until the server shows the claim, or forget().
  void assume(const kube::Pod& pod, const std::vector<DeviceId>& devices);
  void forget(const Uid& pod);

 private:
  struct NodeEntry {
    std::vector<SlicePtr> slices;
    mutable std::optional<NodeDevices> devices;  // read when asked for
  };
  struct Assumed {
    std::string ns;
    std::vector<DeviceId> devices;
  };
  void changed(const std::string& node);

  std::string bridge_;
  DeviceDrivers drivers_;
  std::string unknown_{kDevicesUnread};
  std::map<std::string, ClassPtr, std::less<>> classes_;
  std::unordered_map<std::string, NodeEntry> nodes_;
  std::map<DeviceId, std::map<NamespacedName, Uid>> held_;            // by claim: the pod, empty when it is none's
  std::unordered_map<Uid, std::map<NamespacedName, ClaimPtr>> ours_;  // by pod
  std::unordered_map<Uid, Assumed> assumed_;                          // by pod
  std::map<DeviceId, std::set<Uid>> assumed_by_;
  NodeDevices none_;
};

}  // namespace bascule::bridge
