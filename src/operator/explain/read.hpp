// Reads from the API server what an explanation needs. Nothing of Slurm is asked, so it works wherever kubectl does.
#pragma once

#include <optional>
#include <stdexcept>
#include <string_view>

#include "kube/client.hpp"
#include "operator/explain/explain.hpp"

namespace bascule::op::explain {

// The object does not exist: a sentence that names it and the remedy.
struct NothingToExplain final : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// kubectl's names, short ones too: nodeset, nodesets, nss ... nullptr: none of ours.
const kube::Resource* resource_of(std::string_view word) noexcept;

// Throws NothingToExplain, or kube::Error's kinds. What else may not be read is left out.
Task<Explanation> read_explanation(kube::Client& client, const kube::Resource& resource, NamespacedName key);

}  // namespace bascule::op::explain
