#include "net/serving.hpp"

#include <exception>

#include "base/log.hpp"

namespace bascule::net {

Task<ServerResponse> call_handler(const Handler& handler, const ServerRequest& request, std::stop_token stop) {
  try {
    co_return co_await handler(request, stop);
  } catch (const std::exception& e) {
    // What went wrong inside is not the client's to know.
    log::error("a request failed", {{"method", request.method}, {"target", request.target}, {"error", e}});
  }
  ServerResponse response{.status = 500, .headers = {}, .body = "internal error\n"};
  response.headers.set("Content-Type", "text/plain");
  co_return response;
}

}  // namespace bascule::net
