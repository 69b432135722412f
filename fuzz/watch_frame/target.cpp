// A watch, however it is cut into pieces, yields the same frames and objects; a line that is no event is refused with
// a json error. The first byte says where to cut.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "json/split.hpp"
#include "kube/error.hpp"
#include "kube/objects.hpp"
#include "kube/watch_frame.hpp"

namespace {

using namespace bascule;

// A frame that was only peeked at, if its object reads, is the frame.
void check_peek(std::string_view line, json::Interner& interner) {
  const auto peeked = kube::peek_watch_frame(line);
  if (!peeked) return;
  try {
    kube::decode_object_meta(peeked->object, interner);
  } catch (const json::ParseError&) {
    return;
  } catch (const json::ShapeError&) {
    return;
  }
  const kube::WatchFrame frame = kube::decode_watch_frame(line);
  if (frame.type != peeked->type || frame.object != peeked->object) std::abort();
}

// What a reader of the stream gets to know, as text.
std::vector<std::string> read(std::string_view text, std::size_t step) {
  std::vector<std::string> out;
  json::Interner interner;
  json::LineSplitter lines(4096);
  try {
    for (std::size_t at = 0; at < text.size(); at += step) {
      const std::string piece(text.substr(at, step));
      lines.feed(piece);
      while (const auto line = lines.next()) {
        try {
          check_peek(*line, interner);
          const kube::WatchFrame frame = kube::decode_watch_frame(*line);
          out.push_back(std::to_string(static_cast<int>(frame.type)) + std::string(frame.object));
          if (frame.type == kube::WatchFrame::Type::kError) {
            out.push_back(std::to_string(kube::read_status(0, "", frame.object).code));
          } else {
            const auto pod = kube::decode_pod(frame.object, interner);
            out.push_back(pod->meta.key.str() + pod->meta.resource_version);
          }
        } catch (const json::ParseError&) {
          out.emplace_back("no JSON");
        } catch (const json::ShapeError& error) {
          out.emplace_back(error.path());
        }
      }
    }
  } catch (const json::LimitError&) {
    out.emplace_back("too long");
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > 20000) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (read(text, 1 + data[0] % 64) != read(text, 100000)) std::abort();
  return 0;
}
