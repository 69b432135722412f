#include "runtime/token_metrics.hpp"

#include <utility>

namespace bascule::runtime {

namespace {

constexpr std::string_view kExpiry = "bascule_slurm_token_expiry_seconds";
constexpr std::string_view kLifetime = "bascule_slurm_token_lifetime_seconds";

double seconds(Duration d) {
  return std::chrono::duration<double>(d).count();
}

}  // namespace

TokenMetrics::TokenMetrics(Metrics& metrics, const Clock& clock, Labels labels)
    : metrics_(metrics),
      clock_(clock),
      labels_(std::move(labels)),
      collecting_(metrics.on_collect([this] { collect(); })) {}

TokenMetrics::~TokenMetrics() {
  metrics_.remove(kExpiry, labels_);
  metrics_.remove(kLifetime, labels_);
}

void TokenMetrics::set(std::optional<WallTime> issued, std::optional<WallTime> expires) {
  issued_ = issued;
  expires_ = expires;
}

void TokenMetrics::collect() {
  if (expires_) {
    metrics_.set(kExpiry, "Until the token for Slurm that is in use expires, by its own word", labels_,
                 seconds(*expires_ - clock_.wall()));
  } else {
    metrics_.remove(kExpiry, labels_);
  }
  if (expires_ && issued_) {
    metrics_.set(kLifetime, "From the issue of the token for Slurm that is in use to its expiry", labels_,
                 seconds(*expires_ - *issued_));
  } else {
    metrics_.remove(kLifetime, labels_);
  }
}

}  // namespace bascule::runtime
