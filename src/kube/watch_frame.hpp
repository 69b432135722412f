// One line of a watch: {"type":"ADDED","object":{...}}. Source: Kubernetes API concepts, "Efficient detection of
// changes".
#pragma once

#include <cstdint>
#include <string_view>

namespace bascule::kube {

struct WatchFrame {
  enum class Type : std::uint8_t { kAdded, kModified, kDeleted, kBookmark, kError };
  Type type = Type::kError;
  std::string_view object;  // its JSON text, inside the line
};

// json::kPadding bytes after `line` are readable. Throws json::ParseError or ShapeError.
WatchFrame decode_watch_frame(std::string_view line);

}  // namespace bascule::kube
