// Private to fake_api*.cpp: a request taken apart.
#pragma once

#include "testing/fake_api.hpp"

namespace bascule::testing {

struct FakeApi::Route {
  ApiCall call;
  ApiTable* table = nullptr;
  std::string subresource = {};
  net::Target target = {};
  PatchKind patch = PatchKind::kMerge;
  WriteContext context = {};

  std::string_view query(std::string_view key) const noexcept { return target.get(key); }
  bool flag(std::string_view key) const noexcept {
    const auto value = target.get(key);
    return value == "true" || value == "1";
  }
};

}  // namespace bascule::testing
