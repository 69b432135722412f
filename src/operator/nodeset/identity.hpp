// Who a worker pod is: its name, ordinal, hostname, name in Slurm, claims, labels, and whether it is this NodeSet's.
// A pod keeps the padding it was made with: everything of an existing pod is read from its own name.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "operator/nodeset/actions.hpp"
#include "operator/nodeset/values.hpp"

namespace bascule::op::nodeset {

std::string_view to_string(ScalingMode mode) noexcept;  // StatefulSet, DaemonSet

// The number after the last dash; -1: none, or more than an int32.
std::int32_t ordinal_of(std::string_view pod_name) noexcept;
std::string padded(std::int32_t ordinal, std::uint32_t digits);

// Of an existing pod. Empty: not known yet (host network, not bound).
std::string slurm_name_of(const PodView& pod);
// Of a pod to be in DaemonSet mode; used verbatim when the node overrides it, else up to the first dot.
std::string hostname_of(const NodeView& node);
// nullopt: usable as a hostname; else why not.
std::optional<std::string> hostname_fault(std::string_view hostname);

// The mode a pod was made under; pods without the label count as of the mode of today.
bool is_of_mode(const PodView& pod, ScalingMode mode);
std::string_view suffix_of(const PodView& pod) noexcept;  // padded ordinal as it is in the name
// What a pod stands on: its ordinal, or its node. Pods of a slot follow one another.
std::string slot_of(const PodView& pod);

// Whose a pod is. Source: controller references as in Kubernetes' own controllers.
enum class Claiming : std::uint8_t { kKeep, kAdopt, kRelease, kIgnore };
Claiming claiming_of(const Spec& spec, const PodView& pod);

// Name of the claim of a template for an ordinal: one that exists at any padding, else at the padding of today.
std::string claim_for(const Spec& spec, const std::map<std::string, ClaimView>& claims, std::string_view claim_template,
                      std::int32_t ordinal);

// In StatefulSet mode.
std::string hostname_of(const Spec& spec, std::int32_t ordinal);
CreatePod make_stateful(const Spec& spec, const std::map<std::string, ClaimView>& claims, std::int32_t ordinal,
                        const std::string& hash);
CreatePod make_daemon(const Spec& spec, const NodeView& node, const std::string& hash);

// Labels of an existing pod that are not what they should be.
std::map<std::string, std::optional<std::string>> identity_labels(const Spec& spec, const PodView& pod);

}  // namespace bascule::op::nodeset
