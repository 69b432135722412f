// HTTP/1.1 as values, and the two faces everything above speaks to: a transport to call, a handler to serve.
// The same handler runs behind a socket (net/server.hpp) or in memory (net/loopback.hpp), so that what is tested is
// what runs. Source of the rules: RFC 9110, RFC 9112.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/loop.hpp"
#include "base/task.hpp"

namespace bascule::net {

// Why a call gave no answer. Anything that is an HTTP answer, whatever its status, is a Response.
class Error : public std::runtime_error {
 public:
  enum class Kind : std::uint8_t {
    kUnreachable,  // no connection (resolve, connect, TLS handshake, proxy): the request was not sent
    kBroken,       // the connection ended in mid-call: the request may or may not have had its effect
    kDeadline,     // the deadline passed: the request may or may not have had its effect
    kStopped,      // the caller's stop token
    kTooLarge,     // a header or body over its limit
    kMalformed,    // not HTTP
  };
  enum class Sent : std::uint8_t { kMaybe, kNo };
  Error(Kind kind, const std::string& message, Sent sent = Sent::kMaybe)
      : std::runtime_error(message), kind_(kind), sent_(kind == Kind::kUnreachable ? Sent::kNo : sent) {}
  Kind kind() const noexcept { return kind_; }
  // True when the far side cannot have acted on the request: always for kUnreachable, and for kDeadline, kStopped and
  // kMalformed when they came before the first byte of the request was sent (in line for a connection, connecting).
  bool surely_not_sent() const noexcept { return sent_ == Sent::kNo; }

 private:
  Kind kind_;
  Sent sent_;
};

std::string_view to_string(Error::Kind kind) noexcept;

// Header fields in order; names compare without case.
class Headers final {
 public:
  void add(std::string name, std::string value) { fields_.emplace_back(std::move(name), std::move(value)); }
  // Replaces every field of that name.
  void set(std::string_view name, std::string value);
  // The first value, or empty.
  std::string_view get(std::string_view name) const noexcept;
  bool has(std::string_view name) const noexcept;
  const std::vector<std::pair<std::string, std::string>>& fields() const noexcept { return fields_; }

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
};

struct Request {
  std::string method = "GET";
  std::string target = "/";  // path and query, percent-encoded
  Headers headers = {};      // Host, Content-Length and Connection are set by the transport
  std::string body = {};
};

struct Response {
  int status = 0;
  Headers headers = {};
  std::string body = {};
};

struct CallLimits {
  TimePoint deadline = {};                       // of the whole call; for open(): until the head has arrived
  std::size_t max_body = std::size_t{64} << 20;  // bytes, of call(); more is Error::kTooLarge
  std::stop_token stop = {};                     // may be stopped on the loop's thread only
};

// The body of an answer as it arrives. Destroying it closes the connection.
class BodyStream {
 public:
  virtual ~BodyStream() = default;
  // The next piece; empty at the regular end of the body. Valid until the next call. One read at a time.
  // Throws Error: kDeadline when nothing came until `deadline` (reading may go on), kBroken on a cut, kStopped.
  virtual Task<std::string_view> read(TimePoint deadline, std::stop_token stop) = 0;
};

struct StreamResponse {
  int status = 0;
  Headers headers = {};
  std::unique_ptr<BodyStream> body;
};

// One far side (scheme, host and port are the transport's). Outlives all calls made on it.
class Transport {
 public:
  virtual ~Transport() = default;
  // Throws Error. An idempotent method (GET, HEAD, PUT, DELETE, OPTIONS) is tried once more on a fresh connection when
  // a kept-alive connection turns out to be dead before the first byte of an answer; other methods only when nothing
  // was sent.
  virtual Task<Response> call(Request request, CallLimits limits) = 0;
  // For watches: a connection of its own.
  virtual Task<StreamResponse> open(Request request, CallLimits limits) = 0;
};

// Where a handler writes a streamed body. write() returns when the piece has been taken by the connection
// (back-pressure); it throws Error::kBroken or kDeadline when the client has gone or does not read.
class BodySink {
 public:
  virtual ~BodySink() = default;
  virtual Task<> write(std::string piece) = 0;
};

// What a handler answers: a whole body, or `stream`, called after the head has been sent; the body ends when it
// returns, and is cut (the connection closed in mid-body) when it throws. The token is stopped when the client has gone
// or the server drains.
struct ServerResponse {
  int status = 200;
  Headers headers = {};
  std::string body = {};
  std::function<Task<>(BodySink&, std::stop_token)> stream = nullptr;
};

struct ServerRequest {
  std::string method = {};
  std::string target = {};
  Headers headers = {};
  std::string body = {};
  std::string peer = {};         // address of the client, for logs
  std::string client_name = {};  // common name of a verified client certificate, or empty
};

// Serves one request. An exception becomes 500 without details and a log line. The request lives until the whole answer
// has ended, its stream included. The token is stopped when the client has gone.
using Handler = std::function<Task<ServerResponse>(const ServerRequest&, std::stop_token)>;

// Percent-encodes a path segment or query value (RFC 3986 unreserved characters stay).
std::string percent_encode(std::string_view text);
// Throws std::invalid_argument on a broken escape.
std::string percent_decode(std::string_view text);
// "/api/x?a=1&b=2" -> path and decoded query pairs ("+" is a space, as HTML forms and Go write it). The path stays
// encoded, so that %2F does not become a separator: split it first, then decode the segments.
struct Target {
  std::string path;
  std::vector<std::pair<std::string, std::string>> query;
  // The first value, or empty.
  std::string_view get(std::string_view key) const noexcept;
};
// Throws std::invalid_argument on a broken escape.
Target parse_target(std::string_view target);

}  // namespace bascule::net
