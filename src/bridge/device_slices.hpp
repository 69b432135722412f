// What the API server says of devices, read into small values: ResourceSlice, DeviceClass, ResourceClaim of
// resource.k8s.io/v1. (Pods ask for classes as extended resources from Kubernetes 1.34 on, which serves v1.) Decoders
// throw json errors. Source: Kubernetes API reference, "ResourceSlice", "DeviceClass", "ResourceClaim".
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/strong.hpp"
#include "json/intern.hpp"
#include "kube/objects.hpp"
#include "kube/resource.hpp"

namespace bascule::bridge {

inline const kube::Resource kResourceSlices{"resource.k8s.io", "v1", "resourceslices", "ResourceSlice", false};
inline const kube::Resource kDeviceClasses{"resource.k8s.io", "v1", "deviceclasses", "DeviceClass", false};
inline const kube::Resource kResourceClaims{"resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", true};
inline constexpr std::string_view kExtendedClaim = "resource.kubernetes.io/extended-resource-claim";
// Kubernetes' own finalizer of a claim that has devices. Whoever allocates sets it; the controller of ResourceClaims
// takes it away when every pod the claim is reserved for is over or gone, so it never outlives its pod.
inline constexpr std::string_view kClaimProtection = "resource.kubernetes.io/delete-protection";

// How a device is named in the cluster.
struct DeviceId {
  std::string driver, pool, name;
  std::string str() const { return driver + "/" + pool + "/" + name; }
  friend auto operator<=>(const DeviceId&, const DeviceId&) = default;
};

using DeviceAttribute = std::variant<bool, std::int64_t, std::string>;  // versions are strings
struct Device {
  std::string name;
  std::map<std::string, DeviceAttribute, std::less<>> attributes;  // "domain/name"; the driver is the default domain
  std::string taint = {};                                          // key of one that keeps pods off; empty: none
  std::vector<std::string> counter_sets = {};  // of its pool, that it takes a part of; others may take the same part
};

struct ResourceSlice {
  kube::ObjectMeta meta;
  std::string driver, pool, node;  // node is empty: not of one node
  std::int64_t generation = 0;
  std::int64_t slices = 1;  // of the pool's generation
  std::vector<Device> devices;
};

struct DeviceClass {
  kube::ObjectMeta meta;
  std::vector<std::string> selectors;  // CEL; all must hold
};

struct ResourceClaim {
  kube::ObjectMeta meta;
  Uid pod;               // of the owner that is a pod
  std::string pod_name;  // its name
  bool allocated = false;
  std::vector<DeviceId> devices;  // allocated for it alone
  std::vector<Uid> reserved_for;  // who may use them now
};

// Whether it may be used by anybody but its pod, who may still do so when that one is over.
bool serves_others(const ResourceClaim& claim);

std::shared_ptr<const ResourceSlice> decode_slice(std::string_view text, json::Interner& interner);
std::shared_ptr<const DeviceClass> decode_class(std::string_view text, json::Interner& interner);
std::shared_ptr<const ResourceClaim> decode_claim(std::string_view text, json::Interner& interner);

using SlicePtr = std::shared_ptr<const ResourceSlice>;
using ClassPtr = std::shared_ptr<const DeviceClass>;
using ClaimPtr = std::shared_ptr<const ResourceClaim>;

}  // namespace bascule::bridge
