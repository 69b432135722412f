// Which devices a pod gets, out of what Slurm allocated to its job on its node, and the ResourceClaim that says so to
// kubelet. Pure. A pod that asks for devices by class is bound only with such a claim; when Slurm allocated none, too
// few, or devices that are not there, the pod is not bound and the sentence says why.
// Source: "Dynamic Resource Allocation", extended resources; ResourceClaim of resource.k8s.io/v1.
#pragma once

#include <expected>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bridge/device_ledger.hpp"
#include "bridge/record.hpp"
#include "bridge/unit.hpp"
#include "json/value.hpp"
#include "slurm/types.hpp"

namespace bascule::bridge {

// The API's limit for one claim.
inline constexpr std::size_t kMaxClaimDevices = 32;

// What a job holds, by node. Of one running job it does not change; the start tells apart jobs that got one id.
struct JobLayout {
  std::int64_t start_time = 0;
  std::vector<slurm::NodeAllocation> nodes;
  bool has_cores = true;  // false: from gres_detail alone
};
// From the job record, for versions of Slurm that do not serve resources/: GRES only. Items that cannot be read are
// left out: what is not there is not given.
JobLayout layout_of(const slurm::Job& job);

// For how many tasks of this size the devices are enough that the job holds on a node, all but CPUs; nullopt: the tasks
// ask for none by class.
std::optional<std::uint32_t> tasks_with_devices(const TaskSize& task, const JobLayout& layout,
                                                std::string_view slurm_node);

struct WantedClaim {
  struct Request {
    std::string name, device_class, selector;
    std::vector<DeviceId> devices;
  };
  struct Mapping {
    std::string container, request, resource;
  };
  NamespacedName key;
  NamespacedName pod;
  Uid pod_uid;
  JobId job;
  std::string node;  // in Kubernetes
  std::vector<Request> requests;
  std::vector<Mapping> mappings;

  std::vector<DeviceId> devices() const;
  std::string content() const;  // fingerprint of all of it: an existing claim of another is made anew
};

inline bool needs_claim(const kube::Pod& pod) noexcept {
  return !pod.device_requests.empty();
}
// The pod's name and a fingerprint of its UID: found again by whoever comes later, and never that of another pod.
NamespacedName claim_key(const kube::Pod& pod);
// Claims that the user made: Slurm would know nothing of their devices.
std::string resource_claims_fault();
// Of what is asked for, whatever the node; one sentence a fault.
std::vector<std::string> device_faults(const kube::Pod& pod);

struct Placement {
  JobId job;
  std::string kube_node;
  std::string slurm_node;
  const slurm::Node* slurm = nullptr;  // for its GRES count; nullptr: not known, and no GPU is given
};
struct ClaimProblem {
  std::string why;       // the rest of a sentence about the node: "has no devices for the pod: ..."
  bool passing = false;  // not all is known, or devices are away: a no may become a yes by itself
};
std::expected<WantedClaim, ClaimProblem> plan_claim(const kube::Pod& pod, const Placement& at, const JobLayout& layout,
                                                    const DeviceLedger& ledger, const std::set<DeviceId>& taken);

// The objects for the API server.
json::Value claim_object(const WantedClaim& claim, std::string_view bridge);
json::Value claim_status(const WantedClaim& claim, std::string_view now);  // value of the claim's status
json::Value pod_claim_status(const WantedClaim& claim);                    // value of extendedResourceClaimStatus

// Whether an existing claim of ours holds, or is to hold, exactly this.
bool stands_for(const ResourceClaim& claim, const WantedClaim& wanted);
JobId job_of(const ResourceClaim& claim) noexcept;
// Deleted, and its protection is gone: it needs nobody any more to disappear.
inline bool is_going(const ResourceClaim& claim) {
  return claim.meta.deleted && !claim.meta.has_finalizer(kClaimProtection);
}

}  // namespace bascule::bridge
