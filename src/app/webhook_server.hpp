// What the processes that serve an admission webhook have in common.
#pragma once

#include <stop_token>
#include <string>

#include "base/task.hpp"
#include "net/io_loop.hpp"
#include "net/server.hpp"
#include "runtime/health.hpp"
#include "runtime/metrics.hpp"

namespace bascule::app {

// Address and certificate, tls.crt and tls.key of `directory`. Throws UsageError naming the flag.
net::ServerOptions webhook_address(const std::string& address, const std::string& flag, const std::string& directory);

// Serves until stopped, then answers what was asked before. `serving` says whether requests are answered; it and
// `metrics` outlive the task. bascule_webhook_certificate_expiry_seconds is how long the certificate is still good.
Task<> serve_webhook(net::IoLoop& loop, runtime::Metrics& metrics, net::ServerOptions address, net::Handler handler,
                     bool& serving, std::stop_token stop);

// Ready once `serving`, which outlives it.
runtime::NamedCheck webhook_check(const bool& serving);

}  // namespace bascule::app
