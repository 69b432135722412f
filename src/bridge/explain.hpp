// Where a pod stands between Kubernetes and Slurm, in plain words. Pure. What people read of a node (explain_node.hpp)
// has the same form.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bridge/explain_claim.hpp"
#include "bridge/explain_group.hpp"
#include "json/value.hpp"
#include "kube/event_list.hpp"
#include "kube/event_read.hpp"

namespace bascule::bridge {

struct Explanation {
  std::string kind = "pod";                                // or node
  std::string name = {};                                   // ns/name; of a node its name
  std::string verdict;                                     // one sentence: what is the matter now
  std::string next;                                        // one sentence: what happens next, or what to do
  std::vector<std::pair<std::string, std::string>> facts;  // name and value, in order
  std::vector<kube::PastEvent> events;                     // newest last
  std::optional<GroupExplanation> group;                   // of a pod of a gang
};

// What there is about a pod besides itself.
struct PodSurroundings {
  kube::ReadEvents events = {};
  std::optional<ClaimStand> claim = std::nullopt;  // of a pod that asks for devices by class
  std::optional<GroupExplanation> group = std::nullopt;
  std::string root = {};    // the object whose annotations count: "Job ns/name"; empty: the pod, or not known
  std::string doubts = {};  // what in them is in vain
};
// `pod` as the API server gives it.
Explanation explain_pod(const json::Value& pod, PodSurroundings around);
std::string to_text(const Explanation& explanation, bool colours);
json::Value to_json(const Explanation& explanation);

}  // namespace bascule::bridge
