#include "kube/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/utf8.hpp"
#include "json/value.hpp"

namespace bascule::kube {

namespace {

constexpr std::size_t kQuoted = 200;  // bytes of a foreign body shown to people
constexpr std::size_t kStatusBytes = std::size_t{4} << 20;
constexpr std::int64_t kLongestRetryAfter = 3600;  // seconds

std::optional<Duration> seconds_of(std::string_view text) {
  std::int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  // The other form, a date, is not written by API servers.
  if (error != std::errc() || end != text.data() + text.size() || seconds < 0) return std::nullopt;
  return std::chrono::seconds(std::min(seconds, kLongestRetryAfter));
}

std::string quoted(std::string_view body) {
  std::string out = with_valid_utf8(cut_utf8(body, kQuoted));
  std::ranges::replace_if(out, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; }, ' ');
  while (out.ends_with(' ')) out.pop_back();
  return out;
}

void read_object(const json::Value& value, Status& status) {
  status.from_server = true;
  if (const auto code = json::int_at(value, {"code"}); code && *code >= 100 && *code < 600 && status.code == 0) {
    status.code = static_cast<int>(*code);
  }
  status.reason = json::string_at(value, {"reason"});
  status.message = json::string_at(value, {"message"});
  status.about_object = !json::string_at(value, {"details", "name"}).empty();
  if (const auto after = json::int_at(value, {"details", "retryAfterSeconds"}); after && *after > 0) {
    if (!status.retry_after) status.retry_after = std::chrono::seconds(std::min(*after, kLongestRetryAfter));
  }
  status.version_too_large = status.message.starts_with("Too large resource version");
  const json::Array* causes = json::array_at(value, {"details", "causes"});
  if (causes == nullptr) return;
  for (const json::Value& cause : *causes) {
    if (json::string_at(cause, {"reason"}) == "ResourceVersionTooLarge") status.version_too_large = true;
  }
}

}  // namespace

Status read_status(int code, std::string_view retry_after, std::string_view body) {
  Status status{.code = code, .retry_after = seconds_of(retry_after)};
  const std::size_t first = body.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && body[first] == '{') {
    try {
      const json::Value value = json::parse(body, {.bytes = kStatusBytes});
      if (json::string_at(value, {"kind"}) == "Status") read_object(value, status);
    } catch (const json::ParseError&) {
      // Quoted below.
    }
  }
  if (status.message.empty()) status.message = quoted(body);
  return status;
}

void throw_status(std::string_view doing, const Status& status) {
  const std::string text =
      fmt::format("{}: {}{}HTTP {}{}{}{}", doing, status.message, status.message.empty() ? "" : " (", status.code,
                  status.reason.empty() ? "" : " ", status.reason, status.message.empty() ? "" : ")");
  const int code = status.code;
  const std::string& reason = status.reason;
  switch (code) {
    case 401:
      throw Unauthorized(code, reason, text);
    case 403:
      throw Forbidden(code, reason, text);
    case 404:
      // A resource that is not served has a text for a body, or a Status of the same reason that names no object.
      if (status.from_server && reason == "NotFound" && status.about_object) throw NotFound(code, reason, text);
      throw NotServed(code, reason, text);
    case 408:
      throw ServerError(code, reason, text);
    case 409:
      if (reason == "AlreadyExists") throw AlreadyExists(code, reason, text);
      throw Conflict(code, reason, text);
    case 410:
      throw Gone(code, reason, text);
    case 429:
      throw TooManyRequests(code, reason, text, status.retry_after.value_or(std::chrono::seconds(1)));
    default:
      break;
  }
  if (status.version_too_large) throw VersionTooLarge(code, reason, text);
  if (code == 503 && status.retry_after) throw TooManyRequests(code, reason, text, *status.retry_after);
  if (code >= 500 && code < 600) throw ServerError(code, reason, text);
  if (code >= 400 && code < 500) throw Invalid(code, reason, text);
  throw Malformed(code, reason, text);
}

}  // namespace bascule::kube
