// For the tests of this room: running tasks on the real loop, peers on blocking sockets in threads of their own.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "base/async.hpp"
#include "net/client.hpp"
#include "net/io_loop.hpp"
#include "net/server.hpp"

namespace bascule::net::test {

using namespace std::chrono_literals;

// Runs a task to its end; a test that hangs fails after two minutes: under a sanitizer on a busy machine one takes many
// seconds.
inline void run(IoLoop& loop, Task<> task) {
  Gate gate(loop);
  std::exception_ptr error;
  bool done = false;
  spawn(gate, [](IoLoop& l, Task<> t, std::exception_ptr& e, bool& d) -> Task<> {
    try {
      co_await std::move(t);
    } catch (...) {
      e = std::current_exception();
    }
    d = true;
    l.quit();
  }(loop, std::move(task), error, done));
  const auto timer = loop.call_at(loop.now() + 2min, [] {
    std::fprintf(stderr, "a test hangs\n");
    std::abort();
  });
  loop.run();  // takes the quit() even when the task has ended at once
  loop.cancel(timer);
  if (error) std::rethrow_exception(error);
}

// Runs `fn` in a thread and waits for it on the loop.
inline Task<> in_thread(IoLoop& loop, std::function<void()> fn) {
  Bell bell(loop);
  bool done = false;
  std::thread thread([&] {
    fn();
    loop.post([&] {
      done = true;
      bell.notify();
    });
  });
  while (!done) co_await bell.wait(std::stop_token());
  thread.join();
}

inline void send_all(int fd, std::string_view data) {
  while (!data.empty()) {
    const ssize_t n = ::send(fd, data.data(), data.size(), MSG_NOSIGNAL);
    if (n <= 0) return;
    data.remove_prefix(static_cast<std::size_t>(n));
  }
}

// What comes until `stop` says that it is enough, the end, or two seconds of silence.
inline std::string receive_until(int fd, const std::function<bool(const std::string&)>& stop) {
  std::string out;
  char buffer[4096];
  while (!stop(out)) {
    pollfd p{fd, POLLIN, 0};
    if (::poll(&p, 1, 2000) <= 0) break;
    const ssize_t n = ::recv(fd, buffer, sizeof buffer, 0);
    if (n <= 0) break;
    out.append(buffer, static_cast<std::size_t>(n));
  }
  return out;
}
inline std::string receive_all(int fd) {
  return receive_until(fd, [](const std::string&) { return false; });
}
// A request without body, or with what has come of its body.
inline std::string receive_head(int fd) {
  return receive_until(fd, [](const std::string& s) { return s.contains("\r\n\r\n"); });
}

inline int connect_raw(std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    ::close(fd);
    return -1;
  }
  return fd;
}

// A server that misbehaves: `script` gets each accepted connection and its number, from 0; the descriptor is closed
// after it.
class RawServer final {
 public:
  explicit RawServer(std::function<void(int fd, int number)> script)
      : script_(std::move(script)), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    ::listen(listener_, 64);
    socklen_t size = sizeof address;
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~RawServer() {
    finish();
    ::close(listener_);
  }
  // Waits for the script at hand; what the scripts wrote may be read after that.
  void finish() {
    stopping_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
  }
  std::uint16_t port() const { return port_; }
  int accepted() const { return accepted_; }
  Url url() const { return parse_url("http://127.0.0.1:" + std::to_string(port_)); }

 private:
  void serve() {
    while (!stopping_) {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      script_(fd, accepted_++);
      ::close(fd);
    }
  }
  std::function<void(int, int)> script_;
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::atomic<bool> stopping_ = false;
  std::atomic<int> accepted_ = 0;
  std::thread thread_;
};

struct Outcome {
  std::optional<Response> response;
  std::optional<Error> error;
  std::string body;  // of a stream

  int status() const { return response ? response->status : 0; }
  std::string failure() const { return error ? std::string(to_string(error->kind())) : "none"; }
};

inline Task<Outcome> try_call(Transport& transport, Request request, CallLimits limits) {
  Outcome out;
  try {
    out.response = co_await transport.call(std::move(request), limits);
    out.body = out.response->body;
  } catch (const Error& e) {
    out.error = e;
  }
  co_return out;
}

inline Task<Outcome> try_stream(IoLoop& loop, Transport& transport, Request request, CallLimits limits,
                                Duration silence = 2s) {
  Outcome out;
  try {
    StreamResponse response = co_await transport.open(std::move(request), limits);
    out.response = Response{response.status, std::move(response.headers), {}};
    while (true) {
      const std::string_view piece = co_await response.body->read(loop.now() + silence, limits.stop);
      if (piece.empty()) break;
      out.body += piece;
    }
  } catch (const Error& e) {
    out.error = e;
  }
  co_return out;
}

inline Request get(std::string target) {
  return {.method = "GET", .target = std::move(target), .headers = {}, .body = {}};
}
inline Request post(std::string target, std::string body) {
  return {.method = "POST", .target = std::move(target), .headers = {}, .body = std::move(body)};
}

struct NetTest : ::testing::Test {
  IoLoop loop;

  CallLimits within(Duration duration = 5s) { return {.deadline = loop.now() + duration}; }
  std::unique_ptr<Transport> client_of(const Url& url) { return make_client(loop, {.url = url}); }
  Outcome call(Transport& transport, Request request) { return call(transport, std::move(request), within()); }
  Outcome call(Transport& transport, Request request, CallLimits limits) {
    Outcome out;
    run(loop, [](Transport& t, Request r, CallLimits l, Outcome& o) -> Task<> {
      o = co_await try_call(t, std::move(r), l);
    }(transport, std::move(request), limits, out));
    return out;
  }
  Outcome stream(Transport& transport, Request request, Duration silence = 2s) {
    Outcome out;
    run(loop, [](IoLoop& io, Transport& t, Request r, CallLimits l, Duration s, Outcome& o) -> Task<> {
      o = co_await try_stream(io, t, std::move(r), l, s);
    }(loop, transport, std::move(request), within(), silence, out));
    return out;
  }
  void drain(Server& server, Duration duration = 1s) { run(loop, server.drain(loop.now() + duration)); }
};

}  // namespace bascule::net::test
