// A certificate nobody vouches for, made at start: for servers whose clients encrypt without knowing who answers.
#pragma once

#include <string>

#include "base/loop.hpp"

namespace bascule::net {

struct SelfSigned {
  std::string certificate;  // PEM
  std::string key;          // PEM
};

// For `name`, from a day before `now` to ten years after. Throws std::runtime_error.
SelfSigned make_self_signed(const std::string& name, WallTime now);

}  // namespace bascule::net
