#include "net/tls.hpp"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/resource.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/log.hpp"
#include "base/manual_loop.hpp"
#include "net/test_pki.hpp"
#include "net/test_support.hpp"

namespace bascule::net {
namespace {

using namespace test;

const Authority& authority() {
  static const Authority it("test authority");
  return it;
}
const KeyPair& server_pair() {
  static const KeyPair it =
      authority().issue({.common_name = "server", .alternative_names = "DNS:localhost,DNS:api.test,IP:127.0.0.1"});
  return it;
}

Task<ServerResponse> say_who(const ServerRequest& request) {
  co_return ServerResponse{.body = "hello " + request.client_name + "|" + request.body.substr(0, 100)};
}

Task<> endless(BodySink& sink) {
  while (true) co_await sink.write(std::string(10'000, 'x'));
}

Task<ServerResponse> answer(const ServerRequest& request) {
  if (request.target == "/big") co_return ServerResponse{.body = std::string(std::size_t{4} << 20, 'b')};
  if (request.target == "/endless") {
    co_return ServerResponse{.stream = [](BodySink& sink, std::stop_token) { return endless(sink); }};
  }
  co_return co_await say_who(request);
}

struct TlsTest : NetTest {
  std::unique_ptr<Server> start(ServerOptions options) {
    options.address = "127.0.0.1";
    return serve(loop, std::move(options),
                 [](const ServerRequest& request, std::stop_token) { return answer(request); });
  }
  std::unique_ptr<Server> start() {
    return start({.certificate = {.text = server_pair().certificate}, .key = {.text = server_pair().key}});
  }
  static Url url(std::uint16_t port, const std::string& host = "127.0.0.1") {
    return parse_url("https://" + host + ":" + std::to_string(port));
  }
  std::unique_ptr<Transport> client(std::uint16_t port, TlsOptions tls = {}, const std::string& host = "127.0.0.1") {
    if (tls.ca.empty()) tls.ca.text = authority().certificate();
    return make_client(loop, {.url = url(port, host), .tls = std::move(tls)});
  }
};

TEST_F(TlsTest, SpeaksBothWays) {
  const auto server = start();
  const auto c = client(server->port());
  const Outcome out = call(*c, post("/", "text"));
  EXPECT_EQ(out.body, "hello |text") << (out.error ? out.error->what() : "");
  EXPECT_EQ(call(*c, get("/big")).body.size(), std::size_t{4} << 20);
  EXPECT_EQ(call(*c, post("/", std::string(std::size_t{4} << 20, 'q'))).body, "hello |" + std::string(100, 'q'));
  for (int i = 0; i < 100; ++i) ASSERT_EQ(call(*c, get("/")).status(), 200);
  drain(*server);
}

TEST_F(TlsTest, WhoDoesNotGoOnWithTheHandshakeMakesRoom) {
  const auto server = start(
      {.certificate = {.text = server_pair().certificate}, .key = {.text = server_pair().key}, .max_connections = 1});
  const int silent = connect_raw(server->port());
  const auto c = client(server->port());
  EXPECT_EQ(call(*c, get("/")).status(), 200);
  ::close(silent);
  drain(*server);
}

TEST_F(TlsTest, VerifiesTheServer) {
  const auto server = start();
  const Authority stranger("stranger");
  struct Case {
    const char* name;
    TlsOptions tls;
    std::string host;
    std::string failure;
    const char* says;
  };
  const std::vector<Case> cases = {
      {"by address", {}, "127.0.0.1", "none", ""},
      {"by name", {}, "localhost", "none", ""},
      {"by another name", {.server_name = "api.test"}, "127.0.0.1", "none", ""},
      {"wrong name", {.server_name = "other.test"}, "127.0.0.1", "unreachable", "hostname mismatch"},
      {"wrong address", {.server_name = "127.0.0.2"}, "127.0.0.1", "unreachable", "IP address mismatch"},
      {"wrong authority", {.ca = {.text = stranger.certificate()}}, "127.0.0.1", "unreachable", "unable to get"},
      {"the system's", {.ca = {.file = "/etc/ssl/certs/ca-certificates.crt"}}, "127.0.0.1", "unreachable", "unable"},
      {"not verified",
       {.ca = {.text = stranger.certificate()}, .server_name = "other", .insecure_skip_verify = true},
       "127.0.0.1",
       "none",
       ""},
  };
  for (const Case& c : cases) {
    if (!c.tls.ca.file.empty() && !std::filesystem::exists(c.tls.ca.file)) continue;
    const auto transport = client(server->port(), c.tls, c.host);
    const Outcome out = call(*transport, get("/"));
    EXPECT_EQ(out.failure(), c.failure) << c.name;
    if (out.error) {
      EXPECT_TRUE(std::string_view(out.error->what()).contains(c.says)) << c.name << ": " << out.error->what();
      EXPECT_TRUE(out.error->surely_not_sent());
    }
  }
  drain(*server);
}

TEST_F(TlsTest, RefusesCertificatesOutOfTheirTime) {
  for (const auto& [from, to, says] : {std::tuple(-5, -1, "expired"), std::tuple(1, 5, "not yet valid")}) {
    const KeyPair pair = authority().issue(
        {.common_name = "x", .alternative_names = "IP:127.0.0.1", .valid_from_days = from, .valid_to_days = to});
    const auto server = start({.certificate = {.text = pair.certificate}, .key = {.text = pair.key}});
    const auto c = client(server->port());
    const Outcome out = call(*c, get("/"));
    EXPECT_EQ(out.failure(), "unreachable");
    EXPECT_TRUE(std::string_view(out.error->what()).contains(says)) << out.error->what();
    const std::optional<WallTime> end = server->certificate_end();
    ASSERT_TRUE(end);
    EXPECT_LE(std::chrono::abs(*end - std::chrono::system_clock::now() - std::chrono::days(to)), 1min);
    drain(*server);
  }
}

TEST_F(TlsTest, ReportsTheClientsName) {
  const Authority clients("clients");
  const auto server = start({.certificate = {.text = server_pair().certificate},
                             .key = {.text = server_pair().key},
                             .client_ca = {.text = clients.certificate()}});
  const KeyPair alice = clients.issue({.common_name = "alice"});
  const KeyPair mallory = authority().issue({.common_name = "mallory"});
  const KeyPair old = clients.issue({.common_name = "old", .valid_from_days = -5, .valid_to_days = -1});
  const auto with = [&](const KeyPair& pair) {
    return client(server->port(), {.certificate = {.text = pair.certificate}, .key = {.text = pair.key}});
  };
  EXPECT_EQ(call(*with(alice), get("/")).body, "hello alice|");
  EXPECT_EQ(call(*client(server->port()), get("/")).body, "hello |") << "asked for, not demanded";
  for (const KeyPair* pair : {&mallory, &old}) {
    const auto c = with(*pair);
    const Outcome out = call(*c, post("/", "x"));
    EXPECT_EQ(out.failure(), "unreachable") << (out.error ? out.error->what() : "");
  }
  // Reused and resumed connections keep the name.
  const auto c = with(alice);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(call(*c, get("/")).body, "hello alice|");
  drain(*server);
}

TEST_F(TlsTest, SaysWhatIsWrongWithAPem) {
  const KeyPair other = authority().issue({.common_name = "x"});
  const std::string ca = authority().certificate();
  const auto what = [&](const TlsMaterial& material) -> std::string {
    try {
      make_tls_context(material);
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(what({.ca = ca + ca, .certificate = other.certificate + ca, .key = other.key}), "");
  EXPECT_TRUE(what({.ca = "text"}).contains("has no certificate"));
  EXPECT_TRUE(what({.ca = ca + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"}).contains("broken"));
  EXPECT_TRUE(what({.certificate = "x", .key = other.key}).contains("certificate cannot be read"));
  EXPECT_TRUE(what({.certificate = other.certificate, .key = "x"}).contains("private key cannot be read"));
  EXPECT_TRUE(what({.certificate = other.certificate, .key = server_pair().key}).contains("does not belong"));
  EXPECT_TRUE(what({.certificate = other.certificate}).contains("come together"));
  EXPECT_TRUE(what({.server = true}).contains("needs a certificate"));
  EXPECT_THROW(make_client(loop, {.url = url(1), .tls = {.ca = {.file = "/no/such/file"}}}), std::invalid_argument);
}

// As Go does: what the CA bundle holds is trusted, whoever signed it.
TEST_F(TlsTest, TrustsWhatTheBundleHoldsBeItNoRoot) {
  const Authority root("root");
  const Authority middle("middle", root);
  const CertificateSpec spec{.common_name = "s", .alternative_names = "IP:127.0.0.1"};
  const KeyPair pair = middle.issue(spec);
  const auto server =
      start({.certificate = {.text = pair.certificate + middle.certificate()}, .key = {.text = pair.key}});
  const auto failure = [&](const std::string& ca) {
    return call(*client(server->port(), {.ca = {.text = ca}}), get("/")).failure();
  };
  EXPECT_EQ(failure(root.certificate()), "none");
  EXPECT_EQ(failure(middle.certificate()), "none");
  EXPECT_EQ(failure(pair.certificate), "none");
  EXPECT_EQ(failure(middle.issue(spec).certificate), "unreachable") << "another of the same name";
  EXPECT_EQ(failure(Authority("middle").certificate()), "unreachable");
  drain(*server);
}

// --- rotation --------------------------------------------------------------------------------------------------------

struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("bascule-tls-test-" + std::to_string(::getpid()));
  Folder() {
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path / name).parent_path());
    std::ofstream(path / name) << text;
  }
  // As kubelet does: a new folder, then one symlink swapped.
  void publish(const std::string& version, const KeyPair& pair) const {
    write(version + "/tls.crt", pair.certificate);
    write(version + "/tls.key", pair.key);
    std::filesystem::create_directory_symlink(version, path / "new");
    std::filesystem::rename(path / "new", path / "data");
  }
  std::string file(const std::string& name) const { return (path / name).string(); }
};

TEST_F(TlsTest, ServesANewPairWithoutARestart) {
  const Folder folder;
  const Authority second("second authority");
  const CertificateSpec spec{.common_name = "s", .alternative_names = "IP:127.0.0.1"};
  folder.publish("v1", authority().issue(spec));
  const auto server =
      start({.certificate = {.file = folder.file("data/tls.crt")}, .key = {.file = folder.file("data/tls.key")}});
  const auto works = [&](const Authority& a) {
    return call(*client(server->port(), {.ca = {.text = a.certificate()}}), get("/")).status() == 200;
  };
  EXPECT_TRUE(works(authority()));
  folder.publish("v2", second.issue(spec));
  run(loop, [](IoLoop& l) -> Task<> { co_await sleep_for(l, 1001ms, {}); }(loop));
  EXPECT_TRUE(works(second));
  EXPECT_FALSE(works(authority()));
  drain(*server);
}

TEST(TlsSource, LooksOnceASecondAndComplainsOnce) {
  const Folder folder;
  ManualLoop clock;
  folder.publish("v1", server_pair());
  TlsSource source({.certificate = {.file = folder.file("data/tls.crt")},
                    .key = {.file = folder.file("data/tls.key")},
                    .server = true},
                   clock);
  const log::Capture captured(log::Level::kWarning);
  const auto complaints = [&] { return captured.lines().size(); };
  const auto first = source.current();
  folder.publish("v2", {"broken", "broken"});
  EXPECT_EQ(source.current(), first);
  EXPECT_EQ(complaints(), 0U) << "not looked at yet";
  for (int i = 0; i < 3; ++i) {
    clock.advance(1s);
    EXPECT_EQ(source.current(), first);
    EXPECT_EQ(complaints(), 1U);
  }
  std::filesystem::remove(folder.path / "data");
  clock.advance(1s);
  EXPECT_EQ(source.current(), first);
  EXPECT_EQ(complaints(), 2U);
  folder.publish("v3", authority().issue({.common_name = "x"}));
  clock.advance(1s);
  const auto second = source.current();
  EXPECT_NE(second, first);
  clock.advance(1s);
  EXPECT_EQ(source.current(), second);
  EXPECT_EQ(complaints(), 2U);
  folder.publish("v1", server_pair());
  clock.advance(1s);
  EXPECT_NE(source.current(), second) << "an older file is a change too";
}

// No descriptor that is opened while it lives, as in a flood of connections.
struct NoDescriptors {
  NoDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before);
    const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before); }
  rlimit before{};
};

TEST(TlsSource, AChangedPairThatCouldNotBeReadIsLoadedLater) {
  const Folder folder;
  ManualLoop clock;
  clock.advance(1h);
  folder.publish("v1", server_pair());
  TlsSource source({.certificate = {.file = folder.file("data/tls.crt")},
                    .key = {.file = folder.file("data/tls.key")},
                    .server = true},
                   clock);
  const log::Capture captured(log::Level::kWarning);
  const auto first = source.current();
  folder.publish("v2", authority().issue({.common_name = "x"}));
  for (int i = 0; i < 3; ++i) {
    const NoDescriptors flood;
    clock.advance(1s);
    EXPECT_EQ(source.current(), first);
    EXPECT_EQ(captured.lines().size(), 1U);
  }
  clock.advance(1s);
  EXPECT_NE(source.current(), first);
}

// --- cuts, stalls ----------------------------------------------------------------------------------------------------

// Serves one TLS connection after another with blocking OpenSSL calls.
struct RawTls {
  explicit RawTls(std::function<void(SSL*, int)> script)
      : context(SSL_CTX_new(TLS_server_method())), server([this, script](int fd, int) {
          SSL* ssl = SSL_new(context);
          SSL_set_fd(ssl, fd);
          if (SSL_accept(ssl) == 1) script(ssl, fd);
          SSL_free(ssl);
        }) {
    BIO* bio = BIO_new_mem_buf(server_pair().certificate.data(), -1);
    X509* certificate = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
    BIO_free(bio);
    bio = BIO_new_mem_buf(server_pair().key.data(), -1);
    EVP_PKEY* key = PEM_read_bio_PrivateKey(bio, nullptr, nullptr, nullptr);
    BIO_free(bio);
    SSL_CTX_use_certificate(context, certificate);
    SSL_CTX_use_PrivateKey(context, key);
    X509_free(certificate);
    EVP_PKEY_free(key);
  }
  ~RawTls() { SSL_CTX_free(context); }
  SSL_CTX* context;
  RawServer server;
};

void receive_tls_head(SSL* ssl) {
  std::string got;
  char buffer[4096];
  while (!got.contains("\r\n\r\n")) {
    const int n = SSL_read(ssl, buffer, sizeof buffer);
    if (n <= 0) return;
    got.append(buffer, static_cast<std::size_t>(n));
  }
}

TEST_F(TlsTest, ACutWithoutNoticeIsAnEndOnlyWhenTheFramingSaysSo) {
  struct Case {
    const char* answer;
    bool notice;
    const char* failure;
  };
  for (const Case& c :
       {Case{"HTTP/1.1 200 OK\r\n\r\nuntil the end", true, "none"},
        Case{"HTTP/1.1 200 OK\r\n\r\nuntil the end", false, "broken"},
        Case{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", false, "none"},
        Case{"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok", true, "broken"},
        Case{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", false, "none"},
        Case{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", true, "broken"}}) {
    RawTls peer([&](SSL* ssl, int) {
      receive_tls_head(ssl);
      SSL_write(ssl, c.answer, static_cast<int>(std::strlen(c.answer)));
      if (c.notice) SSL_shutdown(ssl);
    });
    const auto t = client(peer.server.port());
    EXPECT_EQ(call(*t, get("/")).failure(), c.failure) << c.answer << c.notice;
  }
}

TEST_F(TlsTest, AHandshakeThatStallsEndsWithTheDeadline) {
  RawServer peer([](int fd, int) { receive_all(fd); });
  const auto c = client(peer.port());
  const Outcome out = call(*c, get("/"), within(50ms));
  EXPECT_EQ(out.failure(), "deadline");
  EXPECT_TRUE(out.error->surely_not_sent());
  const auto impatient = make_client(
      loop, {.url = url(peer.port()), .tls = {.ca = {.text = authority().certificate()}}, .connect_timeout = 30ms});
  EXPECT_EQ(call(*impatient, get("/")).failure(), "unreachable");
  std::stop_source stop;
  loop.call_at(loop.now() + 20ms, [&] { stop.request_stop(); });
  const Outcome stopped = call(*c, get("/"), {.deadline = loop.now() + 5s, .stop = stop.get_token()});
  EXPECT_EQ(stopped.failure(), "stopped");
  EXPECT_TRUE(stopped.error->surely_not_sent());
}

TEST_F(TlsTest, PlainAndTlsDoNotMix) {
  const auto server = start();
  const auto plain = client_of(parse_url("http://127.0.0.1:" + std::to_string(server->port())));
  EXPECT_EQ(call(*plain, get("/")).response, std::nullopt);
  drain(*server);
  RawServer peer([](int fd, int) {
    receive_until(fd, [](const std::string& s) { return !s.empty(); });
    send_all(fd, "HTTP/1.1 400 Bad Request\r\n\r\n");
  });
  EXPECT_EQ(call(*client(peer.port()), get("/")).failure(), "unreachable");
}

TEST_F(TlsTest, AClientThatDoesNotReadBlocksTheWriterAndIsCutOff) {
  const auto server = start(
      {.certificate = {.text = server_pair().certificate}, .key = {.text = server_pair().key}, .write_timeout = 80ms});
  const auto c = client(server->port());
  run(loop, [](TlsTest& t, Transport& transport) -> Task<> {
    StreamResponse response = co_await transport.open(get("/endless"), t.within());
    co_await sleep_for(t.loop, 200ms, {});
    std::string failure = "none";
    std::size_t bytes = 0;
    try {
      while (true) {
        const std::string_view piece = co_await response.body->read(t.loop.now() + 2s, {});
        if (piece.empty()) break;
        bytes += piece.size();
      }
    } catch (const Error& e) {
      failure = to_string(e.kind());
    }
    EXPECT_EQ(failure, "broken");
    EXPECT_LT(bytes, std::size_t{64} << 20);
  }(*this, *c));
  drain(*server);
}

// --- tunnels ---------------------------------------------------------------------------------------------------------

// Copies bytes between two descriptors until one ends.
void splice(int a, int b) {
  pollfd fds[2] = {{a, POLLIN, 0}, {b, POLLIN, 0}};
  char buffer[16384];
  while (::poll(fds, 2, 2000) > 0) {
    for (int i = 0; i < 2; ++i) {
      if (fds[i].revents == 0) continue;
      const ssize_t n = ::recv(fds[i].fd, buffer, sizeof buffer, 0);
      if (n <= 0) return;
      send_all(fds[1 - i].fd, {buffer, static_cast<std::size_t>(n)});
    }
  }
}

TEST_F(TlsTest, GoesThroughAProxysTunnel) {
  const auto server = start();
  std::string seen;
  auto proxy = std::make_unique<RawServer>([&, port = server->port()](int fd, int) {
    seen = receive_head(fd);
    const int far = connect_raw(port);
    send_all(fd, "HTTP/1.1 200 Connection established\r\nProxy-Agent: x\r\n\r\n");
    splice(fd, far);
    ::close(far);
  });
  {
    const auto c = make_client(loop, {.url = parse_url("https://api.test:6443/p"),
                                      .tls = {.ca = {.text = authority().certificate()}},
                                      .proxy = proxy->url()});
    for (int i = 0; i < 3; ++i) {
      const Outcome out = call(*c, post("/", "x"));
      EXPECT_EQ(out.body, "hello |x") << (out.error ? out.error->what() : "");
    }
    EXPECT_EQ(proxy->accepted(), 1);
  }
  proxy->finish();
  EXPECT_EQ(seen, "CONNECT api.test:6443 HTTP/1.1\r\nHost: api.test:6443\r\n\r\n");
  drain(*server);
  proxy.reset();
}

}  // namespace
}  // namespace bascule::net
