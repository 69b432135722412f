// A transport to slurmrestd and its client, owned together.
#pragma once

#include <memory>
#include <string>

#include "app/options.hpp"
#include "net/io_loop.hpp"
#include "slurm/client.hpp"

namespace bascule::app {

class SlurmConnection final {
 public:
  // `name`: of the key or flag that `url` came from. Throws UsageError. `options.path_prefix` is set from `url`.
  SlurmConnection(net::IoLoop& loop, const std::string& url, const std::string& name, slurm::ClientOptions options);
  ~SlurmConnection();
  slurm::Client& client() noexcept { return *client_; }

 private:
  std::unique_ptr<net::Transport> transport_;
  std::unique_ptr<slurm::Client> client_;
};

}  // namespace bascule::app
