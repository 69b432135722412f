#include "net/stream.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/async.hpp"

namespace bascule::net {

namespace {

constexpr std::size_t kSlice = std::size_t{64} << 10;  // of a write, for `stall`
constexpr int kInARow = 16;                            // reads or slices; then others get their turn

TlsStep step_of_errno(int error) {
  if (error == EAGAIN || error == EWOULDBLOCK || error == EINTR) return {TlsStep::Kind::kWantRead};
  return {TlsStep::Kind::kFailed, 0, std::strerror(error)};
}

}  // namespace

Stream::Stream(IoLoop& loop, Socket socket, std::string peer)
    : loop_(loop), socket_(std::move(socket)), peer_(std::move(peer)) {}

void Stream::fail(Error::Kind kind, const char* doing, const std::string& why) const {
  throw Error(kind, std::string(doing) + " " + peer_ + ": " + why);
}

TlsStep Stream::try_read(std::span<char> into) {
  if (socket_.fd() < 0) return {TlsStep::Kind::kFailed, 0, "closed"};
  if (tls_) return tls_->read(into);
  const ssize_t bytes = ::recv(socket_.fd(), into.data(), into.size(), 0);
  if (bytes > 0) return {TlsStep::Kind::kDone, static_cast<std::size_t>(bytes)};
  if (bytes == 0) return {TlsStep::Kind::kEnd};
  return step_of_errno(errno);
}

TlsStep Stream::try_write(std::string_view data) {
  if (socket_.fd() < 0) return {TlsStep::Kind::kFailed, 0, "closed"};
  if (tls_) return tls_->write(data);
  const ssize_t bytes = ::send(socket_.fd(), data.data(), data.size(), MSG_NOSIGNAL);
  if (bytes >= 0) return {TlsStep::Kind::kDone, static_cast<std::size_t>(bytes)};
  TlsStep step = step_of_errno(errno);
  if (step.kind == TlsStep::Kind::kWantRead) step.kind = TlsStep::Kind::kWantWrite;
  return step;
}

Task<> Stream::wait(const TlsStep& step, const char* doing, TimePoint deadline, std::stop_token stop) {
  if (step.kind == TlsStep::Kind::kRefused) fail(Error::Kind::kUnreachable, doing, step.error);
  if (step.kind == TlsStep::Kind::kCut || step.kind == TlsStep::Kind::kFailed) {
    fail(Error::Kind::kBroken, doing, step.error);
  }
  if (step.kind == TlsStep::Kind::kEnd) fail(Error::Kind::kBroken, doing, "closed by the other side");
  if (stop.stop_requested()) fail(Error::Kind::kStopped, doing, "stopped");
  bool ready = false;
  if (step.kind == TlsStep::Kind::kWantWrite) {
    ready = co_await socket_.writable(deadline, stop);
  } else {
    ready = co_await socket_.readable(deadline, stop);
  }
  if (ready) co_return;
  if (stop.stop_requested()) fail(Error::Kind::kStopped, doing, "stopped");
  fail(Error::Kind::kDeadline, doing, "the deadline passed");
}

Task<> Stream::handshake(std::unique_ptr<TlsSession> tls, TimePoint deadline, std::stop_token stop) {
  tls_ = std::move(tls);
  while (true) {
    const TlsStep step = tls_->handshake();
    if (step.kind == TlsStep::Kind::kDone) co_return;
    co_await wait(step, "TLS handshake with", deadline, stop);
  }
}

Task<std::size_t> Stream::read(std::span<char> into, TimePoint deadline, std::stop_token stop) {
  if (stop.stop_requested()) fail(Error::Kind::kStopped, "reading from", "stopped");
  if (++reads_in_a_row_ > kInARow) {
    reads_in_a_row_ = 0;
    co_await sleep_until(loop_, loop_.now(), stop);
  }
  while (true) {
    const TlsStep step = try_read(into);
    if (step.kind == TlsStep::Kind::kDone) co_return step.bytes;
    if (step.kind == TlsStep::Kind::kEnd || step.kind == TlsStep::Kind::kCut) {
      clean_end_ = step.kind == TlsStep::Kind::kEnd;
      co_return 0;
    }
    reads_in_a_row_ = 0;
    co_await wait(step, "reading from", deadline, stop);
  }
}

Task<> Stream::write(std::string_view data, TimePoint deadline, Duration stall, std::stop_token stop) {
  if (stop.stop_requested()) fail(Error::Kind::kStopped, "writing to", "stopped");
  while (!data.empty()) {
    if (++writes_in_a_row_ > kInARow) {
      writes_in_a_row_ = 0;
      co_await sleep_until(loop_, loop_.now(), stop);
    }
    std::string_view slice = data.substr(0, kSlice);
    data.remove_prefix(slice.size());
    const TimePoint now = loop_.now();
    const TimePoint until = stall < deadline - now ? now + stall : deadline;
    while (!slice.empty()) {
      const TlsStep step = try_write(slice);
      if (step.kind == TlsStep::Kind::kDone) {
        slice.remove_prefix(step.bytes);
        bytes_written_ += step.bytes;
      } else {
        writes_in_a_row_ = 0;
        co_await wait(step, "writing to", until, stop);
      }
    }
  }
}

bool Stream::quiet() {
  if (socket_.fd() < 0) return false;
  if (tls_) return tls_->quiet();
  char byte;
  return ::recv(socket_.fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

void Stream::close() noexcept {
  if (tls_ && socket_.fd() >= 0) tls_->shutdown();
  socket_.close();
}

void Stream::abort() noexcept {
  if (socket_.fd() < 0) return;
  const ::linger reset{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(socket_.fd(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  socket_.close();
}

Task<> Stream::linger(TimePoint deadline, std::stop_token stop) {
  if (tls_ && socket_.fd() >= 0) tls_->shutdown();
  ::shutdown(socket_.fd(), SHUT_WR);
  std::array<char, 4096> dropped{};
  try {
    for (int i = 0; i < 4096; ++i) {
      const ssize_t bytes = ::recv(socket_.fd(), dropped.data(), dropped.size(), 0);
      if (bytes == 0) break;
      if (bytes > 0) continue;
      co_await wait(step_of_errno(errno), "lingering for", deadline, stop);
    }
  } catch (const Error&) {
    // Enough waited for.
  }
  socket_.close();
}

}  // namespace bascule::net
