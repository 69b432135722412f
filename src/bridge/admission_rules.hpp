// The rules for pods that Slurm shall place, over the pod as the API server shows it. Pure. Every function appends one
// sentence a fault, naming field and remedy, without the pod's name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bridge/config.hpp"
#include "json/value.hpp"

namespace bascule::bridge {

using Sentences = std::vector<std::string>;

// What only the bridge may write, set by somebody else in a new pod.
void preset_faults(const json::Value& pod, Sentences& faults);
// What only the bridge may write, changed between two versions of a pod.
void change_faults(const json::Value& before, const json::Value& after, Sentences& faults);
// Another gang for a pod whose Slurm job stands for it as a member of the one it was in.
void group_faults(const json::Value& before, const json::Value& after, Sentences& faults);
// What Slurm cannot honour: resource claims, native beside claimed CPUs.
void shape_faults(const Config& config, const json::Value& pod, Sentences& faults);
// Device classes that cannot be translated; places by those of other pods that its job does not give; job annotations
// that cannot be read, contradict the request, or claim to be somebody whom the pod's namespace `ns` may not be.
void request_faults(const Config& config, std::string_view ns, const json::Value& pod, Sentences& faults);
// What is allowed and surely not meant.
void request_warnings(const json::Value& pod, Sentences& warnings);

}  // namespace bascule::bridge
