// A server with as many connections, or as much of requests, as it takes: who makes room, and who waits.
#include "net/server.hpp"
#include "net/test_support.hpp"

namespace bascule::net {
namespace {

using namespace test;

struct FullServerTest : NetTest {
  std::unique_ptr<Server> start(std::size_t connections) {
    return serve(loop, {.address = "127.0.0.1", .max_connections = connections},
                 [this](const ServerRequest& request, std::stop_token) { return answer(loop, request); });
  }
  static Task<ServerResponse> answer(IoLoop& loop, const ServerRequest& request) {
    if (request.target == "/slow") co_await sleep_for(loop, 50ms, {});
    co_return ServerResponse{.status = 200, .headers = {}, .body = request.method + " ", .stream = nullptr};
  }
};

TEST_F(FullServerTest, ANewClientTakesThePlaceOfTheOldestIdleOne) {
  const auto server = start(2);
  int answered = 0;
  run(loop, in_thread(loop, [&, port = server->port()] {
        int fds[4];
        for (int& fd : fds) {
          fd = connect_raw(port);
          send_all(fd, "GET / HTTP/1.1\r\n\r\n");
          answered +=
              receive_until(fd, [](const std::string& s) { return s.contains("GET "); }).contains("200 OK") ? 1 : 0;
        }
        EXPECT_EQ(receive_all(fds[0]), "");
        for (const int fd : fds) ::close(fd);
      }));
  EXPECT_EQ(answered, 4);
  drain(*server);
}

TEST_F(FullServerTest, HalfRequestsDoNotShutOutWholeOnes) {
  const auto server = start(2);
  std::string oldest, whole, second;
  Duration waited{};
  run(loop, in_thread(loop, [&, port = server->port()] {
        const int half_body = connect_raw(port);
        send_all(half_body, "POST / HTTP/1.1\r\nContent-Length: 100\r\n\r\nab");
        std::this_thread::sleep_for(20ms);
        const int half_head = connect_raw(port);
        send_all(half_head, "GET / HT");
        std::this_thread::sleep_for(20ms);
        const int fd = connect_raw(port);
        const auto asked = std::chrono::steady_clock::now();
        send_all(fd, "GET / HTTP/1.1\r\n\r\n");
        whole = receive_head(fd);
        waited = std::chrono::steady_clock::now() - asked;
        oldest = receive_all(half_body);
        send_all(half_head, "TP/1.1\r\n\r\n");
        second = receive_head(half_head);
        for (const int one : {half_body, half_head, fd}) ::close(one);
      }));
  EXPECT_TRUE(whole.starts_with("HTTP/1.1 200 ")) << whole;
  EXPECT_LT(waited, 1s);
  EXPECT_EQ(oldest, "") << "closed";
  EXPECT_TRUE(second.starts_with("HTTP/1.1 200 ")) << "there was room enough: " << second;
  drain(*server);
}

TEST_F(FullServerTest, WhoSendsHalfARequestAfterAWholeOneMakesRoomToo) {
  const auto server = start(1);
  std::string first, second;
  run(loop, in_thread(loop, [&, port = server->port()] {
        const int greedy = connect_raw(port);
        send_all(greedy, "GET /slow HTTP/1.1\r\n\r\nGET / HT");
        const int fd = connect_raw(port);
        send_all(fd, "GET / HTTP/1.1\r\n\r\n");
        second = receive_head(fd);
        first = receive_all(greedy);
        ::close(greedy);
        ::close(fd);
      }));
  EXPECT_TRUE(first.ends_with("\r\n\r\nGET ")) << "answered whole: " << first;
  EXPECT_TRUE(second.starts_with("HTTP/1.1 200 ")) << second;
  drain(*server);
}

TEST_F(FullServerTest, TheLargestBodyThatIsNotWholeMakesRoom) {
  const auto server = serve(loop, {.address = "127.0.0.1", .max_bodies = 1000},
                            [this](const ServerRequest& request, std::stop_token) { return answer(loop, request); });
  std::string whole, large, small, alone;
  run(loop, in_thread(loop, [&, port = server->port()] {
        const int some = connect_raw(port);
        send_all(some, "POST / HTTP/1.1\r\nContent-Length: 300\r\n\r\n" + std::string(200, 's'));
        std::this_thread::sleep_for(20ms);
        const int most = connect_raw(port);
        send_all(most, "POST / HTTP/1.1\r\nContent-Length: 900\r\n\r\n" + std::string(700, 'm'));
        std::this_thread::sleep_for(20ms);
        const int fd = connect_raw(port);
        send_all(fd, "POST / HTTP/1.1\r\nContent-Length: 200\r\n\r\n" + std::string(200, 'w'));
        whole = receive_head(fd);
        large = receive_all(most);
        send_all(some, std::string(100, 's'));
        small = receive_head(some);
        for (const int one : {some, most, fd}) ::close(one);
        const int huge = connect_raw(port);
        send_all(huge, "POST / HTTP/1.1\r\nContent-Length: 1500\r\n\r\n" + std::string(1500, 'h'));
        alone = receive_head(huge);
        ::close(huge);
      }));
  EXPECT_TRUE(whole.starts_with("HTTP/1.1 200 ")) << whole;
  EXPECT_EQ(large, "") << "closed";
  EXPECT_TRUE(small.starts_with("HTTP/1.1 200 ")) << small;
  EXPECT_TRUE(alone.starts_with("HTTP/1.1 503 ")) << alone;
  drain(*server);
}

TEST_F(FullServerTest, NobodyIsClosedBeforeANewClientComes) {
  const auto server = start(1);
  std::string answer;
  run(loop, in_thread(loop, [&, port = server->port()] {
        const int fd = connect_raw(port);
        send_all(fd, "GET / HT");
        std::this_thread::sleep_for(50ms);
        send_all(fd, "TP/1.1\r\n\r\n");
        answer = receive_head(fd);
        ::close(fd);
      }));
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 ")) << answer;
  drain(*server);
}

TEST_F(FullServerTest, BusyConnectionsMakeNewOnesWait) {
  const auto server = start(1);
  const auto c = client_of(parse_url("http://127.0.0.1:" + std::to_string(server->port())));
  std::vector<Outcome> outs(3);
  std::vector<Task<>> tasks;
  for (Outcome& out : outs) {
    tasks.push_back([](Transport& t, CallLimits l, Outcome& o) -> Task<> { o = co_await try_call(t, get("/slow"), l); }(
                                                                   *c, within(), out));
  }
  run(loop, when_all(loop, std::move(tasks)));
  for (const Outcome& out : outs) EXPECT_EQ(out.status(), 200) << out.failure();
  drain(*server);
}

}  // namespace
}  // namespace bascule::net
