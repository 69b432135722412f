// Where the volumes of a pod let it run, and what has to be done before it may be bound: claims, volumes and storage
// classes side by side. A claim that is bound brings the node affinity and the zone of its volume; one that waits for
// its first consumer brings the topologies of its class, or the nodes of the volumes it could take. Pure; loop thread
// only. Sources: Kubernetes "Persistent Volumes", "Storage Classes" (volume binding mode, allowed topologies).
#pragma once

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
  // Whether all three lists are in. Where this was never said, claims decide nothing.
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
  Binding binding_of(const kube::Pod& pod, const kube::Node& node) const;

 private:
  const kube::DynamicObject* claim(const std::string& ns, std::string_view name) const;
  // Volumes that are free, of the claim's class, size and modes; the smallest first.
  std::vector<ObjectPtr> free_volumes(const kube::DynamicObject& claim) const;

  std::optional<bool> known_;
  std::map<NamespacedName, ObjectPtr> claims_;
  std::map<std::string, ObjectPtr, std::less<>> volumes_, classes_;
};

// A node holds one of these terms.
bool holds_any(const std::vector<AffinityTerm>& terms, const kube::Node& node);

}  // namespace bascule::bridge
