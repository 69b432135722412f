#include "net/loopback.hpp"

#include <gtest/gtest.h>

#include <optional>

#include "base/manual_loop.hpp"

namespace bascule::net {
namespace {

using namespace std::chrono_literals;

// What became of a call.
struct Outcome {
  std::optional<Response> response;
  std::optional<Error> error;
  std::string body;  // of a stream
  bool ended = false;
};

Task<> call_into(Transport& transport, Request request, CallLimits limits, Outcome& out) {
  try {
    out.response = co_await transport.call(std::move(request), limits);
  } catch (const Error& e) {
    out.error = e;
  }
  out.ended = true;
}

Task<> stream_into(Loop& loop, Transport& transport, Request request, CallLimits limits, Outcome& out) {
  try {
    StreamResponse response = co_await transport.open(std::move(request), limits);
    out.response = Response{response.status, response.headers, {}};
    while (true) {
      const std::string_view piece = co_await response.body->read(loop.now() + 10s, limits.stop);
      if (piece.empty()) break;
      out.body += piece;
    }
  } catch (const Error& e) {
    out.error = e;
  }
  out.ended = true;
}

struct LoopbackTest : ::testing::Test {
  ManualLoop loop;
  Gate gate{loop};
  std::vector<std::string> seen;  // "METHOD target body"
  Fault fault;
  bool stopped = false;

  Handler echo() {
    return [this](const ServerRequest& request, std::stop_token) { return answer(this, request); };
  }
  static Task<ServerResponse> answer(LoopbackTest* self, const ServerRequest& request) {
    self->seen.push_back(request.method + " " + request.target + " " + request.body);
    if (request.target == "/throw") throw std::runtime_error("secret");
    if (request.target == "/stream") co_return ServerResponse{200, {}, {}, &count_to_three};
    if (request.target == "/endless") {
      co_return ServerResponse{
          200, {}, {}, [self](BodySink& sink, std::stop_token s) { return endless(self, sink, s); }};
    }
    if (request.target == "/cut") co_return ServerResponse{200, {}, {}, &cut};
    co_return ServerResponse{201, request.headers, "got " + request.body};
  }
  static Task<> count_to_three(BodySink& sink, std::stop_token) {
    for (const char* piece : {"one ", "two ", "three"}) co_await sink.write(piece);
  }
  static Task<> cut(BodySink& sink, std::stop_token) {
    co_await sink.write("half");
    throw std::runtime_error("cut");
  }
  static Task<> endless(LoopbackTest* self, BodySink& sink, std::stop_token stop) {
    co_await sink.write("first");
    co_await sleep_for(self->loop, 1h, stop);
    self->stopped = stop.stop_requested();
  }

  std::unique_ptr<Transport> transport() {
    return make_loopback(loop, echo(), [this](const Request&) { return fault; });
  }
  CallLimits limits() { return CallLimits{.deadline = loop.now() + 5s}; }
  Outcome call(Request request, Duration wait = 1min) {
    const auto t = transport();
    Outcome out;
    spawn(gate, call_into(*t, std::move(request), limits(), out));
    EXPECT_FALSE(out.ended) << "an answer inside the call";
    loop.run_until([&] { return out.ended; }, wait);
    return out;
  }
  Outcome stream(Request request) {
    const auto t = transport();
    Outcome out;
    spawn(gate, stream_into(loop, *t, std::move(request), limits(), out));
    loop.run_until([&] { return out.ended; }, 1h);
    loop.run_ready();
    return out;
  }
};

TEST_F(LoopbackTest, CallsTheHandler) {
  Request request{.method = "POST", .target = "/x?a=1", .headers = {}, .body = "text"};
  request.headers.add("X-Y", "z");
  const Outcome out = call(request);
  ASSERT_TRUE(out.response);
  EXPECT_EQ(out.response->status, 201);
  EXPECT_EQ(out.response->body, "got text");
  EXPECT_EQ(out.response->headers.get("x-y"), "z");
  EXPECT_EQ(out.response->headers.get("content-length"), "4");
  EXPECT_EQ(seen, std::vector<std::string>{"POST /x?a=1 text"});
}

TEST_F(LoopbackTest, AnExceptionOfTheHandlerIs500WithoutDetails) {
  const Outcome out = call({.method = "GET", .target = "/throw", .headers = {}, .body = {}});
  ASSERT_TRUE(out.response);
  EXPECT_EQ(out.response->status, 500);
  EXPECT_EQ(out.response->body, "internal error\n");
}

TEST_F(LoopbackTest, FaultsOfACall) {
  struct Case {
    Fault::Kind fault;
    Error::Kind error;
    std::size_t delivered;
  };
  for (const Case& c :
       {Case{Fault::Kind::kUnreachable, Error::Kind::kUnreachable, 0},
        Case{Fault::Kind::kBreakBefore, Error::Kind::kBroken, 0},
        Case{Fault::Kind::kBreakAfter, Error::Kind::kBroken, 1}, Case{Fault::Kind::kStall, Error::Kind::kDeadline, 1},
        Case{Fault::Kind::kCutBody, Error::Kind::kBroken, 1}}) {
    seen.clear();
    fault = {.kind = c.fault, .delay = 1s, .after_bytes = 2};
    const TimePoint start = loop.now();
    const Outcome out = call({});
    ASSERT_TRUE(out.error);
    EXPECT_EQ(out.error->kind(), c.error);
    EXPECT_EQ(seen.size(), c.delivered);
    EXPECT_EQ(loop.now() - start, c.fault == Fault::Kind::kStall ? 5s : 1s);
  }
}

TEST_F(LoopbackTest, TheDeadlineAndTheStopTokenEndACall) {
  fault = {.kind = Fault::Kind::kNone, .delay = 10s};
  Outcome out = call({});
  ASSERT_TRUE(out.error);
  EXPECT_EQ(out.error->kind(), Error::Kind::kDeadline);
  EXPECT_FALSE(out.error->surely_not_sent());

  const auto t = transport();
  std::stop_source stop;
  Outcome second;
  spawn(gate, call_into(*t, {}, {.deadline = loop.now() + 5s, .stop = stop.get_token()}, second));
  loop.run_ready();
  EXPECT_FALSE(second.ended);
  stop.request_stop();
  loop.run_ready();
  ASSERT_TRUE(second.error);
  EXPECT_EQ(second.error->kind(), Error::Kind::kStopped);
}

TEST_F(LoopbackTest, NoDeadlineIsADeadlineThatHasPassed) {
  const auto t = transport();
  Outcome out;
  spawn(gate, call_into(*t, {}, {}, out));
  loop.run_ready();
  ASSERT_TRUE(out.error);
  EXPECT_EQ(out.error->kind(), Error::Kind::kDeadline);
  EXPECT_TRUE(out.error->surely_not_sent());
}

TEST_F(LoopbackTest, LimitsTheBody) {
  const auto t = transport();
  Outcome out;
  CallLimits l = limits();
  l.max_body = 3;
  spawn(gate, call_into(*t, {}, l, out));
  loop.run_ready();
  ASSERT_TRUE(out.error);
  EXPECT_EQ(out.error->kind(), Error::Kind::kTooLarge);
}

TEST_F(LoopbackTest, StreamsABody) {
  const Outcome out = stream({.method = "GET", .target = "/stream", .headers = {}, .body = {}});
  EXPECT_FALSE(out.error);
  EXPECT_EQ(out.body, "one two three");
  const Outcome whole = call({.method = "GET", .target = "/stream", .headers = {}, .body = {}});
  ASSERT_TRUE(whole.response);
  EXPECT_EQ(whole.response->body, "one two three");
}

TEST_F(LoopbackTest, AStreamCutAtEachByteIsAPrefixAndBroken) {
  for (std::size_t at = 0; at <= 13; ++at) {
    fault = {.kind = Fault::Kind::kCutBody, .after_bytes = at};
    const Outcome out = stream({.method = "GET", .target = "/stream", .headers = {}, .body = {}});
    ASSERT_TRUE(out.error) << at;
    EXPECT_EQ(out.error->kind(), Error::Kind::kBroken);
    EXPECT_EQ(out.body, std::string("one two three").substr(0, at));
  }
}

TEST_F(LoopbackTest, AThrowingStreamIsACut) {
  const Outcome out = stream({.method = "GET", .target = "/cut", .headers = {}, .body = {}});
  ASSERT_TRUE(out.error);
  EXPECT_EQ(out.error->kind(), Error::Kind::kBroken);
  EXPECT_EQ(out.body, "half");
}

Task<> read_pieces(Loop& loop, Transport& transport, std::vector<std::string>& log, std::stop_token stop) {
  StreamResponse response = co_await transport.open({.method = "GET", .target = "/endless", .headers = {}, .body = {}},
                                                    {.deadline = loop.now() + 1s});
  for (int i = 0; i < 4; ++i) {
    try {
      const std::string_view piece = co_await response.body->read(loop.now() + 10s, stop);
      log.emplace_back(piece);
    } catch (const Error& e) {
      log.emplace_back(to_string(e.kind()));
      if (e.kind() == Error::Kind::kStopped) break;
    }
  }
}

TEST_F(LoopbackTest, AReadDeadlineLeavesTheStreamAndItsEndStopsTheHandler) {
  const auto t = transport();
  std::vector<std::string> log;
  std::stop_source stop;
  spawn(gate, read_pieces(loop, *t, log, stop.get_token()));
  loop.advance(25s);
  EXPECT_FALSE(stopped);
  stop.request_stop();
  loop.run_ready();
  EXPECT_EQ(log, (std::vector<std::string>{"first", "deadline", "deadline", "stopped"}));
  EXPECT_TRUE(stopped);
}

struct Flood {
  ManualLoop& loop;
  std::size_t written = 0;
  std::optional<Error> error;
};

Task<> flood(Flood* state, BodySink& sink) {
  try {
    while (true) {
      co_await sink.write(std::string(1024, 'x'));
      state->written += 1024;
    }
  } catch (const Error& e) {
    state->error = e;
    throw;
  }
}

Task<ServerResponse> flooding(Flood* state) {
  co_return ServerResponse{200, {}, {}, [state](BodySink& sink, std::stop_token) { return flood(state, sink); }};
}

TEST_F(LoopbackTest, AWriterWaitsForItsReaderAndIsCutOffWhenNobodyReads) {
  Flood state{loop, 0, {}};
  const auto t = make_loopback(loop, [&](const ServerRequest&, std::stop_token) { return flooding(&state); });
  std::optional<StreamResponse> response;
  spawn(gate, [](Transport& transport, CallLimits l, std::optional<StreamResponse>& out) -> Task<> {
    out = co_await transport.open({}, l);
  }(*t, limits(), response));
  loop.run_ready();
  ASSERT_TRUE(response);
  EXPECT_EQ(state.written, 64U << 10);
  EXPECT_FALSE(state.error);
  loop.advance(31s);
  ASSERT_TRUE(state.error);
  EXPECT_EQ(state.error->kind(), Error::Kind::kDeadline);
}

TEST_F(LoopbackTest, ATransportMayDieWhileItsHandlersHang) {
  fault = {.kind = Fault::Kind::kStall};
  Outcome out = call({.method = "GET", .target = "/x", .headers = {}, .body = {}});
  EXPECT_TRUE(out.error);
  fault = {.kind = Fault::Kind::kNone, .delay = 1h};
  out = call({});
  EXPECT_TRUE(out.error);
}

}  // namespace
}  // namespace bascule::net
