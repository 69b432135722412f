// The condition SlurmReady of a node: why Slurm starts nothing there, in the words of whoever took it out. A node that
// always was in service carries none, so a healthy cluster is never written to; one that has left Slurm loses it. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "bridge/unit.hpp"
#include "slurm/types.hpp"

namespace bascule::bridge {

inline constexpr std::string_view kSlurmReady = "SlurmReady";

struct NodeCondition {
  std::string status;  // True or False; empty: the condition is taken away
  std::string reason;  // CamelCase
  std::string message;
};

// What the node's condition must become; nullopt: it is right as it is. `slurm` is what Slurm is known to hold of it;
// nullptr: surely nothing.
std::optional<NodeCondition> changed_condition(const kube::Node& node, const slurm::Node* slurm);

}  // namespace bascule::bridge
