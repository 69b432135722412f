// Where an object of slinky.slurm.net stands: what the operator waits for and since when, which pods and objects it
// depends on, in plain words. Pure: from the objects as the API server gives them.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/loop.hpp"
#include "json/value.hpp"
#include "kube/event_list.hpp"
#include "kube/resource.hpp"
#include "operator/explain/pod.hpp"

namespace bascule::op::explain {

// An object beside it: its Controller, or who refers to it.
struct Neighbour {
  std::string object;  // "RestApi slurm"
  std::string state;   // "ready", "waits", "degraded", "missing", "going"
  std::optional<WallTime> since;
  std::string says;
};

struct Explanation {
  std::string object;                                      // "NodeSet slurm/gpu"
  std::string verdict;                                     // a sentence
  std::optional<WallTime> since;                           // of the verdict
  std::vector<std::string> waits;                          // what for, a sentence each
  std::vector<std::string> next;                           // what happens or is to be done, a sentence each
  std::vector<std::pair<std::string, std::string>> facts;  // name and value, in order
  std::vector<PodStand> pods;
  bool workers = false;  // `pods` have nodes in Slurm
  std::vector<Neighbour> neighbours;
  std::vector<kube::PastEvent> events;  // newest last
};

struct Found {
  json::Value object;                  // of `resource`
  std::vector<json::Value> pods = {};  // its own
  // Objects beside it; null: it does not exist.
  std::vector<std::pair<std::string, json::Value>> neighbours = {};  // "RestApi slurm" and the object
  std::optional<std::vector<json::Value>> claims = std::nullopt;     // PersistentVolumeClaims; nullopt: not known
  json::Value events = {};                                           // an EventList (events.k8s.io/v1)
  // Of a Controller: what the containers `reconfigure` of its pods said last, by pod.
  std::vector<std::pair<std::string, std::string>> reconfigure_logs = {};
};

// Why slurmctld did not take its newest configuration, in scontrol's own words; nullopt: it did, as far as this log
// goes.
std::optional<std::string> refusal_in(std::string_view log);

// Whether slurmctld is not to take it, since it would take another auth/slurm key with it.
bool keeps_for_key(std::string_view log);

Explanation explain(const kube::Resource& resource, const Found& found);
// `now`: for how long something has been so.
std::string to_text(const Explanation& explanation, WallTime now, bool colours);
json::Value to_json(const Explanation& explanation);

}  // namespace bascule::op::explain
