// Hashes of what pods mount, for annotations that roll them. The same on every machine and in every release.
#pragma once

#include <string>
#include <string_view>

#include "operator/api/types.hpp"

namespace bascule::op {

std::string sha256_hex(std::string_view bytes);

// Over key and value pairs in the order they are added, each with its length: no byte can move from one to the next.
class Hasher final {
 public:
  Hasher& add(std::string_view key, std::string_view value);
  // Empty when nothing was added.
  std::string hex() const { return bytes_.empty() ? std::string() : sha256_hex(bytes_); }

 private:
  std::string bytes_;
};

std::string hash_of(const StringMap& map);

}  // namespace bascule::op
