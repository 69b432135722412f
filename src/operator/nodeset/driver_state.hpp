// What the driver keeps at hand of the clusters, and the state of one NodeSet put together from it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kube/informer.hpp"
#include "operator/builders/worker.hpp"
#include "operator/clusters/clusters.hpp"
#include "operator/nodeset/driver.hpp"
#include "operator/nodeset/view.hpp"

namespace bascule::op::nodeset {

using ObjectPtr = kube::Informer<kube::DynamicObject>::Ptr;
using PodPtr = std::shared_ptr<const WorkerPod>;

// A reason of the condition Ready.
constexpr std::string_view kControllerMissing = "ControllerMissing";

// One NodeSet as it is now. Not to be moved: its parts refer to each other.
struct Reading {
  Reading() = default;
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  ObjectPtr object;
  NodeSet set;
  std::optional<Controller> controller;
  std::optional<WorkerInput> input;  // nullopt: `trouble`
  std::string trouble;               // for a person to mend: why no pod can be made, else what is left out of them
  bool sure = true;                  // of the trouble; false: the copies may only be late
  std::string reason = "Waiting";    // of the condition, when there is trouble
  ClusterPtr cluster;
  std::shared_ptr<const Works> works;  // of the cluster's jobs
  std::map<std::string, PodPtr> pods;
  State state;
  bool planable = true;  // false: not even an old revision tells what pods should be
};

class Views final {
 public:
  Views(const NodeSetDriver::Parts& parts, const NodeSetDriver::Options& options, json::Interner& interner);

  kube::Informer<WorkerPod> pods;
  kube::Informer<WorkerNode> nodes;
  kube::Informer<ClaimObject> claims;
  kube::Informer<kube::DynamicObject> revisions;

  // Throws BadObject.
  void read(const ObjectPtr& nodeset, Reading& to);
  // Of a NodeSet that cannot be read: enough to say so in its status.
  void read_bad(const ObjectPtr& nodeset, std::string fault, Reading& to) const;
  // Keys of NodeSets that exist, to `use`.
  using Use = std::function<void(const NamespacedName& nodeset)>;
  void sets_of(const WorkerPod& pod, const Use& use) const;
  void sets_on_node(const std::string& node, const Use& use) const;
  void sets_of_slurm_node(const NamespacedName& controller, const slurm::Node& node, const Use& use) const;
  void sets_of_slurm_name(const std::string& ns, const std::string& name, const Use& use) const;
  void sets_of_claim(const ClaimObject& claim, const Use& use) const;
  void sets_of_controller(const NamespacedName& controller, const Use& use) const;
  void sets_of_secret(const NamespacedName& secret, const Use& use) const;
  void daemon_sets(const Use& use) const;
  void jobs_changed(const NamespacedName& controller) { works_.erase(controller); }

  static NamespacedName controller_of(const kube::DynamicObject& nodeset);

 private:
  void use_if_there(NamespacedName key, const Use& use) const;
  void read_template(Reading& to) const;
  void read_pods(Reading& to) const;
  void read_others(Reading& to) const;
  void read_nodes(Reading& to, const Placement& placement) const;
  void read_claims(Reading& to) const;
  void read_revisions(Reading& to) const;
  void read_slurm(Reading& to);
  std::shared_ptr<const Works> works_of(const ClusterPtr& cluster);
  std::optional<std::string> secret_hash(const NodeSet& set, const KeyRef& ref, std::string& fault) const;

  const NodeSetDriver::Parts& parts_;
  const NodeSetDriver::Options& options_;
  Loop& loop_;
  std::map<NamespacedName, std::shared_ptr<const Works>> works_;
};

}  // namespace bascule::op::nodeset
