// /healthz, /livez, /readyz and /metrics, as every Kubernetes component answers them:
//   /readyz               200 "ok", or 500 with a line a check
//   /readyz?verbose       a line a check in any case
//   /readyz?exclude=NAME  without that check; may be given more than once
//   /readyz/NAME          one check alone
// Without checks there is one called ping, which is always fine.
// Source: Kubernetes API health endpoints.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "net/http.hpp"
#include "runtime/metrics.hpp"

namespace bascule::runtime {

// nullopt: fine; otherwise why not, a sentence without secrets.
using Check = std::function<std::optional<std::string>()>;
struct NamedCheck {
  std::string name;  // unique in its list
  Check check;
};

// /healthz and /livez have the checks of `live`.
net::Handler health_handler(std::vector<NamedCheck> live, std::vector<NamedCheck> ready);
// Outlived by `metrics`.
net::Handler metrics_handler(Metrics& metrics);

}  // namespace bascule::runtime
