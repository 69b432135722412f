// /healthz, /livez, /readyz (each check also at /readyz/NAME, ?verbose tells all) and /metrics, as every Kubernetes
// component answers them.
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
  std::string name;
  Check check;
};

net::Handler health_handler(std::vector<NamedCheck> live, std::vector<NamedCheck> ready);
// Outlived by `metrics`.
net::Handler metrics_handler(const Metrics& metrics);

}  // namespace bascule::runtime
