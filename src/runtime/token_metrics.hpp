// bascule_slurm_token_expiry_seconds: how long the token in use is still good, and
// bascule_slurm_token_lifetime_seconds: for how long it was made, so that one that is renewed every day is told from
// one that nobody thinks of. Both by the token's own word; absent while no token is in use, or when it does not say.
#pragma once

#include <memory>
#include <optional>

#include "base/loop.hpp"
#include "runtime/metrics.hpp"

namespace bascule::runtime {

class TokenMetrics final {
 public:
  // `metrics` and `clock` outlive it.
  TokenMetrics(Metrics& metrics, const Clock& clock, Labels labels);
  TokenMetrics(const TokenMetrics&) = delete;
  TokenMetrics& operator=(const TokenMetrics&) = delete;
  ~TokenMetrics();

  // Another token is in use.
  void set(std::optional<WallTime> issued, std::optional<WallTime> expires);

 private:
  void collect();

  Metrics& metrics_;
  const Clock& clock_;
  const Labels labels_;
  std::optional<WallTime> issued_;
  std::optional<WallTime> expires_;
  std::shared_ptr<void> collecting_;
};

}  // namespace bascule::runtime
