// Where the devices of a pod stand: the ResourceClaim that was made for it, in plain words. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/strong.hpp"
#include "json/value.hpp"

namespace bascule::bridge {

struct ClaimStand {
  enum class State : std::uint8_t { kAbsent, kOpen, kAllocated, kGoing };
  NamespacedName key;
  State state = State::kAbsent;
  std::string devices;  // "gpu-0, gpu-1 of pool n1 (gpu.example.com)"; empty: none
  std::string since;    // when it was made, or deleted; RFC 3339
};

// `claim`: the object as the API server gives it; nullptr: there is none.
ClaimStand stand_of_claim(const NamespacedName& key, const json::Value* claim);
// "ml/p-0-slurm-1234 allocated: gpu-0 of pool n1 (gpu.example.com), since ..."
std::string print(const ClaimStand& stand);

// What to do about a sentence of the scheduler's that is about devices; empty: it is not.
std::string device_remedy(std::string_view message);

}  // namespace bascule::bridge
