// The process_* metrics that every Prometheus client library has, read from /proc when asked for.
#pragma once

#include <memory>

#include "runtime/metrics.hpp"

namespace bascule::runtime {

// They are in `metrics` as long as the token lives.
[[nodiscard]] std::shared_ptr<void> process_metrics(Metrics& metrics);

}  // namespace bascule::runtime
