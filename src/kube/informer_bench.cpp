// The informer from the answer's bytes to the store and its handlers, over the in-memory transport: first list and
// watch events of pods of 7.8 KB.
#include <benchmark/benchmark.h>

#include "base/manual_loop.hpp"
#include "kube/informer.hpp"
#include "kube/sample_pod.hpp"
#include "net/loopback.hpp"

namespace bascule::kube {
namespace {

constexpr std::size_t kPods = 6400;
constexpr std::size_t kEvents = 20'000;
constexpr std::size_t kPiece = std::size_t{16} << 10;  // bytes, as a socket gives them
constexpr Duration kPause = std::chrono::seconds(5);

struct Source {
  std::string list = R"({"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"100000"},"items":[)";
  std::string events;

  Source() {
    for (std::size_t i = 0; i < kPods; ++i) list += (i == 0 ? "" : ",") + sample_pod(i);
    list += "]}";
    for (std::size_t i = 0; i < kEvents; ++i) {
      events += R"({"type":"MODIFIED","object":)" + sample_pod(i * 7 % kPods, std::to_string(100'001 + i)) + "}\n";
    }
  }
  // After `pause`, so that list and watch can be timed apart.
  static Task<> pour(Loop& loop, Duration pause, const std::string& text, net::BodySink& sink, std::stop_token stop) {
    if (pause > Duration::zero()) co_await sleep_for(loop, pause, std::move(stop));
    for (std::size_t at = 0; at < text.size(); at += kPiece) co_await sink.write(text.substr(at, kPiece));
  }
  net::Handler handler(Loop& loop) const {
    return [this, &loop](const net::ServerRequest& request, std::stop_token) {
      const bool watch = request.target.find("watch=true") != std::string::npos;
      return answer(loop, watch ? kPause : Duration::zero(), watch ? events : list);
    };
  }
  static Task<net::ServerResponse> answer(Loop& loop, Duration pause, const std::string& text) {
    co_return net::ServerResponse{.stream = [&loop, pause, &text](net::BodySink& sink, std::stop_token stop) {
      return pour(loop, pause, text, sink, std::move(stop));
    }};
  }
};

// One list, then all events; what is timed is one of the two.
void informer(benchmark::State& state, bool events) {
  static const Source source;
  for (auto _ : state) {
    state.PauseTiming();
    {
      ManualLoop loop;
      const net::Handler handler = source.handler(loop);
      const auto transport = net::make_loopback(loop, handler);
      Client client(loop, *transport, {});
      json::Interner interner;
      Informer<Pod> pods(client, {.resource = resources::kPods, .seed = 1}, decode_pod, interner);
      std::size_t told = 0;
      pods.add_index("node", [](const Pod& pod, std::vector<std::string>& out) { out.push_back(pod.node_name.str()); });
      pods.on_change([&told](const auto&, const auto&) { ++told; });
      pods.start();
      if (!events) state.ResumeTiming();
      loop.run_until([&] { return pods.synced(); }, std::chrono::seconds(1));
      if (events) state.ResumeTiming();
      if (events) loop.run_until([&] { return told == kPods + kEvents; }, 2 * kPause);
      state.PauseTiming();
      if (told != kPods + (events ? kEvents : 0)) state.SkipWithError("not all were told");
      Gate gate(loop);
      spawn(gate, pods.stop());
      loop.run_until([&] { return gate.count() == 0; }, std::chrono::seconds(1));
    }
    state.ResumeTiming();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations() * (events ? kEvents : kPods)));
}
BENCHMARK_CAPTURE(informer, first_list_of_6400_pods, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(informer, watch_of_20000_events, true)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace bascule::kube
