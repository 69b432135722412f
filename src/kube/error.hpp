// What the API server says no with, one type a decision. Source: Kubernetes API conventions, "Response Status Kind".
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

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
// The API server is there and does not do it: it refuses (Refused), is too busy (TooManyRequests) or fails
// (ServerError).
struct NotDone : Error {
  using Error::Error;
};
// Understood and not done: stays so until a person, or a policy, thinks again.
struct Refused : NotDone {
  using NotDone::NotDone;
};
// For want of rights, or by an admission policy.
struct Forbidden final : Refused {
  using Refused::Refused;
};
// 400, 422 and kin: the request is wrong.
struct Invalid final : Refused {
  using Refused::Refused;
};
// 429, and 503 with Retry-After: come again.
struct TooManyRequests final : NotDone {
  TooManyRequests(int code, std::string reason, const std::string& message, Duration after)
      : NotDone(code, std::move(reason), message), retry_after(after) {}
  Duration retry_after;
};
// Other 5xx. The write may have happened all the same.
struct ServerError final : NotDone {
  using NotDone::NotDone;
};
// The resourceVersion asked for is newer than what the server has.
struct VersionTooLarge final : Error {
  using Error::Error;
};
// No answer. `may_have_happened` is false only when the request surely never reached the server; `late`: it was there,
// and took longer than we wait.
struct Unreachable final : Error {
  Unreachable(const std::string& message, bool may_have, bool too_late = false)
      : Error(0, "", message), may_have_happened(may_have), late(may_have && too_late) {}
  bool may_have_happened;
  bool late;
};
// An answer that is not what the API promises.
struct Malformed final : Error {
  using Error::Error;
};

// What an answer that is no success says: the Status object of its body where there is one, else the HTTP status alone.
struct Status {
  int code = 0;  // HTTP status, or the Status object's code in a watch's ERROR event
  std::string reason = {};
  std::string message = {};
  std::optional<Duration> retry_after = {};  // the header Retry-After, or details.retryAfterSeconds
  bool from_server = false;                  // the body was a Status: the API server itself speaks
  bool about_object = false;                 // it names the object or kind it is about
  bool version_too_large = false;            // the resourceVersion asked for is newer than what the server has
};
// `retry_after` is the header's value, empty when absent. Any body is taken; what is no Status is quoted in part.
Status read_status(int code, std::string_view retry_after, std::string_view body);
// Throws the type that fits. `doing` begins the sentence: "getting pods a/b".
[[noreturn]] void throw_status(std::string_view doing, const Status& status);

}  // namespace bascule::kube
