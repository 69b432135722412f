// Where a pod may run by Kubernetes' own rules: node selector, required node affinity, taints, size, and where its
// volumes are (volumes.hpp). Pure.
// Our own taint keeps no pod of ours off: one that the webhook has not seen is made to tolerate it before the binding.
// Before submit the answer becomes the job's excluded nodes; before binding it is asked again for the node Slurm chose.
// Source: Kubernetes "Assigning Pods to Nodes", "Taints and Tolerations".
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "bridge/unit.hpp"
#include "json/value.hpp"

namespace bascule::bridge {

struct AffinityExpression {
  std::string key;
  std::string op;  // In, NotIn, Exists, DoesNotExist, Gt, Lt
  std::vector<std::string> values;
};
struct AffinityTerm {  // all must hold; a term without any holds for no node
  std::vector<AffinityExpression> labels;
  std::vector<AffinityExpression> fields;  // metadata.name only
};

// What of a pod decides where it may run. Pods of one class have equal text.
struct PodConstraints {
  kube::StringMap node_selector;
  std::vector<AffinityTerm> affinity;  // any must hold; empty: no affinity
  bool has_affinity = false;
  std::vector<kube::Toleration> tolerations;
  kube::ResourceList requests;
  std::vector<std::vector<AffinityTerm>> volumes = {};         // of each any must hold
  std::map<std::string, std::set<std::string>> attached = {};  // volumes by the driver that attaches them
  std::string bridge = {};                                     // the pod's scheduler: the value of its own taint
};
// The terms of a node selector ({"nodeSelectorTerms": [...]}).
std::vector<AffinityTerm> affinity_terms(const json::Value& selector);
bool holds(const AffinityTerm& term, const kube::Node& node);
// By a label selector ({"matchLabels": {}, "matchExpressions": []}); one that says nothing selects all.
bool selects(const json::Value& label_selector, const kube::StringMap& labels);
// Throws json errors when the affinity text is not what the API promises.
PodConstraints constraints_of(const kube::Pod& pod);
// Whether the taint of the pod's own bridge would evict it: the webhook has not seen it.
bool needs_toleration(const kube::Pod& pod);
std::string class_of(const kube::Pod& pod);

enum class When : std::uint8_t {
  kBeforeSubmit,  // lasting properties only; taints that come and go (not-ready, cordon, pressure) are Slurm's drain or
                  // a matter of waiting
  kBeforeBind,    // everything but what is in use (node_usage.hpp)
};

// Empty: the pod may run there. Otherwise why not, in words shared by many nodes ("does not match the node selector").
std::string misfit(const PodConstraints& constraints, const kube::Node& node, When when);

}  // namespace bascule::bridge
