// Where a pod stands between Kubernetes and Slurm, in plain words. Pure.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bridge/explain_claim.hpp"
#include "bridge/explain_group.hpp"
#include "json/value.hpp"
#include "kube/event_list.hpp"

namespace bascule::bridge {

struct Explanation {
  std::string pod;                                         // ns/name
  std::string verdict;                                     // one sentence: what is the matter now
  std::string next;                                        // one sentence: what happens next, or what to do
  std::vector<std::pair<std::string, std::string>> facts;  // name and value, in order
  std::vector<kube::PastEvent> events;                     // newest last
  std::optional<GroupExplanation> group;                   // of a pod of a gang
};

// `pod` and the EventList (events.k8s.io/v1) as the API server gives them. `claim`: of a pod that asks for devices by
// class.
Explanation explain_pod(const json::Value& pod, const json::Value& events,
                        const std::optional<ClaimStand>& claim = std::nullopt);
std::string to_text(const Explanation& explanation, bool colours);
json::Value to_json(const Explanation& explanation);

}  // namespace bascule::bridge
