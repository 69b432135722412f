// Serves a handler over TCP, a unix socket or TLS.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "net/client.hpp"
#include "net/http.hpp"
#include "net/io_loop.hpp"

namespace bascule::net {

struct ServerOptions {
  std::string address = "0.0.0.0";  // or "unix:/path", or an IPv6 address; empty: all addresses
  std::uint16_t port = 0;           // 0: any free port
  // TLS when a certificate is given. Files as in Pem: re-read when they change, so that rotation needs no restart.
  Pem certificate = {};
  Pem key = {};
  Pem client_ca = {};                  // when given, client certificates are asked for and, if sent, verified
  std::size_t max_connections = 1024;  // beyond, a new one takes the place of one that is not being answered
  std::size_t max_header = std::size_t{64} << 10;
  std::size_t max_body = std::size_t{8} << 20;
  std::size_t max_bodies = std::size_t{256} << 20;     // at a time; beyond, the largest that is not whole is given up
  Duration header_timeout = std::chrono::seconds(10);  // from connection or first byte to the whole head
  Duration body_timeout = std::chrono::seconds(30);
  Duration idle_timeout = std::chrono::seconds(120);  // between requests
  Duration write_timeout = std::chrono::seconds(30);  // a client that does not read
};

class Server {
 public:
  virtual ~Server() = default;
  virtual std::uint16_t port() const noexcept = 0;
  // When the certificate in use ends; nullopt: there is none.
  virtual std::optional<WallTime> certificate_end() = 0;
  // Stops accepting, tells streams to stop, lets running requests end until `deadline`, then closes what is left.
  virtual Task<> drain(TimePoint deadline) = 0;
};

// Binds and listens at once; throws Error::kUnreachable with the address when that fails. Destroy after drain().
std::unique_ptr<Server> serve(IoLoop& loop, ServerOptions options, Handler handler);

}  // namespace bascule::net
