#include "kube/watch_frame.hpp"

#include "json/hot.hpp"

namespace bascule::kube {

namespace {

WatchFrame::Type type_of(json::hot::Value value) {
  const std::string_view text = value.string().value_or(std::string_view());
  if (text == "ADDED") return WatchFrame::Type::kAdded;
  if (text == "MODIFIED") return WatchFrame::Type::kModified;
  if (text == "DELETED") return WatchFrame::Type::kDeleted;
  if (text == "BOOKMARK") return WatchFrame::Type::kBookmark;
  if (text == "ERROR") return WatchFrame::Type::kError;
  value.refuse("ADDED, MODIFIED, DELETED, BOOKMARK or ERROR");
}

}  // namespace

WatchFrame decode_watch_frame(std::string_view line) {
  WatchFrame frame;
  bool typed = false;
  json::hot::parser().parse_padded(line, [&](std::string_view key, json::hot::Value value) {
    if (key == "type") {
      frame.type = type_of(value);
      typed = true;
    } else if (key == "object") {
      if (!value.is_object()) value.refuse("an object");
      frame.object = value.raw();
    }
  });
  if (!typed) throw json::ShapeError("type", "a word");
  if (frame.object.empty()) throw json::ShapeError("object", "an object");
  return frame;
}

std::optional<WatchFrame> peek_watch_frame(std::string_view line) noexcept {
  constexpr std::string_view kAdded = R"({"type":"ADDED","object":)";
  constexpr std::string_view kModified = R"({"type":"MODIFIED","object":)";
  const bool added = line.starts_with(kAdded);
  if (!added && !line.starts_with(kModified)) return std::nullopt;
  const std::size_t start = added ? kAdded.size() : kModified.size();
  if (!line.ends_with("}}") || line[start] != '{') return std::nullopt;
  return WatchFrame{added ? WatchFrame::Type::kAdded : WatchFrame::Type::kModified,
                    line.substr(start, line.size() - start - 1)};
}

}  // namespace bascule::kube
