// Where a node stands between Kubernetes and Slurm, in plain words: whether Slurm may start jobs there, who took it
// out, why it is not registered. Pure: from the Node, with what the bridge has written on it, and its events.
#pragma once

#include "bridge/explain.hpp"

namespace bascule::bridge {

// `node` as the API server gives it.
Explanation explain_node(const json::Value& node, const kube::ReadEvents& events);

}  // namespace bascule::bridge
