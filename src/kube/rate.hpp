// A token bucket over a time that is a parameter: `burst` at once, then `per_second`. Waiters are served in the order
// they reserved.
#pragma once

#include <algorithm>

#include "base/loop.hpp"

namespace bascule::kube {

class TokenBucket final {
 public:
  TokenBucket(double per_second, double burst) noexcept : per_second_(per_second), burst_(burst), tokens_(burst) {}

  // Takes a token if there is one.
  bool take(TimePoint now) noexcept {
    refill(now);
    if (tokens_ < 1) return false;
    tokens_ -= 1;
    return true;
  }

  // Takes a token, lent if there is none, and says how long to wait for it; nothing is taken and `most` is exceeded in
  // the answer when the wait would be longer.
  Duration reserve(TimePoint now, Duration most) noexcept {
    refill(now);
    const double missing = 1 - tokens_;
    const Duration wait =
        missing <= 0
            ? Duration::zero()
            : std::chrono::duration_cast<Duration>(std::chrono::duration<double>(std::min(missing / per_second_, 1e6)));
    if (wait <= most) tokens_ -= 1;
    return wait;
  }

 private:
  void refill(TimePoint now) noexcept {
    if (started_ && now > at_) {
      const double passed = std::chrono::duration<double>(now - at_).count();
      tokens_ = std::min(burst_, tokens_ + passed * per_second_);
    }
    if (!started_ || now > at_) at_ = now;
    started_ = true;
  }

  double per_second_;
  double burst_;
  double tokens_;
  TimePoint at_{};
  bool started_ = false;
};

}  // namespace bascule::kube
