#include "app/slurm_connection.hpp"

#include "net/client.hpp"
#include "net/proxy.hpp"

namespace bascule::app {

SlurmConnection::SlurmConnection(net::IoLoop& loop, const std::string& url, const std::string& name,
                                 slurm::ClientOptions options) {
  net::ClientOptions http;
  try {
    http.url = net::parse_url(url);
    net::use_proxy_of_environment(http);
  } catch (const std::invalid_argument& error) {
    throw UsageError(name + ": " + error.what());
  }
  // slurmrestd serves a request a thread, and has four by default.
  http.max_connections = 8;
  options.path_prefix = http.url.path;
  transport_ = net::make_client(loop, std::move(http));
  client_ = std::make_unique<slurm::Client>(loop, *transport_, std::move(options));
}

SlurmConnection::~SlurmConnection() = default;

}  // namespace bascule::app
