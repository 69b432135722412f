// What the API server says no with, one type a decision. Source: Kubernetes API conventions, "Response Status Kind".
#pragma once

#include <optional>
#include <stdexcept>
#include <string>

#include "base/loop.hpp"

namespace bascule::kube {

class Error : public std::runtime_error {
 public:
  // `code` is the HTTP status (0: none arrived); `reason` the Status object's machine word, may be empty.
  Error(int code, std::string reason, const std::string& message)
      : std::runtime_error(message), code_(code), reason_(std::move(reason)) {}
  int code() const noexcept { return code_; }
  const std::string& reason() const noexcept { return reason_; }

 private:
  int code_;
  std::string reason_;
};

// The object does not exist: a Status with reason NotFound from the API server itself. A 404 of anything else (a proxy,
// a resource that is not served) is NotServed.
struct NotFound final : Error {
  using Error::Error;
};
struct NotServed final : Error {
  using Error::Error;
};
struct AlreadyExists final : Error {
  using Error::Error;
};
// A resourceVersion or uid precondition failed, or the server asks to try again on fresh data.
struct Conflict final : Error {
  using Error::Error;
};
// 410: the resourceVersion or continue token is too old.
struct Gone final : Error {
  using Error::Error;
};
struct Unauthorized final : Error {
  using Error::Error;
};
struct Forbidden final : Error {
  using Error::Error;
};
// 400, 422 and kin: the request is wrong; trying again unchanged will not help.
struct Invalid final : Error {
  using Error::Error;
};
// 429, and 503 with Retry-After: come again.
struct TooManyRequests final : Error {
  TooManyRequests(int code, std::string reason, const std::string& message, Duration after)
      : Error(code, std::move(reason), message), retry_after(after) {}
  Duration retry_after;
};
// Other 5xx. The write may have happened.
struct ServerError final : Error {
  using Error::Error;
};
// No answer. `may_have_happened` is false only when the request surely never reached the server.
struct Unreachable final : Error {
  Unreachable(const std::string& message, bool may_have) : Error(0, "", message), may_have_happened(may_have) {}
  bool may_have_happened;
};
// An answer that is not what the API promises.
struct Malformed final : Error {
  using Error::Error;
};

}  // namespace bascule::kube
