// Where the volumes of a pod let it run, and what has to be done before it may be bound: claims, volumes and storage
// classes side by side. A claim that is bound brings the node affinity and the zone of its volume; one that waits for
// its first consumer brings the topologies of its class, or the nodes of the volumes it could take. A driver may limit
// how many of its volumes a node has at once. Pure; loop thread only. Sources: Kubernetes "Persistent Volumes",
// "Storage Classes" (volume binding mode, allowed topologies), "Node-specific Volume Limits" (which a volume counts for
// until its VolumeAttachment is gone).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bridge/constraints.hpp"
#include "bridge/unit.hpp"
#include "json/value.hpp"

namespace bascule::bridge {

using ObjectPtr = std::shared_ptr<const kube::DynamicObject>;

class Volumes final {
 public:
  void on_claim(const ObjectPtr& before, const ObjectPtr& after);
  void on_volume(const ObjectPtr& before, const ObjectPtr& after);
  void on_class(const ObjectPtr& before, const ObjectPtr& after);
  void on_csi_node(const ObjectPtr& before, const ObjectPtr& after);
  void on_attachment(const ObjectPtr& before, const ObjectPtr& after);
  // Told of every node whose limits are others now.
  std::function<void(const std::string& kube_node)> on_limits = nullptr;
  // Whether the lists of claims, volumes and classes are in. Where this was never said, claims decide nothing.
  void set_known(bool known) { known_ = known; }

  // What decides before the submit. `problem` is not empty: the pod cannot run anywhere yet, and why. Otherwise the
  // node must hold one term of every alternative.
  struct Needs {
    std::string problem;
    std::vector<std::vector<AffinityTerm>> alternatives;
    friend bool operator==(const Needs&, const Needs&) = default;
  };
  Needs needs_of(const kube::Pod& pod) const;

  // What to write so that the claims of a pod get their volumes on this node. Both lists empty: they have them.
  struct Take {  // this volume for that claim
    ObjectPtr volume;
    ObjectPtr claim;
  };
  struct Binding {
    std::vector<Take> takes;
    std::string node;
    std::vector<ObjectPtr> provisions;  // claims to be told the node, if they are not yet
    bool waits = false;                 // something of it is not there yet
    std::string problem;                // it cannot be had on this node
  };
  // By driver: volumes that are attached, or will be once they are made. Those that nobody attaches are left out.
  using Attached = std::map<std::string, std::set<std::string>>;
  void attach(const NamespacedName& claim, Attached& to) const;
  // What is attached to the node by its VolumeAttachments, whether a pod there still uses it or not.
  void attach_standing(const std::string& kube_node, Attached& to) const;
  Attached attached_by(const kube::Pod& pod) const;
  // Of the drivers of `wanted`, one that would have more volumes on that node than it can, with its limit; or empty.
  std::string excess(const Attached& wanted, const Attached& there, const std::string& kube_node) const;
  Binding binding_of(const kube::Pod& pod, const kube::Node& node) const;

 private:
  const kube::DynamicObject* claim(const std::string& ns, std::string_view name) const;
  // Volumes that are free, of the claim's class, size and modes; the smallest first.
  std::vector<ObjectPtr> free_volumes(const kube::DynamicObject& claim) const;

  std::optional<bool> known_;
  std::map<NamespacedName, ObjectPtr> claims_;
  std::map<std::string, ObjectPtr, std::less<>> volumes_, classes_;
  std::map<std::string, std::map<std::string, std::int64_t>> limits_;  // by node, by driver
  std::map<std::string, std::map<std::string, ObjectPtr>> standing_;   // VolumeAttachments, by node, by name
};

// A node holds one of these terms.
bool holds_any(const std::vector<AffinityTerm>& terms, const kube::Node& node);

}  // namespace bascule::bridge
