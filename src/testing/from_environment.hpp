// How long a simulation runs is said by the environment, where it is to run longer than each build wants.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace bascule::testing {

inline std::uint64_t from_environment(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace bascule::testing
