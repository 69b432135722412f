// A worker pod learns the topology of its node before slurmd starts: when it is bound, the node's annotation is copied
// to the pod, from where kubelet puts it into the environment. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "json/value.hpp"

namespace bascule::op {

// Whether the pod is one of a NodeSet's.
bool is_worker(const json::Value& pod) noexcept;

// The merge patch of the pod, which names its UID so that no later pod of the name is meant. nullopt: nothing to write.
// A node without the annotation, or with one that is no topology, clears that of the pod.
std::optional<json::Value> binding_patch(const json::Value& pod, const json::Value& node);

}  // namespace bascule::op
