// Who in Slurm a namespace may be and what it may ask for: the configuration's `identities`. Without any, everything is
// as the annotations say. With some, the first rule that names the namespace counts; a namespace without a rule has an
// empty one. What a rule lists is allowed; "*" allows anything. Pure.
//  - user, group, account, QOS, partition, wckey: the first of the list is used when the annotation is absent.
//  - reservation, licenses (those among the generic resources too): each one named must be listed; none is given by
//    default.
//  - priority: up to the rule's maximum.
// What a rule does not list: account, QOS, wckey and licenses are Slurm's own to refuse. The rest may not be asked for,
// since Slurm grants it to whomever the bridge submits as: AllowGroups of a partition does not count for SlurmUser. The
// partition of the configuration is always allowed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bridge/config.hpp"
#include "bridge/description.hpp"
#include "slurm/types.hpp"

namespace bascule::bridge {

// Fills in what the rule gives where the annotations are silent; returns a sentence for each annotation that it
// forbids. An annotation that cannot be read is not its matter.
std::vector<std::string> apply_identity(const std::vector<IdentityRule>& rules, std::string_view ns,
                                        const AnnotationViews& annotations, slurm::JobDescription& job,
                                        std::string_view own_partition);

}  // namespace bascule::bridge
