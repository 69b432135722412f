// The fields of built-in objects that Bascule decides by, decoded for the cache: small, immutable, strings that repeat
// are interned. They are never written back; every write is a patch. Objects read rarely are json::Value instead.
// Source of names and meanings: Kubernetes API reference, core/v1 and batch/v1.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/loop.hpp"
#include "base/quantity.hpp"
#include "base/strong.hpp"
#include "json/intern.hpp"
#include "json/value.hpp"

namespace bascule::kube {

using json::InternedString;
// Sorted by key.
using StringMap = std::vector<std::pair<InternedString, InternedString>>;
// Sorted by name.
using ResourceList = std::vector<std::pair<InternedString, Quantity>>;

// The value, or nullptr when absent. (An annotation may be present and empty.)
const InternedString* find(const StringMap& map, std::string_view key) noexcept;
std::string_view value_or(const StringMap& map, std::string_view key, std::string_view fallback = {}) noexcept;
// Zero when absent.
Quantity amount(const ResourceList& list, std::string_view name) noexcept;

struct OwnerReference {
  InternedString api_version;
  InternedString kind;
  InternedString name;
  Uid uid;
  bool controller = false;
};

struct ObjectMeta {
  NamespacedName key;
  Uid uid;
  std::string resource_version;
  std::int64_t generation = 0;
  StringMap labels;
  StringMap annotations;  // without kubectl's last-applied-configuration and values over 16 KiB
  std::vector<OwnerReference> owners;
  std::vector<InternedString> finalizers;
  WallTime created{};
  std::optional<WallTime> deleted;  // deletionTimestamp: the object is going away
  std::optional<std::int64_t> deletion_grace_seconds;

  const OwnerReference* controller() const noexcept;
  bool has_finalizer(std::string_view name) const noexcept;
};

struct Toleration {
  InternedString key;  // empty with operator Exists: all keys
  InternedString value;
  InternedString effect;  // empty: all effects
  bool exists = false;    // operator Exists; false: Equal
  bool limited = false;   // tolerationSeconds: of a taint that evicts, for that long only
  friend bool operator==(const Toleration&, const Toleration&) = default;
};

struct Taint {
  InternedString key;
  InternedString value;
  InternedString effect;
  friend bool operator==(const Taint&, const Taint&) = default;
};

// True when the toleration covers the taint. Source: "Taints and Tolerations".
bool tolerates(const Toleration& toleration, const Taint& taint) noexcept;

// What one container asks for by device class (dynamic resource allocation), under a resource name
// deviceclass.resource.kubernetes.io/CLASS. Source: "Dynamic Resource Allocation", extended resources.
struct DeviceRequest {
  InternedString container;
  InternedString resource;
  std::int64_t count = 0;  // above 0
  bool init = false;       // of an init container that ends before the pod's others start
};

// A port of the node that a container has for itself. Source: "Pod" API reference, ContainerPort.
enum class Protocol : std::uint8_t { kTcp, kUdp, kSctp };
struct HostPort {
  std::uint16_t number = 0;
  Protocol protocol = Protocol::kTcp;
  InternedString ip = {};  // empty: of all addresses of the node
  friend bool operator==(const HostPort&, const HostPort&) = default;
  friend auto operator<=>(const HostPort&, const HostPort&) = default;
};
// "8125/UDP"; of TCP the number alone.
std::string print(const HostPort& port);

// What the pod requires of its place by the places of other pods. Source: "Pod Topology Spread Constraints",
// "Inter-pod affinity and anti-affinity". Preferences are not read.
struct PeerRules {
  enum class AntiAffinity : std::uint8_t {
    kNone,
    kOfHosts,  // every term has the topologyKey kubernetes.io/hostname
    kWider,
  };
  bool spread = false;  // of either whenUnsatisfiable
  bool affinity = false;
  AntiAffinity anti_affinity = AntiAffinity::kNone;
  friend bool operator==(const PeerRules&, const PeerRules&) = default;
};
inline constexpr std::string_view kHostTopology = "kubernetes.io/hostname";

enum class PodPhase : std::uint8_t { kUnknown, kPending, kRunning, kSucceeded, kFailed };

struct Condition {
  bool present = false;
  InternedString status;  // True, False, Unknown
  InternedString reason;
  InternedString message;
};

struct Pod {
  ObjectMeta meta;
  // spec
  InternedString scheduler_name;
  InternedString node_name;  // empty: not bound
  std::int32_t priority = 0;
  // Effective pod requests and limits: sum over containers, maximum with init containers, restartable init containers,
  // pod-level resources, overhead. Source: "Resource Management for Pods and Containers", "Sidecar Containers".
  ResourceList requests;
  ResourceList limits;
  StringMap node_selector;
  std::vector<Toleration> tolerations;
  // JSON text of nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution, or empty
  InternedString required_node_affinity;
  PeerRules peers;
  std::vector<InternedString> scheduling_gates;
  std::vector<InternedString> claims;  // names of PersistentVolumeClaims
  std::vector<HostPort> host_ports;
  InternedString scheduling_group;  // spec.schedulingGroup.podGroupName
  bool has_resource_claims = false;
  std::vector<DeviceRequest> device_requests;
  std::int64_t grace_seconds = 30;  // terminationGracePeriodSeconds; deletionGracePeriodSeconds once deleted
  std::optional<std::int64_t> active_deadline_seconds;
  // status
  PodPhase phase = PodPhase::kUnknown;
  Condition scheduled;                                           // PodScheduled
  std::vector<std::pair<InternedString, Condition>> conditions;  // by type, those with a domain: not Kubernetes' own
  InternedString extended_claim;  // name of the ResourceClaim in status.extendedResourceClaimStatus
  InternedString status_reason;

  bool bound() const noexcept { return !node_name.empty(); }
  bool terminal() const noexcept { return phase == PodPhase::kSucceeded || phase == PodPhase::kFailed; }
  bool deleting() const noexcept { return meta.deleted.has_value(); }
};

struct Node {
  ObjectMeta meta;
  bool unschedulable = false;
  std::vector<Taint> taints;
  ResourceList capacity;
  ResourceList allocatable;
  std::string internal_ip;  // first InternalIP address, or empty
  Condition ready;
  std::vector<std::pair<InternedString, Condition>> conditions;  // by type, those that kubelet does not write
};

struct Job {
  ObjectMeta meta;
  std::optional<std::int64_t> active_deadline_seconds;
  ResourceList template_limits;  // spec.template.spec.resources.limits (pod level), as written
};

// Any kind whole, for what has no struct of its own (custom resources). Without metadata.managedFields.
struct DynamicObject {
  ObjectMeta meta;
  json::Value value;
};

// Throw json::ShapeError or json::ParseError naming the path. `text` is one object.
std::shared_ptr<const Pod> decode_pod(std::string_view text, json::Interner& interner);
std::shared_ptr<const Node> decode_node(std::string_view text, json::Interner& interner);
std::shared_ptr<const Job> decode_job(std::string_view text, json::Interner& interner);
std::shared_ptr<const DynamicObject> decode_dynamic(std::string_view text, json::Interner& interner);
// The metadata alone.
ObjectMeta decode_object_meta(std::string_view text, json::Interner& interner);
// Of the metadata only name, namespace, uid and resourceVersion: which object it is, however odd the rest may be.
ObjectMeta decode_identity(std::string_view text);

}  // namespace bascule::kube
