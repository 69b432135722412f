// Bytes as a far side's answer (or as a client's request), through the reader that client and server use. The first two
// bytes choose the role and the size of the pieces; the same bytes at once and in pieces must read alike.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "net/codec.hpp"

using bascule::net::Error;
using bascule::net::MessageReader;

namespace {

struct Read {
  std::string heads;
  std::string body;
  std::string failure;
  bool operator==(const Read&) const = default;
};

Read read(MessageReader::Role role, std::string_view wire, std::size_t piece) {
  Read out;
  MessageReader reader(role, 2048);
  try {
    while (true) {
      const MessageReader::Event event = reader.next();
      if (event == MessageReader::Event::kHead) {
        const auto& head = reader.head();
        out.heads += head.method + ' ' + head.target + ' ' + std::to_string(head.status) + '\n';
        for (const auto& [name, value] : head.headers.fields())
          out.heads.append(name).append("=").append(value) += '\n';
      } else if (event == MessageReader::Event::kPiece) {
        out.body += reader.piece();
      } else if (event == MessageReader::Event::kEnd) {
        if (reader.buffered() == 0 && wire.empty()) return out;
        reader.start();
      } else if (wire.empty()) {
        reader.end_of_input(true);
      } else {
        const std::span<char> space = reader.prepare();
        const std::size_t size = std::min({piece, space.size(), wire.size()});
        std::memcpy(space.data(), wire.data(), size);
        reader.commit(size);
        wire.remove_prefix(size);
      }
    }
  } catch (const Error& e) {
    out.failure = to_string(e.kind());
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const auto role = data[0] % 2 == 0 ? MessageReader::Role::kResponse : MessageReader::Role::kRequest;
  const std::string_view wire(reinterpret_cast<const char*>(data) + 2, size - 2);
  const Read whole = read(role, wire, wire.size() + 1);
  const Read pieces = read(role, wire, 1 + data[1] % 64);
  // How much of a head counts for its limit depends on the pieces, by up to the limit.
  if (whole.failure == "too large" || pieces.failure == "too large") return 0;
  // A broken message may be noticed before or after some of its body has been given out.
  if (whole.failure.empty() != pieces.failure.empty()) std::abort();
  if (whole.failure.empty() && whole != pieces) std::abort();
  return 0;
}
