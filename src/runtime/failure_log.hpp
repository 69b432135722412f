// Which failures of a controller's keys the log tells: each key's soon, that of one which fails on seldom, and never
// more than a reader can bear, however many fail at once. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/loop.hpp"
#include "kube/rate.hpp"

namespace bascule::runtime {

class FailureLog final {
 public:
  // Told: how many were not since the last one. nullopt: not this one.
  std::optional<std::uint64_t> tell(std::string_view key, std::string_view why, TimePoint now) {
    const std::size_t reason = std::hash<std::string_view>{}(why);
    const auto known = told_.find(std::string(key));
    const bool again = known != told_.end() && known->second.reason == reason && now < known->second.at + kAgain;
    // Those that come first each time must not use up what is there for those behind them.
    kube::TokenBucket& bucket = known != told_.end() ? repeated_ : first_;
    if (again || !bucket.take(now)) {
      ++untold_;
      return std::nullopt;
    }
    if (told_.size() >= kMostKeys) told_.clear();
    told_.insert_or_assign(std::string(key), Told{now, reason});
    return std::exchange(untold_, 0);
  }
  // The key has not failed this time.
  void forget(std::string_view key) {
    if (!told_.empty()) told_.erase(std::string(key));
  }

 private:
  static constexpr Duration kAgain = std::chrono::minutes(1);
  static constexpr std::size_t kMostKeys = 10'000;
  static constexpr double kPerSecond = 1;
  static constexpr double kAtOnce = 30;
  struct Told {
    TimePoint at;
    std::size_t reason;
  };

  std::unordered_map<std::string, Told> told_;
  kube::TokenBucket first_{kPerSecond, kAtOnce};
  kube::TokenBucket repeated_{kPerSecond, kAtOnce};
  std::uint64_t untold_ = 0;
};

}  // namespace bascule::runtime
