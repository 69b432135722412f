// TLS over a non-blocking descriptor (OpenSSL), without waiting: the caller waits for what a step wants.
// TLS 1.2 and up; ALPN http/1.1; no renegotiation.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "net/client.hpp"

namespace bascule::net {

struct TlsStep {
  enum class Kind : std::uint8_t {
    kDone,
    kWantRead,
    kWantWrite,
    kEnd,      // the peer said that it has ended (close_notify)
    kCut,      // the input ended without that
    kRefused,  // the peer refused us by an alert that belongs to the handshake: it has not acted on anything
    kFailed,
  };
  Kind kind;
  std::size_t bytes = 0;
  std::string error = {};  // for kCut, kRefused and kFailed
};

class TlsSession final {
 public:
  struct Handle;
  explicit TlsSession(std::unique_ptr<Handle> handle);
  ~TlsSession();

  TlsStep handshake();
  TlsStep read(std::span<char> into);
  TlsStep write(std::string_view data);  // may take a part
  TlsStep shutdown();
  // True when nothing has come, not even the end.
  bool quiet();
  // Common name of the peer's verified certificate, or empty.
  std::string peer_name() const;

 private:
  std::unique_ptr<Handle> handle_;
};

// What PEM texts make: immutable, shared by the sessions made with it.
class TlsContext;

struct TlsMaterial {
  std::string ca = {};  // empty: client: the system's; server: no client certificates
  std::string certificate = {};
  std::string key = {};
  bool verify_peer = true;
  bool server = false;
};
// Throws std::invalid_argument with a sentence.
std::shared_ptr<const TlsContext> make_tls_context(const TlsMaterial& material);
// Of its own certificate; nullopt: it has none, or it does not say.
std::optional<WallTime> certificate_end(const TlsContext& context);
std::unique_ptr<TlsSession> accept_tls(const std::shared_ptr<const TlsContext>& context, int fd);
// `name`: host name or address to verify; empty: not verified.
std::unique_ptr<TlsSession> connect_tls(const std::shared_ptr<const TlsContext>& context, int fd,
                                        const std::string& name);

// A context whose files are read again when they change.
class TlsSource final {
 public:
  struct Parts {
    Pem ca = {};
    Pem certificate = {};
    Pem key = {};
    bool verify_peer = true;
    bool server = false;
  };
  // Throws std::invalid_argument when what is there now cannot be used.
  TlsSource(Parts parts, const Clock& clock);
  // Looks at the files at most once a second. A broken new state keeps the old context and is logged once; files that
  // cannot be read are tried again at each look.
  const std::shared_ptr<const TlsContext>& current();

 private:
  // Identity of the bytes behind a path; Kubernetes swaps symlinks, so it is that of the file at their end.
  struct Stamp {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::int64_t size = -1;
    std::int64_t modified = 0;  // nanoseconds
    std::int64_t changed = 0;   // likewise; of the rights too
    bool operator==(const Stamp&) const = default;
  };
  using Stamps = std::array<Stamp, 3>;

  Stamps look() const;
  TlsMaterial read() const;
  std::optional<TlsMaterial> read_changed(TimePoint now);

  Parts parts_;
  const Clock& clock_;
  std::shared_ptr<const TlsContext> context_;
  Stamps used_;                    // those of context_
  std::optional<Stamps> refused_;  // the last that were read and could not be used
  TimePoint next_look_{};
  TimePoint next_complaint_{};  // about files that cannot be read
};

}  // namespace bascule::net
