// Small files read whole: configuration, tokens, certificates.
#pragma once

#include <cstddef>
#include <expected>
#include <string>

namespace bascule {

struct FileFault {
  bool too_large = false;
  std::string why;  // what the system says, or how large it may be; not the path
};

// What stands in `path`, which may be a pipe; at most `limit` bytes are kept in memory. Blocks.
std::expected<std::string, FileFault> read_file(const std::string& path, std::size_t limit);

}  // namespace bascule
