#include "net/dial.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>
#include <thread>

#include "base/async.hpp"

namespace bascule::net {

namespace {

constexpr int kMaxLookups = 32;  // threads in getaddrinfo, which cannot be interrupted

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

// What a lookup thread and the coroutine that waits for it share. The thread may outlive the coroutine and the loop.
struct Lookup {
  explicit Lookup(Loop& loop) : bell(loop) {}
  Bell bell;
  bool done = false;
  std::vector<Address> addresses;
  std::string error;
};

std::string run_getaddrinfo(const std::string& host, const std::string& port, int flags, std::vector<Address>& out) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (code != 0) return code == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(code);
  for (const addrinfo* it = found; it != nullptr; it = it->ai_next) {
    Address& address = out.emplace_back();
    std::memcpy(&address.storage, it->ai_addr, it->ai_addrlen);
    address.size = it->ai_addrlen;
  }
  ::freeaddrinfo(found);
  return {};
}

[[noreturn]] void unreachable(const std::string& what, const std::string& why) {
  throw Error(Error::Kind::kUnreachable, what + ": " + why);
}

[[noreturn]] void gave_up(const std::string& what, const std::stop_token& stop) {
  if (stop.stop_requested()) throw Error(Error::Kind::kStopped, what + ": stopped", Error::Sent::kNo);
  throw Error(Error::Kind::kDeadline, what + ": the deadline passed", Error::Sent::kNo);
}

Task<std::vector<Address>> resolve(IoLoop& loop, std::string host, std::string port, TimePoint deadline,
                                   std::stop_token stop) {
  std::vector<Address> numeric;
  if (run_getaddrinfo(host, port, AI_NUMERICHOST, numeric).empty()) co_return numeric;
  static std::atomic<int> running = 0;
  const std::string what = "looking up " + host;
  if (running >= kMaxLookups) unreachable(what, "too many lookups are waiting");
  const auto lookup = std::make_shared<Lookup>(loop);
  const auto look_up = [host, port, weak = std::weak_ptr(lookup), entry = door(loop)] {
    std::vector<Address> addresses;
    // Without AI_ADDRCONFIG, which finds nothing at all where loopback is the only interface.
    std::string error = run_getaddrinfo(host, port, 0, addresses);
    --running;
    entry->post([weak, addresses = std::move(addresses), error = std::move(error)]() mutable {
      const auto waiting = weak.lock();
      if (!waiting) return;
      waiting->done = true;
      waiting->addresses = std::move(addresses);
      waiting->error = std::move(error);
      waiting->bell.notify();
    });
  };
  ++running;
  try {
    std::thread(look_up).detach();
  } catch (const std::system_error& error) {
    --running;
    unreachable(what, std::string("no thread for it: ") + error.what());
  }
  while (!lookup->done) {
    const bool news = co_await lookup->bell.wait(stop, deadline);
    if (!news) gave_up(what, stop);
  }
  if (!lookup->error.empty()) unreachable(what, lookup->error);
  if (lookup->addresses.empty()) unreachable(what, "no address");
  co_return lookup->addresses;
}

std::string name_of(const Address& address) {
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  if (::getnameinfo(reinterpret_cast<const sockaddr*>(&address.storage), address.size, host, sizeof host, port,
                    sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "address";
  }
  return std::string(host) + " port " + port;
}

Task<Socket> dial(IoLoop& loop, Address address, std::string name, TimePoint deadline, std::stop_token stop) {
  const std::string what = "connecting to " + name;
  const int fd = ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) unreachable(what, std::strerror(errno));
  Socket socket(loop, fd);
  while (true) {
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address.storage), address.size) == 0) co_return socket;
    if (errno == EINPROGRESS) break;
    // A unix socket's full backlog, the end of which no event announces.
    if (errno != EAGAIN || address.storage.ss_family != AF_UNIX) unreachable(what, std::strerror(errno));
    const bool slept = co_await sleep_for(loop, std::chrono::milliseconds(5), stop);
    if (!slept || loop.now() >= deadline) gave_up(what, stop);
  }
  while (true) {
    const bool ready = co_await socket.writable(deadline, stop);
    if (!ready) gave_up(what, stop);
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) unreachable(what, std::strerror(error));
    sockaddr_storage peer{};
    socklen_t peer_size = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_size) == 0) co_return socket;
  }
}

}  // namespace

void tune_tcp(int fd) noexcept {
  const auto set = [fd](int level, int option, int value) { ::setsockopt(fd, level, option, &value, sizeof value); };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

Task<Socket> dial_tcp(IoLoop& loop, std::string host, std::string port, TimePoint deadline, std::stop_token stop) {
  const std::vector<Address> addresses = co_await resolve(loop, host, port, deadline, stop);
  std::optional<Error> last;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const TimePoint now = loop.now();
    const auto left = static_cast<std::int64_t>(addresses.size() - i);
    const TimePoint share = now + (deadline - now) / left;
    try {
      Socket socket = co_await dial(loop, addresses[i], name_of(addresses[i]), share, stop);
      tune_tcp(socket.fd());
      co_return socket;
    } catch (const Error& e) {
      if (e.kind() == Error::Kind::kStopped) throw;
      last = e;
    }
  }
  throw Error(*last);
}

Task<Socket> dial_unix(IoLoop& loop, std::string path, TimePoint deadline, std::stop_token stop) {
  Address address;
  auto* un = reinterpret_cast<sockaddr_un*>(&address.storage);
  if (path.size() >= sizeof un->sun_path) unreachable("connecting to " + path, "the path is too long");
  un->sun_family = AF_UNIX;
  std::memcpy(un->sun_path, path.data(), path.size());
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  co_return co_await dial(loop, address, path, deadline, stop);
}

}  // namespace bascule::net
