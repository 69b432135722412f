// A transport that calls a handler in memory: no sockets, any Loop, time under the test's control.
#pragma once

#include <functional>
#include <memory>

#include "base/async.hpp"
#include "net/http.hpp"

namespace bascule::net {

// What to do to one call, decided by the test when the call starts.
struct Fault {
  enum class Kind : std::uint8_t {
    kNone,
    kUnreachable,  // not delivered: kUnreachable
    kBreakBefore,  // not delivered, but the caller cannot know: kBroken
    kBreakAfter,   // delivered and done; the answer is lost: kBroken
    kStall,        // delivered and done; the answer never comes: the caller's deadline passes
    kCutBody,      // streams: after `after_bytes` the body breaks, possibly in mid-piece
  };
  Kind kind = Kind::kNone;
  Duration delay{};  // before delivery
  std::size_t after_bytes = 0;
};
using FaultPlan = std::function<Fault(const Request&)>;

// `handler` and `loop` outlive the transport and all calls. Every answer comes through the loop, never inside call().
std::unique_ptr<Transport> make_loopback(Loop& loop, Handler handler, FaultPlan plan = nullptr);

}  // namespace bascule::net
