// One connection's bytes, plain or TLS, TCP or unix socket. Errors are net::Error: kDeadline, kStopped, kBroken (and
// kUnreachable when the far side refuses us in the handshake).
#pragma once

#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/task.hpp"
#include "net/http.hpp"
#include "net/socket.hpp"
#include "net/tls.hpp"

namespace bascule::net {

class Stream final {
 public:
  // `peer` is for messages.
  Stream(IoLoop& loop, Socket socket, std::string peer);

  int fd() const noexcept { return socket_.fd(); }
  const std::string& peer() const noexcept { return peer_; }
  // Common name of the verified peer certificate, or empty.
  std::string tls_peer_name() const { return tls_ ? tls_->peer_name() : std::string(); }

  Task<> handshake(std::unique_ptr<TlsSession> tls, TimePoint deadline, std::stop_token stop);
  // At least one byte, or 0 at the end. One reader at a time.
  Task<std::size_t> read(std::span<char> into, TimePoint deadline, std::stop_token stop);
  // After read() returned 0: whether the peer said so itself.
  bool clean_end() const noexcept { return clean_end_; }
  // Everything, or an error. `stall`: the longest time for each 64 KB, so that slow readers are cut off. One writer at
  // a time, which may run beside a reader. `data` lives until the end.
  Task<> write(std::string_view data, TimePoint deadline, Duration stall, std::stop_token stop);
  // Application bytes given to the kernel so far.
  std::uint64_t bytes_written() const noexcept { return bytes_written_; }
  // Whether an idle connection is still good: open, and nothing has come.
  bool quiet();

  // Says goodbye without waiting, then closes.
  void close() noexcept;
  // Closes so that the peer sees an error, not an end.
  void abort() noexcept;
  // Says goodbye and drops what the peer still sends until it closes, at most until `deadline`: an answer written while
  // the peer was sending would else be lost by a reset.
  Task<> linger(TimePoint deadline, std::stop_token stop);

 private:
  TlsStep try_read(std::span<char> into);
  TlsStep try_write(std::string_view data);
  // Waits for what the step wants; throws when it failed.
  Task<> wait(const TlsStep& step, const char* doing, TimePoint deadline, std::stop_token stop);
  [[noreturn]] void fail(Error::Kind kind, const char* doing, const std::string& why) const;

  IoLoop& loop_;
  Socket socket_;
  std::string peer_;
  std::unique_ptr<TlsSession> tls_;
  bool clean_end_ = false;
  std::uint64_t bytes_written_ = 0;
  int reads_in_a_row_ = 0;
  int writes_in_a_row_ = 0;
};

}  // namespace bascule::net
