// The status of a NodeSet from what is known now; what is not known keeps its last value.
#pragma once

#include "operator/nodeset/facts.hpp"

namespace bascule::op::nodeset {

// All of it but the reservation's part, which is as stored.
Status status_of(Pass& pass, std::optional<std::int32_t> collisions);

// Of the pods that there should be.
std::int32_t asked_for_and_available(const Plan& plan, const Status& status) noexcept;
// All of them are there and available, and no others on their way out.
bool is_whole(const Plan& plan, const Status& status) noexcept;

}  // namespace bascule::op::nodeset
