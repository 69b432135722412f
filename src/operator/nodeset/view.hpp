// Objects of Kubernetes and records of Slurm as the plan's values. Pure. Whatever an object's fields are, a value comes
// out: what has another type than its API says counts as absent.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "json/value.hpp"
#include "kube/objects.hpp"
#include "operator/api/types.hpp"
#include "operator/nodeset/slurm_node.hpp"
#include "operator/nodeset/values.hpp"

namespace bascule::op::nodeset {

// --- what informers keep ---------------------------------------------------------------------------------------------

// A pod of any kind; of those that cannot be a worker only the key.
struct WorkerPod {
  kube::ObjectMeta meta;    // without labels, annotations and owners: they are in `view`
  bool worker = false;      // by its labels or its owner
  std::string set;          // the NodeSet of its labels; empty: they are not a worker's
  std::string stem;         // its name up to the last dash, when a number follows
  kube::OwnerReference by;  // its controller; empty: none
  PodView view;             // owner, selected and claims are not set
  std::vector<std::pair<std::string, std::string>> claims;  // volume: claim
};
std::shared_ptr<const WorkerPod> decode_worker_pod(std::string_view text, json::Interner& interner);

struct WorkerNode {
  kube::ObjectMeta meta;
  bool unschedulable = false;
  std::vector<kube::Taint> taints;
  std::vector<NodeView::Condition> conditions;
};
std::shared_ptr<const WorkerNode> decode_worker_node(std::string_view text, json::Interner& interner);
// Nothing that a plan could see differs.
bool looks_same(const WorkerNode& a, const WorkerNode& b);

// The metadata alone, of claims.
struct ClaimObject {
  kube::ObjectMeta meta;
  std::vector<OwnerView> owners;  // kind kNodeSet: of any name
};
std::shared_ptr<const ClaimObject> decode_claim(std::string_view text, json::Interner& interner);

// --- values ----------------------------------------------------------------------------------------------------------

// Throws BadObject for a drain limit that is no duration.
Spec view_spec(const NodeSet& set, std::vector<std::string> propagated_conditions);
Status view_status(const json::Value& status);
// `status` with the fields of `now`; fields that are not ours, conditions of others among them, stay.
json::Object print_status(const json::Value& status, const Status& now);
// Puts in or takes away a condition.
void set_condition(json::Object& status, std::string_view type, const std::optional<Condition>& condition);
std::optional<Condition> condition_at(const json::Value& status, std::string_view type);

PodView view_pod(const WorkerPod& pod, const Spec& spec);
ClaimView view_claim(const ClaimObject& claim, std::string_view nodeset);
RevisionView view_revision(const kube::DynamicObject& revision, const Uid& nodeset);

// Where pods of a template may run. Source: "Assigning Pods to Nodes", "Taints and Tolerations".
class Placement final {
 public:
  explicit Placement(const json::Value& pod_spec);
  NodeView view_node(const WorkerNode& node) const;

 private:
  bool matches(const WorkerNode& node) const;
  json::Value selector_;
  json::Value terms_;  // null: none required
  std::vector<kube::Toleration> tolerations_;
};

SlurmNodeView view_slurm_node(const slurm::Node& node, const Work* work);
ReservationView view_reservation(const slurm::Reservation& reservation);

// The same text for the same value, whatever the order of its keys.
std::string canonical_text(const json::Value& value);

}  // namespace bascule::op::nodeset
