// The real transport: TCP, unix sockets and TLS, a pool of keep-alive connections, a deadline on every call.
#pragma once

#include <optional>
#include <string>

#include "net/http.hpp"
#include "net/io_loop.hpp"

namespace bascule::net {

// http://host:port/prefix, https://host:port/prefix or unix:/path/to/socket. IPv6 hosts in brackets. A proxy's URL may
// carry user:password@.
struct Url {
  std::string scheme = {};  // http, https, unix
  std::string host;
  std::string port;           // never empty for http and https
  std::string path;           // prefix without trailing slash, or the socket's path
  std::string userinfo = {};  // decoded user:password
};
// Throws std::invalid_argument with a sentence that names what is wrong.
Url parse_url(std::string_view text);

// Certificates and keys as PEM text or as files. Files are read again when they change (time, size or inode; looked at
// when a new connection is made, at most once a second); a broken new file keeps the old one in use and is logged.
struct Pem {
  std::string text = {};
  std::string file = {};
  bool empty() const noexcept { return text.empty() && file.empty(); }
};

struct TlsOptions {
  Pem ca = {};           // empty: the system's certificates
  Pem certificate = {};  // client certificate, optional; with `key`
  Pem key = {};
  std::string server_name = {};  // SNI and name to verify; empty: the host of the URL
  bool insecure_skip_verify = false;
};

struct ClientOptions {
  Url url = {};
  TlsOptions tls = {};
  std::optional<Url> proxy = {};                   // HTTP proxy: CONNECT for https, absolute-form for http
  std::size_t max_connections = 32;                // of call(); further calls wait their turn, within their deadline
  std::size_t max_header = std::size_t{64} << 10;  // bytes
  Duration connect_timeout = std::chrono::seconds(10);
  Duration idle_timeout = std::chrono::seconds(60);  // an idle connection older than this is not used again
};

// Throws std::invalid_argument when a PEM cannot be used, or for a proxy that is not http. Destroy only when no call is
// in flight; streams may outlive it, but not the loop. A request that may not be repeated is never sent on a connection
// whose last answer was not 2xx: slurmrestd closes after such an answer without having said so.
std::unique_ptr<Transport> make_client(IoLoop& loop, ClientOptions options);

}  // namespace bascule::net
