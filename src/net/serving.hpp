// What the socket server and the loopback do alike.
#pragma once

#include <stop_token>

#include "net/http.hpp"

namespace bascule::net {

// Calls the handler; an exception becomes 500 and a log line.
Task<ServerResponse> call_handler(const Handler& handler, const ServerRequest& request, std::stop_token stop);

}  // namespace bascule::net
