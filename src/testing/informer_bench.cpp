// The informer from end to end: first list, memory, and events a second, against bench/fake_apiserver in a process of
// its own over TLS. The server is the one named by BENCH_KUBECONFIG, or one started for it (BENCH_FAKE_APISERVER, or
// the program built beside this one).
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/async.hpp"
#include "json/yaml.hpp"
#include "kube/client.hpp"
#include "kube/informer.hpp"
#include "net/client.hpp"
#include "net/io_loop.hpp"

namespace bascule::testing {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kEvents = 100'000;  // as many as the server sends by itself

std::size_t resident_bytes() {
  malloc_trim(0);
  std::ifstream file("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  file >> total >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class ServerProcess final {
 public:
  ServerProcess() {
    if (const char* given = std::getenv("BENCH_KUBECONFIG")) {
      kubeconfig_ = given;
      return;
    }
    const char* named = std::getenv("BENCH_FAKE_APISERVER");
    const std::string program =
        named ? named : (std::filesystem::canonical("/proc/self/exe").parent_path() / "fake_apiserver");
    kubeconfig_ = std::filesystem::temp_directory_path() / ("bench-" + std::to_string(getpid()) + ".kubeconfig");
    int out[2];
    if (pipe2(out, O_CLOEXEC) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      dup2(out[1], 1);
      execl(program.c_str(), program.c_str(), "--kubeconfig", kubeconfig_.c_str(), nullptr);
      _exit(127);
    }
    close(out[1]);
    char ready[256];
    const ssize_t n = read(out[0], ready, sizeof ready);
    started_ = n > 0;
    close(out[0]);
  }
  ~ServerProcess() {
    if (pid_ <= 0) return;
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
    std::filesystem::remove(kubeconfig_);
    std::filesystem::remove(kubeconfig_ + ".ca.pem");
  }
  bool ready() const { return pid_ == 0 || started_; }

  net::ClientOptions options() const {
    const json::Value config = json::parse_yaml(text_of(kubeconfig_));
    const json::Value& cluster = json::array_at(config, {"clusters"})->at(0);
    net::ClientOptions out{.url = net::parse_url(json::string_at(cluster, {"cluster", "server"}))};
    out.tls.ca.file = json::string_at(cluster, {"cluster", "certificate-authority"});
    return out;
  }

 private:
  std::string kubeconfig_;
  pid_t pid_ = 0;
  bool started_ = false;
};

struct Figures {
  double sync = 0;        // s
  double sync_cpu = 0;    // s
  double bytes = 0;       // a pod
  double events = 0;      // s, wall
  double events_cpu = 0;  // s
  std::uint64_t seen = 0;
};

Task<> measure(net::IoLoop& loop, net::Transport& transport, Figures& out) {
  kube::Client client(loop, transport, {});
  json::Interner interner;
  kube::Informer<kube::Pod> pods(client, {.resource = kube::resources::kPods}, kube::decode_pod, interner);
  TimePoint first{};
  double first_cpu = 0;
  Bell done(loop);
  pods.on_change([&](const auto& before, const auto& after) {
    if (!before || !after) return;
    if (++out.seen == 1) {
      first = loop.now();
      first_cpu = cpu_seconds();
    }
    if (out.seen == kEvents) {
      out.events = std::chrono::duration<double>(loop.now() - first).count();
      out.events_cpu = cpu_seconds() - first_cpu;
      done.notify();
    }
  });
  const std::size_t bytes_before = resident_bytes();
  const TimePoint start = loop.now();
  const double cpu_before = cpu_seconds();
  pods.start();
  const bool synced = co_await pods.wait_synced({}, loop.now() + 30s);
  out.sync = std::chrono::duration<double>(loop.now() - start).count();
  out.sync_cpu = cpu_seconds() - cpu_before;
  const std::size_t after = resident_bytes();
  out.bytes = pods.size() == 0 || after < bytes_before
                  ? 0
                  : static_cast<double>(after - bytes_before) / static_cast<double>(pods.size());
  if (synced) co_await done.wait({}, loop.now() + 60s);
  co_await pods.stop();
}

void informer_end_to_end(benchmark::State& state) {
  const ServerProcess server;
  if (!server.ready()) return state.SkipWithError("fake_apiserver does not start");
  for ([[maybe_unused]] const auto _ : state) {
    Figures figures;
    net::IoLoop loop;
    {
      const auto transport = net::make_client(loop, server.options());
      Gate gate(loop);
      spawn(gate, [](net::IoLoop& l, net::Transport& t, Figures& f) -> Task<> {
        co_await measure(l, t, f);
        l.quit();
      }(loop, *transport, figures));
      loop.run();
    }
    if (figures.seen < kEvents) return state.SkipWithError("events are missing");
    state.counters["sync_s"] = figures.sync;
    state.counters["sync_cpu_s"] = figures.sync_cpu;
    state.counters["bytes_per_pod"] = figures.bytes;
    state.counters["events_per_s"] = static_cast<double>(kEvents) / figures.events;
    state.counters["events_per_core_s"] = static_cast<double>(kEvents) / figures.events_cpu;
  }
}
BENCHMARK(informer_end_to_end)->Iterations(1)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace bascule::testing
