// Opening connections: name lookup, TCP with all addresses of a name, unix sockets. Errors: kUnreachable, kStopped and
// kDeadline, all of them before anything was sent.
#pragma once

#include <stop_token>
#include <string>

#include "base/task.hpp"
#include "net/http.hpp"
#include "net/socket.hpp"

namespace bascule::net {

// Tries each address in turn; each gets its share of the time that is left, so that a dead first address does not use
// up the deadline.
Task<Socket> dial_tcp(IoLoop& loop, std::string host, std::string port, TimePoint deadline, std::stop_token stop);
Task<Socket> dial_unix(IoLoop& loop, std::string path, TimePoint deadline, std::stop_token stop);

// No delay for small writes; the kernel notices a dead peer within about a minute.
void tune_tcp(int fd) noexcept;

}  // namespace bascule::net
