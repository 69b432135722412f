// What the processes that serve an admission webhook have in common.
#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "app/process.hpp"
#include "base/task.hpp"
#include "net/server.hpp"
#include "runtime/health.hpp"
#include "runtime/webhook_certificate.hpp"

namespace bascule::app {

// Address and certificate, tls.crt and tls.key of `directory`. Throws UsageError naming the flag.
net::ServerOptions webhook_address(const std::string& address, const std::string& flag, const std::string& directory);

// Parts of a comma list without blanks around them, each once.
std::vector<std::string> comma_list(std::string_view text);

// What `options` say about a certificate that the webhook renews itself; nullopt: nothing. `controller` speaks in
// events. Throws UsageError naming the flag.
std::optional<runtime::WebhookCertificateOptions> certificate_options(Process& process, const ServeOptions& options,
                                                                      std::string controller);

// Serves until stopped, then answers what was asked before; renews the certificate where told how. `serving` says
// whether requests are answered; it and `process` outlive the task. bascule_webhook_certificate_expiry_seconds is how
// long the certificate is still good.
Task<> serve_webhook(Process& process, net::ServerOptions address, net::Handler handler,
                     std::optional<runtime::WebhookCertificateOptions> certificate, bool& serving,
                     std::stop_token stop);

// Ready once `serving`, which outlives it.
runtime::NamedCheck webhook_check(const bool& serving);

}  // namespace bascule::app
