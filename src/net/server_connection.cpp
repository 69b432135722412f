#include "net/server_connection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <optional>

#include "base/async.hpp"
#include "base/log.hpp"
#include "net/serving.hpp"

namespace bascule::net {

namespace {

constexpr std::size_t kMaxPipelined = std::size_t{32} << 10;  // bytes kept while a handler runs
constexpr Duration kLinger = std::chrono::seconds(1);

std::string chunk_of(std::string_view piece) {
  std::string chunk;
  chunk.reserve(piece.size() + 20);
  fmt::format_to(std::back_inserter(chunk), "{:x}\r\n", piece.size());
  return chunk.append(piece).append("\r\n");
}

struct Framed {
  AnswerFraming framing;
  bool bodyless = false;
};

Framed frame(const ServerRequest& request, const ServerResponse& response, bool keep_alive, int version) {
  const bool never_body = response.status == 204 || response.status == 304;
  const bool streams = response.stream != nullptr;
  AnswerFraming framing;
  framing.chunked = streams && version == 11 && !never_body;
  // The end of a streamed body to an HTTP/1.0 client is the end of the connection.
  framing.keep_alive = keep_alive && (framing.chunked || !streams);
  framing.say_keep_alive = version == 10;
  if (!streams && !never_body) framing.content_length = response.body.size();
  return {framing, never_body || request.method == "HEAD"};
}

}  // namespace

ServerConnection::ServerConnection(IoLoop& loop, const ServerOptions& options, const Handler& handler, Socket socket,
                                   std::string peer, std::shared_ptr<const TlsContext> tls)
    : loop_(loop),
      options_(options),
      handler_(handler),
      stream_(loop, std::move(socket), std::move(peer)),
      tls_(std::move(tls)),
      reader_(MessageReader::Role::kRequest, options.max_header) {}

void ServerConnection::start(std::function<void(Change)> changed, std::function<bool()> has_room) {
  changed_ = std::move(changed);
  has_room_ = std::move(has_room);
  waiting_since_ = loop_.now();
  run_ = OwnedTask(run());
  run_.start();
}

void ServerConnection::finish() {
  finish_.request_stop();
}

void ServerConnection::kill() {
  body_size_ = 0;
  finish_.request_stop();
  gone_.request_stop();
  kill_.request_stop();
}

Task<> ServerConnection::run() {
  try {
    co_await serve_all();
  } catch (const Error& e) {
    // The client has gone, or was cut off; only that its handshake failed may be news to somebody.
    if (first_ && tls_) log::limited(log::Level::kInfo, std::chrono::seconds(10), "a client was lost", {{"error", e}});
  }
  stream_.close();
  changed_(Change::kEnded);
}

Task<> ServerConnection::serve_all() {
  if (tls_) {
    auto session = accept_tls(tls_, stream_.fd());
    co_await stream_.handshake(std::move(session), loop_.now() + options_.header_timeout, kill_.get_token());
    client_name_ = stream_.tls_peer_name();
  }
  while (true) {
    const bool more = co_await serve_one();
    if (!more) co_return;
    answering_ = false;
    body_size_ = 0;
    waiting_since_ = loop_.now();
    changed_(Change::kAnswered);
  }
}

Task<bool> ServerConnection::wait_for_request() {
  reader_.start();
  // A client that asks without pause would else be served alone for as long as its next request is there in time.
  const bool at_once = reader_.started() || !stream_.quiet();
  if (at_once && !first_) co_await sleep_until(loop_, loop_.now(), kill_.get_token());
  if (reader_.started()) co_return true;
  idle_ = true;
  std::size_t bytes = 0;
  try {
    const TimePoint deadline = loop_.now() + (first_ ? options_.header_timeout : options_.idle_timeout);
    bytes = co_await stream_.read(reader_.prepare(), deadline, finish_.get_token());
  } catch (const Error&) {
    // Idle for too long, told to finish, or cut.
  }
  idle_ = false;
  waiting_since_ = loop_.now();
  reader_.commit(bytes);
  co_return bytes > 0;
}

Task<MessageReader::Event> ServerConnection::next_event(TimePoint deadline) {
  while (true) {
    const MessageReader::Event event = reader_.next();
    if (event != MessageReader::Event::kNeedMore) co_return event;
    const std::size_t bytes = co_await stream_.read(reader_.prepare(), deadline, kill_.get_token());
    if (bytes > 0) {
      reader_.commit(bytes);
    } else {
      reader_.end_of_input(stream_.clean_end());
    }
  }
}

Task<bool> ServerConnection::serve_one() {
  const bool more = co_await wait_for_request();
  if (!more) co_return false;
  first_ = false;
  ServerRequest request;
  std::optional<Error> error;
  bool in_body = false;
  bool room = true;
  try {
    co_await next_event(loop_.now() + options_.header_timeout);
    in_body = true;
    room = co_await read_request(request);
  } catch (const Error& e) {
    error = e;
  }
  if (error) {
    if (error->kind() == Error::Kind::kTooLarge) co_await refuse(in_body ? 413 : 431, error->what());
    if (error->kind() == Error::Kind::kMalformed) co_await refuse(400, error->what());
    if (error->kind() == Error::Kind::kDeadline) co_await refuse(408, "the request did not come in time");
    co_return false;
  }
  if (!room) {
    co_await refuse(503, "too much of other requests is here already");
    co_return false;
  }
  answering_ = true;
  const bool keep_alive = reader_.head().keep_alive;
  const int version = reader_.head().version;
  OwnedTask watch(watch_peer(kill_.get_token()));
  watch.start();
  ServerResponse response = co_await call_handler(handler_, request, gone_.get_token());
  if (!response.stream) {  // else its stream may look at the body yet
    std::string().swap(request.body);
    body_size_ = 0;
  }
  co_return co_await answer(request, std::move(response), keep_alive, version);
}

Task<bool> ServerConnection::read_request(ServerRequest& request) {
  MessageHead& head = reader_.head();
  request.method = std::move(head.method);
  request.target = std::move(head.target);
  request.headers = std::move(head.headers);
  request.peer = stream_.peer();
  request.client_name = client_name_;
  const auto check = [this](std::uint64_t size) {
    if (size > options_.max_body) {
      throw Error(Error::Kind::kTooLarge, fmt::format("the request: a body of more than {} bytes", options_.max_body));
    }
  };
  const std::uint64_t length = head.content_length.value_or(0);
  check(length);
  const bool has_body = length > 0 || head.chunked;
  if (has_body && head.version == 11 && request.headers.get("Expect") == "100-continue" && reader_.buffered() == 0) {
    co_await write("HTTP/1.1 100 Continue\r\n\r\n", kill_.get_token());
  }
  const TimePoint deadline = loop_.now() + options_.body_timeout;
  while (true) {
    const MessageReader::Event event = co_await next_event(deadline);
    if (event == MessageReader::Event::kEnd) co_return true;
    check(request.body.size() + reader_.piece().size());
    if (request.body.empty()) request.body.reserve(length);
    request.body += reader_.piece();
    body_size_ = request.body.size();
    if (!has_room_()) co_return false;
  }
}

// --- answers ---------------------------------------------------------------------------------------------------------

Task<> ServerConnection::write(std::string_view data, std::stop_token stop) {
  return stream_.write(data, TimePoint::max(), options_.write_timeout, std::move(stop));
}

Task<bool> ServerConnection::answer(const ServerRequest& request, ServerResponse response, bool keep_alive,
                                    int version) {
  Framed framed = frame(request, response, keep_alive && !finish_.stop_requested(), version);
  std::string head;
  try {
    head = answer_head(response.status, response.headers, framed.framing, loop_.wall());
  } catch (const std::invalid_argument& e) {
    log::error("an answer cannot be sent", {{"target", request.target}, {"error", e}});
    response = ServerResponse{.status = 500, .headers = {}, .body = "internal error\n", .stream = nullptr};
    framed = frame(request, response, false, version);
    head = answer_head(response.status, response.headers, framed.framing, loop_.wall());
  }
  if (response.stream != nullptr && !framed.bodyless) {
    co_await write(head, gone_.get_token());
    co_await write_stream(response, framed.framing.chunked);
  } else if (framed.bodyless) {
    co_await write(head, kill_.get_token());
  } else if (response.body.size() <= (std::size_t{64} << 10)) {
    head += response.body;
    co_await write(head, kill_.get_token());
  } else {
    co_await write(head, kill_.get_token());
    co_await write(response.body, kill_.get_token());
  }
  co_return framed.framing.keep_alive && !gone_.stop_requested() && !finish_.stop_requested();
}

class ServerConnection::Sink final : public BodySink {
 public:
  Sink(ServerConnection& connection, bool chunked) : connection_(connection), chunked_(chunked) {}

  Task<> write(std::string piece) override {
    if (piece.empty()) co_return;
    if (broken_ || connection_.gone_.stop_requested()) throw Error(Error::Kind::kBroken, "the client has gone");
    if (chunked_) piece = chunk_of(piece);
    std::optional<Error> error;
    try {
      co_await connection_.write(piece, connection_.gone_.get_token());
    } catch (const Error& e) {
      error = e;
    }
    if (!error) co_return;
    // Part of the piece may have been written: whatever came after it would be garbage.
    broken_ = true;
    connection_.gone_.request_stop();
    if (error->kind() == Error::Kind::kDeadline) throw Error(*error);
    throw Error(Error::Kind::kBroken, error->what());
  }
  bool broken() const noexcept { return broken_; }

 private:
  ServerConnection& connection_;
  const bool chunked_;
  bool broken_ = false;
};

Task<> ServerConnection::write_stream(const ServerResponse& response, bool chunked) {
  Sink sink(*this, chunked);
  // Streams stop for either reason.
  const std::stop_callback also_gone(gone_.get_token(), [this] { finish_.request_stop(); });
  bool whole = false;
  try {
    co_await response.stream(sink, finish_.get_token());
    whole = !sink.broken();
  } catch (const std::exception& e) {
    // The client learns it from the cut.
    if (!gone_.stop_requested()) log::warning("a streamed answer failed", {{"peer", stream_.peer()}, {"error", e}});
  }
  if (!whole) {
    stream_.abort();
    throw Error(Error::Kind::kBroken, "the stream was cut");
  }
  if (chunked) co_await write("0\r\n\r\n", gone_.get_token());
}

Task<> ServerConnection::refuse(int status, std::string_view why) {
  Headers headers;
  headers.add("Content-Type", "text/plain");
  AnswerFraming framing;
  framing.content_length = why.size() + 1;
  std::string text = answer_head(status, headers, framing, loop_.wall());
  text.append(why).append("\n");
  co_await write(text, kill_.get_token());
  co_await stream_.linger(loop_.now() + kLinger, kill_.get_token());
}

// While a handler runs: notices the end of the connection, and keeps what the client sends ahead.
Task<> ServerConnection::watch_peer(std::stop_token stop) {
  try {
    while (reader_.buffered() < kMaxPipelined) {
      const std::size_t bytes = co_await stream_.read(reader_.prepare(), TimePoint::max(), stop);
      if (bytes == 0) break;
      reader_.commit(bytes);
    }
    if (reader_.buffered() >= kMaxPipelined) co_return;
  } catch (const Error&) {
    // Gone as well.
  }
  gone_.request_stop();
}

}  // namespace bascule::net
