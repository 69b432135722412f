// How a worker's slurmd registers itself: `slurmd -Z --conf '...'`. Source: slurmd(8), "Dynamic Nodes".
#pragma once

#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operator/api/types.hpp"

namespace bascule::op {

struct NodeOption {
  std::string key;  // as first spelled
  std::vector<std::string> values;
};

// NodeSet.spec.extraConf: Key=Value words, values are comma lists; the values of a repeated key (in any case) add up.
// In the order of their first appearance. The error is one sentence naming the word.
std::expected<std::vector<NodeOption>, std::string> parse_node_options(std::string_view extra_conf);

// The NodeSet's Slurm name and the features of extraConf; sorted, each once. Only the name when extraConf is faulty.
std::vector<std::string> node_features(const NodeSet& set);

// slurmd's environment variable with the topology of the Node its pod is on.
inline constexpr std::string_view kTopologyVariable = "SLINKY_TOPOLOGY";

struct NodeConf {
  // One argument in single quotes, for images that hand their arguments to a shell: plain data in it, but for
  // $(SLINKY_TOPOLOGY), which the kubelet expands.
  std::string argument;
  std::optional<std::string> fault;  // what is wrong with extraConf, which is then left out
};
NodeConf node_conf(const NodeSet& set);

// Whether an annotation may become a topology: it ends up in a shell's argument on the worker.
bool is_topology(std::string_view text) noexcept;

}  // namespace bascule::op
