// One connection of a server: requests in, answers out, one after the other.
// Invariants: a request's body is read whole before its handler runs; while a handler runs or streams, the connection
// is watched for its end, and nothing else reads; at most one message's worth of pipelined bytes is kept.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "net/codec.hpp"
#include "net/owned_task.hpp"
#include "net/server.hpp"
#include "net/stream.hpp"

namespace bascule::net {

class ServerConnection final {
 public:
  // `options` and `handler` outlive it. `tls` is null for plain connections.
  ServerConnection(IoLoop& loop, const ServerOptions& options, const Handler& handler, Socket socket, std::string peer,
                   std::shared_ptr<const TlsContext> tls);

  enum class Change : std::uint8_t { kAnswered, kEnded };
  // Runs until the connection has ended. `changed` is called when it waits for a request again and, as the last thing,
  // when it ends; it must not destroy the connection.
  // `has_room`: asked after each piece of a body; false: no more of it is taken.
  void start(std::function<void(Change)> changed, std::function<bool()> has_room);
  bool done() const noexcept { return run_.done(); }
  const std::string& peer() const noexcept { return stream_.peer(); }
  // A whole request has come, and its answer has not gone yet.
  bool answering() const noexcept { return answering_; }
  // Between requests.
  bool idle() const noexcept { return idle_; }
  // Bytes of the body of the request at hand.
  std::size_t body_size() const noexcept { return body_size_; }
  // While not answering: since when it has been idle, or its handshake or request has been on the way.
  TimePoint waiting_since() const noexcept { return waiting_since_; }

  // Closes once the request at hand has been answered; streams are told to stop.
  void finish();
  // Stops everything now.
  void kill();

 private:
  class Sink;

  Task<> run();
  Task<> serve_all();
  // False when the connection is to be closed.
  Task<bool> serve_one();
  Task<bool> wait_for_request();
  // False: there is no room for its body.
  Task<bool> read_request(ServerRequest& request);
  Task<bool> answer(const ServerRequest& request, ServerResponse response, bool keep_alive, int version);
  Task<> write_stream(const ServerResponse& response, bool chunked);
  Task<> refuse(int status, std::string_view why);
  Task<> watch_peer(std::stop_token stop);
  Task<MessageReader::Event> next_event(TimePoint deadline);
  Task<> write(std::string_view data, std::stop_token stop);

  IoLoop& loop_;
  const ServerOptions& options_;
  const Handler& handler_;
  Stream stream_;
  std::shared_ptr<const TlsContext> tls_;
  MessageReader reader_;
  std::string client_name_;
  std::function<void(Change)> changed_;
  std::function<bool()> has_room_;
  bool first_ = true;  // no request has come yet
  bool idle_ = false;
  bool answering_ = false;
  std::size_t body_size_ = 0;
  TimePoint waiting_since_{};
  std::stop_source finish_;  // no further request; also the token of streams
  std::stop_source gone_;    // the client has gone: the token of handlers
  std::stop_source kill_;
  OwnedTask run_;  // last: uses all of the above
};

}  // namespace bascule::net
