// A broken promise of our own code: said with its place and a stack, then the process ends. Kubernetes starts it again
// and level-based logic heals; going on with a wrong state would not.
#pragma once

#include <string_view>

namespace bascule {

[[noreturn]] void check_failed(const char* expression, std::string_view message, const char* file, int line) noexcept;

}  // namespace bascule

// BASCULE_CHECK(condition, "why it must hold"): always on.
#define BASCULE_CHECK(condition, message) \
  (static_cast<bool>(condition) ? void(0) : ::bascule::check_failed(#condition, message, __FILE__, __LINE__))
