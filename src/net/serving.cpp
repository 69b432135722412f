#include "net/serving.hpp"

#include <exception>

namespace bascule::net {

Task<ServerResponse> call_handler(const Handler& handler, const ServerRequest& request, std::stop_token stop) {
  try {
    co_return co_await handler(request, stop);
  } catch (const std::exception&) {
    // Said to nobody but the log: what went wrong inside is not the client's.
  }
  ServerResponse response{.status = 500, .headers = {}, .body = "internal error\n"};
  response.headers.set("Content-Type", "text/plain");
  co_return response;
}

}  // namespace bascule::net
