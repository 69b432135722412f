#include "net/server.hpp"

#include <fmt/format.h>
#include <sys/un.h>

#include <fstream>

#include "base/log.hpp"
#include "net/test_support.hpp"

namespace bascule::net {
namespace {

using namespace test;

// What the handlers below look at and report to.
struct State {
  IoLoop* loop = nullptr;
  int calls = 0;
  bool stopped = false;      // a handler or stream saw its token stopped
  std::size_t written = 0;   // by /flood
  std::string stream_error;  // what a write threw
  ServerRequest last;
  std::string order;  // the last letters of the targets
};

Task<> count(BodySink& sink) {
  for (const char* piece : {"one ", "", "two ", "three"}) co_await sink.write(piece);
}

Task<> cut(BodySink& sink) {
  co_await sink.write("half");
  throw std::runtime_error("cut");
}

Task<> watch(State* state, BodySink& sink, std::stop_token stop) {
  co_await sink.write("first");
  co_await sleep_for(*state->loop, 1h, stop);
  state->stopped = stop.stop_requested();
}

Task<> flood(State* state, BodySink& sink) {
  try {
    while (true) {
      co_await sink.write(std::string(100'000, 'x'));
      state->written += 100'000;
    }
  } catch (const Error& e) {
    state->stream_error = to_string(e.kind());
    throw;
  }
}

Task<ServerResponse> handle(State* state, const ServerRequest& request, std::stop_token stop) {
  ++state->calls;
  state->last = request;
  state->order += request.target.back();
  const Target target = parse_target(request.target);
  ServerResponse response;
  if (target.path == "/throw") throw std::runtime_error("secret");
  if (target.path == "/bad-header") response.headers.add("X", "a\r\nb");
  if (target.path == "/status") response.status = std::stoi(std::string(target.get("code")));
  if (target.path == "/count") response.stream = [](BodySink& sink, std::stop_token) { return count(sink); };
  if (target.path == "/cut") response.stream = [](BodySink& sink, std::stop_token) { return cut(sink); };
  if (target.path == "/watch") {
    response.stream = [state](BodySink& sink, std::stop_token s) { return watch(state, sink, s); };
  }
  if (target.path == "/flood")
    response.stream = [state](BodySink& sink, std::stop_token) { return flood(state, sink); };
  if (target.path == "/slow") {
    co_await sleep_for(*state->loop, 50ms, stop);
    if (stop.stop_requested()) state->stopped = true;
  }
  if (target.path == "/hang") co_await sleep_for(*state->loop, 1h, {});  // deaf
  if (target.path == "/big") response.body = std::string(std::size_t{8} << 20, 'b');
  if (!response.stream && response.body.empty()) response.body = request.method + " " + request.body;
  co_return response;
}

struct ServerTest : NetTest {
  ServerTest() { state.loop = &loop; }
  State state;

  std::unique_ptr<Server> start(ServerOptions options = {}) {
    if (options.address == "0.0.0.0") options.address = "127.0.0.1";
    return serve(loop, std::move(options), [this](const ServerRequest& request, std::stop_token stop) {
      return handle(&state, request, std::move(stop));
    });
  }
  std::unique_ptr<Transport> client(const Server& server) {
    return client_of(parse_url("http://127.0.0.1:" + std::to_string(server.port())));
  }
  // Sends bytes on a connection of its own and returns all that comes back until the server closes.
  std::string raw(const Server& server, std::string bytes, bool half_close = false) {
    std::string out;
    run(loop, in_thread(loop, [&, port = server.port()] {
          const int fd = connect_raw(port);
          send_all(fd, bytes);
          if (half_close) ::shutdown(fd, SHUT_WR);
          out = receive_all(fd);
          ::close(fd);
        }));
    return out;
  }
};

TEST_F(ServerTest, ServesWhatTheClientAsks) {
  const auto server = start();
  EXPECT_NE(server->port(), 0);
  const auto c = client(*server);
  const Outcome out = call(*c, post("/x?y=z", "body"));
  EXPECT_EQ(out.status(), 200) << out.failure();
  EXPECT_EQ(out.body, "POST body");
  EXPECT_EQ(out.response->headers.get("content-length"), "9");
  EXPECT_TRUE(out.response->headers.get("date").ends_with(" GMT"));
  EXPECT_EQ(state.last.target, "/x?y=z");
  EXPECT_EQ(state.last.headers.get("host"), "127.0.0.1:" + std::to_string(server->port()));
  EXPECT_TRUE(state.last.peer.starts_with("127.0.0.1:"));
  EXPECT_EQ(state.last.client_name, "");
  EXPECT_EQ(call(*c, {.method = "HEAD", .target = "/"}).response->headers.get("content-length"), "5");
  for (const int status : {201, 204, 304, 404, 422, 500}) {
    EXPECT_EQ(call(*c, get("/status?code=" + std::to_string(status))).status(), status);
  }
  drain(*server);
}

TEST_F(ServerTest, AnExceptionIs500WithoutDetailsAndALogLine) {
  const log::Capture captured;
  const auto server = start();
  const auto c = client(*server);
  for (const char* target : {"/throw", "/bad-header", "/status?code=42"}) {
    const Outcome out = call(*c, get(target));
    EXPECT_EQ(out.status(), 500) << target;
    EXPECT_EQ(out.body, "internal error\n");
  }
  EXPECT_EQ(captured.count("secret"), 1U);
  EXPECT_EQ(captured.lines().size(), 3U);
  drain(*server);
}

TEST_F(ServerTest, LargeBodiesBothWays) {
  const auto server = start();
  const auto c = client(*server);
  EXPECT_EQ(call(*c, get("/big")).body.size(), std::size_t{8} << 20);
  const std::string body(std::size_t{8} << 20, 'q');
  EXPECT_EQ(call(*c, post("/", body)).body, "POST " + body);
  EXPECT_EQ(call(*c, post("/", body + "x")).status(), 413);
  EXPECT_EQ(call(*c, get("/")).status(), 200);
  drain(*server);
}

TEST_F(ServerTest, StreamsInChunks) {
  const auto server = start();
  const auto c = client(*server);
  EXPECT_EQ(stream(*c, get("/count")).body, "one two three");
  const Outcome out = call(*c, get("/count"));
  EXPECT_EQ(out.body, "one two three");
  EXPECT_EQ(out.response->headers.get("transfer-encoding"), "chunked");
  EXPECT_EQ(stream(*c, get("/cut")).failure(), "broken");
  // HTTP/1.0 knows no chunks: the end of the connection is the end of the body.
  EXPECT_TRUE(raw(*server, "GET /count HTTP/1.0\r\n\r\n").ends_with("\r\nConnection: close\r\n\r\none two three"));
  drain(*server);
}

TEST_F(ServerTest, AnswersPipelinedRequestsInOrder) {
  const auto server = start();
  const std::string out = raw(*server,
                              "GET /slow HTTP/1.1\r\n\r\nPOST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"
                              "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"
                              "GET / HTTP/1.1\r\nConnection: close\r\n\r\n");
  const std::size_t a = out.find("\r\n\r\nGET ");
  const std::size_t b = out.find("\r\n\r\nPOST abc");
  const std::size_t c = out.find("\r\n\r\nPOST x");
  EXPECT_TRUE(a < b && b < c && c < out.size()) << out;
  EXPECT_TRUE(out.ends_with("Connection: close\r\n\r\nGET ")) << out;
  EXPECT_EQ(state.calls, 4);
}

TEST_F(ServerTest, ClientsThatAskWithoutPauseTakeTurns) {
  const auto server = start();
  std::vector<int> clients;
  for (const char* target : {"/a", "/b", "/c"}) {
    clients.push_back(connect_raw(server->port()));
    std::string requests;
    for (int i = 0; i < 50; ++i) requests += fmt::format("GET {} HTTP/1.1\r\n\r\n", target);
    send_all(clients.back(), requests + fmt::format("GET {} HTTP/1.1\r\nConnection: close\r\n\r\n", target));
  }
  run(loop, in_thread(loop, [&] {
        for (const int fd : clients) {
          receive_all(fd);
          ::close(fd);
        }
      }));
  ASSERT_EQ(state.order.size(), 3 * 51);
  const std::string middle = state.order.substr(10, 120);
  EXPECT_FALSE(middle.contains("aa") || middle.contains("bb") || middle.contains("cc")) << state.order;
}

TEST_F(ServerTest, AnswersAClientThatClosedItsHalf) {
  const auto server = start();
  EXPECT_TRUE(raw(*server, "GET / HTTP/1.1\r\n\r\n", true).ends_with("\r\n\r\nGET "));
}

TEST_F(ServerTest, InvitesABodyThatWaits) {
  const auto server = start();
  std::string first;
  std::string second;
  run(loop, in_thread(loop, [&, port = server->port()] {
        const int fd = connect_raw(port);
        send_all(fd, "POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
        first = receive_head(fd);
        send_all(fd, "abc");
        second = receive_until(fd, [](const std::string& s) { return s.contains("POST abc"); });
        ::close(fd);
      }));
  EXPECT_EQ(first, "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_TRUE(second.starts_with("HTTP/1.1 200 OK\r\n")) << second;
  drain(*server);
}

TEST_F(ServerTest, RefusesWhatIsNoRequest) {
  const auto server = start({.max_header = 1000, .max_body = 100});
  const auto status = [&](const std::string& bytes) { return raw(*server, bytes).substr(0, 13); };
  EXPECT_EQ(status("garbage\r\n\r\n"), "HTTP/1.1 400 ");
  EXPECT_EQ(status("GET / HTTP/3.0\r\n\r\n"), "HTTP/1.1 400 ");
  EXPECT_EQ(status("GET / HTTP/1.1\r\nX: " + std::string(2000, 'x') + "\r\n\r\n"), "HTTP/1.1 431 ");
  EXPECT_EQ(status("POST / HTTP/1.1\r\nContent-Length: 101\r\n\r\n"), "HTTP/1.1 413 ");
  EXPECT_EQ(status("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n" + std::string(101, 'x')),
            "HTTP/1.1 413 ");
  EXPECT_EQ(status("POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"), "HTTP/1.1 400 ");
  EXPECT_EQ(status("POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"), "HTTP/1.1 400 ");
  EXPECT_EQ(status("POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"), "HTTP/1.1 400 ");
  EXPECT_EQ(status("POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx"), "HTTP/1.1 400 ");
  EXPECT_EQ(state.calls, 0);
  // A large request in flight does not lose the answer to a reset.
  EXPECT_EQ(status("POST / HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n" + std::string(1'000'000, 'x')),
            "HTTP/1.1 413 ");
}

TEST_F(ServerTest, TakesNoBodyWhereNoneIsAllowed) {
  const auto server = start({.max_body = 0});
  const auto c = client(*server);
  EXPECT_EQ(call(*c, get("/")).status(), 200);
  EXPECT_EQ(call(*c, post("/", "x")).status(), 413);
  EXPECT_EQ(raw(*server, "POST / HTTP/1.1\r\nContent-Length: 8000000\r\n\r\n").substr(0, 13), "HTTP/1.1 413 ");
  drain(*server);
}

TEST_F(ServerTest, CutsOffTheSlow) {
  const auto server =
      start({.header_timeout = 30ms, .body_timeout = 30ms, .idle_timeout = 60ms, .write_timeout = 50ms});
  EXPECT_EQ(raw(*server, ""), "");
  EXPECT_TRUE(raw(*server, "GET / HT").starts_with("HTTP/1.1 408 "));
  EXPECT_TRUE(raw(*server, "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nab").starts_with("HTTP/1.1 408 "));
  const TimePoint start_of_idle = loop.now();
  EXPECT_TRUE(raw(*server, "GET / HTTP/1.1\r\n\r\n").ends_with("\r\n\r\nGET "));
  EXPECT_GE(loop.now() - start_of_idle, 60ms);
  EXPECT_LT(loop.now() - start_of_idle, 1s);
}

TEST_F(ServerTest, AClientThatDoesNotReadBlocksTheWriterAndIsCutOff) {
  const auto server = start({.write_timeout = 100ms});
  std::string rest;
  std::atomic<bool> asleep = true;
  run(loop, [](ServerTest& t, const Server& s, std::string& out, std::atomic<bool>& sleeping) -> Task<> {
    std::vector<Task<>> tasks;
    tasks.push_back(in_thread(t.loop, [&out, &sleeping, port = s.port()] {
      const int fd = connect_raw(port);
      send_all(fd, "GET /flood HTTP/1.1\r\n\r\n");
      while (sleeping) std::this_thread::sleep_for(1ms);
      out = receive_all(fd);
      ::close(fd);
    }));
    tasks.push_back([](ServerTest& test, std::atomic<bool>& flag) -> Task<> {
      for (int i = 0; i < 2000 && test.state.stream_error.empty(); ++i) co_await sleep_for(test.loop, 2ms, {});
      flag = false;
    }(t, sleeping));
    co_await when_all(t.loop, std::move(tasks));
  }(*this, *server, rest, asleep));
  EXPECT_EQ(state.stream_error, "deadline");
  // What the kernel takes; a writer that does not wait would be far beyond.
  EXPECT_LT(state.written, std::size_t{64} << 20);
}

TEST_F(ServerTest, AWatchEndsWhenItsClientGoes) {
  const auto server = start();
  const auto c = client(*server);
  run(loop, [](ServerTest& t, Transport& transport) -> Task<> {
    {
      StreamResponse response = co_await transport.open(get("/watch"), t.within());
      const std::string_view piece = co_await response.body->read(t.loop.now() + 1s, {});
      EXPECT_EQ(piece, "first");
    }
    for (int i = 0; i < 500 && !t.state.stopped; ++i) co_await sleep_for(t.loop, 1ms, {});
  }(*this, *c));
  EXPECT_TRUE(state.stopped);
  // The same for a handler that has not answered yet.
  state.stopped = false;
  EXPECT_EQ(call(*c, get("/slow"), within(10ms)).failure(), "deadline");
  run(loop, [](ServerTest& t) -> Task<> {
    for (int i = 0; i < 500 && !t.state.stopped; ++i) co_await sleep_for(t.loop, 1ms, {});
  }(*this));
  EXPECT_TRUE(state.stopped);
}

TEST_F(ServerTest, DrainsGracefully) {
  const auto server = start();
  const auto c = client(*server);
  EXPECT_EQ(call(*c, get("/")).status(), 200);  // leaves an idle connection behind
  Outcome slow;
  Outcome watching;
  std::vector<Task<>> tasks;
  tasks.push_back([](Transport& t, CallLimits l, Outcome& o) -> Task<> { o = co_await try_call(t, get("/slow"), l); }(
                                                                 *c, within(), slow));
  tasks.push_back([](IoLoop& l, Transport& t, CallLimits limits, Outcome& o) -> Task<> {
    o = co_await try_stream(l, t, get("/watch"), limits, 5s);
  }(loop, *c, within(), watching));
  TimePoint drained{};
  tasks.push_back([](IoLoop& l, Server& s, TimePoint& d) -> Task<> {
    co_await sleep_for(l, 20ms, {});
    co_await s.drain(l.now() + 5s);
    d = l.now();
  }(loop, *server, drained));
  const TimePoint start_time = loop.now();
  run(loop, when_all(loop, std::move(tasks)));
  EXPECT_EQ(slow.status(), 200) << slow.failure();
  EXPECT_EQ(slow.response->headers.get("connection"), "close");
  EXPECT_EQ(watching.failure(), "none");
  EXPECT_EQ(watching.body, "first");
  EXPECT_TRUE(state.stopped);
  EXPECT_LT(drained - start_time, 1s);
  EXPECT_EQ(call(*c, get("/")).failure(), "unreachable");
}

TEST_F(ServerTest, ADrainDoesNotWaitForADeafHandler) {
  const auto server = start();
  const auto c = client(*server);
  Outcome out;
  std::vector<Task<>> tasks;
  tasks.push_back([](Transport& t, CallLimits l, Outcome& o) -> Task<> { o = co_await try_call(t, get("/hang"), l); }(
                                                                 *c, within(), out));
  tasks.push_back([](IoLoop& l, Server& s) -> Task<> {
    co_await sleep_for(l, 20ms, {});
    co_await s.drain(l.now() + 20ms);
  }(loop, *server));
  run(loop, when_all(loop, std::move(tasks)));
  EXPECT_EQ(out.failure(), "broken");
}

TEST_F(ServerTest, ManyCallsAtOnceAndOneAfterTheOther) {
  const auto server = start();
  const auto c = make_client(
      loop, {.url = parse_url("http://127.0.0.1:" + std::to_string(server->port())), .max_connections = 64});
  int good = 0;
  std::vector<Task<>> tasks;
  for (int i = 0; i < 64; ++i) {
    tasks.push_back([](Transport& t, IoLoop& l, int n, int& ok) -> Task<> {
      for (int k = 0; k < 16; ++k) {
        const std::string body = std::to_string(n) + "-" + std::to_string(k);
        const Outcome out = co_await try_call(t, post("/", body), {.deadline = l.now() + 5s});
        if (out.body == "POST " + body) ++ok;
      }
    }(*c, loop, i, good));
  }
  run(loop, when_all(loop, std::move(tasks)));
  EXPECT_EQ(good, 64 * 16);
  drain(*server);
}

TEST_F(ServerTest, ListensOnUnixSocketsAndIpv6) {
  const std::string path = "/tmp/bascule-net-test-" + std::to_string(::getpid());
  {
    std::ofstream(path) << "not a socket";
  }
  EXPECT_THROW(start({.address = "unix:" + path}), Error);
  ::unlink(path.c_str());
  {
    // A socket left behind by a killed process.
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ::close(fd);
  }
  const auto server = start({.address = "unix:" + path});
  EXPECT_THROW(start({.address = "unix:" + path}), Error) << "somebody listens there";
  const auto c = client_of(parse_url("unix:" + path));
  EXPECT_EQ(call(*c, get("/x")).status(), 200);
  EXPECT_EQ(state.last.peer, "unix");
  EXPECT_EQ(state.last.headers.get("host"), "localhost");
  drain(*server);
  EXPECT_NE(::access(path.c_str(), F_OK), 0);

  const auto all = start({.address = ""});
  const auto v4 = client_of(parse_url("http://127.0.0.1:" + std::to_string(all->port())));
  EXPECT_EQ(call(*v4, get("/")).status(), 200);
  drain(*all);
}

TEST_F(ServerTest, SaysWhyItCannotListen) {
  const auto server = start();
  try {
    start({.port = server->port()});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), Error::Kind::kUnreachable);
    EXPECT_TRUE(std::string_view(e.what()).contains("127.0.0.1 port " + std::to_string(server->port()))) << e.what();
  }
  EXPECT_THROW(start({.address = "example.org"}), Error);
}

TEST_F(ServerTest, MayDieWithConnectionsOpen) {
  auto server = start();
  const auto c = client(*server);
  EXPECT_EQ(call(*c, get("/hang"), within(20ms)).failure(), "deadline");
  EXPECT_EQ(call(*c, get("/")).status(), 200);
  server.reset();
  EXPECT_EQ(call(*c, get("/")).failure(), "unreachable");
}

}  // namespace
}  // namespace bascule::net
