#include "net/client.hpp"

#include <algorithm>
#include <list>
#include <optional>

#include "base/async.hpp"
#include "base/base64.hpp"
#include "net/codec.hpp"
#include "net/dial.hpp"
#include "net/stream.hpp"

namespace bascule::net {

namespace {

constexpr Duration kNoStall = Duration::max();

bool is_idempotent(std::string_view method) {
  static constexpr std::string_view kMethods[] = {"GET", "HEAD", "PUT", "DELETE", "OPTIONS"};
  return std::ranges::find(kMethods, method) != std::end(kMethods);
}

std::string bracketed(const std::string& host) {
  return host.contains(':') ? "[" + host + "]" : host;
}

struct Connection {
  Connection(Stream s, std::size_t max_header, std::shared_ptr<const TlsContext> context)
      : stream(std::move(s)), reader(MessageReader::Role::kResponse, max_header), tls(std::move(context)) {}
  ~Connection() { stream.close(); }

  Stream stream;
  MessageReader reader;
  std::shared_ptr<const TlsContext> tls;  // made with; a new one means that our certificate has changed
  TimePoint idle_since{};
  bool last_was_good = true;  // the last answer was 2xx
};

// The next event that is not kNeedMore.
Task<MessageReader::Event> next_event(Connection& connection, TimePoint deadline, std::stop_token stop) {
  while (true) {
    const MessageReader::Event event = connection.reader.next();
    if (event != MessageReader::Event::kNeedMore) co_return event;
    const std::size_t bytes = co_await connection.stream.read(connection.reader.prepare(), deadline, stop);
    if (bytes > 0) {
      connection.reader.commit(bytes);
    } else {
      connection.reader.end_of_input(connection.stream.clean_end());
    }
  }
}

// Sends a request and waits for the head of its answer.
Task<> exchange_heads(Connection& connection, const std::string& head, const Request& request, TimePoint deadline,
                      std::stop_token stop) {
  connection.reader.start(request.method == "HEAD");
  const std::uint64_t before = connection.stream.bytes_written();
  std::optional<Error> write_error;
  try {
    // One segment and one TLS record for what fits.
    if (request.body.size() <= (std::size_t{64} << 10)) {
      const std::string whole = head + request.body;
      co_await connection.stream.write(whole, deadline, kNoStall, stop);
    } else {
      co_await connection.stream.write(head, deadline, kNoStall, stop);
      co_await connection.stream.write(request.body, deadline, kNoStall, stop);
    }
  } catch (const Error& e) {
    if (connection.stream.bytes_written() == before) throw Error(e.kind(), e.what(), Error::Sent::kNo);
    if (e.kind() != Error::Kind::kBroken) throw;
    write_error = e;
  }
  // A far side that refuses a body closes in the middle of it, after its answer.
  try {
    co_await next_event(connection, deadline, stop);
  } catch (const Error&) {
    if (write_error) throw Error(*write_error);
    throw;
  }
  if (write_error) connection.reader.head().keep_alive = false;
}

class Body final : public BodyStream {
 public:
  explicit Body(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}

  Task<std::string_view> read(TimePoint deadline, std::stop_token stop) override {
    if (failed_) throw Error(*failed_);
    if (ended_) co_return std::string_view();
    try {
      const MessageReader::Event event = co_await next_event(*connection_, deadline, std::move(stop));
      if (event == MessageReader::Event::kPiece) co_return connection_->reader.piece();
      ended_ = true;
      connection_->stream.close();
      co_return std::string_view();
    } catch (const Error& e) {
      if (e.kind() != Error::Kind::kDeadline && e.kind() != Error::Kind::kStopped) failed_ = e;
      throw;
    }
  }

 private:
  std::unique_ptr<Connection> connection_;
  std::optional<Error> failed_;
  bool ended_ = false;
};

class Client final : public Transport {
 public:
  Client(IoLoop& loop, ClientOptions options)
      : loop_(loop), options_(std::move(options)), permits_(loop, options_.max_connections) {
    const Url& url = options_.url;
    if (options_.proxy && options_.proxy->scheme != "http") {
      throw std::invalid_argument("proxy: only http:// is supported, not " + options_.proxy->scheme);
    }
    if (url.scheme == "https") {
      tls_.emplace(TlsSource::Parts{.ca = options_.tls.ca,
                                    .certificate = options_.tls.certificate,
                                    .key = options_.tls.key,
                                    .verify_peer = !options_.tls.insecure_skip_verify},
                   loop_);
    }
    const bool default_port = url.port == (url.scheme == "https" ? "443" : "80");
    host_ = url.scheme == "unix" ? "localhost" : bracketed(url.host) + (default_port ? "" : ":" + url.port);
    if (url.scheme != "unix") prefix_ = url.path;
    if (options_.proxy && url.scheme == "http") prefix_ = "http://" + host_ + prefix_;
    if (options_.proxy && !options_.proxy->userinfo.empty()) {
      proxy_authorization_ = "Basic " + base64_encode(options_.proxy->userinfo);
    }
  }

  ~Client() override {
    if (sweep_ != 0) loop_.cancel(sweep_);
  }

  Task<Response> call(Request request, CallLimits limits) override {
    check(limits);
    const std::string head = head_of(request);
    const Semaphore::Permit permit = co_await permits_.acquire(limits.stop, limits.deadline);
    if (!permit) throw_not_sent(limits, "while waiting for a connection");
    const bool repeatable = is_idempotent(request.method);
    std::unique_ptr<Connection> connection = take(repeatable);
    if (connection) {
      std::optional<Error> error;
      try {
        co_await exchange_heads(*connection, head, request, limits.deadline, limits.stop);
      } catch (const Error& e) {
        error = e;
      }
      if (!error) co_return co_await finish(std::move(connection), limits);
      const bool dead = error->kind() == Error::Kind::kBroken || error->kind() == Error::Kind::kMalformed;
      const bool repeat = error->surely_not_sent() || (repeatable && is_leftover(*connection, *error));
      if (!dead || !repeat) throw Error(*error);
    }
    connection = co_await connect(limits.deadline, limits.stop);
    co_await exchange_heads(*connection, head, request, limits.deadline, limits.stop);
    co_return co_await finish(std::move(connection), limits);
  }

  Task<StreamResponse> open(Request request, CallLimits limits) override {
    check(limits);
    const std::string head = head_of(request);
    std::unique_ptr<Connection> connection = co_await connect(limits.deadline, limits.stop);
    co_await exchange_heads(*connection, head, request, limits.deadline, limits.stop);
    MessageHead& answer = connection->reader.head();
    StreamResponse response{answer.status, std::move(answer.headers), nullptr};
    response.body = std::make_unique<Body>(std::move(connection));
    co_return response;
  }

 private:
  [[noreturn]] static void throw_not_sent(const CallLimits& limits, const std::string& when) {
    if (limits.stop.stop_requested()) throw Error(Error::Kind::kStopped, "stopped " + when, Error::Sent::kNo);
    throw Error(Error::Kind::kDeadline, "the deadline passed " + when, Error::Sent::kNo);
  }
  void check(const CallLimits& limits) const {
    if (limits.stop.stop_requested() || loop_.now() >= limits.deadline) throw_not_sent(limits, "before the call");
  }

  std::string head_of(Request& request) const {
    const bool to_proxy = options_.proxy && options_.url.scheme == "http";
    if (to_proxy && !proxy_authorization_.empty()) request.headers.set("Proxy-Authorization", proxy_authorization_);
    return request_head(request, prefix_ + request.target, host_, true);
  }

  // The connection died before the first byte of an answer. Bytes that are no answer are what the far side said about
  // the one before while it closed.
  static bool is_leftover(Connection& connection, const Error& error) {
    return !connection.reader.started() || error.kind() == Error::Kind::kMalformed;
  }

  Task<Response> finish(std::unique_ptr<Connection> connection, CallLimits limits) {
    MessageReader& reader = connection->reader;
    Response response{.status = reader.head().status, .headers = std::move(reader.head().headers), .body = {}};
    const std::uint64_t length = reader.head().content_length.value_or(0);
    while (true) {
      const MessageReader::Event event = co_await next_event(*connection, limits.deadline, limits.stop);
      if (event == MessageReader::Event::kEnd) break;
      if (length > limits.max_body || reader.piece().size() > limits.max_body - response.body.size()) {
        throw Error(Error::Kind::kTooLarge,
                    "the answer: a body of more than " + std::to_string(limits.max_body) + " bytes");
      }
      if (response.body.empty()) response.body.reserve(length);
      response.body += reader.piece();
    }
    if (reader.head().keep_alive && reader.buffered() == 0 && response.status != 101) {
      connection->last_was_good = response.status / 100 == 2;
      put_back(std::move(connection));
    }
    co_return response;
  }

  // --- connecting ----------------------------------------------------------------------------------------------------

  Task<std::unique_ptr<Connection>> connect(TimePoint deadline, std::stop_token stop) {
    const TimePoint until = std::min(deadline, loop_.now() + options_.connect_timeout);
    std::optional<Error> error;
    try {
      co_return co_await connect_within(until, stop);
    } catch (const Error& e) {
      error = e;
    }
    if (error->kind() == Error::Kind::kStopped) throw Error(Error::Kind::kStopped, error->what(), Error::Sent::kNo);
    if (error->kind() == Error::Kind::kDeadline && loop_.now() >= deadline) {
      throw Error(Error::Kind::kDeadline, error->what(), Error::Sent::kNo);
    }
    throw Error(Error::Kind::kUnreachable, error->what());
  }

  Task<std::unique_ptr<Connection>> connect_within(TimePoint deadline, std::stop_token stop) {
    const Url& url = options_.url;
    const Url& first = options_.proxy ? *options_.proxy : url;
    Socket socket;
    if (first.scheme == "unix") {
      socket = co_await dial_unix(loop_, first.path, deadline, stop);
    } else {
      socket = co_await dial_tcp(loop_, first.host, first.port, deadline, stop);
    }
    std::shared_ptr<const TlsContext> context;
    if (tls_) context = tls_->current();
    const std::string peer = first.scheme == "unix" ? first.path : bracketed(first.host) + ":" + first.port;
    auto connection =
        std::make_unique<Connection>(Stream(loop_, std::move(socket), peer), options_.max_header, context);
    if (!tls_) co_return connection;
    if (options_.proxy) co_await open_tunnel(*connection, deadline, stop);
    const std::string& name = options_.tls.server_name.empty() ? url.host : options_.tls.server_name;
    auto session = connect_tls(context, connection->stream.fd(), options_.tls.insecure_skip_verify ? "" : name);
    co_await connection->stream.handshake(std::move(session), deadline, stop);
    co_return connection;
  }

  Task<> open_tunnel(Connection& connection, TimePoint deadline, std::stop_token stop) {
    const std::string target = bracketed(options_.url.host) + ":" + options_.url.port;
    Request request{.method = "CONNECT", .target = target, .headers = {}, .body = {}};
    if (!proxy_authorization_.empty()) request.headers.set("Proxy-Authorization", proxy_authorization_);
    // Whatever its head says, a 2xx answer to CONNECT has no body; so it is read as the answer to HEAD.
    const std::string head = request_head(request, target, target, true);
    request.method = "HEAD";
    co_await exchange_heads(connection, head, request, deadline, stop);
    const int status = connection.reader.head().status;
    if (status / 100 != 2) {
      throw Error(Error::Kind::kUnreachable, "the proxy answered " + std::to_string(status) + " to CONNECT " + target);
    }
    if (connection.reader.buffered() > 0) throw Error(Error::Kind::kUnreachable, "the proxy spoke after its answer");
  }

  // --- pool ----------------------------------------------------------------------------------------------------------

  // The most recently used connection that is still good, or null.
  std::unique_ptr<Connection> take(bool repeatable) {
    const TimePoint oldest = loop_.now() - options_.idle_timeout;
    const TlsContext* context = tls_ ? tls_->current().get() : nullptr;
    std::unique_ptr<Connection> chosen;
    for (auto it = idle_.begin(); it != idle_.end() && !chosen;) {
      Connection& connection = **it;
      if (connection.idle_since < oldest || connection.tls.get() != context || !connection.stream.quiet()) {
        it = idle_.erase(it);
      } else if (repeatable || connection.last_was_good) {
        chosen = std::move(*it);
        it = idle_.erase(it);
      } else {
        ++it;
      }
    }
    return chosen;
  }

  void put_back(std::unique_ptr<Connection> connection) {
    connection->idle_since = loop_.now();
    idle_.push_front(std::move(connection));
    if (sweep_ == 0) arm_sweep();
  }

  void arm_sweep() {
    sweep_ = loop_.call_at(idle_.back()->idle_since + options_.idle_timeout, [this] {
      sweep_ = 0;
      const TimePoint oldest = loop_.now() - options_.idle_timeout;
      std::erase_if(idle_, [oldest](const auto& connection) { return connection->idle_since <= oldest; });
      if (!idle_.empty()) arm_sweep();
    });
  }

  IoLoop& loop_;
  const ClientOptions options_;
  std::optional<TlsSource> tls_;
  std::string host_;
  std::string prefix_;
  std::string proxy_authorization_;
  Semaphore permits_;
  std::list<std::unique_ptr<Connection>> idle_;  // the most recently used first; at most max_connections
  Loop::TimerId sweep_ = 0;
};

}  // namespace

std::unique_ptr<Transport> make_client(IoLoop& loop, ClientOptions options) {
  return std::make_unique<Client>(loop, std::move(options));
}

}  // namespace bascule::net
