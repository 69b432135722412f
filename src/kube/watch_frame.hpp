// One line of a watch: {"type":"ADDED","object":{...}}. Source: Kubernetes API concepts, "Efficient detection of
// changes".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace bascule::kube {

struct WatchFrame {
  enum class Type : std::uint8_t { kAdded, kModified, kDeleted, kBookmark, kError };
  Type type = Type::kError;
  std::string_view object;  // its JSON text, inside the line
};

// json::kPadding bytes after `line` are readable. Throws json::ParseError or ShapeError.
WatchFrame decode_watch_frame(std::string_view line);

// The same for ADDED and MODIFIED in the form API servers write, without reading the object, which would be read twice
// otherwise. nullopt: another form. The object is taken to end where the line does: if it does not read as exactly one
// JSON object, only decode_watch_frame can tell what the line says.
std::optional<WatchFrame> peek_watch_frame(std::string_view line) noexcept;

}  // namespace bascule::kube
