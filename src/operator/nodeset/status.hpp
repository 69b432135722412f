// The status of a NodeSet from what is known now; what is not known keeps its last value.
#pragma once

#include "operator/nodeset/facts.hpp"

namespace bascule::op::nodeset {

// All of it but the reservation's part, which is as stored.
Status status_of(Pass& pass, std::optional<std::int32_t> collisions);

}  // namespace bascule::op::nodeset
