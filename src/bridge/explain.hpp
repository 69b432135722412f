// Where a pod stands between Kubernetes and Slurm, in plain words. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "json/value.hpp"

namespace bascule::bridge {

struct Explanation {
  std::string pod;                                         // ns/name
  std::string verdict;                                     // one sentence: what is the matter now
  std::string next;                                        // one sentence: what happens next, or what to do
  std::vector<std::pair<std::string, std::string>> facts;  // name and value, in order
  std::vector<std::string> events;                         // newest last
};

// `pod` and the EventList (events.k8s.io/v1) as the API server gives them.
Explanation explain_pod(const json::Value& pod, const json::Value& events);
std::string to_text(const Explanation& explanation, bool colour);
json::Value to_json(const Explanation& explanation);

}  // namespace bascule::bridge
