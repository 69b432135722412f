// What the scheduler would do about a state, and why: the same owner walk and the same plan_unit, over a file. Contacts
// nobody and changes nothing.
#pragma once

#include <string>
#include <vector>

#include "bridge/simulate_state.hpp"

namespace bascule::bridge {

struct SimulatedStep {
  std::string unit;      // "pod ns/name", "PodGroup ns/name"
  std::string decision;  // submit, update, cancel, mark, bind, wait; none: nothing to do
  std::vector<NamespacedName> pods;
  JobId job;           // 0: none
  std::string node;    // of bind
  std::string reason;  // of wait: the condition's word
  std::string why;
  json::Value request;  // of submit and update: the job as it would be sent
};

struct Simulation {
  WallTime time{};
  Identity self;
  std::size_t foreign_pods = 0;          // of other schedulers; passed over
  std::vector<SimulatedStep> decisions;  // by unit, in the order they would be made
};

// Each unit is planned as if this were the first look at it; a bind takes its room on the node from the units after it.
Simulation simulate(const ClusterState& state, json::Interner& interner);
std::string to_text(const Simulation& simulation, bool colours);
json::Value to_json(const Simulation& simulation);

}  // namespace bascule::bridge
