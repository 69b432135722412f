// Times of certificates. For files of this room alone.
#pragma once

#include <openssl/asn1.h>

#include <ctime>
#include <optional>

#include "base/loop.hpp"

namespace bascule::net {

// nullopt: it is none. One that WallTime cannot hold is the nearest that it can: "99991231235959Z" is by RFC 5280 one
// without an end.
inline std::optional<WallTime> wall_time(const ASN1_TIME* time) {
  std::tm parts{};
  if (time == nullptr || ASN1_TIME_to_tm(time, &parts) != 1) return std::nullopt;
  using std::chrono::seconds;
  constexpr auto kFirst = std::chrono::ceil<seconds>(WallTime::min().time_since_epoch());
  constexpr auto kLast = std::chrono::floor<seconds>(WallTime::max().time_since_epoch());
  const seconds since(::timegm(&parts));
  if (since >= kLast) return WallTime::max();
  if (since <= kFirst) return WallTime::min();
  return WallTime(since);
}

}  // namespace bascule::net
