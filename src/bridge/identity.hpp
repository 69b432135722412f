// Who in Slurm a namespace may be: the configuration's `identities`. Without any, everything is as the annotations say.
// With some, the first rule that names the namespace counts. What it lists is allowed, and the first of it is used when
// the annotation is absent; "*" allows anything. What it does not list: user and group may not be set at all; account,
// QOS and partition are Slurm's own to refuse. A namespace without a rule has an empty one. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bridge/config.hpp"
#include "bridge/description.hpp"
#include "slurm/types.hpp"

namespace bascule::bridge {

// Fills in what the rule gives where the annotations are silent; returns a sentence for each annotation that it
// forbids.
std::vector<std::string> apply_identity(const std::vector<IdentityRule>& rules, std::string_view ns,
                                        const AnnotationViews& annotations, slurm::JobDescription& job);

}  // namespace bascule::bridge
