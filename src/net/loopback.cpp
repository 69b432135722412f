#include "net/loopback.hpp"

#include <deque>
#include <list>
#include <optional>

#include "net/owned_task.hpp"
#include "net/serving.hpp"

namespace bascule::net {

namespace {

constexpr std::size_t kWindow = std::size_t{64} << 10;        // bytes a stream may be ahead of its reader
constexpr Duration kWriteTimeout = std::chrono::seconds(30);  // as a server's

// One request and its answer; the far side runs inside it as an owned task.
struct Exchange final : BodySink {
  Exchange(Loop& l, const Handler& h, ServerRequest r, Fault f)
      : loop(l), handler(h), request(std::move(r)), fault(f), client_bell(l), server_bell(l) {}

  void fail(Error::Kind kind, const std::string& what) {
    if (!error) error.emplace(kind, "loopback " + request.method + " " + request.target + ": " + what);
    client_bell.notify();
  }
  // The client has gone, or the line was cut.
  void hang_up() {
    hung_up = true;
    gone.request_stop();
    server_bell.notify();
  }
  std::size_t cut_at() const noexcept {
    return fault.kind == Fault::Kind::kCutBody ? fault.after_bytes : static_cast<std::size_t>(-1);
  }
  // Hands `piece` to the reader, or what of it comes before the cut. False when the line is cut now.
  bool deliver(std::string piece) {
    const bool cut = piece.size() >= cut_at() - total;
    if (cut) piece.resize(cut_at() - total);
    total += piece.size();
    waiting += piece.size();
    if (!piece.empty()) pieces.push_back(std::move(piece));
    client_bell.notify();
    return !cut;
  }

  Task<> write(std::string piece) override {
    if (piece.empty()) co_return;
    if (hung_up) throw Error(Error::Kind::kBroken, "the client has gone");
    if (!deliver(std::move(piece))) {
      fail(Error::Kind::kBroken, "cut in the body");
      hang_up();
      throw Error(Error::Kind::kBroken, "the client has gone");
    }
    const TimePoint deadline = loop.now() + kWriteTimeout;
    while (waiting > kWindow && !hung_up) {
      const bool news = co_await server_bell.wait(std::stop_token(), deadline);
      if (!news) {
        fail(Error::Kind::kBroken, "cut off by the server: the body is not read");
        hang_up();
        throw Error(Error::Kind::kDeadline, "the client does not read");
      }
    }
    if (hung_up) throw Error(Error::Kind::kBroken, "the client has gone");
  }

  Task<> serve() {
    if (fault.delay > Duration::zero()) co_await sleep_for(loop, fault.delay, gone.get_token());
    if (fault.kind == Fault::Kind::kUnreachable) co_return fail(Error::Kind::kUnreachable, "unreachable, as planned");
    if (fault.kind == Fault::Kind::kBreakBefore) co_return fail(Error::Kind::kBroken, "broken before, as planned");
    ServerResponse answer = co_await call_handler(handler, request, gone.get_token());
    if (fault.kind == Fault::Kind::kBreakAfter) co_return fail(Error::Kind::kBroken, "broken after, as planned");
    if (fault.kind == Fault::Kind::kStall) co_return;
    const bool bodyless = request.method == "HEAD" || answer.status == 204 || answer.status == 304;
    std::string body = std::move(answer.body);
    head.emplace(std::move(answer));
    client_bell.notify();
    if (bodyless) {
      // Nothing follows, and nothing can be cut.
    } else if (head->stream) {
      try {
        co_await head->stream(*this, gone.get_token());
      } catch (...) {
        fail(Error::Kind::kBroken, "the server ended the stream in mid-body");
      }
    } else if (!deliver(std::move(body))) {
      fail(Error::Kind::kBroken, "cut in the body");
    }
    ended = true;
    client_bell.notify();
  }

  Loop& loop;
  const Handler& handler;
  const ServerRequest request;
  const Fault fault;
  std::stop_source gone;
  bool hung_up = false;
  Bell client_bell;
  Bell server_bell;
  std::optional<ServerResponse> head;
  std::deque<std::string> pieces;
  std::size_t waiting = 0;  // bytes in `pieces`
  std::size_t total = 0;    // bytes delivered so far
  std::optional<Error> error;
  bool ended = false;
  OwnedTask server;  // last: its frames use all of the above
};

class Stream final : public BodyStream {
 public:
  explicit Stream(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}
  ~Stream() override { exchange_->hang_up(); }

  Task<std::string_view> read(TimePoint deadline, std::stop_token stop) override {
    Exchange& x = *exchange_;
    while (true) {
      if (stop.stop_requested()) throw Error(Error::Kind::kStopped, "stopped while reading a body");
      if (!x.pieces.empty()) break;
      if (x.error) throw Error(*x.error);
      if (x.ended) co_return std::string_view();
      const bool news = co_await x.client_bell.wait(stop, deadline);
      if (news || stop.stop_requested()) continue;
      throw Error(Error::Kind::kDeadline, "no part of the body came in time");
    }
    current_ = std::move(x.pieces.front());
    x.pieces.pop_front();
    x.waiting -= current_.size();
    x.server_bell.notify();
    co_return std::string_view(current_);
  }

 private:
  std::shared_ptr<Exchange> exchange_;
  std::string current_;
};

class Loopback final : public Transport {
 public:
  Loopback(Loop& loop, Handler handler, FaultPlan plan)
      : loop_(loop), handler_(std::move(handler)), plan_(std::move(plan)) {}
  ~Loopback() override {
    for (const auto& exchange : exchanges_) exchange->server.reset();
  }

  Task<Response> call(Request request, CallLimits limits) override {
    StreamResponse head = co_await open(std::move(request), limits);
    Response response{.status = head.status, .headers = std::move(head.headers), .body = {}};
    while (true) {
      const std::string_view piece = co_await head.body->read(limits.deadline, limits.stop);
      if (piece.empty()) co_return response;
      if (piece.size() > limits.max_body - response.body.size()) {
        throw Error(Error::Kind::kTooLarge, "a body of more than " + std::to_string(limits.max_body) + " bytes");
      }
      response.body += piece;
    }
  }

  Task<StreamResponse> open(Request request, CallLimits limits) override {
    if (limits.stop.stop_requested()) throw Error(Error::Kind::kStopped, "stopped before sending", Error::Sent::kNo);
    if (loop_.now() >= limits.deadline) {
      throw Error(Error::Kind::kDeadline, "the deadline had passed before sending", Error::Sent::kNo);
    }
    const auto exchange = begin(std::move(request));
    auto body = std::make_unique<Stream>(exchange);
    while (!exchange->head && !exchange->error) {
      const bool news = co_await exchange->client_bell.wait(limits.stop, limits.deadline);
      if (news) continue;
      if (limits.stop.stop_requested()) throw Error(Error::Kind::kStopped, "stopped while waiting for an answer");
      throw Error(Error::Kind::kDeadline, "no answer came in time");
    }
    if (!exchange->head) throw Error(*exchange->error);
    co_return StreamResponse{exchange->head->status, exchange->head->headers, std::move(body)};
  }

 private:
  std::shared_ptr<Exchange> begin(Request request) {
    std::erase_if(exchanges_, [](const auto& exchange) { return exchange->server.done(); });
    const Fault fault = plan_ ? plan_(request) : Fault{};
    ServerRequest received{.method = std::move(request.method),
                           .target = std::move(request.target),
                           .headers = std::move(request.headers),
                           .body = std::move(request.body),
                           .peer = "loopback",
                           .client_name = {}};
    received.headers.set("Host", "loopback");
    if (!received.body.empty()) received.headers.set("Content-Length", std::to_string(received.body.size()));
    const auto exchange = std::make_shared<Exchange>(loop_, handler_, std::move(received), fault);
    exchange->server = OwnedTask(exchange->serve());
    exchanges_.push_back(exchange);
    loop_.post([weak = std::weak_ptr(exchange)] {
      const auto alive = weak.lock();
      if (alive && !alive->server.done()) alive->server.start();
    });
    return exchange;
  }

  Loop& loop_;
  const Handler handler_;
  const FaultPlan plan_;
  std::list<std::shared_ptr<Exchange>> exchanges_;
};

}  // namespace

std::unique_ptr<Transport> make_loopback(Loop& loop, Handler handler, FaultPlan plan) {
  return std::make_unique<Loopback>(loop, std::move(handler), std::move(plan));
}

}  // namespace bascule::net
