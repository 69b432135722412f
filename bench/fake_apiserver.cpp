// An API server for the informer benchmarks: a fixed set of big pods, rendered beforehand, over TLS; each watch gets a
// fixed number of MODIFIED events as fast as it reads. Everything else a client may ask is answered by the fake API
// server of src/testing. Writes a kubeconfig, prints "ready" and serves until SIGTERM.
//
//   fake_apiserver --kubeconfig FILE [--pods N] [--events N] [--pause SECONDS] [--port N] [--plain]
//
// Events begin --pause seconds after the watch, so that a client can measure its first list by itself. A list with
// resourceVersion=0 comes whole, whatever its limit, as from a real server's watch cache. A watch with
// sendInitialEvents gets the pods as ADDED events and the bookmark that ends them.
#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>

#include "serve.hpp"
#include "testing/fake_api.hpp"
#include "testing/objects.hpp"

namespace bascule {
namespace {

struct Flags {
  std::string kubeconfig;
  std::uint64_t pods = 6418;
  std::uint64_t events = 100'000;
  double pause = 1.5;
  std::uint16_t port = 0;
  bool plain = false;
};

std::uint64_t number(std::string_view text, std::uint64_t otherwise = 0) {
  std::uint64_t out = otherwise;
  std::from_chars(text.data(), text.data() + text.size(), out);
  return out;
}

// Versions have twelve digits, so that an event is a copy of its pod with other digits.
constexpr std::uint64_t kBase = 100'000'000'000;
constexpr std::size_t kPiece = std::size_t{64} << 10;
constexpr std::string_view kHead = R"({"kind":"Pod","apiVersion":"v1",)";

struct Pods {
  explicit Pods(std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      json::Value pod = testing::make_big_pod(static_cast<int>(i));
      pod.get_object().stable_erase("kind");
      pod.get_object().stable_erase("apiVersion");
      json::at_or_create(pod, {"metadata", "resourceVersion"}) = std::to_string(kBase + i);
      texts.push_back(json::dump(pod));
      versions_at.push_back(texts.back().find("\"resourceVersion\":\"") + 19);
      bytes += texts.back().size();
    }
  }
  // An event line about pod `i`; `version` 0 leaves its own.
  void append(std::string& out, std::string_view type, std::size_t i, std::uint64_t version) const {
    out += R"({"type":")";
    out += type;
    out += R"(","object":)";
    out += kHead;
    const std::size_t start = out.size();
    out.append(texts[i], 1);
    if (version != 0) std::to_chars(&out[start + versions_at[i] - 1], &out[start + versions_at[i] + 11], version);
    out += "}\n";
  }
  std::uint64_t version() const { return kBase + texts.size(); }

  std::vector<std::string> texts;
  std::vector<std::size_t> versions_at;
  std::size_t bytes = 0;
};

class Bench final {
 public:
  Bench(net::IoLoop& loop, const Flags& flags) : loop_(loop), flags_(flags), pods_(flags.pods), api_(loop) {}
  const Pods& pods() const { return pods_; }

  Task<net::ServerResponse> serve(const net::ServerRequest& request, std::stop_token stop) {
    const net::Target target = net::parse_target(request.target);
    if (target.path != "/api/v1/pods" || request.method != "GET") {
      co_return co_await api_.handler()(request, std::move(stop));
    }
    const std::string_view watch = target.get("watch");
    net::ServerResponse response = testing::json_response(200, "");
    if (watch == "1" || watch == "true") {
      const bool initial = target.get("sendInitialEvents") == "true";
      const std::uint64_t from = initial ? 0 : number(target.get("resourceVersion"));
      response.stream = [this, from](net::BodySink& sink, std::stop_token s) {
        return events(sink, from, std::move(s));
      };
    } else {
      const bool whole = target.get("resourceVersion") == "0";
      const std::uint64_t limit = whole ? 0 : number(target.get("limit"));
      const std::uint64_t start = number(target.get("continue"));
      response.stream = [this, start, limit](net::BodySink& sink, std::stop_token) { return list(sink, start, limit); };
    }
    co_return response;
  }

 private:
  Task<> list(net::BodySink& sink, std::uint64_t start, std::uint64_t limit) {
    const std::uint64_t count = pods_.texts.size();
    const std::uint64_t end = limit == 0 ? count : std::min(count, start + limit);
    std::string out =
        fmt::format(R"({{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"{}")", pods_.version());
    if (end < count) out += fmt::format(R"(,"continue":"{}","remainingItemCount":{})", end, count - end);
    out += R"(},"items":[)";
    for (std::uint64_t i = start; i < end; ++i) {
      if (i > start) out += ',';
      out += pods_.texts[i];
      if (out.size() >= kPiece) co_await sink.write(std::exchange(out, {}));
    }
    co_await sink.write(out + "]}\n");
  }

  Task<> events(net::BodySink& sink, std::uint64_t from, std::stop_token stop) {
    std::string out;
    if (from < pods_.version()) {
      for (std::size_t i = 0; i < pods_.texts.size(); ++i) {
        pods_.append(out, "ADDED", i, 0);
        if (out.size() >= kPiece) co_await sink.write(std::exchange(out, {}));
      }
      out +=
          fmt::format(R"({{"type":"BOOKMARK","object":{}"metadata":{{"resourceVersion":"{}","creationTimestamp":null,)"
                      R"("annotations":{{"k8s.io/initial-events-end":"true"}}}}}}}})"
                      "\n",
                      kHead, pods_.version());
      co_await sink.write(std::exchange(out, {}));
      from = pods_.version();
    }
    const bool go = co_await sleep_for(
        loop_, std::chrono::duration_cast<Duration>(std::chrono::duration<double>(flags_.pause)), stop);
    if (!go) co_return;
    for (std::uint64_t n = from - pods_.version(); n < flags_.events; ++n) {
      pods_.append(out, "MODIFIED", n * 7919 % pods_.texts.size(), pods_.version() + n + 1);
      if (out.size() >= kPiece) co_await sink.write(std::exchange(out, {}));
    }
    if (!out.empty()) co_await sink.write(std::exchange(out, {}));
    while (co_await sleep_for(loop_, std::chrono::hours(1), stop)) {
    }
  }

  net::IoLoop& loop_;
  const Flags& flags_;
  const Pods pods_;
  testing::FakeApi api_;
};

int run(const Flags& flags) {
  net::IoLoop loop;
  Bench bench(loop, flags);
  const auto server = bench::serve_api(loop, flags.kubeconfig, flags.port, flags.plain,
                                       [&bench](const net::ServerRequest& request, std::stop_token stop) {
                                         return bench.serve(request, std::move(stop));
                                       });
  std::cout << fmt::format("ready: {} pods of {} bytes at port {}", flags.pods,
                           flags.pods == 0 ? 0 : bench.pods().bytes / flags.pods, server->port())
            << std::endl;
  bench::run_until_terminated(loop, *server);
  return 0;
}

}  // namespace
}  // namespace bascule

int main(int argc, char** argv) {
  bascule::Flags flags;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--plain") {
      flags.plain = true;
      continue;
    }
    if (i + 1 >= argc) break;
    const std::string_view value = argv[++i];
    if (flag == "--kubeconfig") {
      flags.kubeconfig = value;
    } else if (flag == "--pods") {
      flags.pods = bascule::number(value);
    } else if (flag == "--events") {
      flags.events = bascule::number(value);
    } else if (flag == "--pause") {
      flags.pause = std::strtod(argv[i], nullptr);
    } else if (flag == "--port") {
      flags.port = static_cast<std::uint16_t>(bascule::number(value));
    } else {
      std::cerr << "fake_apiserver: unknown flag " << flag << "\n";
      return 2;
    }
  }
  if (flags.kubeconfig.empty() || flags.pods == 0) {
    std::cerr
        << "usage: fake_apiserver --kubeconfig FILE [--pods N] [--events N] [--pause SECONDS] [--port N] [--plain]\n";
    return 2;
  }
  return bascule::run(flags);
}
