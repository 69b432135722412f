// Admission: one review from text to text; and the webhook from end to end over TLS, at 8 connections kept alive that
// ask as fast as they are answered. The server runs in a process of its own, the load in this one: ours, or the one at
// BENCH_WEBHOOK_URL (authority in the file BENCH_WEBHOOK_CA), so that a peer gets the same load from the same client.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/async.hpp"
#include "bridge/webhook.hpp"
#include "net/client.hpp"
#include "net/io_loop.hpp"
#include "net/server.hpp"
#include "net/test_pki.hpp"

namespace bascule::bridge {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kConnections = 8;
constexpr std::size_t kWarmUp = 4'000;  // reviews, not counted
constexpr std::size_t kReviews = 40'000;

// About 5 KB, as the API server sends a pod with two containers, volumes and managed fields.
std::string review() {
  std::string containers;
  for (int i = 0; i < 2; ++i) {
    containers += fmt::format(
        R"({}{{"name":"c{}","image":"registry.example.com/team/image:1.2.3","command":["/bin/sh","-c","sleep 30"],
        "env":[{{"name":"A","value":"1"}},{{"name":"B","valueFrom":{{"fieldRef":{{"fieldPath":"metadata.name"}}}}}}],
        "resources":{{"requests":{{"cpu":"1","memory":"1Gi"}},"limits":{{"cpu":"1","memory":"1Gi"}}}},
        "volumeMounts":[{{"name":"kube-api-access","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io"}}],
        "terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File",
        "imagePullPolicy":"IfNotPresent"}})",
        i == 0 ? "" : ",", i);
  }
  std::string fields;
  for (int i = 0; i < 40; ++i)
    fields += fmt::format(R"({}"f:field{}":{{"f:name":{{}},"f:value":{{}}}})", i ? "," : "", i);
  return fmt::format(
      R"({{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"705ab4f5-6393-11e8-b7cc",
      "kind":{{"group":"","version":"v1","kind":"Pod"}},"resource":{{"group":"","version":"v1","resource":"pods"}},
      "requestKind":{{"group":"","version":"v1","kind":"Pod"}},"name":"","namespace":"slurm-bridge",
      "operation":"CREATE","userInfo":{{"username":"system:serviceaccount:kube-system:job-controller",
      "groups":["system:serviceaccounts","system:authenticated"]}},"object":{{"kind":"Pod","apiVersion":"v1",
      "metadata":{{"generateName":"sleep-","namespace":"slurm-bridge","labels":{{"batch.kubernetes.io/job-name":"sleep",
      "job-name":"sleep"}},"ownerReferences":[{{"apiVersion":"batch/v1","kind":"Job","name":"sleep","uid":"x",
      "controller":true}}],"managedFields":[{{"manager":"kube-controller-manager","operation":"Update",
      "fieldsV1":{{{}}}}}]}},"spec":{{"volumes":[{{"name":"kube-api-access","projected":{{"sources":[{{"serviceAccountToken":
      {{"expirationSeconds":3607,"path":"token"}}}}]}}}}],"containers":[{}],"restartPolicy":"Never",
      "schedulerName":"default-scheduler","tolerations":[{{"key":"node.kubernetes.io/not-ready","operator":"Exists",
      "effect":"NoExecute","tolerationSeconds":300}}]}},"status":{{}}}},"oldObject":null,"dryRun":false}}}})",
      fields, containers);
}

Config bench_config() {
  Config config;
  config.managed_namespaces = {"slurm-bridge"};
  return config;
}

void admission(benchmark::State& state, std::string_view path) {
  const std::string body = review();
  const Config config = bench_config();
  for (auto _ : state) benchmark::DoNotOptimize(respond(config, path, body, nullptr));
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * body.size()));
  state.counters["bytes"] = static_cast<double>(body.size());
}
BENCHMARK_CAPTURE(admission, mutate, kMutatePath);
BENCHMARK_CAPTURE(admission, validate, kValidatePath);

// The webhook in a child process, until destroyed.
class WebhookProcess final {
 public:
  WebhookProcess() {
    const net::test::Authority authority("bench");
    const net::test::KeyPair pair = authority.issue({.common_name = "webhook", .alternative_names = "IP:127.0.0.1"});
    authority_ = authority.certificate();
    int out[2];
    if (pipe(out) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) _exit(run(pair, out[1]));
    close(out[1]);
    started_ = read(out[0], &port_, sizeof port_) == sizeof port_;
    close(out[0]);
  }
  ~WebhookProcess() {
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
  }
  bool started() const { return started_; }
  std::string url() const { return fmt::format("https://127.0.0.1:{}{}", port_, kMutatePath); }
  const std::string& authority() const { return authority_; }

 private:
  static int run(const net::test::KeyPair& pair, int ready) {
    const Config config = bench_config();
    net::IoLoop loop;
    net::ServerOptions options{.address = "127.0.0.1"};
    options.certificate.text = pair.certificate;
    options.key.text = pair.key;
    const auto server = net::serve(loop, options, make_webhook(config, nullptr));
    const std::uint16_t port = server->port();
    if (write(ready, &port, sizeof port) != sizeof port) return 1;
    Gate gate(loop);
    loop.on_terminate([&] {
      spawn(gate, [](net::Server& s, net::IoLoop& l) -> Task<> {
        co_await s.drain(l.now() + 1s);
        l.quit();
      }(*server, loop));
    });
    loop.run();
    return 0;
  }

  pid_t pid_ = 0;
  std::uint16_t port_ = 0;
  bool started_ = false;
  std::string authority_;
};

struct Load {
  net::IoLoop& loop;
  net::Transport& transport;
  std::string target;
  std::string body;
  std::size_t left = 0;          // reviews to ask for
  std::vector<Duration> took{};  // of each review answered
  std::string problem{};         // an answer that is none
};

// One connection's worth: the next review as soon as the last is answered.
Task<> ask(Load& load) {
  while (load.left > 0 && load.problem.empty()) {
    --load.left;
    net::Request request{.method = "POST", .target = load.target, .body = load.body};
    request.headers.add("Content-Type", "application/json");
    const TimePoint begun = load.loop.now();
    try {
      const net::Response answer = co_await load.transport.call(std::move(request), {.deadline = begun + 10s});
      load.took.push_back(load.loop.now() - begun);
      if (answer.status != 200 || answer.body.find("JSONPatch") == std::string::npos)
        load.problem = fmt::format("status {}: {}", answer.status, answer.body.substr(0, 200));
    } catch (const net::Error& error) {
      load.problem = error.what();
    }
  }
}

Task<> ask_all(Load& load, std::size_t reviews) {
  load.left = reviews;
  load.took.clear();
  load.took.reserve(reviews);
  Gate gate(load.loop);
  for (std::size_t i = 0; i < kConnections; ++i) spawn(gate, ask(load));
  co_await gate.close();
}

double milliseconds(Duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

void measure(benchmark::State& state, const std::string& url, const std::string& authority_text,
             const std::string& authority_file) {
  net::ClientOptions options{.url = net::parse_url(url), .max_connections = kConnections};
  options.tls.ca.text = authority_text;
  options.tls.ca.file = authority_file;
  const std::string target = std::exchange(options.url.path, {});
  net::IoLoop loop;
  const auto transport = net::make_client(loop, options);
  Load load{loop, *transport, target, review()};
  Duration all{};
  Gate gate(loop);
  spawn(gate, [](Load& l, Duration& wall) -> Task<> {
    co_await ask_all(l, kWarmUp);
    const TimePoint begun = l.loop.now();
    if (l.problem.empty()) co_await ask_all(l, kReviews);
    wall = l.loop.now() - begun;
    l.loop.quit();
  }(load, all));
  loop.run();
  if (!load.problem.empty()) return state.SkipWithError(load.problem.c_str());
  std::ranges::sort(load.took);
  state.counters["p50_ms"] = milliseconds(load.took[kReviews / 2]);
  state.counters["p99_ms"] = milliseconds(load.took[kReviews * 99 / 100]);
  state.counters["reviews_per_s"] = static_cast<double>(kReviews) / milliseconds(all) * 1e3;
}

void admission_p99(benchmark::State& state) {
  const char* url = std::getenv("BENCH_WEBHOOK_URL");
  const char* authority = std::getenv("BENCH_WEBHOOK_CA");
  for ([[maybe_unused]] const auto _ : state) {
    if (url != nullptr && authority != nullptr) {
      measure(state, url, {}, authority);
      continue;
    }
    const WebhookProcess webhook;
    if (!webhook.started()) return state.SkipWithError("the webhook does not start");
    measure(state, webhook.url(), webhook.authority(), {});
  }
}
BENCHMARK(admission_p99)->Iterations(1)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace bascule::bridge
