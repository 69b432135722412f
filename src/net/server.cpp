#include "net/server.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <list>
#include <optional>

#include "base/async.hpp"
#include "base/log.hpp"
#include "net/dial.hpp"
#include "net/server_connection.hpp"

namespace bascule::net {

namespace {

constexpr Duration kNoDescriptors = std::chrono::milliseconds(50);  // pause when the process has none left
constexpr Duration kLogEvery = std::chrono::seconds(10);
constexpr Duration kUnwind = std::chrono::milliseconds(100);  // for handlers told to stop at the end of a drain

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  std::string unix_path;
  sockaddr* get() noexcept { return reinterpret_cast<sockaddr*>(&storage); }
};

[[noreturn]] void cannot_listen(const std::string& where, const std::string& why) {
  throw Error(Error::Kind::kUnreachable, "cannot listen on " + where + ": " + why);
}

Address unix_address(const std::string& path) {
  Address address;
  auto* un = reinterpret_cast<sockaddr_un*>(&address.storage);
  if (path.empty() || path.size() >= sizeof un->sun_path) cannot_listen("unix:" + path, "not a path of 1 to 107 bytes");
  un->sun_family = AF_UNIX;
  std::memcpy(un->sun_path, path.data(), path.size());
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  address.unix_path = path;
  return address;
}

Address ip_address(std::string text, std::uint16_t port) {
  Address address;
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  if (text == "localhost") text = "127.0.0.1";
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  if (inet_pton(AF_INET, text.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    address.size = sizeof *v4;
    return address;
  }
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (inet_pton(AF_INET6, text.empty() ? "::" : text.c_str(), &v6->sin6_addr) != 1) {
    cannot_listen(text, "not an IP address");
  }
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(port);
  address.size = sizeof *v6;
  return address;
}

// A socket file that nobody listens on is left from a process that was killed.
void remove_dead_socket(Address& address) {
  struct stat st{};
  if (::lstat(address.unix_path.c_str(), &st) != 0 || !S_ISSOCK(st.st_mode)) return;
  const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (probe < 0) return;
  const bool dead = ::connect(probe, address.get(), address.size) != 0 && errno == ECONNREFUSED;
  ::close(probe);
  if (dead) ::unlink(address.unix_path.c_str());
}

int listen_on(Address& address, bool both_families) {
  const int fd = ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  const int on = 1;
  const int off = 0;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (both_families) ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (::bind(fd, address.get(), address.size) == 0 && ::listen(fd, SOMAXCONN) == 0) return fd;
  const int error = errno;
  ::close(fd);
  errno = error;
  return -1;
}

std::uint16_t port_of(int fd) {
  Address bound;
  bound.size = sizeof bound.storage;
  if (::getsockname(fd, bound.get(), &bound.size) != 0) return 0;
  if (bound.storage.ss_family == AF_INET) return ntohs(reinterpret_cast<sockaddr_in*>(&bound.storage)->sin_port);
  if (bound.storage.ss_family == AF_INET6) return ntohs(reinterpret_cast<sockaddr_in6*>(&bound.storage)->sin6_port);
  return 0;
}

std::string peer_name(const sockaddr_storage& storage) {
  char text[INET6_ADDRSTRLEN] = "";
  if (storage.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(storage);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
    return std::string(text) + ":" + std::to_string(ntohs(v4.sin_port));
  }
  if (storage.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(storage);
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
    return "[" + std::string(text) + "]:" + std::to_string(ntohs(v6.sin6_port));
  }
  return "unix";
}

class SocketServer final : public Server {
 public:
  SocketServer(IoLoop& loop, ServerOptions options, Handler handler)
      : loop_(loop),
        options_(std::move(options)),
        handler_(std::move(handler)),
        changed_(loop),
        alive_(std::make_shared<SocketServer*>(this)) {
    if (!options_.certificate.empty()) {
      tls_.emplace(TlsSource::Parts{.ca = options_.client_ca,
                                    .certificate = options_.certificate,
                                    .key = options_.key,
                                    .verify_peer = true,
                                    .server = true},
                   loop_);
    }
    listen();
    accepting_ = OwnedTask(accept_all());
    accepting_.start();
  }

  ~SocketServer() override {
    stop_listening();
    accepting_.reset();
  }

  std::uint16_t port() const noexcept override { return port_; }

  std::optional<WallTime> certificate_end() override {
    return tls_ ? net::certificate_end(*tls_->current()) : std::nullopt;
  }

  Task<> drain(TimePoint deadline) override {
    stop_listening();
    for (const auto& connection : connections_) connection->finish();
    co_await until_empty(deadline);
    if (connections_.empty()) co_return;
    for (const auto& connection : connections_) connection->kill();
    co_await until_empty(loop_.now() + kUnwind);
    // What still hangs ignores its stop token; its frames end here.
    connections_.clear();
  }

 private:
  void listen() {
    const bool is_unix = options_.address.starts_with("unix:");
    Address address = is_unix ? unix_address(options_.address.substr(5)) : ip_address(options_.address, options_.port);
    if (is_unix) remove_dead_socket(address);
    int fd = listen_on(address, options_.address.empty());
    if (fd < 0 && options_.address.empty() && errno == EAFNOSUPPORT) {
      address = ip_address("0.0.0.0", options_.port);
      fd = listen_on(address, false);
    }
    if (fd < 0) {
      const std::string reason = std::strerror(errno);
      cannot_listen(is_unix ? options_.address : options_.address + " port " + std::to_string(options_.port), reason);
    }
    unix_path_ = address.unix_path;
    port_ = port_of(fd);
    listener_ = Socket(loop_, fd);
  }

  void stop_listening() {
    stop_.request_stop();
    if (listener_.fd() >= 0 && !unix_path_.empty()) ::unlink(unix_path_.c_str());
    listener_.close();
  }

  Task<> accept_all() {
    const std::stop_token stop = stop_.get_token();
    while (!stop.stop_requested()) {
      if (connections_.size() >= options_.max_connections) {
        co_await listener_.readable(TimePoint::max(), stop);
        if (connections_.size() < options_.max_connections || stop.stop_requested()) continue;
        make_room();
        co_await changed_.wait(stop, TimePoint::max());
        continue;
      }
      sockaddr_storage peer{};
      socklen_t size = sizeof peer;
      const int fd = ::accept4(listener_.fd(), reinterpret_cast<sockaddr*>(&peer), &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd >= 0) {
        if (peer.ss_family != AF_UNIX) tune_tcp(fd);
        add(Socket(loop_, fd), peer_name(peer));
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        co_await listener_.readable(TimePoint::max(), stop);
      } else if (errno != EINTR && errno != ECONNABORTED && errno != EPROTO) {
        log::limited(log::Level::kError, kLogEvery, "cannot accept connections", {{"error", std::strerror(errno)}});
        make_room();
        co_await sleep_for(loop_, kNoDescriptors, stop);
      }
      // Else it is the error of a connection that has gone already.
    }
  }

  void add(Socket socket, std::string peer) {
    std::shared_ptr<const TlsContext> context;
    if (tls_) context = tls_->current();
    auto connection = std::make_unique<ServerConnection>(loop_, options_, handler_, std::move(socket), std::move(peer),
                                                         std::move(context));
    ServerConnection& added = *connection;
    connections_.push_back(std::move(connection));
    added.start([this](ServerConnection::Change change) { on_change(change); },
                [this, &added] { return has_room(added); });
  }

  // Said by a connection, from its own frame, which cannot be destroyed from there.
  void on_change(ServerConnection::Change change) {
    if (change == ServerConnection::Change::kAnswered) {
      changed_.notify();
      return;
    }
    loop_.post([weak = std::weak_ptr(alive_)] {
      const auto alive = weak.lock();
      if (!alive) return;
      std::erase_if((*alive)->connections_, [](const auto& ended) { return ended->done(); });
      (*alive)->changed_.notify();
    });
  }

  // An idle client has less of a claim than a new one; so has one whose request is not there yet, the longer the less:
  // else whoever sends a thousand halves of requests shuts out everybody. Who is being answered is left alone.
  void make_room() {
    ServerConnection* last = nullptr;
    for (const auto& connection : connections_) {
      if (connection->answering()) continue;
      const bool worse = last == nullptr || std::pair(!connection->idle(), connection->waiting_since()) <
                                                std::pair(!last->idle(), last->waiting_since());
      if (worse) last = connection.get();
    }
    if (last == nullptr) return;
    if (last->idle()) return last->finish();
    log::limited(log::Level::kWarning, kLogEvery, "too many connections: one was closed whose request did not come",
                 {{"peer", last->peer()}, {"most", options_.max_connections}});
    last->kill();
  }

  // For what has come of `asking`'s body. Of the bodies that are not whole yet the largest is given up: usual requests
  // are small, and are served whatever somebody else sends. False: that of `asking` is the largest.
  bool has_room(ServerConnection& asking) {
    std::size_t sum = 0;
    ServerConnection* largest = &asking;
    for (const auto& connection : connections_) {
      sum += connection->body_size();
      if (!connection->answering() && connection->body_size() > largest->body_size()) largest = connection.get();
    }
    if (sum <= options_.max_bodies) return true;
    log::limited(log::Level::kWarning, kLogEvery, "too many bytes of requests: one was given up",
                 {{"peer", largest->peer()}, {"bytes", largest->body_size()}, {"most", options_.max_bodies}});
    if (largest == &asking) return false;
    largest->kill();
    return true;
  }

  Task<> until_empty(TimePoint deadline) {
    while (!connections_.empty()) {
      const bool news = co_await changed_.wait(std::stop_token(), deadline);
      if (!news) co_return;
    }
  }

  IoLoop& loop_;
  const ServerOptions options_;
  const Handler handler_;
  std::optional<TlsSource> tls_;
  std::string unix_path_;
  std::uint16_t port_ = 0;
  Socket listener_;
  std::stop_source stop_;
  Bell changed_;  // a connection has ended, or has answered
  std::list<std::unique_ptr<ServerConnection>> connections_;
  std::shared_ptr<SocketServer*> alive_;
  OwnedTask accepting_;
};

}  // namespace

std::unique_ptr<Server> serve(IoLoop& loop, ServerOptions options, Handler handler) {
  return std::make_unique<SocketServer>(loop, std::move(options), std::move(handler));
}

}  // namespace bascule::net
