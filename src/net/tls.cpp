#include "net/tls.hpp"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "base/file.hpp"
#include "base/log.hpp"
#include "net/openssl_free.hpp"
#include "net/openssl_time.hpp"

namespace bascule::net {

namespace {

using BioPtr = std::unique_ptr<BIO, Free<BIO_free_all>>;
using CertPtr = std::unique_ptr<X509, Free<X509_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using ContextPtr = std::unique_ptr<SSL_CTX, Free<SSL_CTX_free>>;
using SslPtr = std::unique_ptr<SSL, Free<SSL_free>>;

constexpr unsigned char kAlpn[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
constexpr std::size_t kMaxPem = std::size_t{1} << 20;
constexpr Duration kComplainEvery = std::chrono::minutes(5);

// The oldest error of the queue, which is the cause; empties the queue.
std::string openssl_error() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  if (code == 0) return "unknown error";
  const char* reason = ERR_reason_error_string(code);
  if (reason != nullptr) return reason;
  char buffer[256];
  ERR_error_string_n(code, buffer, sizeof buffer);
  return buffer;
}

[[noreturn]] void unusable(const std::string& what) {
  throw std::invalid_argument("TLS: " + what + ": " + openssl_error());
}

BioPtr memory(std::string_view text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// Without one OpenSSL asks on the terminal.
int no_password(char*, int, int, void*) {
  return -1;
}

CertPtr read_certificate(BIO* bio) {
  return CertPtr(PEM_read_bio_X509(bio, nullptr, no_password, nullptr));
}

void use_ca(SSL_CTX* context, const std::string& pem, bool server) {
  const BioPtr bio = memory(pem);
  X509_STORE* store = SSL_CTX_get_cert_store(context);
  int count = 0;
  while (const CertPtr certificate = read_certificate(bio.get())) {
    if (X509_STORE_add_cert(store, certificate.get()) != 1) unusable("the CA bundle");
    if (server && SSL_CTX_add_client_CA(context, certificate.get()) != 1) unusable("the CA bundle");
    ++count;
  }
  if (count == 0) unusable("the CA bundle has no certificate");
  if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE) unusable("the CA bundle is broken");
  ERR_clear_error();
  // As in Go: what is named is trusted, be it a root, an intermediate authority or the very certificate.
  if (X509_STORE_set_flags(store, X509_V_FLAG_PARTIAL_CHAIN) != 1) unusable("the CA bundle");
}

void use_certificate(SSL_CTX* context, const std::string& certificate_pem, const std::string& key_pem) {
  const BioPtr bio = memory(certificate_pem);
  const CertPtr certificate = read_certificate(bio.get());
  if (!certificate) unusable("the certificate cannot be read");
  if (SSL_CTX_use_certificate(context, certificate.get()) != 1) unusable("the certificate cannot be used");
  while (CertPtr chained = read_certificate(bio.get())) {
    if (SSL_CTX_add0_chain_cert(context, chained.get()) != 1) unusable("the certificate chain cannot be used");
    chained.release();
  }
  ERR_clear_error();
  const BioPtr key_bio = memory(key_pem);
  const KeyPtr key(PEM_read_bio_PrivateKey(key_bio.get(), nullptr, no_password, nullptr));
  if (!key) unusable("the private key cannot be read (encrypted keys are not supported)");
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1) unusable("the private key does not belong to the certificate");
}

int choose_alpn(SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* offered,
                unsigned int size, void*) {
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(&chosen, out_size, kAlpn, sizeof kAlpn, offered, size) != OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_NOACK;
  }
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

// Alerts by which the far side's handshake ends. With TLS 1.3 ours has ended before, so they come with the first read.
bool is_handshake_refusal(unsigned long code) {
  switch (ERR_GET_REASON(code)) {
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
      return true;
    default:
      return false;
  }
}

std::string common_name(X509* certificate) {
  X509_NAME* subject = X509_get_subject_name(certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at < 0) return {};
  unsigned char* utf8 = nullptr;
  const int size = ASN1_STRING_to_UTF8(&utf8, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
  if (size < 0) return {};
  std::string name(reinterpret_cast<const char*>(utf8), static_cast<std::size_t>(size));
  OPENSSL_free(utf8);
  return name;
}

}  // namespace

// --- context ---------------------------------------------------------------------------------------------------------

class TlsContext {
 public:
  explicit TlsContext(ContextPtr c) : context(std::move(c)) {}
  ContextPtr context;
};

std::shared_ptr<const TlsContext> make_tls_context(const TlsMaterial& material) {
  ERR_clear_error();
  ContextPtr owner(SSL_CTX_new(material.server ? TLS_server_method() : TLS_client_method()));
  SSL_CTX* context = owner.get();
  if (context == nullptr) unusable("no context");
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(context,
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  // One system call brings as many records as there are.
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_default_read_buffer_len(context, std::size_t{64} << 10);
  SSL_CTX_set_default_passwd_cb(context, no_password);
  if (material.certificate.empty() != material.key.empty()) {
    throw std::invalid_argument("TLS: a certificate and a key come together");
  }
  if (!material.certificate.empty()) use_certificate(context, material.certificate, material.key);
  if (!material.ca.empty()) {
    use_ca(context, material.ca, material.server);
  } else if (!material.server && material.verify_peer && SSL_CTX_set_default_verify_paths(context) != 1) {
    unusable("the system's certificates");
  }
  if (material.server) {
    if (material.certificate.empty()) throw std::invalid_argument("TLS: a server needs a certificate");
    SSL_CTX_set_verify(context, material.ca.empty() ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, nullptr);
    static constexpr unsigned char kId[] = "bascule";
    SSL_CTX_set_session_id_context(context, kId, sizeof kId - 1);
    SSL_CTX_set_alpn_select_cb(context, choose_alpn, nullptr);
  } else {
    SSL_CTX_set_verify(context, material.verify_peer ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
    SSL_CTX_set_alpn_protos(context, kAlpn, sizeof kAlpn);
  }
  return std::make_shared<const TlsContext>(std::move(owner));
}

// --- session ---------------------------------------------------------------------------------------------------------

struct TlsSession::Handle {
  std::shared_ptr<const TlsContext> context;
  SslPtr ssl;
  bool failed = false;

  TlsStep step(int result);
};

TlsStep TlsSession::Handle::step(int result) {
  const int saved_errno = errno;
  switch (SSL_get_error(ssl.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return {TlsStep::Kind::kWantRead};
    case SSL_ERROR_WANT_WRITE:
      return {TlsStep::Kind::kWantWrite};
    case SSL_ERROR_ZERO_RETURN:
      return {TlsStep::Kind::kEnd};
    case SSL_ERROR_SYSCALL:
      failed = true;
      ERR_clear_error();
      if (saved_errno == 0) return {TlsStep::Kind::kCut, 0, "connection closed"};
      return {TlsStep::Kind::kFailed, 0, std::strerror(saved_errno)};
    default:
      break;
  }
  failed = true;
  const unsigned long code = ERR_peek_error();
  if (ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
    ERR_clear_error();
    return {TlsStep::Kind::kCut, 0, "connection closed without notice"};
  }
  const TlsStep::Kind kind = is_handshake_refusal(code) ? TlsStep::Kind::kRefused : TlsStep::Kind::kFailed;
  std::string error = openssl_error();
  const long verified = SSL_get_verify_result(ssl.get());
  if (verified != X509_V_OK && !SSL_is_init_finished(ssl.get())) {
    error += std::string(": ") + X509_verify_cert_error_string(verified);
  }
  return {kind, 0, std::move(error)};
}

TlsSession::TlsSession(std::unique_ptr<Handle> handle) : handle_(std::move(handle)) {}
TlsSession::~TlsSession() = default;

TlsStep TlsSession::handshake() {
  ERR_clear_error();
  errno = 0;
  const int result = SSL_do_handshake(handle_->ssl.get());
  if (result == 1) return {TlsStep::Kind::kDone};
  return handle_->step(result);
}

TlsStep TlsSession::read(std::span<char> into) {
  ERR_clear_error();
  errno = 0;
  std::size_t bytes = 0;
  const int result = SSL_read_ex(handle_->ssl.get(), into.data(), into.size(), &bytes);
  if (result == 1) return {TlsStep::Kind::kDone, bytes};
  return handle_->step(result);
}

TlsStep TlsSession::write(std::string_view data) {
  ERR_clear_error();
  errno = 0;
  std::size_t bytes = 0;
  const int result = SSL_write_ex(handle_->ssl.get(), data.data(), data.size(), &bytes);
  if (result == 1) return {TlsStep::Kind::kDone, bytes};
  return handle_->step(result);
}

TlsStep TlsSession::shutdown() {
  // Not after a fatal error: OpenSSL forbids it.
  if (handle_->failed || !SSL_is_init_finished(handle_->ssl.get())) return {TlsStep::Kind::kDone};
  ERR_clear_error();
  errno = 0;
  const int result = SSL_shutdown(handle_->ssl.get());
  if (result >= 0) return {TlsStep::Kind::kDone};
  return handle_->step(result);
}

bool TlsSession::quiet() {
  if (handle_->failed) return false;
  char byte;
  std::size_t bytes = 0;
  ERR_clear_error();
  errno = 0;
  const int result = SSL_peek_ex(handle_->ssl.get(), &byte, 1, &bytes);
  if (result == 1) return false;
  return handle_->step(result).kind == TlsStep::Kind::kWantRead;
}

std::string TlsSession::peer_name() const {
  const CertPtr certificate(SSL_get1_peer_certificate(handle_->ssl.get()));
  if (!certificate || SSL_get_verify_mode(handle_->ssl.get()) == SSL_VERIFY_NONE) return {};
  if (SSL_get_verify_result(handle_->ssl.get()) != X509_V_OK) return {};
  return common_name(certificate.get());
}

std::optional<WallTime> certificate_end(const TlsContext& context) {
  const X509* own = SSL_CTX_get0_certificate(context.context.get());
  return own == nullptr ? std::nullopt : wall_time(X509_get0_notAfter(own));
}

namespace {

SslPtr make_ssl(const TlsContext& context, int fd) {
  SslPtr ssl(SSL_new(context.context.get()));
  if (!ssl || SSL_set_fd(ssl.get(), fd) != 1) unusable("no session");
  return ssl;
}

void verify_name(SSL* ssl, const std::string& name) {
  in_addr v4{};
  in6_addr v6{};
  const bool is_address = inet_pton(AF_INET, name.c_str(), &v4) == 1 || inet_pton(AF_INET6, name.c_str(), &v6) == 1;
  X509_VERIFY_PARAM* param = SSL_get0_param(ssl);
  if (is_address) {
    if (X509_VERIFY_PARAM_set1_ip_asc(param, name.c_str()) != 1) unusable("the address to verify");
    return;
  }
  X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  if (X509_VERIFY_PARAM_set1_host(param, name.c_str(), 0) != 1) unusable("the name to verify");
  if (SSL_set_tlsext_host_name(ssl, name.c_str()) != 1) unusable("the server name");
}

}  // namespace

std::unique_ptr<TlsSession> accept_tls(const std::shared_ptr<const TlsContext>& context, int fd) {
  SslPtr ssl = make_ssl(*context, fd);
  SSL_set_accept_state(ssl.get());
  return std::make_unique<TlsSession>(
      std::make_unique<TlsSession::Handle>(TlsSession::Handle{context, std::move(ssl), false}));
}

std::unique_ptr<TlsSession> connect_tls(const std::shared_ptr<const TlsContext>& context, int fd,
                                        const std::string& name) {
  SslPtr ssl = make_ssl(*context, fd);
  if (!name.empty()) verify_name(ssl.get(), name);
  SSL_set_connect_state(ssl.get());
  return std::make_unique<TlsSession>(
      std::make_unique<TlsSession::Handle>(TlsSession::Handle{context, std::move(ssl), false}));
}

// --- source ----------------------------------------------------------------------------------------------------------

namespace {

std::string contents(const Pem& pem, const char* what) {
  if (!pem.text.empty() || pem.file.empty()) return pem.text;
  auto text = read_file(pem.file, kMaxPem);
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument(std::string("TLS: ") + what + " " + pem.file + why);
  };
  if (!text) refuse(text.error().too_large ? " is too large" : ": " + text.error().why);
  if (text->empty()) refuse(" is empty");
  return *std::move(text);
}

std::int64_t nanoseconds(const timespec& time) {
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

}  // namespace

TlsSource::TlsSource(Parts parts, const Clock& clock) : parts_(std::move(parts)), clock_(clock), used_(look()) {
  context_ = make_tls_context(read());
  next_look_ = clock_.now() + std::chrono::seconds(1);
}

TlsSource::Stamps TlsSource::look() const {
  Stamps stamps{};
  const std::array<const Pem*, 3> pems = {&parts_.ca, &parts_.certificate, &parts_.key};
  for (std::size_t i = 0; i < pems.size(); ++i) {
    struct stat st{};
    if (!pems[i]->text.empty() || pems[i]->file.empty() || ::stat(pems[i]->file.c_str(), &st) != 0) continue;
    stamps[i] = {st.st_dev, st.st_ino, st.st_size, nanoseconds(st.st_mtim), nanoseconds(st.st_ctim)};
  }
  return stamps;
}

TlsMaterial TlsSource::read() const {
  return {.ca = contents(parts_.ca, "CA file"),
          .certificate = contents(parts_.certificate, "certificate file"),
          .key = contents(parts_.key, "key file"),
          .verify_peer = parts_.verify_peer,
          .server = parts_.server};
}

// nullopt: not now, as while the process has no descriptors left. That says nothing of the files.
std::optional<TlsMaterial> TlsSource::read_changed(TimePoint now) {
  try {
    return read();
  } catch (const std::exception& e) {
    if (now < next_complaint_) return std::nullopt;
    next_complaint_ = now + kComplainEvery;
    log::warning("changed certificate files cannot be read; what was loaded before stays in use", {{"error", e}});
  }
  return std::nullopt;
}

const std::shared_ptr<const TlsContext>& TlsSource::current() {
  const TimePoint now = clock_.now();
  if (now < next_look_) return context_;
  next_look_ = now + std::chrono::seconds(1);
  // Stamps before contents: a change in between is seen by the next look.
  const Stamps stamps = look();
  if (stamps == used_ || (refused_ && stamps == *refused_)) return context_;
  const std::optional<TlsMaterial> material = read_changed(now);
  if (!material) return context_;
  next_complaint_ = {};
  try {
    context_ = make_tls_context(*material);
  } catch (const std::exception& e) {
    refused_ = stamps;
    log::warning("changed certificate files cannot be used; what was loaded before stays in use", {{"error", e}});
    return context_;
  }
  used_ = stamps;
  refused_.reset();
  log::info("certificate files have changed and are in use",
            {{"certificate", parts_.certificate.file}, {"ca", parts_.ca.file}});
  return context_;
}

}  // namespace bascule::net
