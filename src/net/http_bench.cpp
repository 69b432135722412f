// Calls a second over one kept connection and megabytes a second of a stream, client and server on one loop and thread:
// each figure pays for both sides.
#include <benchmark/benchmark.h>

#include "base/async.hpp"
#include "net/client.hpp"
#include "net/server.hpp"
#include "net/test_pki.hpp"

namespace bascule::net {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kPiece = std::size_t{32} << 10;

Task<> flood(BodySink& sink, std::size_t bytes) {
  for (std::size_t sent = 0; sent < bytes; sent += kPiece) co_await sink.write(std::string(kPiece, 'x'));
}

Task<ServerResponse> answer(const ServerRequest& request) {
  if (request.target == "/") co_return ServerResponse{.body = "ok"};
  const std::size_t bytes = std::stoul(request.target.substr(1));
  co_return ServerResponse{.stream = [bytes](BodySink& sink, std::stop_token) { return flood(sink, bytes); }};
}

struct Pair {
  explicit Pair(bool tls) {
    ServerOptions options{.address = "127.0.0.1"};
    TlsOptions trust;
    if (tls) {
      const test::Authority authority("bench");
      const test::KeyPair pair = authority.issue({.common_name = "s", .alternative_names = "IP:127.0.0.1"});
      options.certificate.text = pair.certificate;
      options.key.text = pair.key;
      trust.ca.text = authority.certificate();
    }
    server = serve(loop, options, [](const ServerRequest& request, std::stop_token) { return answer(request); });
    const std::string url = (tls ? "https://127.0.0.1:" : "http://127.0.0.1:") + std::to_string(server->port());
    client = make_client(loop, {.url = parse_url(url), .tls = trust});
  }
  void run(Task<> task) {
    Gate gate(loop);
    spawn(gate, [](IoLoop& l, Task<> t) -> Task<> {
      co_await std::move(t);
      l.quit();
    }(loop, std::move(task)));
    loop.run();
  }
  IoLoop loop;
  std::unique_ptr<Server> server;
  std::unique_ptr<Transport> client;
};

Task<> call_many(Pair& pair, benchmark::State& state) {
  for ([[maybe_unused]] const auto _ : state) {
    Response response = co_await pair.client->call({}, {.deadline = pair.loop.now() + 5s});
    benchmark::DoNotOptimize(response);
  }
  state.SetItemsProcessed(state.iterations());
}

Task<> read_many(Pair& pair, benchmark::State& state) {
  const std::size_t bytes = std::size_t{64} << 20;
  for ([[maybe_unused]] const auto _ : state) {
    StreamResponse response =
        co_await pair.client->open({.target = "/" + std::to_string(bytes)}, {.deadline = pair.loop.now() + 5s});
    while (true) {
      const std::string_view piece = co_await response.body->read(pair.loop.now() + 5s, {});
      if (piece.empty()) break;
      benchmark::DoNotOptimize(piece.data());
    }
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes) * state.iterations());
}

void calls(benchmark::State& state) {
  Pair pair(state.range(0) != 0);
  pair.run(call_many(pair, state));
}
BENCHMARK(calls)->ArgName("tls")->Arg(0)->Arg(1)->UseRealTime();

void streams(benchmark::State& state) {
  Pair pair(state.range(0) != 0);
  pair.run(read_many(pair, state));
}
BENCHMARK(streams)->ArgName("tls")->Arg(0)->Arg(1)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace bascule::net
